"""Save and report a training batch whose loss, gradient or advantages are not finite.

verl silently skips the update of a gradient that is not finite, and continues. This package's trainer instead ends the
run before it saves a checkpoint of that step, so the last checkpoint is from an earlier step. `saved_batch` describes
the file; `train/tools/show_batch.py` shows it.
"""

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from veritas_rl.checkpoints.folder import keep_newest_beside
from veritas_rl.verl_plugin.saved_batch import collected, logs_folder, write

FINITE = ("loss", "grad_norm")
"""The suffixes of metrics that must be finite."""

RANK = "not_finite/rank_"
"""The prefix of the metric with which a rank reports that its loss is not finite. The rank follows."""

FOLDER = "not_finite"
"""The folder of saved batches in the folder of a run's logs."""

FILES = 3
"""The number of batches that are kept. Resumed runs write to the same folder."""

NAMED_TASKS = 8
"""How many tasks an error names. The log lists all of them."""


def broken(metrics: Mapping[str, Any]) -> dict[str, float]:
    """The losses and gradient norms of a step that are not finite."""
    return {name: value for name, value in metrics.items() if name.endswith(FINITE) and not math.isfinite(value)}


def take_ranks(metrics: dict[str, Any]) -> set[int]:
    """Remove the ranks' reports from the metrics of a step, and return the ranks."""
    named = {name: found for name in metrics if (found := re.search(rf"{RANK}(\d+)$", name))}
    for name in named:
        del metrics[name]
    return {int(found[1]) for found in named.values()}


def report(
    config: DictConfig,
    step: int,
    batch: Any,
    numbers: Mapping[str, float],
    ranks: set[int],
    of: int,
    tasks: Sequence[str],
) -> str:
    """Save a batch, and return a line with the error and the file.

    Args:
        config: verl's full configuration.
        step: The step of the batch.
        batch: verl's `KVBatchMeta`, in the order of the ranks.
        numbers: The metrics of the step that are not finite.
        ranks: The ranks whose loss is not finite; empty if only the common gradient is not finite.
        of: The total number of ranks.
        tasks: The tasks of the batch.
    """
    contents = collected(config, step, batch, of)
    bad = rows_not_finite(contents["columns"])
    ranks = ranks or {contents["rank"][row] for rows in bad.values() for row in rows}
    saved = save(logs_folder(), f"step_{step}", {**contents, "metrics": dict(numbers)})
    print(f"step {step} trained on: {' '.join(tasks)}")
    found = ", ".join(f"{name} is {value}" for name, value in numbers.items())
    also = f"; no finite numbers in its {', '.join(bad)}" if bad else ""
    more = f" and {len(tasks) - NAMED_TASKS} more, which the log names" if len(tasks) > NAMED_TASKS else ""
    return (
        f"step {step}: {found} {_on_ranks(ranks, of)}{also}; {saved}; its tasks were {', '.join(tasks[:NAMED_TASKS])}"
        f"{more}; this step is not kept: type the same command to resume from the last checkpoint"
    )


def report_of_fine_tuning(batch: Any, loss: float, rank: int) -> str:
    """Save the batch of a loss that is not finite, and return a line with the error and the file.

    Args:
        batch: A `TensorDict`.
        loss: The loss.
        rank: The rank of the process.
    """
    import torch

    columns = {name: list(column.unbind()) for name, column in batch.items() if isinstance(column, torch.Tensor)}
    return (
        f"the loss on rank {rank} is {loss}; {save(logs_folder(), f'rank_{rank}', columns)}; this step is "
        "not kept: type the same command to resume from the last checkpoint"
    )


def rows_not_finite(columns: Mapping[str, Sequence[Any]]) -> dict[str, list[int]]:
    """The rows with a value that is not finite, by column. Columns without such rows are left out.

    Args:
        columns: A tensor or another value for each row.
    """
    found = {
        name: [
            row for row, value in enumerate(values) if hasattr(value, "isfinite") and not bool(value.isfinite().all())
        ]
        for name, values in columns.items()
    }
    return {name: rows for name, rows in sorted(found.items()) if rows}


def save(folder: Path, name: str, batch: Mapping[str, Any]) -> str:
    """Write a batch to a file, and return its path as a clause.

    Args:
        folder: The folder of the run's logs.
        name: The file's name without its extension.
        batch: The columns, and further values.
    """
    file = folder / FOLDER / f"{name}.pt"
    if failed := write(file, batch):
        return failed
    keep_newest_beside(file, FILES)
    return f"the batch is in {file}"


def _on_ranks(ranks: set[int], of: int) -> str:
    if not ranks:
        return f"in the gradient of all {of} ranks" if of > 1 else "in the gradient"
    return f"on rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, sorted(ranks)))} of {of}"
