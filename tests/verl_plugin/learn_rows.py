"""Updates of actor and critic with rows from which nothing is learned, started by `test_learned_rows.py`.

The argument is a JSON list of cases, see `Case`. Rank 0 prints the measurements of each case as JSON.
"""

import json
import os
import sys
from dataclasses import dataclass
from typing import Any

import torch
from tensordict import TensorDict
from verl.utils import tensordict_utils as tu
from verl.utils.metric import reduce_metrics

from veritas_rl.launch.configuration import compose_configuration
from veritas_rl.verl_plugin.alone import random_rows, worker_of
from veritas_rl.verl_plugin.learning_watch import LEAVE_OUT

LENGTHS = [(20, 3), (31, 7), (12, 5), (25, 1), (8, 6), (17, 4)]
"""Prompt and reply tokens of the real rows."""


@dataclass(frozen=True)
class Case:
    """One batch.

    Attributes:
        role: "actor" or "critic".
        overrides: Overrides of the configuration.
        ranks: The rows of each rank in their order: the index of a real row, or None for a row without a learned token.
        mini_batches: The number of mini-batches.
        fixed: Rows of a micro-batch; None for micro-batches by tokens.
        leave_out: Whether the trainer leaves the update out.
    """

    role: str
    overrides: list[str]
    ranks: list[list[int | None]]
    mini_batches: int = 1
    fixed: int | None = None
    leave_out: bool = False


def rows_of(members: list[int | None]) -> TensorDict:
    real: Any = random_rows(LENGTHS, seed=1)
    noise = torch.Generator().manual_seed(2)
    old = [-5.5 + 0.3 * torch.randn(len(row), generator=noise) for row in real["old_log_probs"].unbind()]
    empty: Any = random_rows([(1, 1)])
    columns: dict[str, Any] = {}
    for name in list(real.keys()):
        each = old if name == "old_log_probs" else real[name].unbind()
        (none,) = empty[name].unbind()
        # `loss_mask` stays as it is after a rejection by `rollout_correction`.
        none = torch.zeros_like(none) if name in ("response_mask", "advantages", "returns") else none
        columns[name] = torch.nested.as_nested_tensor(
            [none if member is None else each[member] for member in members], layout=torch.jagged
        )
    columns["ref_log_prob"] = torch.nested.as_nested_tensor(
        [0.9 * row for row in columns["old_log_probs"].unbind()], layout=torch.jagged
    )
    return TensorDict(columns, batch_size=[len(members)])


def measured(case: Case, rank: int) -> dict[str, Any]:
    configuration = compose_configuration(case.overrides)
    worker = worker_of(case.role, configuration)
    engine: Any = worker.engine
    if case.fixed:
        worker.engine_config.use_dynamic_bsz, worker.engine_config.micro_batch_size_per_gpu = False, case.fixed
    size = len(case.ranks[0]) * len(case.ranks) // case.mini_batches
    rows = rows_of(case.ranks[rank])
    tu.assign_non_tensor(
        rows,
        global_batch_size=size,
        mini_batch_size=size,
        epochs=1,
        dataloader_kwargs={"shuffle": False},
        temperature=1.0,
        calculate_entropy=case.role == "actor",
        distillation_use_topk=False,
        distillation_only=False,
        **{LEAVE_OUT: case.leave_out},
    )
    before = [weight.full_tensor().clone() for weight in engine.module.parameters()]
    metrics: Any = reduce_metrics(tu.get(worker.train_mini_batch(rows), "metrics"))
    after = [weight.full_tensor() for weight in engine.module.parameters()]
    moments = [state["step"] for state in engine.optimizer.state.values()]
    return {
        "metrics": {name: float(value) for name, value in metrics.items()},
        "moved": max(float((one - other).abs().max()) for one, other in zip(before, after, strict=True)),
        "weights": [float(weight.double().sum()) for weight in after],
        "adam": max(map(float, moments), default=0.0),
    }


def main() -> None:
    rank = int(os.environ["RANK"])
    torch.set_num_threads(1)
    for case in json.loads(sys.argv[1]):
        found = measured(Case(**case), rank)
        if rank == 0:
            print(json.dumps(found))


if __name__ == "__main__":
    main()
