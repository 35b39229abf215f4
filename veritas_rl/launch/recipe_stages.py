"""The stages of a recipe after its training: evaluations, a merge, and the proof of the merged model's logits."""

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from veritas_rl.checkpoints.layout import MERGE_REPORT
from veritas_rl.paths import to_type

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
