"""Other numbers of ranks resume from a checkpoint of two ranks exactly as the two ranks would."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

from veritas_rl.checkpoints.layout import REFERENCE, CheckpointInfo, write_info
from veritas_rl.checkpoints.reshard import reshard
from veritas_rl.checkpoints.shards import load_shard, whole_state
from veritas_rl.errors import UserError

PROGRAM = Path(__file__).with_name("fsdp_steps.py")


def losses(ranks: int, what: str, folder: Path) -> list[float]:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--standalone",
            f"--nproc-per-node={ranks}",
            PROGRAM,
            what,
            folder,
        ],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[float]]:
    """A checkpoint of two ranks after two steps, and the losses of four."""
    step = tmp_path_factory.mktemp("run") / "global_step_2"
    (step / "actor").mkdir(parents=True)
    four = losses(2, "save", step / "actor")
    write_info(step, CheckpointInfo(2, "base", world_size=2))
    return step, four


@pytest.mark.long
@pytest.mark.parametrize("ranks", [1, 3])
def test_another_number_of_ranks_goes_on(saved: tuple[Path, list[float]], ranks: int) -> None:
    step, four = saved
    reshard(step, ranks, {"actor": -1})
    # Without Adam's moments the fourth loss would be different.
    assert losses(ranks, "load", step / "actor") == pytest.approx(four[2:], rel=1e-5)


@pytest.fixture
def made(tmp_path: Path) -> tuple[Path, dict[str, torch.Tensor]]:
    """A checkpoint of one rank, as FSDP2 writes it, and its tensors, whose sizes are not divisible by the ranks."""
    step = tmp_path / "global_step_2"
    (step / "actor").mkdir(parents=True)
    tensors = {"weight": torch.arange(35.0).reshape(7, 5), "bias": torch.arange(3.0), "scale": torch.ones(1)}
    distributed.init_process_group("fake", rank=0, world_size=1, store=FakeStore())
    try:
        mesh = init_device_mesh("cpu", (1,), mesh_dim_names=("fsdp",))
        state = {name: distribute_tensor(tensor, mesh, [Shard(0)]) for name, tensor in tensors.items()}
        moments = {index: {"step": torch.tensor(2.0), "exp_avg": tensor} for index, tensor in enumerate(state.values())}
        optimizer = {"state": moments, "param_groups": [{"lr": 0.1, "betas": (0.9, 0.99), "params": [0, 1, 2]}]}
        for kind, content in (("model", state), ("optim", optimizer), ("extra_state", {"rng": 7})):
            torch.save(content, step / f"actor/{kind}_world_size_1_rank_0.pt")
    finally:
        distributed.destroy_process_group()
    write_info(step, CheckpointInfo(2, "base", world_size=1))
    return step, tensors


@pytest.mark.parametrize(("ranks", "group"), [(2, -1), (4, 2), (3, 8)])
def test_no_number_changes_and_the_old_files_stay(
    made: tuple[Path, dict[str, torch.Tensor]], ranks: int, group: int
) -> None:
    step, tensors = made
    before = {file.name: file.read_bytes() for file in (step / "actor").iterdir()}
    reshard(step, ranks, {"actor": group})
    after = {file.name: file.read_bytes() for file in (step / "actor").iterdir()}
    assert after.items() >= before.items()
    assert len(after) == 3 + 3 * ranks
    files = [step / f"actor/model_world_size_{ranks}_rank_{rank}.pt" for rank in range(ranks)]
    whole = whole_state(files)
    assert whole.keys() == tensors.keys()
    assert all(torch.equal(whole[name], tensor) for name, tensor in tensors.items())
    # Each rank has a part of the seven rows; with four ranks, each shard group of two ranks divides them.
    rows = [load_shard(file)["weight"].to_local().shape[0] for file in files]
    assert rows == {2: [4, 3], 3: [3, 3, 1], 4: [4, 3, 4, 3]}[ranks]
    last = load_shard(step / f"actor/optim_world_size_{ranks}_rank_{ranks - 1}.pt")
    assert last["param_groups"] == [{"lr": 0.1, "betas": (0.9, 0.99), "params": [0, 1, 2]}]
    assert last["state"][0]["step"] == 2
    assert torch.equal(last["state"][0]["exp_avg"].to_local(), tensors["weight"][-rows[-1] :])


def test_an_averaged_reference_is_divided_with_the_weights(made: tuple[Path, dict[str, torch.Tensor]]) -> None:
    step, tensors = made
    model, reference = (step / f"actor/{kind}_world_size_1_rank_0.pt" for kind in ("model", REFERENCE))
    reference.write_bytes(model.read_bytes())
    reshard(step, 2, {"actor": -1})
    whole = whole_state([step / f"actor/{REFERENCE}_world_size_2_rank_{rank}.pt" for rank in range(2)])
    assert whole.keys() == tensors.keys()
    assert all(torch.equal(whole[name], tensor) for name, tensor in tensors.items())


def test_a_damaged_shard_is_named(made: tuple[Path, dict[str, torch.Tensor]]) -> None:
    damaged = made[0] / "actor/optim_world_size_1_rank_0.pt"
    damaged.write_bytes(damaged.read_bytes()[:-200])
    with pytest.raises(UserError, match=r"optim_world_size_1_rank_0\.pt cannot be read"):
        reshard(made[0], 2, {"actor": -1})
