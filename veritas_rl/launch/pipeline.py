"""The pipeline of a training: make a model, warm it up, judge it, train it, merge it, and judge it again.

If no model is named, as is usual without a GPU, a small model is made and warmed up by imitation of the environment's
teacher. OpenSpiel's teacher plays random legal moves, so any better play after training comes from rewards.
"""

import dataclasses
import itertools
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from transformers.utils.logging import disable_progress_bar

from veritas_rl.checkpoints.assemble import merge_checkpoint
from veritas_rl.checkpoints.layout import ADAPTER
from veritas_rl.checkpoints.models import Base
from veritas_rl.composition import quoted
from veritas_rl.envs.custom_reward import CustomReward
from veritas_rl.envs.registry import prepared
from veritas_rl.envs.task import Task
from veritas_rl.errors import UserError
from veritas_rl.judging.held_out import Judgement, distinct, judge, judge_uniform
from veritas_rl.judging.report import cases_table, measure_of, percent, table_of
from veritas_rl.launch import small_model
from veritas_rl.launch.answering import player_of
from veritas_rl.launch.process import run_verl
from veritas_rl.launch.resume import trim
from veritas_rl.launch.run import Run
from veritas_rl.launch.tiny_model import build_tiny_model
from veritas_rl.launch.warmup import Lesson, Progress, warm_up
from veritas_rl.paths import to_type
from veritas_rl.players.language_model import load_language_model
from veritas_rl.progress import progress

UNIFORM, RAW, WARM = "uniform random legal player", "before", "after the warm-up"

THREADS = 2
"""The threads that warm up and judge a generated model. It is too small for more."""

Judgements = dict[str, dict[str, Judgement]]
"""Results by environment and by the name of the judged player."""


def run_pipeline(run: Run, console: Console) -> bool:
    """Make or load the model, judge it, train it, judge it again, and print the paths of all results.

    Args:
        run: A planned run whose folder exists. Models from before an interruption are reused.
        console: Where to print.

    Returns:
        Whether training is complete. If not, nothing is judged.

    Raises:
        UserError: The model does not fit, verl ended with an error, or training did not change the model.
    """
    if run.model is None:
        torch.set_num_threads(min(THREADS, run.hardware.cores))
    disable_progress_bar()  # transformers would draw a bar for each file
    console.print(f"logs and reports: {run.folder}", soft_wrap=True)
    if run.start is not None:
        again = "trainer.resume_mode=disable starts a new run"
        console.print(f"resuming from step {run.first_step} of {run.steps}, {run.start} ({again})", soft_wrap=True)
    judging = Judging(run, console)
    model = _starting_model(run, judging, console)
    if run.configuration.trainer.nnodes == 1 or run.model is None or Path(run.model).is_dir():
        # On several nodes each node has its own hub cache, so the hub id stays.
        run = dataclasses.replace(run, overrides=(*run.overrides, f"{run.model_key}={quoted(str(model))}"))
    if run.first_step < run.steps:
        run.prepare_start(console)
        _continue_logs(run)
        if not run_verl(run, console):
            console.print("stopped: type the same command to resume from the last checkpoint")
            return False
    checkpoint, trained = run.last_checkpoint(), None
    if checkpoint is not None and (run.makes_model or run.judges_result):
        trained = _merged(checkpoint, model, run, console)
    if trained is not None:
        judging.judge(f"after {run.kind}", trained)
        if run.judges_result:
            run.judge_by_games(trained, model, console)
    _report(run, judging.found, checkpoint, trained, console)
    return True


