"""Reinforcement learning: from the command line to a run of `python -m verl.trainer.main_ppo`."""

import math
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, ClassVar

from rich.console import Console

from veritas_rl.checkpoints.layout import EXPERIMENTS, STOP, read_info, step_of, whole_checkpoints
from veritas_rl.composition import quoted
from veritas_rl.envs import places
from veritas_rl.envs.custom_reward import CustomReward
from veritas_rl.envs.environment import Environment, context_of
from veritas_rl.envs.mixture import Part, Shuffled, parts_of
from veritas_rl.envs.registry import cases_by_environment, get_environment, open_catalogue
from veritas_rl.envs.task import Task
from veritas_rl.judging.survey import survey
from veritas_rl.launch import (
    attention,
    fitting,
    limits,
    machine_checks,
    model_checks,
    next_steps,
    preflight,
    quantization,
    recipe_run,
    resume,
    rollout_backend,
    shared_prompts,
    task_visits,
)
from veritas_rl.launch import configuration as conf
from veritas_rl.launch.answering import Answering
from veritas_rl.launch.hardware import Hardware
from veritas_rl.launch.progress import render_rewards
from veritas_rl.launch.recipes import Recipe, recipe_of
from veritas_rl.launch.run import Deaths, Run
from veritas_rl.launch.start import GROUP, MADE, chosen_by_model, identity, is_made
from veritas_rl.launch.variables import VARIABLES
from veritas_rl.metrics_file import MetricsFile
from veritas_rl.paths import ROOT, experiment_name
from veritas_rl.planning.plan import Plan
from veritas_rl.verl_plugin import algorithms
from veritas_rl.verl_plugin.cpu.forkserver import WORKER_PYTHON
from veritas_rl.viewing.games_page import GAMES_FOLDER

if TYPE_CHECKING:
    from veritas_rl.launch.node_watch import NodeWatch

DIFFERENCE = "training/rollout_probs_diff"
AGAINST = "[^/]+/vs_(.+)/value"
"""The pattern of the metrics against one opponent."""


