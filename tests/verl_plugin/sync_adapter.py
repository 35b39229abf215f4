"""One rank of three weight syncs of an adapter through verl, started by `test_adapter_delivery.py`.

The arguments are a model's folder and an adapter's folder. Rank 0 prints a JSON line for each way to send the adapter.
"""

import asyncio
import json
import os
import sys
from itertools import product
from typing import Any

import torch
from tensordict import TensorDict
from torch.distributed.fsdp import _init_utils
from update_actor import actor, batch
from verl.utils import tensordict_utils as tu
from verl.utils.config import omega_conf_to_dataclass
from verl.workers.engine.fsdp import transformer_impl

from veritas_rl.launch.configuration import compose_configuration
from veritas_rl.verl_plugin.adapter_digest import Comparison, digests_of_module
from veritas_rl.verl_plugin.cpu.rollout import GenerationServer, served_name

STEPS, REPLY = 3, 8


def prompts(rank: int) -> list[list[int]]:
    """The prompts of this rank's rollout."""
    draw = torch.Generator().manual_seed(rank)
    return [torch.randint(4, 250, (20 + 3 * index,), generator=draw).tolist() for index in range(6)]


async def answered(server: GenerationServer, asked: list[list[int]]) -> list[Any]:
    """The rollout's replies."""
    params = {"temperature": 1.0, "max_tokens": REPLY}
    return await asyncio.gather(*(server.generate("", prompt_ids=prompt, sampling_params=params) for prompt in asked))


def trained_log_probs(worker: Any, asked: list[list[int]], replies: list[Any]) -> list[torch.Tensor]:
    """The trainer's log-probabilities of the tokens of each reply."""
    rows: dict[str, list[torch.Tensor]] = {}
    for prompt, reply in zip(asked, replies, strict=True):
        said = torch.tensor(reply.token_ids)
        for name, row in {
            "prompts": torch.tensor(prompt),
            "responses": said,
            "input_ids": torch.cat([torch.tensor(prompt), said]),
            "position_ids": torch.arange(len(prompt) + len(said)),
            "response_mask": torch.ones_like(said),
            "loss_mask": torch.ones_like(said),
        }.items():
            rows.setdefault(name, []).append(row)
    nested = {name: torch.nested.as_nested_tensor(each, layout=torch.jagged) for name, each in rows.items()}
    data = TensorDict(nested, batch_size=[len(asked)])
    tu.assign_non_tensor(
        data,
        temperature=1.0,
        compute_loss=False,
        calculate_entropy=False,
        distillation_use_topk=False,
        distillation_only=False,
        max_token_len_per_gpu=4096,
    )
    found = worker.infer_batch(data)["log_probs"].unbind()
    return [row[len(prompt) - 1 : -1] for prompt, row in zip(asked, found, strict=True)]


def difference(rollout: list[Any], trainer: list[torch.Tensor]) -> float:
    """The mean difference of probabilities, as in verl's `training/rollout_probs_diff_mean`."""
    theirs = torch.cat([torch.tensor(reply.log_probs) for reply in rollout]).exp()
    return float((theirs - torch.cat(trainer).exp()).abs().mean())


async def syncs(overrides: list[str], layered: bool, rank: int, ranks: int) -> dict[str, list[Any]]:
    """The measurements at each sync: whether the digests are equal, the printed line, the differences."""
    worker = actor(overrides)
    node = compose_configuration(overrides).actor_rollout_ref
    server = GenerationServer()
    server.begin(omega_conf_to_dataclass(node.rollout), node.model, "cpu")
    asked = prompts(rank)
    base = await answered(server, asked)
    measured: dict[str, list[Any]] = {
        "without": [difference(base, trained_log_probs(worker, asked, base))],
        "before": [],
        "same": [],
        "lines": [],
        "differences": [],
    }
    engine: Any = worker.engine
    for step in range(STEPS):
        tensors, config = engine.get_per_tensor_param(layered_summon=layered, base_sync_done=True)
        await server.add_adapter(config)
        before = Comparison(
            digests_of_module(engine.module, engine.device_mesh, torch.float32),
            await server.adapter_digests(torch.float32),
        )
        await server.load_weights([(served_name(name), tensor.clone()) for name, tensor in tensors], last=True)
        after = Comparison(before.trained, await server.adapter_digests(torch.float32))
        replies = await answered(server, asked)
        measured["before"].append(before.is_same)
        measured["same"].append(after.is_same)
        measured["lines"].append(after.line())
        measured["differences"].append(difference(replies, trained_log_probs(worker, asked, replies)))
        if step + 1 < STEPS:
            worker.train_mini_batch(batch(rank, ranks))
    return measured


def main() -> None:
    rank, ranks, (model, adapter) = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), sys.argv[1:]
    torch.set_num_threads(1)
    # FSDP 1 requires weights on a GPU to broadcast them, and verl moves them to a GPU. gloo can broadcast from a CPU.
    _init_utils._check_module_states_for_sync_module_states = lambda module_states: None
    engines: Any = transformer_impl
    engines.load_fsdp_model_to_gpu = lambda model: None
    for strategy, layered in product(("fsdp", "fsdp2"), (False, True)):
        overrides = [
            *("hardware=cpu", "start=made", "rollout=transformers", "lora=on", f"trainer.n_gpus_per_node={ranks}"),
            f"actor_rollout_ref.model.path={model}",
            f"actor_rollout_ref.model.lora_adapter_path={adapter}",
            f"actor_rollout_ref.actor.strategy={strategy}",
        ]
        measured = asyncio.run(syncs(overrides, layered, rank, ranks))
        if rank == 0:
            print(json.dumps({"strategy": strategy, "layered": layered, **measured}), flush=True)


if __name__ == "__main__":
    main()