class Judging:
    """Judges models on the held-out tasks of a run, environment by environment.

    Args:
        run: The run.
        console: Where rates are printed.
    """

    def __init__(self, run: Run, console: Console) -> None:
        self._run, self._console = run, console
        self._custom_reward = CustomReward.read(run.configuration)
        self._tasks: dict[str, list[Task]] = {}
        for tasks, most in run.held_out():
            for task in distinct(tasks, most):
                self._tasks.setdefault(task.env, []).append(task)
        self.found: Judgements = {env: {} for env in self._tasks}
        for env, tasks in self._tasks.items():
            if (uniform := judge_uniform(tasks)) is not None:
                self.found[env][UNIFORM] = uniform
        if self._tasks:
            counts = " and ".join(f"{len(tasks)} held-out tasks of {env}" for env, tasks in self._tasks.items())
            seconds = run.judging_seconds()
            time = "" if seconds is None else f", each time about {max(1, round(seconds / 60))} min by forecast"
            console.print(f"judging by {counts}{time}; 95% intervals in brackets")

    def judge(self, name: str, folder: Path) -> None:
        """Let the model in a folder answer each task, and print its rates."""
        if not self._tasks:
            return
        settings = self._run.answering()
        dtype = getattr(torch, settings.dtype) if settings.dtype else None
        model, tokenizer = load_language_model(folder, dtype=dtype)
        with player_of(model, tokenizer, settings) as player:
            for env, tasks in self._tasks.items():
                answers = len(tasks) * settings.draws
                with progress(self._console, answers, 0, "answer", doing=f"judging {name}", of_replies=True):
                    found = judge(player, tasks, settings.draws, custom=self._custom_reward)
                self.found[env][name] = found
                of = f" ({env})" if len(self._tasks) > 1 else ""
                rates = f"{percent(found.legal_rate)} {found.answers}, {percent(found.optimal_rate)} {found.solved}"
                self._console.print(f"{name}{of}: {rates}")


def _starting_model(run: Run, judging: Judging, console: Console) -> Path:
    if run.model is not None:
        model = Base.find(run.model).folder
        run.check_model(model)  # before the judgement, which takes minutes
        judging.judge(RAW, model)
        return model
    model, tasks = run.folder / "model", run.lessons()
    for warning in small_model.warnings(tasks):
        console.print(warning, style="yellow", soft_wrap=True)
    if not model.exists():
        words = run.words()
        settings = run.configuration.veritas_rl
        made = settings.get("small_model") or {}
        if tasks:
            small_model.check_size(tasks, words, tokens=made["tokens"], answers=made["answers"])
        shape = {name: value for name, value in made.items() if name not in ("tokens", "answers", "threads")}
        build_tiny_model(model, settings.seed, run.context, words, **shape)
    judging.judge(RAW, model)
    if tasks:
        model = _warmed_up(model, tasks, run, console)
        judging.judge(WARM, model)
    run.check_model(model)
    return model


def _warmed_up(model: Path, tasks: Sequence[Task], run: Run, console: Console) -> Path:
    """Warm the model up by imitation of each environment's teacher, and print the result."""
    settings = run.configuration.veritas_rl
    output = run.folder / "warmed-up-model"
    if output.exists():
        return output
    count = min(len(tasks), settings.warm_up.lessons)
    asked = run.answering()
    with progress(console, count, 0, "lesson", doing="warm-up") as advance:
        lessons: list[Lesson] = []
        for index, task in enumerate(prepared(itertools.islice(tasks, count))):
            lessons += small_model.lessons_of(task, f"{settings.seed}/{index}")
            advance()
    if not lessons:
        raise UserError(
            "no task has a solution that a new model could imitate: name a trained one with AGENT_MODEL_REPO_ID=..., "
            "or set veritas_rl.warm_up=null"
        )
    exam = small_model.Exam(run.questions(), asked)
    done, measured = 0, ""
    with progress(console, 100, 0, "percent", doing="warm-up", said=lambda: measured) as advance:

        def show(now: Progress) -> None:
            nonlocal done, measured
            before, done = done, int(100 * now.share)
            advance(done - before)
            measured = "" if math.isnan(now.measured) else f"{now.measured:.0%} {exam.answers}"

        found = warm_up(
            model,
            output,
            lessons,
            **{name: value for name, value in settings.warm_up.items() if name != "lessons"},
            seed=settings.seed,
            measure=exam.share if exam.turns else None,
            on_step=show,
        )
    limits = {name: settings.warm_up[name] for name in ("steps", "tokens", "enough")}
    console.print(small_model.described(found, exam, **limits))
    return output


def _continue_logs(run: Run) -> None:
    """Remove metrics and curves of steps after the resumed checkpoint."""
    trim(run.metrics, run.first_step)
    if run.start is not None and "tensorboard" in run.configuration.trainer.logger:
        from torch.utils.tensorboard import SummaryWriter

        # The event that this writes makes TensorBoard hide older entries from this step on.
        SummaryWriter(run.folder / "tensorboard", purge_step=run.first_step + 1).close()


