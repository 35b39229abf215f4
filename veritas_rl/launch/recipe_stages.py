"""The stages of a recipe after its training, such as evaluations and a merge, and what each stage costs."""

import json
import shlex
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic
from types import MappingProxyType
from typing import NamedTuple

import psutil

from veritas_rl.checkpoints.folder import write_whole
from veritas_rl.checkpoints.layout import MERGE_REPORT
from veritas_rl.paths import to_type

SAMPLE_SECONDS = 10

AGREEMENT = "agreement.json"
"""The comparison of the logits of a merged model and its adapter, in the folder of an evaluation."""


class Stage(NamedTuple):
    """A stage, which is one command.

    Attributes:
        name: The name under which its time is kept.
        completed: The file whose existence says that it is complete.
        command: The command.
        typed: The command as a user types it.
        variables: The environment variables of the command.
    """

    name: str
    completed: Path
    command: list[str]
    typed: str
    variables: Mapping[str, str] = MappingProxyType({})


def of_tool(name: str, completed: Path, command: list[str]) -> Stage:
    """The stage of a Python tool."""
    return Stage(name, completed, command, to_type(shlex.join(["python", *command[1:]])))


def merge(checkpoints: Path, target: Path) -> Stage:
    """The merge of the newest checkpoint in a folder into a model's folder."""
    chosen = {"CHECKPOINT_BASE": str(checkpoints), "TARGET_DIR": str(target)}
    words = [*(f"{name}={shlex.quote(value)}" for name, value in chosen.items()), "bash train/scripts/merge-ppo.sh"]
    command = [sys.executable, "-m", "veritas_rl.checkpoints.merge"]
    # The user's shell may name a step of another run.
    return Stage("merge", target / MERGE_REPORT, command, to_type(" ".join(words)), {**chosen, "GLOBAL_STEP": ""})


def agreement(name: str, merged: Path, evaluation: Path) -> Stage:
    """The comparison of the logits of a merged model and its adapter on the games of an evaluation.

    Args:
        name: The evaluation's name in the recipe.
        merged: The merged model's folder.
        evaluation: The evaluation's folder.
    """
    tool = [sys.executable, "train/tools/compare_merged.py", "--merged", str(merged)]
    completed = evaluation / AGREEMENT
    command = [*tool, "--games", str(evaluation / "shown.jsonl"), "--output", str(completed)]
    return of_tool(f"logits of {name}", completed, command)


@contextmanager
def measured(stage: str, file: Path) -> Iterator[None]:
    """Add a stage's time in minutes, and the peak memory in GiB of this process and its children, to a JSON file.

    Args:
        stage: The name of the stage.
        file: The file: {"minutes": {stage: minutes}, "memory": peak over all stages}.
    """
    cost = json.loads(file.read_text()) if file.exists() else {"minutes": {}, "memory": None}
    began, ended, peak = monotonic(), threading.Event(), [cost["memory"] or 0.0]
    watch = threading.Thread(target=_watch_memory, args=(ended, peak), daemon=True)
    watch.start()
    try:
        yield
    finally:
        ended.set()
        watch.join()
        cost["minutes"][stage] = cost["minutes"].get(stage, 0.0) + (monotonic() - began) / 60
        cost["memory"] = peak[0] or None
        write_whole(file, json.dumps(cost))


def _watch_memory(ended: threading.Event, peak: list[float]) -> None:
    """Update the peak memory in GiB of this process and its children. Shared pages count once."""
    while not ended.wait(SAMPLE_SECONDS):
        total = 0
        for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
            with suppress(psutil.Error):
                total += process.memory_full_info().pss
        peak[0] = max(peak[0], total / 2**30)
