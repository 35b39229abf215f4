"""Start supervised fine-tuning: what `bash train/scripts/openspiel-SFT-trainer.sh` calls.

    python -m veritas_rl.launch.sft [recipe=NAME] [Hydra overrides]

As `launch/main.py` for RL: it composes the configuration, checks what can be checked, and runs the real
`torchrun -m verl.trainer.sft_trainer` on the parquet files of `train/tools/generate_demonstrations.py`, one process for
each GPU or rank. Without a GPU it makes the model, and judges it before and after.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar

from omegaconf import DictConfig

from veritas_rl.checkpoints.layout import step_folder
from veritas_rl.envs.mixture import open_tasks
from veritas_rl.envs.task import Task
from veritas_rl.errors import UserError, exit_on_user_error
from veritas_rl.launch import configuration as conf
from veritas_rl.launch import preflight, recipe_run, resume
from veritas_rl.launch.hardware import Hardware
from veritas_rl.launch.progress import MetricsFile, loss_renderer
from veritas_rl.launch.recipes import recipe_of
from veritas_rl.launch.run import Answering, Run
from veritas_rl.launch.sft_data import Data, check_batch, check_lengths, make_missing, read_data
from veritas_rl.launch.variables import overrides_from, quoted
from veritas_rl.paths import experiment_name

SFT_CONFIG = "sft"
"""The file on which the overrides of supervised fine-tuning work."""

GROUP = "sft_hardware"
EXPERIMENTS = conf.ROOT / "train/artifacts/checkpoints"
TRACKER = "latest_checkpointed_iteration.txt"
"""verl writes it after each checkpoint, whole: what it names is whole."""

TASKS_PER_CASE = 4096
"""Validation tasks of each case from which the held-out tasks are taken."""

AT_ONCE = 512
"""Answers that are written together where the model is judged."""


@dataclass(frozen=True)
class SftRun(Run):
    """A run of supervised fine-tuning that is ready to start.

    Attributes:
        data: What its files hold.
    """

    kind: ClassVar[str] = "SFT"
    model_key: ClassVar[str] = "model.path"
    makes_model: ClassVar[bool] = True

    data: Data

    def command(self) -> list[str]:
        """The command that trains."""
        return [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nnodes=1"),
            f"--nproc_per_node={self.configuration.trainer.n_gpus_per_node}",
            *("-m", "verl.trainer.sft_trainer"),
            f"--config-path={conf.CONFIG_DIR}",
            f"--config-name={SFT_CONFIG}",
            *self.overrides,
        ]

    def environment(self) -> dict[str, str]:
        """The variables that verl's processes need beside those that are set already."""
        return {**super().environment(), "VERITAS_RL_DIE_WITH_PARENT": "1"}

    @property
    def context(self) -> int:
        """That of the longest demonstration."""
        return self.configuration.data.max_length

    def check_devices(self) -> None:
        """See `check_devices`."""
        check_devices(self.configuration, self.hardware)

    def check_start(self) -> None:
        """The model can be read, the run fits into memory, and the disk holds the checkpoints."""
        if self.model is not None:
            preflight.check_model(self.model)
        group = next(item.partition("=")[2] for item in self.overrides if item.startswith(f"{GROUP}="))
        forecast = preflight.sft_forecast(self.configuration, group, self.hardware)
        preflight.check_memory(self.configuration, forecast, self.hardware)
        preflight.check_disk(self.configuration, forecast)

    def check_model(self, model: Path) -> None:
        """The demonstrations fit, in the model's tokens."""
        if self.configuration.data.truncation != "error":
            return
        # It imports torch, which a dry run does not pay for.
        from transformers import AutoTokenizer

        check_lengths(self.data, AutoTokenizer.from_pretrained(model), self.configuration.data.max_length)

    def renderer(self) -> Callable[[Mapping[str, Any]], str | None]:
        """Renders the losses."""
        return loss_renderer()

    def held_out(self) -> list[tuple[Sequence[Task], int]]:
        """Validation tasks of the environments and cases in the training rows.

        Rows that name no task, as those of converted JSONL, are not judged.
        """
        settings = self.configuration.veritas_rl
        if settings.evaluation is None:
            return []
        cases: dict[tuple[str, str, int], set[str]] = {}
        for row in self.data.column("extra_info"):
            if row and {"env", "case", "prompt", "seed"} <= row.keys():
                cases.setdefault((row["env"], row["prompt"], row["seed"]), set()).add(row["case"])
        found: list[tuple[Sequence[Task], int]] = []
        for (env, prompt, seed), names in sorted(cases.items()):
            # Fields that every environment's configuration has.
            config = {"cases": sorted(names), "prompt": prompt, "seed": seed, "num_tasks_per_case": TASKS_PER_CASE}
            tasks = open_tasks({"env": env, "adapter_config": config}, "val", settings.seed, "launch", single=True)
            found.append((tasks, settings.evaluation.positions // len(cases)))
        return found

    def answering(self) -> Answering:
        """At temperature 1, as long as `veritas_rl.evaluation` says."""
        settings = self.configuration.veritas_rl
        return Answering(
            tokens=settings.evaluation.response_length,
            context=self.context,
            at_once=AT_ONCE,
            temperature=1.0,
            draws=settings.evaluation.draws,
            seed=settings.seed,
        )

    def last_checkpoint(self) -> Path:
        """That of the last step, which verl always saves."""
        return step_folder(self.checkpoints, self.steps)

    def summary(self, levels: Mapping[str, float], report: dict[str, Any]) -> list[tuple[str, object]]:
        """The last losses."""
        records = MetricsFile(self.metrics).new()
        last = {key: value for _, data in records for key, value in data.items() if "loss" in key}
        report["losses"] = last
        return [("losses", ", ".join(f"{key} {value:.4f}" for key, value in sorted(last.items())))]

    def next_step(self, model: Path | None) -> tuple[str, str]:
        """To go on with RL."""
        script = "bash train/scripts/openspiel-ppo-trainer.sh"
        environments = sorted({task.env for tasks, _ in self.held_out() for task in tasks[:1]})
        group = f" environment={environments[0]}" if environments not in ([], ["openspiel"]) else ""
        return "reinforcement learning from there", f"AGENT_MODEL_REPO_ID={model} {script}{group}"


def overrides_for(typed: Sequence[str], environment: Mapping[str, str], hardware: Hardware) -> list[str]:
    """All overrides in the order in which they apply; see `configuration.overrides_for`.

    Raises:
        UserError: A variable's value is not understood, or a group is for RL.
    """
    recipe, own = recipe_of(typed, (GROUP,))
    conf.check_once(own)
    named = [*overrides_from(environment, sft=True), *map(conf.with_or_without_plus, own)]
    chosen = conf.last_choices([hardware.overrides()[0], *(recipe.overrides() if recipe else []), *named])
    for override in chosen:
        if conf.group_of(override) not in (None, "hardware"):
            raise UserError(f"{override} is for RL: supervised fine-tuning has the group hardware alone")
    made = [f"{GROUP}={item.partition('=')[2]}" if conf.group_of(item) else item for item in chosen]
    known = {path.stem for path in (conf.CONFIG_DIR / GROUP).glob("*.yaml")}
    if (given := made[0].partition("=")[2]) not in known:
        raise UserError(f"hardware={given} is not there for supervised fine-tuning: one of {', '.join(sorted(known))}")
    return made


def plan(
    typed: Sequence[str], environment: Mapping[str, str], hardware: Hardware, now: datetime, *, dry: bool = False
) -> SftRun:
    """From what was typed to a run, checked as far as it can be without starting anything.

    Args:
        typed: Hydra overrides.
        environment: The process environment.
        hardware: The machine.
        now: Names the run.
        dry: Whether it will only be looked at, so that its files may be on another machine.

    Raises:
        UserError: Something cannot work.
    """
    wanted = overrides_for(typed, environment, hardware)
    command = (*wanted, f"AGENT_MODEL_REPO_ID={environment.get('AGENT_MODEL_REPO_ID', '')}")
    recipe, _ = recipe_of(typed, (GROUP,))
    new = experiment_name(recipe.name if recipe else "sft", now)
    experiment = resume.interrupted(EXPERIMENTS, command) if resume.may_go_on(wanted) else None
    overrides = [f"trainer.experiment_name={experiment.name if experiment else new}", *wanted]
    configuration = conf.compose_configuration(overrides, SFT_CONFIG)
    preflight.check_outputs(configuration)
    preflight.check_watches(configuration)
    try:
        if not dry:
            make_missing(configuration)
        data = read_data(configuration)
    except UserError as error:
        if not dry:
            raise
        print(f"note: here it would not run: {error}", file=sys.stderr)
        data = Data()
    check_batch(configuration, data)
    checkpoints = conf.ROOT / configuration.trainer.default_local_dir
    start = checkpoint_to_go_on_from(configuration, checkpoints)
    record = resume.record_of(resume.Record.read(checkpoints), start, checkpoints, command, new, now)
    overrides += [f"hydra.run.dir={quoted(record.folder)}", *length_of(configuration, data)]
    if start is None:
        overrides.append("trainer.resume_mode=disable")
    else:
        overrides += ["trainer.resume_mode=resume_path", f"trainer.resume_from_path={quoted(str(start))}"]
    configuration = conf.compose_configuration(overrides, SFT_CONFIG)
    return SftRun(Path(record.folder), tuple(overrides), configuration, hardware, start, record, data)


def length_of(configuration: DictConfig, data: Data) -> list[str]:
    """The overrides that say how long the run is: its steps, and no fewer epochs than they take.

    verl ends with the epochs too, and then saves nothing.
    """
    trainer, each = configuration.trainer, data.steps_per_epoch(configuration)
    if not data.train:
        return []
    if trainer.total_training_steps is None:
        return [f"trainer.total_training_steps={trainer.total_epochs * each}"]
    return [f"trainer.total_epochs={max(trainer.total_epochs, -(-trainer.total_training_steps // each))}"]


def checkpoint_to_go_on_from(configuration: DictConfig, checkpoints: Path) -> Path | None:
    """The checkpoint with which a run begins, as `trainer.resume_mode` says; None for none.

    Raises:
        UserError: It is not there, or was written by another number of ranks; or a new run would be mixed up with the
            checkpoints of an older one.
    """
    trainer, tracker = configuration.trainer, checkpoints / TRACKER
    own = step_folder(checkpoints, int(tracker.read_text())) if tracker.is_file() else None
    match trainer.resume_mode:
        case "disable":
            if own is not None:
                raise UserError(
                    f"{checkpoints} holds checkpoints of an earlier run: set trainer.experiment_name to another name, "
                    "or trainer.resume_mode=auto to go on with it"
                )
            return None
        case "auto":
            start = own
        case "resume_path":
            start = resume.named(trainer.resume_from_path)
        case _:
            raise UserError(
                f"trainer.resume_mode={trainer.resume_mode} is not understood: auto, disable or resume_path"
            )
    if start is None:
        return None
    ranks = trainer.n_gpus_per_node
    if not (start / f"model_world_size_{ranks}_rank_{ranks - 1}.pt").is_file():
        raise UserError(f"{start} is no checkpoint of supervised fine-tuning on {ranks} ranks: use as many as wrote it")
    return start


def check_devices(configuration: DictConfig, hardware: Hardware) -> None:
    """The machine has the GPUs that the configuration names.

    Raises:
        UserError: It has not; or the run spans several machines, or cannot run on a CPU.
    """
    trainer = configuration.trainer
    if trainer.nnodes != 1:
        raise UserError(f"trainer.nnodes={trainer.nnodes}: this launcher starts one machine; start torchrun on each")
    if trainer.device == "cpu":
        if configuration.engine.strategy != "fsdp2":
            raise UserError("FSDP_STRATEGY=fsdp needs a GPU: leave it out, or set FSDP_STRATEGY=fsdp2")
    elif trainer.n_gpus_per_node > hardware.gpus:
        fitting = hardware.overrides()[0]
        raise UserError(
            f"{trainer.n_gpus_per_node} GPUs are wanted and {hardware.gpus} are here: {fitting} fits this machine"
        )


TRAINER = recipe_run.Trainer("sft", "openspiel-SFT-trainer.sh", plan, overrides_for, SFT_CONFIG, EXPERIMENTS)

if __name__ == "__main__":
    exit_on_user_error(lambda: recipe_run.main(TRAINER, TRAINER))
