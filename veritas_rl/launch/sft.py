"""Start supervised fine-tuning: what `bash train/scripts/openspiel-SFT-trainer.sh` calls.

    python -m veritas_rl.launch.sft [recipe=NAME] [Hydra overrides]

Like `launch/main.py` for RL, it composes the configuration, checks what can be checked, and runs `torchrun -m
verl.trainer.sft_trainer` on the parquet files of `train/tools/generate_demonstrations.py`, with one process per GPU or
rank. Without a GPU it makes the model, and judges it before and after training.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar

from omegaconf import DictConfig

from veritas_rl.checkpoints.adapter import base_name, dropout_of
from veritas_rl.checkpoints.layout import ADAPTER, shard_name, step_folder, step_folders
from veritas_rl.checkpoints.packaged import provide
from veritas_rl.composition import quoted
from veritas_rl.datasets.chats import enable_thinking_of
from veritas_rl.envs.mixture import open_tasks
from veritas_rl.envs.registry import words_of
from veritas_rl.envs.task import Task
from veritas_rl.errors import UserError, exit_on_user_error
from veritas_rl.launch import configuration as conf
from veritas_rl.launch import (
    fitting,
    keys,
    limits,
    machine_checks,
    model_checks,
    next_steps,
    preflight,
    recipe_run,
    resume,
)
from veritas_rl.launch.answering import Answering
from veritas_rl.launch.hardware import Hardware
from veritas_rl.launch.progress import loss_renderer
from veritas_rl.launch.recipes import recipe_of
from veritas_rl.launch.run import Run
from veritas_rl.launch.sft_data import (
    Data,
    check_batch,
    check_rendering,
    check_rows,
    make_missing,
    own_dataset,
    read_data,
)
from veritas_rl.launch.start import MADE, chosen_by_model, identity
from veritas_rl.launch.variables import overrides_from
from veritas_rl.metrics_file import MetricsFile
from veritas_rl.paths import ROOT, experiment_name
from veritas_rl.planning.sft import JUDGED_AT_ONCE, SftPlan

SFT_CONFIG = "sft"
"""The root YAML file for supervised fine-tuning."""

GROUPS = {"hardware": "sft_hardware", "start": "sft_start", "lora": "sft_lora"}
"""The groups of fine-tuning, by the names under which users choose them."""

EXPERIMENTS = ROOT / "train/artifacts/checkpoints"
TRACKER = "latest_checkpointed_iteration.txt"
"""verl writes this file after each checkpoint. The checkpoint that it names is complete."""

DATASET = (
    "data.custom_cls.path=pkg://veritas_rl.verl_plugin.sft_dataset",
    "data.custom_cls.name=FineTuningRows",
)
"""The dataset class of a run that names none."""

TASKS_PER_CASE = 4096
"""The number of validation tasks per case from which held-out tasks are taken."""


@dataclass(frozen=True)
class SftRun(Run):
    """A run of supervised fine-tuning that is ready to start.

    Attributes:
        data: The training and validation files.
    """

    kind: ClassVar[str] = "SFT"
    model_key: ClassVar[str] = "model.path"
    makes_model: ClassVar[bool] = True

    data: Data

    def command(self) -> list[str]:
        return [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nnodes=1"),
            f"--nproc_per_node={self.configuration.trainer.n_gpus_per_node}",
            *("-m", "verl.trainer.sft_trainer"),
            f"--config-path={conf.CONFIG_DIR}",
            f"--config-name={SFT_CONFIG}",
            *self.overrides,
            *(() if own_dataset(self.configuration) else DATASET),
        ]

    def environment(self) -> dict[str, str]:
        return {**super().environment(), "VERITAS_RL_DIE_WITH_PARENT": "1"}

    @property
    def context(self) -> int:
        return self.configuration.data.max_length

    def check_devices(self) -> None:
        check_devices(self.configuration, self.hardware)

    def check_start(self) -> None:
        if self.model is not None:
            model_checks.check_model(self.model)
            if note := model_checks.end_note(self.model):
                print(note, flush=True)
        if (adapter := self.configuration.model.lora_adapter_path) and (share := dropout_of(Path(adapter))):
            print(f"dropout of adapters is off: lora_dropout={share} of {adapter} is set to 0", flush=True)
        print(fitting.described_sft(self.configuration), flush=True)
        if note := machine_checks.idle_note(self.configuration, self.hardware):
            print(note, flush=True)
        forecast = self.forecast()
        machine_checks.check_memory(self.configuration, forecast, self.hardware, self.model)
        machine_checks.check_disk(self.configuration, forecast)
        if judged := [tasks for tasks, _ in self.held_out()]:
            model_checks.check_replies(
                model_checks.tokenizer_of(self.model, self.words()),
                judged,
                "veritas_rl.evaluation.response_length",
                self.answering().tokens,
                enable_thinking=self.answering().enable_thinking,
            )

    def check_model(self, model: Path) -> None:
        preflight.check_adapter_of(self.configuration.model, "model", model)
        if self.start is not None:
            resume.check_base(self.start, model)
        if not own_dataset(self.configuration):
            check_rows(self.configuration, self.data, model_checks.tokenizer_of(model, conversation=True))

    def renderer(self) -> Callable[[Mapping[str, Any]], str | None]:
        return loss_renderer()

    def held_out(self) -> list[tuple[Sequence[Task], int]]:
        """Validation tasks of the environments and cases in the training rows.

        Rows without a task, such as rows of converted JSONL, are not judged.
        """
        settings = self.configuration.veritas_rl
        if settings.evaluation is None:
            return []
        found: list[tuple[Sequence[Task], int]] = []
        for (env, prompt, seed), names in sorted(self._cases.items()):
            # Every environment's configuration has these fields.
            config = {"cases": sorted(names), "prompt": prompt, "seed": seed, "num_tasks_per_case": TASKS_PER_CASE}
            tasks = open_tasks({"env": env, "adapter_config": config}, "val", settings.seed, "launch", single=True)
            found.append((tasks, settings.evaluation.positions // len(self._cases)))
        return found

    def words(self) -> Sequence[str]:
        cases: dict[str, list[str]] = {}
        for (env, _, _), names in sorted(self._cases.items()):
            cases.setdefault(env, []).extend(sorted(names))
        return words_of(cases)

    @cached_property
    def _cases(self) -> dict[tuple[str, str, int], set[str]]:
        """The cases of the training rows, by environment, prompt and seed. Rows without a task are left out."""
        cases: dict[tuple[str, str, int], set[str]] = {}
        for row in self.data.column("extra_info"):
            if row and {"env", "case", "prompt", "seed"} <= row.keys():
                cases.setdefault((row["env"], row["prompt"], row["seed"]), set()).add(row["case"])
        return cases

    def forecast(self) -> SftPlan | None:
        return machine_checks.sft_forecast(self.configuration, self.overrides, self.hardware)

    def answering(self) -> Answering:
        settings = self.configuration.veritas_rl
        return Answering(
            tokens=settings.evaluation.response_length,
            context=self.context,
            at_once=JUDGED_AT_ONCE,
            temperature=1.0,
            draws=settings.evaluation.draws,
            seed=settings.seed,
            enable_thinking=enable_thinking_of(self.configuration.data),
            dtype=settings.get("precision"),
        )

    def last_checkpoint(self) -> Path:
        """The checkpoint of the last step, which verl always saves."""
        return step_folder(self.checkpoints, self.steps)

    def summary(self, levels: Mapping[str, float], report: dict[str, Any]) -> list[tuple[str, object]]:
        records = MetricsFile(self.metrics).new()
        last = {key: value for _, data in records for key, value in data.items() if "loss" in key}
        report["losses"] = last
        return [("losses", ", ".join(f"{key} {value:.4f}" for key, value in sorted(last.items())))]

    def next_steps(self, model: Path | None) -> Sequence[tuple[str, str]]:
        cases: dict[str, set[str]] = {}
        prompts: dict[str, str] = {}
        for (env, prompt, _), names in sorted(self._cases.items()):
            cases.setdefault(env, set()).update(names)
            prompts[env] = prompt
        words = [word for word in self.typed if word.startswith(("hardware=", "start="))]
        if {"episode"} == {row["mode"] for row in self.data.column("extra_info") if row and "mode" in row}:
            words.append("episode")
        found = []
        if model is not None and (adapter := model / ADAPTER).is_dir():
            start = {**self.variables, "LORA_ADAPTER_PATH": adapter, "AGENT_MODEL_REPO_ID": base_name(adapter)}
            command = next_steps.training(start, cases, prompts, words)
            found.append(("reinforcement learning that trains the same adapter", command))
        start = {**self.variables, "AGENT_MODEL_REPO_ID": model}
        return [*found, ("reinforcement learning from there", next_steps.training(start, cases, prompts, words))]


def overrides_for(typed: Sequence[str], environment: Mapping[str, str], hardware: Hardware) -> list[str]:
    """All overrides in the order in which they apply; see `configuration.overrides_for`.

    Raises:
        UserError: A variable's value is not supported, or a group exists only for RL.
    """
    recipe, own = recipe_of(typed, tuple(GROUPS.values()))
    conf.check_once(own)
    named = [*overrides_from(environment, sft=True), *map(conf.with_or_without_plus, own)]
    conf.check_adapter_is_trained(named, environment)
    choices = recipe.choices() if recipe else {}
    of_recipe = {name: choices[group] for name, group in GROUPS.items() if group in choices}
    hardware, kind = conf.hardware_and_start(SftRun.model_key, named, recipe, of_recipe, environment, hardware)
    defaults = {"hardware": hardware.sft_group, "start": kind}
    machine = [f"{name}={choice}" for name, choice in defaults.items() if name not in of_recipe]
    made: list[str] = []
    for override in conf.last_choices([*machine, *(recipe.overrides() if recipe else []), *named]):
        if (group := conf.group_of(override)) is None:
            made.append(override)
            continue
        if group not in GROUPS:
            said = f"supervised fine-tuning has the groups {' and '.join(GROUPS)}"
            if group == "environment":
                override = "environment="
                said = f"set {conf.DEMONSTRATED} to the environment that demonstrations are made of"
            raise UserError(f"{override} works only with RL: {said}")
        known = sorted(path.stem for path in (conf.CONFIG_DIR / GROUPS[group]).glob("*.yaml"))
        if (given := override.partition("=")[2]) not in known:
            raise UserError(f"{group}={given} does not exist for supervised fine-tuning: use one of {', '.join(known)}")
        made.append(f"{GROUPS[group]}={given}")
    return made


def plan(
    typed: Sequence[str], environment: Mapping[str, str], hardware: Hardware, now: datetime, *, dry: bool = False
) -> SftRun:
    """Plan and check a run without starting anything.

    Args:
        typed: Hydra overrides.
        environment: The process environment.
        hardware: The machine.
        now: The time that names the run.
        dry: Whether this is a dry run, whose files may be on another machine.

    Raises:
        UserError: The run cannot work.
    """
    wanted = overrides_for(typed, environment, hardware)
    model = f"AGENT_MODEL_REPO_ID={environment.get('AGENT_MODEL_REPO_ID', '')}"
    command = (*identity(wanted), model)
    recipe, _ = recipe_of(typed, tuple(GROUPS.values()))
    new = experiment_name(recipe.name if recipe else "sft", now)
    experiment = resume.interrupted(EXPERIMENTS, command) if resume.may_go_on(wanted) else None
    if experiment is None and resume.may_go_on(wanted) and chosen_by_model(wanted, typed):
        made = overrides_for([*typed, f"start={MADE}"], environment, hardware)
        resume.check_not_made(EXPERIMENTS, (*identity(made), model))
    overrides = [f"trainer.experiment_name={experiment.name if experiment else new}", *wanted]
    configuration = conf.compose_configuration(overrides, SFT_CONFIG)
    if fitted := fitting.sft_overrides(configuration, overrides, wanted):
        overrides += fitted
        configuration = conf.compose_configuration(overrides, SFT_CONFIG)
    preflight.check_outputs(configuration)
    preflight.check_watches(configuration)
    preflight.check_template_arguments(configuration)
    preflight.check_adapter_settings(configuration.model, "model")
    check_rendering(configuration)
    keys.check(configuration, wanted, partial(conf.compose_configuration, name=SFT_CONFIG), recipe)
    limits.check_sft(configuration)
    try:
        if not dry:
            if configuration.model.path is not None:
                provide(configuration.model.path)
            make_missing(configuration)
        data = read_data(configuration)
    except UserError as error:
        if not dry:
            raise
        print(f"note: this machine cannot start the run: {error}", file=sys.stderr)
        data = Data()
    check_batch(configuration, data)
    checkpoints = ROOT / configuration.trainer.default_local_dir
    start = checkpoint_to_go_on_from(configuration, checkpoints)
    record = resume.record_of(resume.Record.read(checkpoints), start, checkpoints, command, new, now)
    overrides += [f"hydra.run.dir={quoted(record.folder)}", *length_of(configuration, data)]
    if start is None:
        overrides.append("trainer.resume_mode=disable")
    else:
        overrides += ["trainer.resume_mode=resume_path", f"trainer.resume_from_path={quoted(str(start))}"]
    configuration = conf.compose_configuration(overrides, SFT_CONFIG)
    kept = next_steps.kept_variables(environment, sft=True)
    return SftRun(
        Path(record.folder), tuple(overrides), configuration, hardware, start, record, tuple(typed), kept, data
    )


def length_of(configuration: DictConfig, data: Data) -> list[str]:
    """The overrides for the run's length: its steps, enough epochs for them, and no held-out loss without its files.

    verl also ends after the last epoch, and then saves nothing.
    """
    trainer, each = configuration.trainer, data.steps_per_epoch(configuration)
    if not data.train:
        return []
    # verl would read validation files that do not exist, and end with an error.
    unmeasured = [] if data.val else ["trainer.test_freq=-1"]
    if trainer.total_training_steps is None:
        return [f"trainer.total_training_steps={trainer.total_epochs * each}", *unmeasured]
    return [*unmeasured, f"trainer.total_epochs={max(trainer.total_epochs, -(-trainer.total_training_steps // each))}"]


def checkpoint_to_go_on_from(configuration: DictConfig, checkpoints: Path) -> Path | None:
    """The checkpoint that a run starts from, according to `trainer.resume_mode`; None to start without a checkpoint.

    Raises:
        UserError: The checkpoint is missing, or was written by another number of ranks; or the checkpoint folder
            already contains checkpoints of another run.
    """
    trainer, tracker = configuration.trainer, checkpoints / TRACKER
    own = _saved_last(checkpoints, tracker) if tracker.is_file() else None
    match trainer.resume_mode:
        case "disable":
            if own is not None:
                raise UserError(
                    f"{checkpoints} holds checkpoints of an earlier run: set trainer.experiment_name to another name, "
                    "or trainer.resume_mode=auto to resume that run"
                )
            return None
        case "auto":
            start = own
        case "resume_path":
            start = resume.named(trainer.resume_from_path)
        case _:
            raise UserError(
                f"trainer.resume_mode={trainer.resume_mode} is not supported: set it to auto, disable or resume_path"
            )
    if start is None:
        return None
    ranks = trainer.n_gpus_per_node
    if not (start / shard_name("model", ranks - 1, ranks)).is_file():
        raise UserError(
            f"{start} is not a checkpoint of supervised fine-tuning with {ranks} ranks: use as many ranks as wrote it"
        )
    resume.check_saved_adapter(start, "actor", "model", configuration.model)
    return start


def _saved_last(checkpoints: Path, tracker: Path) -> Path:
    written = tracker.read_text().strip()
    if not written.isdecimal():
        there = ", ".join(folder.name for folder in step_folders(checkpoints)) or "no checkpoint"
        raise UserError(
            f"{tracker} names no step, but {written!r}: write the number of the last complete checkpoint into it, of "
            f"{there}"
        )
    return step_folder(checkpoints, int(written))


def check_devices(configuration: DictConfig, hardware: Hardware) -> None:
    """Check that the machine has the configured GPUs.

    Raises:
        UserError: GPUs are missing, the run needs several machines, or it cannot run on a CPU.
    """
    trainer = configuration.trainer
    if trainer.nnodes != 1:
        raise UserError(
            f"trainer.nnodes={trainer.nnodes} is not supported, because this launcher starts one machine: start "
            "torchrun on each node yourself"
        )
    if trainer.device == "cpu":
        if configuration.engine.strategy != "fsdp2":
            raise UserError("FSDP_STRATEGY=fsdp needs a GPU: leave it out, or set FSDP_STRATEGY=fsdp2")
    elif trainer.n_gpus_per_node > hardware.gpus:
        raise UserError(
            f"the configuration needs {trainer.n_gpus_per_node} GPUs, and this machine has {hardware.gpus}: use "
            f"hardware={hardware.sft_group}"
        )


TRAINER = recipe_run.Trainer("sft", "openspiel-SFT-trainer.sh", plan, overrides_for, SFT_CONFIG, EXPERIMENTS)

if __name__ == "__main__":
    exit_on_user_error(lambda: recipe_run.main(TRAINER, TRAINER))
