"""Find or make the training batch that `train/tools/show_batch.py` shows.

A run saves its first batch and that of its newest step with a checkpoint or a validation. A command is run for one
step.
"""

import os
import shutil
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from veritas_rl.chat_template import end_tokens
from veritas_rl.checkpoints import models
from veritas_rl.checkpoints.layout import EXPERIMENTS
from veritas_rl.errors import UserError, last_line
from veritas_rl.launch.resume import Record
from veritas_rl.verl_plugin.agreement import BOUND, BOUND_4_BIT
from veritas_rl.verl_plugin.sample_key import SampleKey
from veritas_rl.verl_plugin.saved_batch import FOLDER, read, saved_in, step_of
from veritas_rl.viewing.batch.rows import Batch, Row

ONE_STEP = (
    "trainer.total_training_steps=1",
    "trainer.save_freq=-1",
    "trainer.test_freq=-1",
    "trainer.val_before_train=false",
    "veritas_rl.evaluation=null",
    "trainer.resume_mode=disable",
)
"""The overrides with which a command is run. A run without checkpoints has nothing to judge."""

RECOMPUTED = "algorithm.rollout_correction.bypass_mode"
"""If false, the trainer computes the log-probabilities of the samples itself, so that both sides can be compared."""


def find(named: str, step: int | None) -> Path:
    """The file of a run's batch.

    Args:
        named: A file, or the folder of a run's logs or checkpoints, or an experiment's name.
        step: The step; None for the newest.

    Raises:
        UserError: There is no such run, or it has no such batch.
    """
    path = next((path for path in (Path(named).expanduser(), EXPERIMENTS / named) if path.exists()), None)
    if path is None:
        raise UserError(f"{named} does not exist: name a run's folder, a file batches/step_N.pt, or a command to run")
    if path.is_file():
        return path
    files = [file for folder in _folders(path) for file in saved_in(folder)]
    if not files:
        raise UserError(
            f"{path} has no saved batch: name the folder of an RL run that has made a step, or a command to run"
        )
    found = [file for file in files if step in (None, step_of(file))]
    if not found:
        known = ", ".join(str(step_of(file)) for file in sorted(files, key=step_of))
        raise UserError(f"{path} has no batch of step {step}: set --step to one of {known}")
    return max(found, key=step_of)


def _folders(path: Path) -> list[Path]:
    """The folders in which a run named by `path` may have its batches."""
    record = Record.read(path) or Record.read(path.parent)
    logs = [Path(record.folder)] if record is not None else []
    return [path, *(folder / FOLDER for folder in (path, *logs))]


def run(command: Sequence[str]) -> Path:
    """Run a training command for one step, and return the file of its batch.

    Its checkpoint folder is temporary. Its logs and the batch stay in train/outputs.

    Args:
        command: The words of a command that starts reinforcement learning.

    Raises:
        UserError: The command does not exist, or ended without a batch.
    """
    if shutil.which(command[0]) is None:
        raise UserError(f"{command[0]} is neither a run nor a command: name one run, or a command such as bash SCRIPT")
    with tempfile.TemporaryDirectory(prefix="show_batch-") as folder:
        checkpoints = Path(folder) / "checkpoints"
        asked = [f"{RECOMPUTED}=false"] if not any(RECOMPUTED in word for word in command) else []
        words = [*command, *asked, *ONE_STEP, f"trainer.default_local_dir={checkpoints}"]
        done = subprocess.run(words, check=False, env={**os.environ, "DRY_RUN": ""})
        record = Record.read(checkpoints)
        files = saved_in(Path(record.folder) / FOLDER) if record is not None else []
    if not files:
        raise UserError(
            f"the command ended with exit code {done.returncode} and without a batch: name a command that starts "
            "reinforcement learning, without a recipe of several stages"
        )
    return max(files, key=step_of)


def load(file: Path, model: str | None) -> Batch:
    """Read a batch and the tokenizer of its model.

    Args:
        file: The file.
        model: A folder or a hub id whose tokenizer is used instead of that of the run's model.

    Raises:
        UserError: The file or the tokenizer cannot be read.
    """
    found = read(file)
    settings = found["settings"]
    tokenizer, ends, start = _tokenizer(model or settings["model"])
    columns = {name: [values.tolist() for values in rows] for name, rows in found["columns"].items()}
    prompts, responses, masks = (columns.pop(name) for name in ("prompts", "responses", "response_mask"))
    if settings.get("bypass_mode"):
        columns.pop("old_log_probs", None)  # they are the rollout's
    if "values" not in columns:
        columns.pop("returns", None)  # without a critic, they are the advantages
    if {"rollout_log_probs", "old_log_probs"} <= columns.keys():
        both = zip(columns["rollout_log_probs"], columns["old_log_probs"], strict=True)
        columns["difference"] = [[one - two for one, two in zip(*rows, strict=True)] for rows in both]
    keys = [SampleKey.parse(key) for key in found["key"]]
    groups: dict[str, int] = {}
    turns: dict[tuple[tuple[str, int], Any], list[int]] = defaultdict(list)
    for key, padding, info in zip(keys, found["padding"], found["info"], strict=True):
        turns[key.session, info.get("seat")].append(key.reply)
        if not padding:
            groups.setdefault(key.uid, len(groups) + 1)
    rows = [
        Row(
            number=found["row"][place],
            rank=found["rank"][place],
            group=0 if found["padding"][place] else groups[key.uid],
            copy=key.game,
            reply=key.reply,
            turn=sorted(turns[key.session, found["info"][place].get("seat")]).index(key.reply),
            padding=found["padding"][place],
            info=found["info"][place],
            prompt=prompts[place],
            response=responses[place],
            learned=[bool(value) for value in masks[place]],
            columns={name: values[place] for name, values in columns.items()},
        )
        for place, key in enumerate(keys)
    ]
    return Batch(
        step=found["step"],
        settings=settings,
        total=found["rows"],
        padding=found["padding_rows"],
        rows=sorted(rows, key=lambda row: (row.padding, row.group, row.copy, row.reply)),
        ends=ends,
        start=start,
        bound=BOUND_4_BIT if settings.get("quantization") is not None else BOUND,
        decode=lambda ids: tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False),
    )


def _tokenizer(model: str) -> tuple[Any, frozenset[int], int | None]:
    """A model's tokenizer, the tokens that end a reply, and the token that starts a text."""
    from transformers import AutoTokenizer

    models.quiet()
    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(model)
    except (OSError, ValueError, KeyError, TypeError) as error:
        why = last_line(str(error), type(error).__name__)[:200]
        raise UserError(f"the tokenizer of {model} cannot be read ({why}): set --model to the run's model") from error
    try:
        generation = models.generation_config_of(model)
    except (OSError, ValueError):  # a folder with a tokenizer alone
        generation = None
    return tokenizer, end_tokens(tokenizer, generation) | {tokenizer.pad_token_id}, tokenizer.bos_token_id
