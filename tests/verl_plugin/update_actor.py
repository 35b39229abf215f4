"""One rank of an actor's update through verl, started by `test_ranks.py`.

The argument is a JSON list of lists of overrides. Rank 0 prints its measurements for each list of overrides.
"""

import json
import os
import sys
from typing import Any

import torch
from tensordict import TensorDict
from verl.utils import tensordict_utils as tu

from veritas_rl.launch.configuration import compose_configuration
from veritas_rl.verl_plugin.alone import worker_of
from veritas_rl.verl_plugin.workers import LearnerWorker

SAMPLES, EPOCHS = 32, 2
GROUP = 4
"""Samples with one prompt."""


def actor(overrides: list[str]) -> LearnerWorker:
    """The worker for the actor of a composed configuration."""
    return worker_of("actor", compose_configuration(overrides))


def batch(rank: int, ranks: int) -> TensorDict:
    """This rank's share of a batch that does not depend on the number of ranks."""
    draw = torch.Generator().manual_seed(0)
    rows: dict[str, list[torch.Tensor]] = {}

    def drawn(low: int, high: int) -> torch.Tensor:
        return torch.randint(4, 250, (int(torch.randint(low, high, (), generator=draw)),), generator=draw)

    prompt = torch.empty(0)
    for sample in range(SAMPLES):
        prompt = prompt if sample % GROUP else drawn(20, 40)
        # The rank of odd rows has longer replies, and so other micro-batches.
        response = drawn(2, 8) if sample % 2 == 0 else drawn(10, 16)
        for name, row in {
            "prompts": prompt,
            "responses": response,
            "input_ids": torch.cat([prompt, response]),
            "position_ids": torch.arange(len(prompt) + len(response)),
            "response_mask": torch.ones_like(response),
            "loss_mask": torch.ones_like(response),
            "old_log_probs": -5.5 + 0.1 * torch.randn(len(response), generator=draw),
            "advantages": torch.randn((), generator=draw).expand(len(response)).clone(),
        }.items():
            rows.setdefault(name, []).append(row)
    share = {name: torch.nested.as_nested_tensor(all_[rank::ranks], layout=torch.jagged) for name, all_ in rows.items()}
    made = TensorDict(share, batch_size=[SAMPLES // ranks])
    settings: dict[str, Any] = {
        "global_batch_size": SAMPLES,
        "mini_batch_size": SAMPLES,
        "epochs": EPOCHS,
        "dataloader_kwargs": {"shuffle": False},
        "temperature": 1.0,
        "calculate_entropy": True,
        "distillation_use_topk": False,
        "distillation_only": False,
    }
    tu.assign_non_tensor(made, **settings)
    return made


def main() -> None:
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.set_num_threads(1)
    for overrides in json.loads(sys.argv[1]):
        measured: Any = tu.get(actor(overrides).train_mini_batch(batch(rank, ranks)), "metrics")
        if rank == 0:
            print(json.dumps({name: measured[name] for name in ("loss", "grad_norm", "waste")}))


if __name__ == "__main__":
    main()
