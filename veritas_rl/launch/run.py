"""A run that is ready to start: what the launcher knows of a training before verl is started.

`rl.RlRun` and `sft.SftRun` say what differs between reinforcement learning and supervised fine-tuning; `process.py` and
`pipeline.py` treat both alike.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import psutil
from omegaconf import DictConfig, OmegaConf
from rich.console import Console

from veritas_rl.checkpoints.layout import step_of
from veritas_rl.envs.task import Task
from veritas_rl.launch.hardware import Hardware
from veritas_rl.launch.resume import Record
from veritas_rl.paths import ROOT

if TYPE_CHECKING:
    from veritas_rl.launch.node_watch import NodeWatch


@dataclass(frozen=True)
class Answering:
    """How a model answers where the run judges it.

    Attributes:
        tokens: The longest answer.
        context: The longest prompt and answer together, in tokens.
        at_once: How many answers are written together.
        temperature: At which they are drawn.
        draws: How many answers to each task.
        seed: Of the draws.
        enable_thinking: Whether a model of both kinds thinks before it answers.
        say_limit: Whether each prompt says how many tokens the answer may have.
    """

    tokens: int
    context: int
    at_once: int
    temperature: float
    draws: int
    seed: int
    enable_thinking: bool = False
    say_limit: bool = False


class Deaths:
    """Names processes of a run that have died. This one knows of none: a run without Ray ends with any of its own."""

    def __call__(self) -> str | None:
        """Why the run has to be ended, in one line; None while it may go on."""
        return None

    def named(self) -> str | None:
        """What has died, in a clause; None if nothing has."""
        return None


@dataclass(frozen=True)
class Run(ABC):
    """A run that is ready to start.

    Attributes:
        folder: Where its logs, metrics and reports are written.
        overrides: The Hydra overrides of verl's command.
        configuration: What they make, resolved.
        hardware: The machine.
        start: The checkpoint from which it goes on; None for a run from the beginning.
        record: What is kept of it beside its checkpoints.
    """

    kind: ClassVar[str]
    """What trains, for people: "RL"."""

    model_key: ClassVar[str]
    """The Hydra key of the model that is trained."""

    makes_model: ClassVar[bool]
    """Whether a model folder is always made of the last checkpoint, so that a run without one has failed; else it is
    made where it is judged, as far as that can be done."""

    folder: Path
    overrides: tuple[str, ...]
    configuration: DictConfig
    hardware: Hardware
    start: Path | None
    record: Record

    @property
    def checkpoints(self) -> Path:
        """Where its checkpoints are written."""
        return ROOT / self.configuration.trainer.default_local_dir

    @property
    def first_step(self) -> int:
        """How many steps were trained before."""
        return step_of(self.start) if self.start is not None else 0

    @property
    def steps(self) -> int:
        """How many steps it has, with those that were trained before."""
        return self.configuration.trainer.total_training_steps

    @property
    def log(self) -> Path:
        """All that verl and its workers print."""
        return self.folder / "verl.log"

    @property
    def metrics(self) -> Path:
        """One JSON object a step."""
        return self.folder / "metrics.jsonl"

    @property
    def model(self) -> str | None:
        """The model that is named: a folder or a hub id; None where one is made."""
        return OmegaConf.select(self.configuration, self.model_key)

    @property
    def stop_file(self) -> Path | None:
        """A file at whose appearance the trainer saves and ends; None where the trainer knows none."""
        return None

    def environment(self) -> dict[str, str]:
        """The variables that verl's processes need beside those that are set already."""
        ranks = self.configuration.trainer.n_gpus_per_node
        cpu = self.configuration.trainer.device == "cpu"
        return {
            "VERL_FILE_LOGGER_PATH": str(self.metrics),
            "TENSORBOARD_DIR": str(self.folder / "tensorboard"),
            "WANDB_DIR": os.environ.get("WANDB_DIR", str(ROOT / "train/artifacts")),
            # Weights & Biases goes on with the run that has this id, or begins it.
            "WANDB_RUN_ID": os.environ.get("WANDB_RUN_ID", self.record.wandb_run_id),
            "WANDB_RESUME": "allow",
            # How long the end of a run waits for a server that is lost. All of the run stays in its folder.
            "WANDB_FINISH_TIMEOUT": os.environ.get("WANDB_FINISH_TIMEOUT", "300"),
            "HYDRA_FULL_ERROR": "1",
            "RAY_USAGE_STATS_ENABLED": "0",
            # Ray would give each of its workers one thread.
            **({"VERL_PLATFORM": "cpu", "OMP_NUM_THREADS": str(max(1, self.hardware.cores // ranks))} if cpu else {}),
        }

    @abstractmethod
    def command(self) -> list[str]:
        """The command that trains."""

    def started_command(self) -> list[str]:
        """The command as the launcher starts it, which may add what makes a start quicker on this machine."""
        return self.command()

    @property
    @abstractmethod
    def context(self) -> int:
        """The most tokens of a prompt and its answer together: what a model that is made has to read."""

    @abstractmethod
    def check_devices(self) -> None:
        """Refuse, with a `UserError`, a machine without the devices that the configuration names."""

    @abstractmethod
    def check_start(self) -> None:
        """Refuse, with a `UserError`, a model that cannot be read or a disk that is too full."""

    @abstractmethod
    def check_model(self, model: Path) -> None:
        """Refuse, with a `UserError`, a model folder that does not fit what the run starts with."""

    def prepare_start(self, console: Console) -> None:
        """Make the checkpoint with which the run goes on readable for its ranks, where others wrote it.

        Raises:
            UserError: It cannot be done.
        """
        return

    def watchdog(self, process: int) -> Callable[[], str | None]:
        """Makes what says why a started process will wait for ever, as `progress.watch` asks it.

        Args:
            process: The id of verl's process.
        """
        return lambda: None

    def deaths(self, process: int) -> Deaths:
        """Makes what names processes of a started run that have died.

        Args:
            process: The id of verl's process.
        """
        return Deaths()

    def processes(self, process: int) -> set[int]:
        """The ids of a started run's processes on this machine.

        Args:
            process: The id of verl's process.
        """
        with suppress(psutil.NoSuchProcess):
            return {process, *(child.pid for child in psutil.Process(process).children(recursive=True))}
        return set()

    def node_watch(self, process: int) -> "NodeWatch | None":
        """Makes what names a machine that a started process has lost; None where it uses one machine.

        Args:
            process: The id of verl's process.
        """
        return None

    @abstractmethod
    def renderer(self) -> Callable[[Mapping[str, Any]], str | None]:
        """Makes what renders the metrics of a step on one line; it gives None for metrics of no step."""

    @abstractmethod
    def held_out(self) -> list[tuple[Sequence[Task], int]]:
        """By what the model is judged before and after: tasks of one answer each, and how many of them at most.

        Empty where nothing is judged by single answers.
        """

    @abstractmethod
    def answering(self) -> Answering:
        """How the model answers these tasks."""

    def lessons(self) -> Sequence[Task]:
        """The tasks on which a model that was made on the spot is warmed up; empty for no warm-up."""
        return ()

    def questions(self) -> Sequence[Task]:
        """The held-out tasks that decide how long the warm-up is; empty for a fixed length."""
        return ()

    @abstractmethod
    def last_checkpoint(self) -> Path | None:
        """The checkpoint of which a model folder is made."""

    @property
    def judges_result(self) -> bool:
        """Whether the trained model is judged."""
        return self.configuration.veritas_rl.evaluation is not None

    def judge_by_games(self, model: Path, start: Path, console: Console) -> None:
        """Let the trained model and what it started from play whole games, where the run trains on such games.

        Args:
            model: The trained model.
            start: The model before training.
            console: Where the report is printed.
        """
        return

    @abstractmethod
    def summary(self, levels: Mapping[str, float], report: dict[str, Any]) -> list[tuple[str, object]]:
        """What the run's metrics show, as rows of a name and where to find it, or its value.

        Args:
            levels: Success rates to compare with, by name.
            report: What is written to report.json; what was measured is added.
        """

    @abstractmethod
    def next_step(self, model: Path | None) -> tuple[str, str]:
        """What a person may do next: in words, and the command.

        Args:
            model: The trained model, if a folder was made.
        """
