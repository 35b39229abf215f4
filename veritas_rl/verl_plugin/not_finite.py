"""A training batch whose loss, gradient or advantages are no finite numbers: saved, to be looked at, and named.

verl makes no update of a gradient that is not finite, and goes on without a word. The trainer ends the run instead,
before anything of that step is saved: the last checkpoint is from before it.

    import torch
    batch = torch.load("train/outputs/<date>/<time>/not_finite/step_12.pt", weights_only=False)
    batch["advantages"][batch["rank"].index(1)]
"""

import math
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from veritas_rl.checkpoints.folder import keep_newest_beside

FINITE = ("loss", "grad_norm")
"""How the names of those metrics end that must be finite numbers."""

RANK = "not_finite/rank_"
"""How the name of the metric begins by which a rank says that its own loss is not finite; the rank follows."""

FOLDER = "not_finite"
"""In the folder of a run's logs."""

FILES = 3
"""How many batches are kept: runs that resume write to the same folder."""

NAMED_TASKS = 8
"""How many tasks an error names; the log has all of them."""


def broken(metrics: Mapping[str, Any]) -> dict[str, float]:
    """The losses and gradient norms of a step that are no finite numbers."""
    return {name: value for name, value in metrics.items() if name.endswith(FINITE) and not math.isfinite(value)}


def take_ranks(metrics: dict[str, Any]) -> set[int]:
    """Remove what ranks have said of themselves from the metrics of a step; the ranks."""
    named = {name: found for name in metrics if (found := re.search(rf"{RANK}(\d+)$", name))}
    for name in named:
        del metrics[name]
    return {int(found[1]) for found in named.values()}


def report(step: int, batch: Any, numbers: Mapping[str, float], ranks: set[int], of: int, tasks: Sequence[str]) -> str:
    """Save a batch; the line that says what is wrong with it and where it is.

    Args:
        step: Of the batch.
        batch: verl's `KVBatchMeta`, in the order in which it was divided among the ranks.
        numbers: The metrics of the step that are no finite numbers.
        ranks: Those whose own loss is none; empty where it is the gradient of all.
        of: How many ranks there are.
        tasks: That were trained on.
    """
    import torch  # verl's patches import this module, in every process.
    import transfer_queue as tq

    data = tq.kv_batch_get(keys=batch.keys, partition_id=str(batch.partition_id))
    columns = {
        name: list(column.unbind()) if isinstance(column, torch.Tensor) else column.tolist()
        for name, column in data.items()
    }
    rank_of = [row * of // len(batch.keys) for row in range(len(batch.keys))]
    bad = rows_not_finite(columns)
    ranks = ranks or {rank_of[row] for rows in bad.values() for row in rows}
    saved = save(
        logs_folder(), f"step_{step}", {**columns, "key": list(batch.keys), "rank": rank_of, "metrics": dict(numbers)}
    )
    print(f"step {step} trained on: {' '.join(tasks)}")
    found = ", ".join(f"{name} is {value}" for name, value in numbers.items())
    also = f"; no finite numbers in its {', '.join(bad)}" if bad else ""
    more = f" and {len(tasks) - NAMED_TASKS} more, which the log names" if len(tasks) > NAMED_TASKS else ""
    return (
        f"step {step}: {found} {_on_ranks(ranks, of)}{also}; {saved}; its tasks were {', '.join(tasks[:NAMED_TASKS])}"
        f"{more}; nothing of this step is kept, and the same command goes on from the last checkpoint"
    )


def report_of_fine_tuning(batch: Any, loss: float, rank: int) -> str:
    """Save what one rank computed a loss of; the line that says so.

    Args:
        batch: A `TensorDict`.
        loss: The loss.
        rank: Of the process.
    """
    import torch

    columns = {name: list(column.unbind()) for name, column in batch.items() if isinstance(column, torch.Tensor)}
    return (
        f"the loss on rank {rank} is {loss}; {save(logs_folder(), f'rank_{rank}', columns)}; nothing of this step is "
        "kept, and the same command goes on from the last checkpoint"
    )


def logs_folder() -> Path:
    """The folder of the run's logs, as the launcher has named it to verl's processes; or else this one."""
    return Path(os.environ.get("VERL_FILE_LOGGER_PATH", "metrics.jsonl")).parent


def rows_not_finite(columns: Mapping[str, Sequence[Any]]) -> dict[str, list[int]]:
    """The rows of each column that hold a number that is not finite; columns without any are left out.

    Args:
        columns: A tensor, or something else, for each row.
    """
    found = {
        name: [
            row for row, value in enumerate(values) if hasattr(value, "isfinite") and not bool(value.isfinite().all())
        ]
        for name, values in columns.items()
    }
    return {name: rows for name, rows in sorted(found.items()) if rows}


def save(folder: Path, name: str, batch: Mapping[str, Any]) -> str:
    """Write a batch down; where it is, in a clause.

    Args:
        folder: That of the run's logs.
        name: Of the file, without its ending.
        batch: Its columns, and what else is known of it.
    """
    import torch

    file = folder / FOLDER / f"{name}.pt"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        torch.save(dict(batch), file)
    except (OSError, RuntimeError) as error:  # torch raises the latter on a full disk.
        return f"the batch could not be saved ({str(error).splitlines()[0]})"
    keep_newest_beside(file, FILES)
    return f"the batch is in {file}"


def _on_ranks(ranks: set[int], of: int) -> str:
    if not ranks:
        return f"in the gradient of all {of} ranks" if of > 1 else "in the gradient"
    return f"on rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, sorted(ranks)))} of {of}"
