"""The reference of the KL term as the average of the actor's weights, on modules that FSDP2 has sharded."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn import Linear
from torch.testing._internal.distributed.fake_pg import FakeStore

from veritas_rl.checkpoints.shards import load_shard, whole_state
from veritas_rl.verl_plugin.reference import WeightAverage, average_file, copy_weights

DECAY = 0.75


@pytest.fixture(autouse=True)
def _group() -> Iterator[None]:
    distributed.init_process_group("fake", rank=0, world_size=1, store=FakeStore())
    yield
    distributed.destroy_process_group()


def sharded(weight: float, dtype: torch.dtype = torch.float32, *, reshard: bool = True) -> Linear:
    layer = Linear(3, 2, bias=False).to(dtype)
    torch.nn.init.constant_(layer.weight, weight)
    fully_shard(layer, mesh=init_device_mesh("cpu", (1,)), reshard_after_forward=reshard)
    return layer


def value(layer: Linear) -> float:
    """The weight, which is the same everywhere."""
    (only,) = set(layer.state_dict()["weight"].to_local().flatten().tolist())
    return only


def set_to(layer: Linear, weight: float) -> None:
    with torch.no_grad():
        layer.weight.fill_(weight)


def test_the_reference_is_the_average() -> None:
    actor, reference, average = sharded(1.0), sharded(1.0), WeightAverage()
    average.update(actor, reference, DECAY)
    assert value(reference) == 1
    set_to(actor, 2)
    average.update(actor, reference, DECAY)
    assert value(reference) == 1.25
    average.update(actor, reference, DECAY)
    assert value(reference) == 1.4375
    assert value(actor) == 2
    copy_weights(actor, reference)
    assert value(reference) == 2


def test_a_rounded_reference_does_not_round_the_average() -> None:
    actor, reference, average = sharded(1.0), sharded(1.0, torch.bfloat16), WeightAverage()
    average.update(actor, reference, DECAY)
    set_to(actor, 1.01)
    # Between 1 and 1.0078 bfloat16 has no number, so a single step would be lost.
    average.update(actor, reference, DECAY)
    assert value(reference) == 1
    for _ in range(9):
        average.update(actor, reference, DECAY)
    assert value(reference) == 1.0078125


def test_it_continues_from_a_checkpoint(tmp_path: Path) -> None:
    actor, reference, average = sharded(1.0), sharded(1.0), WeightAverage()
    average.update(actor, reference, DECAY)
    set_to(actor, 2)
    average.update(actor, reference, DECAY)
    file = average_file(str(tmp_path), 0, 1)
    average.save(actor, file)
    assert file.name == "reference_world_size_1_rank_0.pt"
    assert whole_state([file])["weight"].flatten().tolist() == [1.25] * 6
    saved = load_shard(file)["weight"]
    assert isinstance(saved, DTensor)
    assert saved.placements == actor.state_dict()["weight"].placements
    average.update(actor, reference, DECAY)
    expected = value(reference)
    WeightAverage.load(file).update(actor, after := sharded(1.0), DECAY)
    assert value(after) == expected == 1.4375


def test_weights_that_are_gathered_after_a_forward_pass_are_sharded_first() -> None:
    actor, reference = sharded(1.0, reshard=False), sharded(5.0)
    with torch.no_grad():
        actor(torch.ones(1, 3))
    assert not isinstance(actor.weight, DTensor)
    WeightAverage().update(actor, reference, DECAY)
    assert isinstance(actor.weight, DTensor)
    assert value(reference) == 1


def test_other_modules_are_refused() -> None:
    with pytest.raises(ValueError, match="cannot be copied"):
        copy_weights(sharded(1.0), Linear(4, 2, bias=False))
    with pytest.raises(ValueError, match="cannot be copied"):
        WeightAverage().update(sharded(1.0), Linear(4, 2, bias=False), DECAY)