@dataclass(frozen=True)
class RlRun(Run):
    """A run of reinforcement learning that is ready to start."""

    kind: ClassVar[str] = "RL"
    model_key: ClassVar[str] = "actor_rollout_ref.model.path"
    makes_model: ClassVar[bool] = False

    @property
    def games(self) -> Path:
        """The folder of the validation games that are kept for viewing."""
        return self.folder / "games"

    @property
    def stop_file(self) -> Path:
        return self.checkpoints / STOP

    def environment(self) -> dict[str, str]:
        shared = shared_prompts.environment(self.configuration)
        return {**super().environment(), GAMES_FOLDER: str(self.games), **shared}

    def command(self) -> list[str]:
        variables = ",".join(f"{name}:{quoted(value)}" for name, value in self._of_workers())
        modules: list[str] = []
        # Another node does not have the files of the command line.
        if self.configuration.trainer.nnodes > 1 and (files := places.files().values()):
            own = self.configuration.ray_kwargs.ray_init.runtime_env.get("py_modules") or []
            sent = ",".join(map(quoted, [*own, *map(str, files)]))
            modules = [f"++ray_kwargs.ray_init.runtime_env.py_modules=[{sent}]"]
        return [
            *(sys.executable, "-m", "verl.trainer.main_ppo"),
            f"--config-path={conf.CONFIG_DIR}",
            f"--config-name={conf.RL_CONFIG}",
            *self.overrides,
            # On several nodes, Ray's daemons were started earlier with another environment.
            f"++ray_kwargs.ray_init.runtime_env.env_vars={{{variables}}}",
            *modules,
        ]

    def _of_workers(self) -> Iterator[tuple[str, str]]:
        yield from self.environment().items()
        for variable in VARIABLES:
            if variable.workers and (value := os.environ.get(variable.name)):
                yield variable.name, value
        if named := os.environ.get(places.VARIABLE):
            yield places.VARIABLE, named

    def started_command(self) -> list[str]:
        """The command; on a CPU, with Ray workers from the fork server."""
        command, settings = self.command(), self.configuration
        if settings.trainer.device != "cpu" or settings.ray_kwargs.ray_init.runtime_env.py_executable:
            return command
        worker = f"ray_kwargs.ray_init.runtime_env.py_executable={quoted(WORKER_PYTHON)}"
        return [command[0], "-m", "veritas_rl.verl_plugin.cpu.forkserver", *command[1:], worker]

    @property
    def context(self) -> int:
        return self.configuration.actor_rollout_ref.rollout.max_model_len

    def check_devices(self) -> None:
        machine_checks.check_devices(self.configuration, self.hardware)

    def check_start(self) -> None:
        if self.model is not None:
            critic = algorithms.has_critic(self.configuration)
            model_checks.check_model(self.model, self.context, critic=critic)
            adapter = self.configuration.actor_rollout_ref.model.lora_adapter_path
            for note in (model_checks.end_note(self.model), model_checks.dropout_note(self.model, adapter)):
                if note:
                    print(note, flush=True)
        rollout_backend.check_model(self.configuration, self.model)
        print(fitting.described(self.configuration), flush=True)
        if note := machine_checks.idle_note(self.configuration, self.hardware):
            print(note, flush=True)
        if self.configuration.trainer.device != "cpu":
            print(attention.described(self.configuration), flush=True)
        print(limits.correction(self.configuration), flush=True)
        if note := limits.truncation(self.configuration):
            print(note, flush=True)
        for note in self._reward_notes():
            print(note, flush=True)
        for name in self.record.changed_environments() if self.start else ():
            print(f"note: the file of the environment {name} has changed since this run began", flush=True)
        forecast = self.forecast()
        machine_checks.check_memory(self.configuration, forecast, self.hardware, self.model)
        machine_checks.check_disk(self.configuration, forecast)
        machine_checks.check_token(self.configuration)
        trained, validated = preflight.stages_of(self.configuration), conf.tasks_of(self.configuration, "val")
        catalogues = [*trained, *([validated] if self._validates() else [])]
        if self.model is not None:
            model_checks.check_prompts(self.model, catalogues)
        model_checks.check_replies(
            model_checks.tokenizer_of(self.model, self.words()),
            catalogues,
            "data.max_response_length",
            self.configuration.data.max_response_length,
            enable_thinking=self.configuration.data.apply_chat_template_kwargs.enable_thinking,
        )
        survey(catalogues, Console())
        for note in task_visits.notes(self.configuration, self.steps):
            print(note, flush=True)

    def _reward_notes(self) -> Iterator[str]:
        """Lines about a custom reward function: that it is called, and that it has changed since the checkpoint."""
        custom = CustomReward.read(self.configuration)
        if custom is not None:
            yield f"rewards: {custom.name} of {custom.file} gets the environment's score, and returns the reward"
        info = read_info(self.start) if self.start is not None else None
        now = custom.identity if custom is not None else None
        if info is not None and info.custom_reward != now:
            before, after = (identity or "the environment alone" for identity in (info.custom_reward, now))
            yield f"note: until step {info.global_step} the rewards were those of {before}; from there on of {after}"

    def _validates(self) -> bool:
        """Whether anything uses tasks of validation: verl, the exam of the warm-up, or the judging of the model."""
        trainer, settings = self.configuration.trainer, self.configuration.veritas_rl
        return trainer.test_freq > 0 or trainer.val_before_train or bool(settings.warm_up) or bool(settings.evaluation)

    def check_model(self, model: Path) -> None:
        learners = {"actor_rollout_ref": True, "critic": algorithms.has_critic(self.configuration)}
        for learner in (name for name, used in learners.items() if used):
            preflight.check_adapter_of(self.configuration[learner].model, f"{learner}.model", model)
        if self.start is not None:
            resume.check_base(self.start, model)

    def prepare_start(self, console: Console) -> None:
        info = read_info(self.start) if self.start is not None else None
        ranks = resume.ranks_of(self.configuration)
        if self.start is None or info is None or info.world_size == ranks:
            return
        console.print(f"{info.world_size} ranks wrote the checkpoint: resharding it for {ranks}", highlight=False)
        resume.divide(self.configuration, self.start)

    def watchdog(self, process: int) -> Callable[[], str | None]:
        # Ray's modules come with verl, whose installation is checked before this.
        from veritas_rl.launch.resource_watchdog import ResourceWatchdog

        return ResourceWatchdog(process, self.configuration.ray_kwargs.ray_init)

    def deaths(self, process: int) -> Deaths:
        from veritas_rl.launch.death_watchdog import DeathWatchdog

        return DeathWatchdog(process, self.configuration.ray_kwargs.ray_init)

    def processes(self, process: int) -> set[int]:
        """As the base method, with the run's actors in a Ray that the run has joined."""
        own = super().processes(process)
        if self.configuration.ray_kwargs.ray_init.address == "local":
            return own
        from veritas_rl.launch.ray_control import actors_here

        return own | actors_here(process, self.configuration.ray_kwargs.ray_init)

    def node_watch(self, process: int) -> "NodeWatch | None":
        if self.configuration.ray_kwargs.ray_init.address == "local":
            return None
        from veritas_rl.launch.node_watch import NodeWatch

        return NodeWatch(process, self.configuration.ray_kwargs.ray_init)

    def renderer(self) -> Callable[[Mapping[str, Any]], str | None]:
        return render_rewards

    def _parts(self) -> Iterator[tuple[Part, Sequence[Task], bool]]:
        """Each environment of the dataset, its validation tasks, and whether they are whole games."""
        for part in parts_of(conf.dataset_settings(self.configuration)):
            tasks = open_catalogue(part.settings, "val")
            yield part, tasks, len(tasks) > 0 and tasks[0].mode == "episode"

    def held_out(self) -> list[tuple[Sequence[Task], int]]:
        """Single-answer validation tasks of each environment that is not played in whole games."""
        settings = self.configuration.veritas_rl
        if settings.evaluation is None:
            return []
        parts = list(self._parts())
        found: list[tuple[Sequence[Task], int]] = []
        for part, _, whole in parts:
            if not whole:
                kind = get_environment(part.env).config_type
                tasks = open_catalogue(part.settings, "val", **kind.single, **kind.judged)
                found.append((Shuffled(tasks, settings.seed, "launch"), settings.evaluation.positions // len(parts)))
        return found

    def forecast(self) -> Plan | None:
        return machine_checks.forecast(self.configuration, self.overrides, self.hardware)

    def answering(self) -> Answering:
        """The settings of the rollout."""
        rollout, evaluation = self.configuration.actor_rollout_ref.rollout, self.configuration.veritas_rl.evaluation
        return Answering(
            tokens=rollout.response_length,
            context=rollout.prompt_length + rollout.response_length,
            at_once=rollout.max_num_seqs,
            temperature=rollout.temperature,
            draws=evaluation.draws if evaluation else 1,
            seed=rollout.seed,
            enable_thinking=self.configuration.data.apply_chat_template_kwargs.enable_thinking,
            say_limit=self.configuration.veritas_rl.say_limit,
            dtype=self.configuration.veritas_rl.get("precision"),
        )

    def lessons(self) -> Sequence[Task]:
        if not self.configuration.veritas_rl.warm_up:
            return ()
        return conf.tasks_of(self.configuration, "train", single=True)

    def questions(self) -> Sequence[Task]:
        return conf.tasks_of(self.configuration, "val", single=True)

    def last_checkpoint(self) -> Path | None:
        return next(reversed(whole_checkpoints(self.checkpoints)), None)

    def judge_by_games(self, model: Path, start: Path, console: Console) -> None:
        played = [(part, tasks) for part, tasks, whole in self._parts() if whole]
        if not played:
            return
        # These import matplotlib and torch, which a dry run does not need.
        from veritas_rl.judging import evaluation_report
        from veritas_rl.judging.evaluation import Settings, evaluate
        from veritas_rl.players.loading import ReplySettings, players_in

        rollout, asked = self.configuration.actor_rollout_ref.rollout, self.configuration.veritas_rl.evaluation
        for part, tasks in played:
            first, opponents = tasks[0], players_in(part.env, asked.opponents)
            if others := [name for name in asked.opponents if name not in opponents]:
                console.print(f"{part.env} is judged without {', '.join(others)}, which it does not have")
            settings = Settings(
                checkpoint=str(model),
                env=part.env,
                compare=str(start),
                opponents=opponents,
                games=asked.games,
                cases=",".join(dict.fromkeys(task.case for task in tasks)),
                seed=self.configuration.veritas_rl.seed,
                prompt=first.manner.prompt,
                max_moves=int(first.to_dict().get("max_moves", Settings.max_moves)),
                config=context_of(first),
                replies=ReplySettings(
                    max_tokens=rollout.response_length,
                    temperature=rollout.temperature,
                    enable_thinking=self.configuration.data.apply_chat_template_kwargs.enable_thinking,
                    say_limit=self.configuration.veritas_rl.say_limit,
                ),
            )
            folder = self.games / part.env
            found = evaluate(settings, folder, console)
            evaluation_report.print_report(found, console)
            for file in evaluation_report.write(found, folder):
                console.print(f"{'games':>15}  {file}", soft_wrap=True, highlight=False)

    def summary(self, levels: Mapping[str, float], report: dict[str, Any]) -> list[tuple[str, object]]:
        """The learning curve and, if any, the validation games."""
        from veritas_rl.judging.report import draw_learning_curve

        picture = self.folder / "learning_curve.png"
        records = [(step, data) for step, data in MetricsFile(self.metrics).new() if "critic/score/mean" in data]
        parts = list(self._parts())
        environments = [get_environment(part.env) for part, _, _ in parts]
        names = curve_names(environments, any(whole for _, _, whole in parts), [data for _, data in records])
        curves = {name: [float(data.get(key, math.nan)) for _, data in records] for name, key in names.items()}
        draw_learning_curve(picture, [step for step, _ in records], curves, levels)
        games = [("validation games", self.games)] if self.games.exists() else []
        return [*games, *_difference(records), ("learning curve", picture)]

    def next_steps(self, model: Path | None) -> Sequence[tuple[str, str]]:
        part, tasks, _ = next(self._parts())
        environment, cases = get_environment(part.env), cases_by_environment(tasks)[tasks[0].env]
        found: list[tuple[str, str]] = []
        checkpoint = self.last_checkpoint()
        if model is None and checkpoint is not None and not self.judges_result:
            model = self.folder / f"trained-model-{checkpoint.name}"
            named = {"CHECKPOINT_BASE": checkpoint.parent, "GLOBAL_STEP": step_of(checkpoint), "TARGET_DIR": model}
            found.append(("make a model folder of the last checkpoint", next_steps.in_shell(named, next_steps.MERGE)))
        if model is not None:
            found += next_steps.trials(environment, tasks[0], str(model))
        words, command = next_steps.next_run(environment, cases)
        # A model that the launcher made knows the words and the lengths of its own tasks alone, so a new one is made.
        made = self.model is None or is_made(self.model)
        start = {"AGENT_MODEL_REPO_ID": "" if made else model or self.model} if self.model else {}
        kept = next_steps.kept_overrides(self.typed, environment, command)
        return [*found, (words, next_steps.in_shell({**self.variables, **start}, command, kept))]


def _difference(records: Sequence[tuple[int, Mapping[str, Any]]]) -> list[tuple[str, object]]:
    """How far the probabilities of sampled tokens in trainer and rollout differ, if the trainer computed them."""
    means = [data[f"{DIFFERENCE}_mean"] for _, data in records if f"{DIFFERENCE}_mean" in data]
    if not means:
        return []
    most = max(data.get(f"{DIFFERENCE}_max", 0.0) for _, data in records)
    said = f"mean {fmean(means):.1g}, largest {most:.1g}: the difference of rollout and trainer"
    return [("probabilities", said)]


def curve_names(
    environments: Sequence[Environment], whole_games: bool, records: Sequence[Mapping[str, Any]]
) -> dict[str, str]:
    """The metrics of the learning curve, by label.

    Args:
        environments: The environments of the run.
        whole_games: Whether the run trains on whole games.
        records: The metrics of each step.
    """
    if whole_games:
        met = {match[1]: key for data in records for key in data if (match := re.fullmatch(AGAINST, key))}
        return {"games without a mistake": "task/legal", **{f"score against {who}": key for who, key in met.items()}}
    described = environments[0] if len(environments) == 1 else Environment
    return {"reward": "critic/score/mean", described.answers: "task/legal", described.solved: "task/success"}


def plan(
    typed: Sequence[str], environment: Mapping[str, str], hardware: Hardware, now: datetime, *, dry: bool = False
) -> RlRun:
    """Plan and check a run without starting anything.

    Args:
        typed: Hydra overrides.
        environment: The process environment.
        hardware: The machine.
        now: The time that names the run.
        dry: Not used, because nothing here depends on files of the machine.

    Raises:
        UserError: The run cannot work.
    """
    wanted = conf.overrides_for(typed, environment, hardware)
    model = f"AGENT_MODEL_REPO_ID={environment.get('AGENT_MODEL_REPO_ID', '')}"
    command = (*identity(wanted), model)
    recipe, _ = recipe_of(typed, conf.GROUPS)
    new = experiment_name(_name_of(recipe, wanted), now)
    experiment = resume.interrupted(EXPERIMENTS, command) if resume.may_go_on(wanted) else None
    if experiment is None and resume.may_go_on(wanted) and chosen_by_model(wanted, typed):
        made = conf.overrides_for([*typed, f"{GROUP}={MADE}"], environment, hardware)
        resume.check_not_made(EXPERIMENTS, (*identity(made), model))
    overrides = [f"trainer.experiment_name={experiment.name if experiment else new}", *wanted]
    configuration = conf.compose_configuration(overrides)
    preflight.check_counts(configuration)
    if shorter := fitting.prompt_overrides(configuration, wanted):
        overrides += shorter
        configuration = conf.compose_configuration(overrides)
    overrides += shared_prompts.overrides(configuration)
    checkpoints = ROOT / configuration.trainer.default_local_dir
    record = resume.Record.read(checkpoints)
    start = resume.checkpoint_to_go_on_from(
        configuration, checkpoints, again=bool(record and record.command == command)
    )
    record = resume.record_of(record, start, checkpoints, command, new, now)
    overrides += [
        f"hydra.run.dir={quoted(record.folder)}",
        *resume.overrides(configuration, start, Path(record.folder)),
        *conf.context_overrides(configuration),
        *conf.mini_batch_overrides(configuration, wanted),
        *conf.worker_overrides(configuration, wanted),
        *conf.step_overrides(configuration, wanted),
        *attention.overrides(configuration),
        *fitting.overrides(configuration, overrides, wanted),
        *quantization.overrides(configuration, wanted),
    ]
    configuration = conf.compose_configuration(overrides)
    preflight.check(configuration, wanted, recipe)
    kept = next_steps.kept_variables(environment)
    return RlRun(Path(record.folder), tuple(overrides), configuration, hardware, start, record, tuple(typed), kept)


def _name_of(recipe: Recipe | None, wanted: Sequence[str]) -> str:
    chosen = [item.partition("=")[2] for item in wanted if conf.group_of(item) == "environment"]
    return recipe.name if recipe else chosen[0] if chosen else "openspiel"


TRAINER = recipe_run.Trainer("rl", "openspiel-ppo-trainer.sh", plan, conf.overrides_for, conf.RL_CONFIG)
