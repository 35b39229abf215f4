"""Run a recipe that describes its stages: fine-tuning, training, evaluations, and a result with a verdict.

    bash train/scripts/openspiel-ppo-trainer.sh recipe=kuhn_self_play

The same command resumes an interrupted run, unless the recipe has changed since. Settings that differ from the recipe
are printed before the start and stored in the result. Such a run neither confirms nor refutes the recipe's bands.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from veritas_rl.checkpoints.folder import write_whole
from veritas_rl.checkpoints.layout import ADAPTER
from veritas_rl.composition import quoted
from veritas_rl.errors import UserError
from veritas_rl.launch import command as command_line
from veritas_rl.launch import configuration as conf
from veritas_rl.launch import recipe_stages, resume
from veritas_rl.launch.departures import departures
from veritas_rl.launch.hardware import Hardware
from veritas_rl.launch.recipe_basis import described
from veritas_rl.launch.recipes import FOLDER, WORD, Recipe, recipe_of
from veritas_rl.launch.trainer import Trainer
from veritas_rl.paths import ROOT, experiment_name, to_type
from veritas_rl.records.description import (
    CONFIG,
    CONTINUED_SFT,
    MERGED,
    NODE,
    UNTOUCHED,
    VALUES,
    Description,
    Form,
    description_in,
    read_description,
)
from veritas_rl.records.figures import (
    curves_of,
    figures_of_agreement,
    figures_of_games,
    figures_of_policies,
    figures_of_run,
    figures_of_suite,
    shares_of,
)
from veritas_rl.records.result import RESULT, Figure, Result, machine_of, results_in
from veritas_rl.records.verdict import departures_in_words, judge

RUNS = ROOT / "train/outputs/recipes"
"""The folder of results and evaluations of recipe runs."""

COST = "cost.json"
DEMONSTRATIONS = ("train", "val")


def main(trainer: Trainer, fine_tuner: Trainer) -> None:
    """Run the command line: a recipe with its stages, or one training.

    Args:
        trainer: The trainer of the command line.
        fine_tuner: The trainer of a recipe's fine-tuning stage.

    Raises:
        UserError: The run cannot work.
    """
    typed, hardware, dry = command_line.prepare()
    recipe, _ = recipe_of(typed, conf.GROUPS)
    description = read_description(recipe.folder) if recipe else None
    if recipe is None or description is None:
        command_line.run(trainer.plan, typed, hardware, dry=dry)
        return
    if description.trainer != trainer.kind:
        other = "openspiel-SFT-trainer.sh" if description.trainer == "sft" else "openspiel-ppo-trainer.sh"
        word = f"{WORD}{recipe.name if recipe.folder.parent == FOLDER else recipe.folder}"
        command = to_type(f"bash train/scripts/{other} {shlex.quote(word)}")
        raise UserError(f"recipe={recipe.name} needs another script: type {command}")
    if dry:
        RecipeRun.plan(trainer, fine_tuner, typed, hardware).describe()
        command_line.run(trainer.plan, typed, hardware, dry=True)
        return
    run_recipe(trainer, fine_tuner, typed, hardware)


def run_recipe(
    trainer: Trainer, fine_tuner: Trainer, typed: Sequence[str], hardware: Hardware, form: Form = "whole"
) -> tuple[Result, bool]:
    """Run a recipe to its end, and print the verdict.

    Args:
        trainer: The trainer.
        fine_tuner: The trainer of the fine-tuning stage.
        typed: Overrides, including `recipe=...`.
        hardware: The machine.
        form: The form of the recipe.

    Returns:
        The result, and whether it confirms the recipe.

    Raises:
        UserError: The run cannot work, or a stage failed.
        SystemExit: A stage was asked to stop.
    """
    run = RecipeRun.plan(trainer, fine_tuner, typed, hardware, form)
    run.check()
    if run.departures:
        print(f"recipe {run.recipe.name}: {departures_in_words(run.departures)}", flush=True)
    run.folder.mkdir(parents=True, exist_ok=True)
    with resume.held(run.folder):
        run.record.write(run.folder)
        run.stages()
        result = run.result()
        write_whole(run.folder / RESULT, result.to_json())
        replace(run.record, finished=True).write(run.folder)
    verdict = judge(result, run.description, results_in(run.recipe.folder))
    print()
    for line in verdict.lines:
        print(line)
    print(f"result: {run.folder / RESULT}", flush=True)
    return result, verdict.confirmed


@dataclass(frozen=True)
class RecipeRun:
    """A run of a recipe, planned.

    Attributes:
        trainer: The trainer.
        fine_tuner: The trainer of the fine-tuning stage.
        recipe: The recipe.
        description: The recipe's description.
        form: The form of the recipe.
        own: The user's overrides, without the recipe.
        hardware: The machine.
        configuration: The resolved configuration of the training, before a start adds overrides.
        departures: The settings that differ from the recipe, one line each.
        record: The record that is stored beside the result.
    """

    trainer: Trainer
    fine_tuner: Trainer
    recipe: Recipe
    description: Description
    form: Form
    own: tuple[str, ...]
    hardware: Hardware
    configuration: DictConfig
    departures: tuple[str, ...]
    record: resume.Record

    @classmethod
    def plan(
        cls,
        trainer: Trainer,
        fine_tuner: Trainer,
        typed: Sequence[str],
        hardware: Hardware,
        form: Form = "whole",
    ) -> "RecipeRun":
        """Plan a run, or find the interrupted run of the same command.

        Raises:
            UserError: An override is invalid.
        """
        recipe, own = recipe_of(typed, conf.GROUPS)
        assert recipe is not None
        for override in own:
            if override.lstrip("+~").startswith(f"{NODE}.") and not override.startswith(f"{VALUES}."):
                raise UserError(
                    f"{override} has no effect: of a recipe's stages only {VALUES} can be set: change a copy of "
                    f"{recipe.folder}"
                )
        description = described(recipe.folder, {one.kind: one for one in (trainer, fine_tuner)})
        assert description is not None
        assert description.basis is not None
        word = f"{WORD}{recipe.folder}"
        given = [word, *description.overrides_of(form), *own]
        wanted = trainer.overrides(given, os.environ, hardware)
        # A run from before a change of the recipe is not resumed: its result would count as one of the changed recipe.
        identity = (form, word, description.basis.settings, description.basis.tasks)
        command = (*identity, *wanted, f"AGENT_MODEL_REPO_ID={os.environ.get('AGENT_MODEL_REPO_ID', '')}")
        chosen = [item.partition("=")[2] for item in own if re.match(r"\+*trainer\.experiment_name=", item)]
        found = resume.interrupted(RUNS, command) if resume.may_go_on(wanted) else RUNS / chosen[-1] if chosen else None
        name = found.name if found else experiment_name(recipe.name, datetime.now())
        named = [] if chosen else [_named(name)]
        configuration = conf.compose_configuration([*named, *wanted], trainer.config)
        record = resume.Record.read(found) if found else None
        if record is not None and (record.finished or record.command != command):
            raise UserError(f"{found} holds another run: set trainer.experiment_name to another name")
        composed = description_in(configuration, recipe.folder / CONFIG)
        description = replace(composed, basis=description.basis)
        return cls(
            trainer=trainer,
            fine_tuner=fine_tuner,
            recipe=recipe,
            description=description,
            form=form,
            own=(*named, *own),
            hardware=hardware,
            configuration=configuration,
            departures=tuple(departures(trainer, recipe, description, form, (*named, *own), hardware, configuration)),
            record=record or resume.Record(command, str(RUNS / name), name),
        )

    @property
    def folder(self) -> Path:
        """The folder of the result and the evaluations."""
        return Path(self.record.folder)

    @property
    def seed(self) -> int:
        """The seed of all stages."""
        return self.configuration.veritas_rl.seed

    @property
    def checkpoints(self) -> Path:
        """The folder of the training's checkpoints."""
        return ROOT / self.configuration.trainer.default_local_dir

    @property
    def fine_tuned(self) -> Path:
        """The folder of the fine-tuning stage's checkpoints."""
        return self.fine_tuner.experiments / self.folder.name

    def training(self) -> list[str]:
        """The overrides of the training."""
        return [f"{WORD}{self.recipe.folder}", *self.description.overrides_of(self.form), *self.own]

    @property
    def continued(self) -> Path:
        """The folder of the checkpoints of the continued fine-tuning."""
        return self.fine_tuner.experiments / f"{self.folder.name}-continued"

    def fine_tuning(self) -> list[str] | None:
        """The overrides of the fine-tuning stage; None if there is none."""
        return self._fine_tuning(self.fine_tuned, self.description.sft_of(self.form))

    def continued_fine_tuning(self) -> list[str] | None:
        """The overrides of the continued fine-tuning; None if there is none."""
        chosen = self.description.continued_sft_of(self.form)
        start = self._model_of(self.fine_tuned) if _finished(self.fine_tuned) else "START"
        return self._fine_tuning(self.continued, chosen and (*chosen, f"model.path={quoted(str(start))}"))

    def _fine_tuning(self, checkpoints: Path, chosen: Sequence[str] | None) -> list[str] | None:
        if chosen is None:
            return None
        files = [f"data.{name}_files={self._relative}/demonstrations/{name}.parquet" for name in DEMONSTRATIONS]
        return [*files, f"veritas_rl.seed={self.seed}", _named(checkpoints.name), *chosen]

    @property
    def _relative(self) -> Path:
        return self.folder.relative_to(ROOT)

    def judgement(self, name: str, checkpoint: Path, start: Path | None) -> list[str]:
        """The command of an evaluation.

        Args:
            name: The evaluation's name in the recipe.
            checkpoint: The checkpoint to evaluate, unless the evaluation is of the merged model.
            start: The start model, which replaces "start" as the value of `compare`.
        """
        options = self.description.judge_of(self.form)[name]
        average = options.pop("average", None)
        models = {
            "start": start or "start",
            "adapter": self.merged / ADAPTER,
            MERGED: self.merged,
            UNTOUCHED: self.configuration.actor_rollout_ref.model.path,
            CONTINUED_SFT: self._model_of(self.continued) if _finished(self.continued) else CONTINUED_SFT,
        }
        checkpoint = models.get(options.pop("checkpoint", None), checkpoint)
        words: list[str] = []
        for option, value in options.items():
            if option == "compare":
                value = models.get(value, value)
            if value is not None and value is not False:  # a short form may leave an option out
                words += [f"--{option}"] if value is True else [f"--{option}", str(value)]
        judged = f"{checkpoint}@mean:{average}" if average else str(checkpoint)
        tool = [sys.executable, "train/tools/evaluate.py", "--checkpoint", judged, *words]
        return [*tool, "--output", str(self.folder / name)]

    @property
    def merged(self) -> Path:
        """The folder of the merged model."""
        return self.folder / "merged-model"

    def after_training(self, judged: Path, start: Path | None) -> Iterator[recipe_stages.Stage]:
        """The stages after the training.

        Args:
            judged: The checkpoint to evaluate.
            start: The start model.
        """
        merged = False
        for name, options in self.description.judge_of(self.form).items():
            if options.get("checkpoint") == MERGED and not merged:
                merged = True
                yield recipe_stages.merge(self.checkpoints, self.merged)
            yield recipe_stages.of_tool(name, self._report(name, options), self.judgement(name, judged, start))
            if options.get("compare") == "adapter" and options.get("games_to_show"):
                yield recipe_stages.agreement(name, self.merged, self.folder / name)

    def describe(self) -> None:
        """Print the stages before and after the training, and the departures from the recipe."""
        if self.departures:
            print(f"note: {self.recipe.name}: {departures_in_words(self.departures)}", file=sys.stderr)
        fine_tunings = {"the first stage is": self.fine_tuning(), "after RL follows": self.continued_fine_tuning()}
        for where, chosen in fine_tunings.items():
            if chosen is not None:
                command = to_type(f"bash train/scripts/openspiel-SFT-trainer.sh {shlex.join(chosen)}")
                print(f"note: {where} {command}", file=sys.stderr)
        for stage in self.after_training(self.checkpoints, Path("START")):
            beside = " (START is the model that training starts from)" if "START" in stage.command else ""
            print(f"note: {stage.name} follows{beside}: {stage.typed}", file=sys.stderr)

    def check(self) -> None:
        """Plan the first training, so that a mistake ends the run before it starts.

        Raises:
            UserError: The first training cannot work.
        """
        chosen = self.fine_tuning()
        first = self.trainer if chosen is None else self.fine_tuner
        planned = first.plan(chosen or self.training(), os.environ, self.hardware, datetime.now())
        planned.check_devices()

    def stages(self) -> None:
        """Run all unfinished stages.

        Raises:
            UserError: A stage failed.
            SystemExit: A stage was asked to stop.
        """
        if (chosen := self.fine_tuning()) is not None:
            if not _finished(self.fine_tuned):
                with self._measured("SFT"):
                    self._train(self.fine_tuner, chosen)
            os.environ["AGENT_MODEL_REPO_ID"] = str(self._model_of(self.fine_tuned))
        if not _finished(self.checkpoints):
            with self._measured(self.trainer.kind.upper()):
                self._train(self.trainer, self.training())
        if (chosen := self.continued_fine_tuning()) is not None and not _finished(self.continued):
            with self._measured("continued SFT"):
                self._train(self.fine_tuner, chosen)
        judged = self.checkpoints if self.trainer.kind == "rl" else self._model_of(self.checkpoints)
        for stage in self.after_training(judged, self._start()):
            if stage.completed.exists():
                continue
            with self._measured(stage.name):
                print(f"\n{stage.typed}", flush=True)
                environment = {**os.environ, **stage.variables}
                if subprocess.run(stage.command, cwd=ROOT, env=environment, check=False).returncode:
                    raise UserError(f"the stage {stage.name} failed: its output is above")

    def _train(self, trainer: Trainer, overrides: Sequence[str]) -> None:
        command_line.run(trainer.plan, overrides, self.hardware, dry=False)

    def _report(self, name: str, options: Mapping[str, Any]) -> Path:
        file = "exact.json" if options.get("exact") else "suite.json" if options.get("suite") else "report.json"
        return self.folder / name / file

    def _model_of(self, checkpoints: Path) -> Path:
        """The model folder of a finished training.

        Raises:
            UserError: The folder is missing.
        """
        record = resume.Record.read(checkpoints)
        made = sorted(Path(record.folder).glob("trained-model-*")) if record else []
        if not made:
            raise UserError(f"the model of {checkpoints} is missing: set trainer.resume_mode=disable to start again")
        return made[-1]

    def _start(self) -> Path | None:
        if self.description.sft is not None:
            return self._model_of(self.fine_tuned)
        record = resume.Record.read(self.checkpoints)
        made = [Path(record.folder) / name for name in ("warmed-up-model", "model")] if record else []
        return next((path for path in made if path.exists()), None)

    def _measured(self, stage: str) -> AbstractContextManager[None]:
        return recipe_stages.measured(stage, self.folder / COST)

    def result(self) -> Result:
        """The result, collected from the reports of the stages."""
        record = resume.Record.read(self.checkpoints)
        assert record is not None
        logs = Path(record.folder)
        figures: dict[str, Figure] = figures_of_run(json.loads((logs / "report.json").read_text()))
        curves = curves_of(logs / "metrics.jsonl", self.description.curve)
        for report in sorted((logs / "games").glob("*/report.json")):
            figures |= figures_of_games(json.loads(report.read_text()), f"games/{report.parent.name}")
        for name, options in self.description.judge_of(self.form).items():
            report = json.loads(self._report(name, options).read_text())
            if options.get("exact"):
                more, points = figures_of_policies(report, name)
                figures, curves = figures | more, curves | points
            elif options.get("suite"):
                figures |= figures_of_suite(report, name)
            else:
                compared = CONTINUED_SFT if options.get("compare") == CONTINUED_SFT else "start"
                figures |= figures_of_games(report, name, compared)
            if (compared := self.folder / name / recipe_stages.AGREEMENT).exists():
                figures |= figures_of_agreement(json.loads(compared.read_text()), name)
        cost = json.loads((self.folder / COST).read_text())
        assert self.description.basis is not None
        return Result(
            recipe=self.recipe.name,
            basis=self.description.basis,
            form=self.form,
            seed=self.seed,
            date=f"{datetime.now():%Y-%m-%d}",
            machine=machine_of(self.hardware.cores, self.hardware.gpus),
            minutes={name: round(minutes, 2) for name, minutes in cost["minutes"].items()},
            memory=cost["memory"] and round(cost["memory"], 2),
            departures=self.departures,
            figures=figures,
            curves=curves,
            shares=shares_of(logs / "metrics.jsonl", cost["minutes"].get("RL")),
        )


def _named(name: str) -> str:
    return f"trainer.experiment_name={name}"


def _finished(checkpoints: Path) -> bool:
    record = resume.Record.read(checkpoints)
    return record is not None and record.finished
