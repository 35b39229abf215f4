"""The interface of a run that is ready to start.

`rl.RlRun` and `sft.SftRun` implement it for reinforcement learning and supervised fine-tuning. `process.py` and
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
from veritas_rl.checkpoints.packaged import local_name
from veritas_rl.envs.registry import cases_by_environment, words_of
from veritas_rl.envs.task import Task
from veritas_rl.launch.answering import Answering
from veritas_rl.launch.hardware import Hardware
from veritas_rl.launch.resume import Record
from veritas_rl.paths import ROOT
from veritas_rl.planning.forecast import JUDGING, Forecast

if TYPE_CHECKING:
    from veritas_rl.launch.node_watch import NodeWatch


class Deaths:
    """Reports dead processes of a run. This base class reports none: without Ray, a run ends with any of its
    processes."""

    def __call__(self) -> str | None:
        """Why the run must end, in one line; None while it may continue."""
        return None

    def named(self) -> str | None:
        """The dead process, as a clause; None if no process has died."""
        return None


@dataclass(frozen=True)
class Run(ABC):
    """A run that is ready to start.

    Attributes:
        folder: The folder of the run's logs, metrics and reports.
        overrides: The Hydra overrides of verl's command.
        configuration: The resolved configuration.
        hardware: The machine.
        start: The checkpoint that the run resumes from; None for a new run.
        record: The record that is stored beside the checkpoints.
        typed: The overrides as the user typed them.
        variables: The environment variables that the user has set and the next run keeps.
    """

    kind: ClassVar[str]
    """The kind of training as it is printed, such as "RL"."""

    model_key: ClassVar[str]
    """The Hydra key of the model that is trained."""

    makes_model: ClassVar[bool]
    """Whether the run must end with a model folder. If not, a model folder is only made for judging, if possible."""

    folder: Path
    overrides: tuple[str, ...]
    configuration: DictConfig
    hardware: Hardware
    start: Path | None
    record: Record
    typed: tuple[str, ...]
    variables: Mapping[str, str]

    @property
    def checkpoints(self) -> Path:
        """The folder of the run's checkpoints."""
        return ROOT / self.configuration.trainer.default_local_dir

    @property
    def first_step(self) -> int:
        """The step of the checkpoint that the run resumes from; 0 for a new run."""
        return step_of(self.start) if self.start is not None else 0

    @property
    def steps(self) -> int:
        """The total number of steps, including steps before the resumed checkpoint."""
        return self.configuration.trainer.total_training_steps

    @property
    def log(self) -> Path:
        """The output of verl and its workers."""
        return self.folder / "verl.log"

    @property
    def metrics(self) -> Path:
        """The metrics: one JSON object per step and line."""
        return self.folder / "metrics.jsonl"

    @property
    def model(self) -> str | None:
        """The configured model, a folder or a hub id; None if the launcher makes one. The folder of a packaged model
        may not exist yet."""
        named = OmegaConf.select(self.configuration, self.model_key)
        return None if named is None else local_name(named)

    @property
    def stop_file(self) -> Path | None:
        """The file that asks the trainer to save and end; None if the trainer does not support it."""
        return None

    @abstractmethod
    def forecast(self) -> Forecast | None:
        """The forecast of the run's memory and time; None if the model's shape is not known."""

    def judging_seconds(self) -> float | None:
        """The forecast time of one of the two judgements, on a CPU; None if it is not known."""
        if self.configuration.trainer.device != "cpu" or (forecast := self.forecast()) is None:
            return None
        return forecast.run_seconds().get(JUDGING, 0.0) / 2

    def environment(self) -> dict[str, str]:
        """The additional environment variables of verl's processes."""
        cpu = self.configuration.trainer.device == "cpu"
        return {
            "VERL_FILE_LOGGER_PATH": str(self.metrics),
            "TENSORBOARD_DIR": str(self.folder / "tensorboard"),
            "WANDB_DIR": os.environ.get("WANDB_DIR", str(ROOT / "train/artifacts")),
            # Weights & Biases resumes the run with this id, or creates it.
            "WANDB_RUN_ID": os.environ.get("WANDB_RUN_ID", self.record.wandb_run_id),
            "WANDB_RESUME": "allow",
            # Seconds that the end of a run waits for a lost server. The run's folder keeps all logs.
            "WANDB_FINISH_TIMEOUT": os.environ.get("WANDB_FINISH_TIMEOUT", "300"),
            "HYDRA_FULL_ERROR": "1",
            "RAY_USAGE_STATS_ENABLED": "0",
            # Ray's control service keeps records of up to 100,000 tasks, which nothing here reads: 50 KiB a step.
            "RAY_task_events_report_interval_ms": "0",
            **({"VERL_PLATFORM": "cpu", "OMP_NUM_THREADS": str(self.threads)} if cpu else {}),
        }

    @property
    def threads(self) -> int:
        """The threads of each process on a CPU, where Ray's default is 1."""
        chosen = OmegaConf.select(self.configuration, "veritas_rl.small_model.threads") if self.model is None else None
        named = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]  # a list has a number for each nested level
        given = int(named) if named.isdecimal() else 0
        return chosen or given or max(1, self.hardware.cores // self.configuration.trainer.n_gpus_per_node)

    @abstractmethod
    def command(self) -> list[str]:
        """The command that trains."""

    def started_command(self) -> list[str]:
        """The command as the launcher starts it, which may include a faster start for this machine."""
        return self.command()

    @property
    @abstractmethod
    def context(self) -> int:
        """The longest prompt and answer together, in tokens. A generated model gets this context."""

    @abstractmethod
    def check_devices(self) -> None:
        """Raise `UserError` if the machine lacks devices that the configuration names."""

    @abstractmethod
    def check_start(self) -> None:
        """Raise `UserError` if the model cannot be read, memory is too small or the disk is too full."""

    @abstractmethod
    def check_model(self, model: Path) -> None:
        """Raise `UserError` if the model folder does not match the run's adapter, checkpoint or data."""

    def prepare_start(self, console: Console) -> None:
        """Reshard the checkpoint that the run resumes from, if another number of ranks wrote it.

        Raises:
            UserError: The checkpoint is damaged, or the disk is full.
        """
        return

    def watchdog(self, process: int) -> Callable[[], str | None]:
        """Make a callable for `progress.watch` that reports why the process will wait forever.

        Args:
            process: The id of verl's process.
        """
        return lambda: None

    def deaths(self, process: int) -> Deaths:
        """Make the watchdog for dead processes of the run.

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
        """Make the watchdog for lost nodes; None if the run uses one machine.

        Args:
            process: The id of verl's process.
        """
        return None

    @abstractmethod
    def renderer(self) -> Callable[[Mapping[str, Any]], str | None]:
        """Make a function that renders a step's metrics on one line, and returns None for other metrics."""

    @abstractmethod
    def held_out(self) -> list[tuple[Sequence[Task], int]]:
        """The single-answer tasks that judge the model before and after training, each with a maximum count.

        Empty if nothing is judged by single answers.
        """

    @abstractmethod
    def answering(self) -> Answering:
        """The settings with which the model generates answers to the tasks of `held_out`."""

    def lessons(self) -> Sequence[Task]:
        """The tasks for the warm-up of a generated model; empty for no warm-up."""
        return ()

    def words(self) -> Sequence[str]:
        """The words of the questions and answers, each of which is one token of a generated model."""
        return words_of(cases_by_environment(self.lessons()))

    def questions(self) -> Sequence[Task]:
        """The held-out tasks that decide when the warm-up ends; empty for a fixed length."""
        return ()

    @abstractmethod
    def last_checkpoint(self) -> Path | None:
        """The newest complete checkpoint; None if none was saved."""

    @property
    def judges_result(self) -> bool:
        """Whether the trained model is judged."""
        return self.configuration.veritas_rl.evaluation is not None

    def judge_by_games(self, model: Path, start: Path, console: Console) -> None:
        """Evaluate the trained model and the start model in whole games, if the run trains on whole games.

        Args:
            model: The trained model.
            start: The model before training.
            console: Where the report is printed.
        """
        return

    @abstractmethod
    def summary(self, levels: Mapping[str, float], report: dict[str, Any]) -> list[tuple[str, object]]:
        """The rows of the closing summary: a name with a path or a value.

        Args:
            levels: Reference success rates, by name.
            report: The contents of report.json. Measurements are added to it.
        """

    @abstractmethod
    def next_steps(self, model: Path | None) -> Sequence[tuple[str, str]]:
        """Recommended next steps, each a description and a command.

        Args:
            model: The trained model's folder; None if there is none.
        """