def _merged(checkpoint: Path, start: Path, run: Run, console: Console) -> Path | None:
    """Merge a checkpoint into a model folder and compare it with the start model; None if training changed nothing.

    Raises:
        UserError: Training changed nothing, and the run must end with a model folder.
    """
    folder = run.folder / f"trained-model-{checkpoint.name}"
    if folder.exists():
        return folder
    try:
        weights = merge_checkpoint(checkpoint, folder, str(start)).weights
    except UserError as error:
        if run.makes_model:
            raise
        console.print(f"no model folder was made from {checkpoint}: {error}", soft_wrap=True)
        return None
    if weights is not None:
        console.print(f"trained: {len(weights.differing)} of {weights.compared} tensors differ from the start")
    return folder


def _report(run: Run, judgements: Judgements, checkpoint: Path | None, trained: Path | None, console: Console) -> None:
    report: dict[str, Any] = {}
    for env, found in judgements.items():
        rates = compare(run.kind, env, found, console)
        report.update(rates if len(judgements) == 1 else {env: rates})
    (only,) = judgements.values() if len(judgements) == 1 else ({},)
    levels = {UNIFORM: only[UNIFORM].optimal_rate.mean} if UNIFORM in only else {}
    rows = run.summary(levels, report)
    path = run.folder / "report.json"
    path.write_text(json.dumps(report, indent=2) + "\n")
    console.print()
    for name, where in (
        *rows,
        ("checkpoint", checkpoint or "none: set trainer.save_freq to save some"),
        ("trained model", trained or "none"),
        *([("adapter", trained / ADAPTER)] if trained and (trained / ADAPTER).is_dir() else []),
        ("metrics", run.metrics),
        ("report", path),
        ("verl's log", run.log),
    ):
        console.print(f"{name:>16}  {where}", soft_wrap=True, highlight=False)
    console.print("\nNext:")
    for words, command in run.next_steps(trained):
        console.print(f"  {words}:\n    {to_type(command)}", markup=False, highlight=False, soft_wrap=True)


def compare(kind: str, env: str, found: Mapping[str, Judgement], console: Console) -> dict[str, Any]:
    """Print the table of an environment and the gain from training, and return the rates as plain values.

    Args:
        kind: As `Run.kind`.
        env: The environment.
        found: The judgements by player.
        console: Where to print.
    """
    rates: dict[str, Any] = {name: _rates(judgement) for name, judgement in found.items()}
    after = found.get(f"after {kind}")
    if after is not None:
        before = found[WARM] if WARM in found else found[RAW]
        classes = len(set(after.classes))
        console.print()
        console.print(table_of(found, f"{env}: {len(after.classes)} held-out tasks in {classes} equivalence classes"))
        rates |= _gains(after, before, console, f"{kind} added", measure_of(found), "gain")
        if UNIFORM in found:
            words = f"{kind} added, compared with the {UNIFORM},"
            rates |= _gains(after, found[UNIFORM], console, words, measure_of(found), "over random")
        if len(after.by_case()) > 1:
            rates["cases"] = _compare_cases(kind, found, console)
    return rates


def _compare_cases(kind: str, found: Mapping[str, Judgement], console: Console) -> dict[str, Any]:
    """Print the table of an environment's cases, and return the rates after training and the gains by case."""
    shown = {name: judgement for name, judgement in found.items() if name != RAW or WARM not in found}
    *earlier, after = (judgement.by_case() for judgement in shown.values())
    gains = {case: judged.gain_over(earlier[-1][case]) for case, judged in after.items()}
    players = {case: [judgements[case] for judgements in (*earlier, after)] for case in after}
    console.print()
    console.print(cases_table(shown, players, gains))
    return {
        case: {f"after {kind}": _rates(judged), "gain": dataclasses.asdict(gains[case])}
        for case, judged in after.items()
    }


def _rates(judgement: Judgement) -> dict[str, Any]:
    return {
        "legal": dataclasses.asdict(judgement.legal_rate),
        "optimal": dataclasses.asdict(judgement.optimal_rate),
        "value": dataclasses.asdict(judgement.mean_value),
        **({"custom reward": dataclasses.asdict(custom)} if (custom := judgement.mean_custom) else {}),
    }


def _gains(
    after: Judgement, before: Judgement, console: Console, words: str, measure: str, name: str
) -> dict[str, Any]:
    success, value = after.gain_over(before), after.value_gain_over(before)
    console.print(f"{words} {percent(success)} {measure}, {percent(value)} of value (paired by task).")
    return {name: dataclasses.asdict(success), f"value {name}": dataclasses.asdict(value)}
