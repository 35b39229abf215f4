"""The two trainers, as what the launcher needs to know of each."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from veritas_rl.checkpoints.layout import EXPERIMENTS
from veritas_rl.launch import command as command_line
from veritas_rl.launch.hardware import Hardware


@dataclass(frozen=True)
class Trainer:
    """One of the two trainers.

    Attributes:
        kind: "rl" or "sft".
        script: The script's name.
        plan: Plans a run, as `rl.plan`.
        overrides: As `configuration.overrides_for`.
        config: The root YAML file.
        experiments: The default folder of its checkpoint folders.
    """

    kind: str
    script: str
    plan: command_line.Plan
    overrides: Callable[[Sequence[str], Mapping[str, str], Hardware], list[str]]
    config: str
    experiments: Path = EXPERIMENTS
