"""Save training batches to files, for `train/tools/show_batch.py` and for a step whose numbers are not finite.

A file holds only tensors, numbers and text, so that it can be read without running code of it:

    from veritas_rl.verl_plugin.saved_batch import read
    batch = read(Path("train/outputs/<date>/<time>/batches/step_1.pt"))
    batch["columns"]["advantages"][batch["rank"].index(1)]
"""

import io
import os
import pickle
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from veritas_rl.checkpoints.folder import write_whole
from veritas_rl.errors import UserError, last_line
from veritas_rl.paths import ray_folder
from veritas_rl.verl_plugin import algorithms
from veritas_rl.verl_plugin.sample_key import SampleKey

VERSION = 1
"""The version of the file's layout."""

FOLDER = "batches"
"""The folder of a run's batches in the folder of its logs."""

MOST_ROWS, MOST_TOKENS, MOST_PADDING = 256, 2**20, 16
"""How many rows and tokens of a step are kept, in whole groups, and how many padding rows. One group is always kept."""

COLUMNS = (
    *("prompts", "responses", "response_mask", "rollout_log_probs", "old_log_probs", "ref_log_prob", "entropy"),
    *("rm_scores", "token_level_rewards", "values", "advantages", "returns", "rollout_is_weights"),
)
"""The columns that are saved, if the run has them."""

REQUIRED = ("prompts", "responses", "response_mask", "rm_scores", "advantages")
"""The columns that every run has."""

BY_ROW = ("row", "key", "rank", "padding", "info")
"""The entries with a value for each row."""

SETTINGS = {
    "experiment": "trainer.experiment_name",
    "model": "actor_rollout_ref.model.path",
    "algorithm": "algorithm.adv_estimator",
    "loss_agg_mode": "actor_rollout_ref.actor.loss_agg_mode",
    "temperature": "actor_rollout_ref.rollout.temperature",
    "bypass_mode": "algorithm.rollout_correction.bypass_mode",
    "quantization": "veritas_rl.quantization",
    "prompt_length": "data.max_prompt_length",
    "response_length": "data.max_response_length",
}
"""The settings that are saved with a batch, by their key in the configuration."""


class SavedBatches:
    """Saves the first batch of a run and of each resumed run, and the newest batch of a step that is checkpointed or
    validated. At most three files are kept: of the lowest step, of this process's first step, and of the newest.

    Args:
        config: verl's full configuration.
    """

    def __init__(self, config: DictConfig) -> None:
        self._config = config
        self._first: Path | None = None

    def after(self, step: int, batch: Any, ranks: int, *, last: bool) -> str | None:
        """Save the batch of a step if it is due. Returns a line for the console if it could not be saved.

        Args:
            step: The step.
            batch: verl's `KVBatchMeta`, in the order of the ranks.
            ranks: The number of ranks among which the batch is divided.
            last: Whether this is the run's last step.
        """
        frequencies = (self._config.trainer.save_freq, self._config.trainer.test_freq)
        if self._first and not any(often > 0 and (last or step % often == 0) for often in frequencies):
            return None
        file = logs_folder() / FOLDER / f"step_{step}.pt"
        self._first = self._first or file
        if failed := write(file, collected(self._config, step, batch, ranks, whole_groups(batch.keys, batch.tags))):
            return f"step {step}: {failed}"
        files = sorted(saved_in(file.parent), key=step_of)
        for other in set(files) - {files[0], self._first, file}:
            other.unlink()
        return None


def saved_in(folder: Path) -> list[Path]:
    """The files of batches in a folder."""
    return [file for file in folder.glob("step_*.pt") if file.stem.removeprefix("step_").isdecimal()]


def step_of(file: Path) -> int:
    """The step of a file of `saved_in`."""
    return int(file.stem.removeprefix("step_"))


def collected(
    config: DictConfig, step: int, batch: Any, ranks: int, rows: Sequence[int] | None = None
) -> dict[str, Any]:
    """The contents of a file: settings, and for each row its key, rank, score and columns.

    Args:
        config: verl's full configuration.
        step: The step of the batch.
        batch: verl's `KVBatchMeta`, in the order of the ranks.
        ranks: The number of ranks among which the batch is divided.
        rows: The rows to take; None for all.
    """
    import torch  # verl's patches import this module, in every process.
    import transfer_queue as tq

    taken = range(len(batch.keys)) if rows is None else rows
    known = algorithms.of_estimator(config.algorithm.adv_estimator)
    keys = [batch.keys[row] for row in taken]
    names = [*COLUMNS, "extra_fields"]
    data = tq.kv_batch_get(keys=keys, partition_id=str(batch.partition_id), select_fields=names)
    return {
        "version": VERSION,
        "step": step,
        "settings": {name: _plain(OmegaConf.select(config, key)) for name, key in SETTINGS.items()}
        | {"compares": known is not None and known.groups},
        "rows": len(batch.keys),
        "padding_rows": sum(map(_is_padding, batch.tags)),
        "row": list(taken),
        "key": keys,
        "rank": [row * ranks // len(batch.keys) for row in taken],
        "padding": [_is_padding(batch.tags[row]) for row in taken],
        "info": [_flat(fields) for fields in data.get("extra_fields").tolist()],
        "columns": {
            name: list(column.unbind())
            for name, column in data.items()
            if name in COLUMNS and isinstance(column, torch.Tensor)
        },
    }


def whole_groups(keys: Sequence[str], tags: Sequence[Mapping[str, Any]]) -> list[int]:
    """The rows of a batch that are kept: whole groups in the order of the batch, and some padding rows."""
    groups: dict[str, list[int]] = {}
    for row, (key, tag) in enumerate(zip(keys, tags, strict=True)):
        if not _is_padding(tag):
            groups.setdefault(SampleKey.parse(key).uid, []).append(row)
    kept: list[int] = []
    tokens = 0
    for rows in groups.values():
        tokens += sum(tags[row]["seq_len"] for row in rows)
        if kept and (len(kept) + len(rows) > MOST_ROWS or tokens > MOST_TOKENS):
            break
        kept += rows
    padding = [row for row, tag in enumerate(tags) if _is_padding(tag)]
    return sorted(kept + padding[:MOST_PADDING])


def write(file: Path, contents: Mapping[str, Any]) -> str | None:
    """Write a file atomically. Returns why it could not be written, as a clause."""
    import torch

    buffer = io.BytesIO()
    # torch needs 50 us for each tensor, and a batch has thousands of rows.
    columns = {name: (torch.cat(rows), list(map(len, rows))) for name, rows in contents.get("columns", {}).items()}
    torch.save({**contents, "columns": columns}, buffer)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, buffer.getvalue())
    except OSError as error:
        return f"the batch could not be saved ({error})"
    return None


def read(file: Path) -> dict[str, Any]:
    """The contents of a file, see `collected`; the columns are lists of one tensor for each row.

    Raises:
        UserError: The file is missing, damaged, of another version, or no batch of reinforcement learning.
    """
    import torch

    try:
        with warnings.catch_warnings(action="ignore"):  # of a pickle that is no file of torch
            found = torch.load(file, weights_only=True, map_location="cpu")
    except FileNotFoundError:
        raise UserError(f"{file} does not exist: name a run, or a file batches/step_N.pt of it") from None
    except (OSError, RuntimeError, ValueError, EOFError, pickle.UnpicklingError, KeyError, AttributeError) as error:
        raise UserError(
            f"{file} is no batch of a run, or is damaged ({last_line(str(error), 'empty')[:200]})"
        ) from error
    version = found.get("version") if isinstance(found, dict) else None
    if version != VERSION:
        what = "has no version" if version is None else f"has version {version}"
        raise UserError(f"{file} {what}, and this package reads batches of version {VERSION}: run the training again")
    try:
        columns = {name: list(values.split(lengths)) for name, (values, lengths) in found["columns"].items()}
        whole = {*map(len, columns.values()), *(len(found[name]) for name in BY_ROW)} == {len(found["key"])}
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise UserError(
            f"{file} is damaged ({last_line(str(error), 'empty')[:200]}): run the training again"
        ) from error
    if not whole or not set(REQUIRED) <= set(columns):
        raise UserError(f"{file} is damaged (rows or columns are missing): run the training again")
    return {**found, "columns": columns}


def logs_folder() -> Path:
    """The folder of the run's logs, which the launcher sets for verl's processes; else the current folder."""
    return Path(os.environ.get("VERL_FILE_LOGGER_PATH", "metrics.jsonl")).parent


def _is_padding(tag: Mapping[str, Any]) -> bool:
    return bool(tag.get("is_padding", False))


def _flat(fields: Any) -> dict[str, Any]:
    """What the agent loop says of a reply: its seat, opponent, task and score."""
    said = fields if isinstance(fields, Mapping) else {}
    return {name: _plain(value) for part in ("reward_extra_info", "move") for name, value in said.get(part, {}).items()}


def _plain(value: Any) -> bool | int | float | str | None:
    """A value without classes, which a reader would have to trust."""
    return value if type(value) in (bool, int, float, str, type(None)) else str(value)


def other_folders(config: DictConfig) -> list[Path]:
    """The folders with small files of a run: its logs, Ray's files, and those of Weights & Biases if it is used."""
    found = [logs_folder(), ray_folder(os.environ)]
    return [*found, Path(os.environ.get("WANDB_DIR", "."))] if "wandb" in config.trainer.logger else found
