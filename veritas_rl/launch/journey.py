"""What surrounds the training of a run: a model to begin with, and a judgement before and after.

On a machine without a GPU nobody has a model at hand, so one is made and warmed up: it imitates a player that chooses
among the legal moves at random, which teaches it to read a position and to answer, and nothing about playing well.
What it plays better afterwards, it learned from rewards.
"""

import dataclasses
import itertools
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig
from rich.console import Console
from rich.progress import Progress
from transformers.utils.logging import disable_progress_bar

from veritas_rl.checkpoints.adapter import check_adapter
from veritas_rl.checkpoints.assemble import merge_checkpoint
from veritas_rl.checkpoints.layout import whole_checkpoints
from veritas_rl.checkpoints.models import Base
from veritas_rl.envs.base import Message
from veritas_rl.envs.mixture import parts_of
from veritas_rl.envs.openspiel.catalogue import Catalogue
from veritas_rl.envs.registry import get_environment, open_catalogue
from veritas_rl.envs.task import Task
from veritas_rl.errors import UserError
from veritas_rl.judging import evaluation_report
from veritas_rl.judging.evaluation import Settings, evaluate
from veritas_rl.judging.held_out import Judgement, distinct, judge, judge_uniform
from veritas_rl.judging.report import draw_learning_curve, measure_of, percent, table_of
from veritas_rl.launch.configuration import dataset_settings, tasks_of
from veritas_rl.launch.progress import MetricsFile
from veritas_rl.launch.resume import check_base, trim
from veritas_rl.launch.tiny_model import build_tiny_model
from veritas_rl.launch.variables import quoted
from veritas_rl.launch.warmup import warm_up
from veritas_rl.players.generation import GenerationEngine
from veritas_rl.players.language_model import LanguageModelPlayer, load_language_model
from veritas_rl.players.loading import ReplySettings
from veritas_rl.players.registry import make_bot
from veritas_rl.players.sampling import SamplingParams

if TYPE_CHECKING:
    from veritas_rl.launch.main import Run

UNIFORM, RAW, WARM, TRAINED = "uniform random legal player", "before", "after the warm-up", "after RL"


OF_OPPONENT = "[^/]+/vs_(.+)/value"
"""The metrics of games against one opponent."""


def travel(run: "Run", console: Console, train: Callable[["Run", Console], bool]) -> bool:
    """Make or take the model, judge it, train it, judge it again, and say where everything is.

    Args:
        run: A planned run whose folder exists. What it made before it was cut off is used again.
        console: Where to tell.
        train: Runs verl; whether it came to its end.

    Returns:
        Whether training came to its end; if not, nothing is judged.
    """
    settings, path = run.configuration.veritas_rl, run.configuration.actor_rollout_ref.model.path
    disable_progress_bar()  # transformers draws one for each file, between ours
    judgements: dict[str, Judgement] = {}
    episodes = settings.play == "episode"
    tasks = evaluation_tasks(run.configuration) if settings.evaluation and not episodes else []

    def judged(name: str, folder: Path) -> None:
        if tasks:
            judgements[name] = judge_model(folder, tasks, run.configuration)
            rates = judgements[name]
            optimal = f"{percent(rates.optimal_rate)} {measure_of({name: rates})}"
            console.print(f"{name}: {percent(rates.legal_rate)} legal moves, {optimal}")

    console.print(f"logs and reports: {run.folder}", soft_wrap=True)
    steps = run.configuration.trainer.total_training_steps
    if run.start is not None:
        anew = "trainer.resume_mode=disable starts anew"
        console.print(f"going on from step {run.first_step} of {steps}, {run.start} ({anew})", soft_wrap=True)
    if tasks:
        judgements[UNIFORM] = judge_uniform(tasks)
        console.print(f"judging by {len(tasks)} held-out positions; 95% intervals in brackets")
    if path is None:
        path = run.folder / "model"
        if not path.exists():
            build_tiny_model(path, settings.seed)
        judged(RAW, path)
        if settings.warm_up:
            path = warmed_up(path, run, console)
            judged(WARM, path)
    else:
        path = Base.find(path).folder
        adapter = run.configuration.actor_rollout_ref.model.lora_adapter_path
        if adapter is not None:
            check_adapter(Path(adapter), path)
        judged(RAW, path)
    if run.start is not None:
        check_base(run.start, path)
    if run.configuration.trainer.nnodes == 1:
        # Other nodes have folders of their own for what comes from the hub.
        run = dataclasses.replace(run, overrides=(*run.overrides, f"actor_rollout_ref.model.path={quoted(str(path))}"))
    if run.first_step < steps:
        continue_logs(run)
        if not train(run, console):
            console.print("stopped; the same command goes on from the last checkpoint")
            return False
    checkpoint = next(reversed(whole_checkpoints(run.checkpoints)), None)
    model = merged(checkpoint, run, console) if settings.evaluation and checkpoint is not None else None
    if model is not None:
        judged(TRAINED, model)
        if episodes:
            judge_by_games(model, path, run, console)
    tell(run, judgements, checkpoint, model, console)
    return True


def merged(checkpoint: Path, run: "Run", console: Console) -> Path | None:
    """The model folder of a checkpoint, compared with what training began from; None where nothing was trained."""
    folder = run.folder / f"trained-model-{checkpoint.name}"
    if not folder.exists():
        try:
            weights = merge_checkpoint(checkpoint, folder).weights
        except UserError as error:
            console.print(f"no model was made of {checkpoint}: {error}", soft_wrap=True)
            return None
        if weights is not None:
            console.print(f"trained: {len(weights.differing)} of {weights.compared} tensors differ from the start")
    return folder


def continue_logs(run: "Run") -> None:
    """Let metrics and curves end where the checkpoint is from which the run goes on."""
    trim(run.metrics, run.first_step)
    if run.start is not None and "tensorboard" in run.configuration.trainer.logger:
        from torch.utils.tensorboard import SummaryWriter

        # TensorBoard hides what was logged from this step on before the event that this writes.
        SummaryWriter(run.folder / "tensorboard", purge_step=run.first_step + 1).close()


def evaluation_tasks(configuration: DictConfig) -> list[Task]:
    """The held-out positions: tasks of the validation split, of every case, each position once."""
    return distinct(tasks_of(configuration, "val", single=True), configuration.veritas_rl.evaluation.positions)


def judge_model(folder: Path, tasks: Sequence[Task], configuration: DictConfig) -> Judgement:
    """Let a model answer each task, several times at the temperature at which it is trained."""
    model, tokenizer = load_language_model(folder)
    rollout = configuration.actor_rollout_ref.rollout
    engine = GenerationEngine(
        model,
        (tokenizer.eos_token_id,),
        tokenizer.pad_token_id,
        max_batch_size=rollout.max_num_seqs,
        max_model_len=rollout.prompt_length + rollout.response_length,
        seed=rollout.seed,
    )
    try:
        params = SamplingParams(rollout.response_length, temperature=rollout.temperature)
        return judge(LanguageModelPlayer(engine, tokenizer, params), tasks, configuration.veritas_rl.evaluation.draws)
    finally:
        engine.close()


def judge_by_games(model: Path, start: Path, run: "Run", console: Console) -> None:
    """Play the trained model and what it started from against bots, on the same deals, and tell how they compare."""
    (part,) = parts_of(dataset_settings(run.configuration))
    catalogue = open_catalogue(part.settings, "val")
    assert isinstance(catalogue, Catalogue)
    rollout, asked = run.configuration.actor_rollout_ref.rollout, run.configuration.veritas_rl.evaluation
    settings = Settings(
        checkpoint=str(model),
        compare=str(start),
        opponents=tuple(asked.opponents),
        games=asked.games,
        cases=",".join(catalogue.config.cases),
        seed=run.configuration.veritas_rl.seed,
        prompt=catalogue.config.prompt,
        max_moves=catalogue.config.max_moves,
        replies=ReplySettings(max_tokens=rollout.response_length, temperature=rollout.temperature),
    )
    folder = run.folder / "games"
    found = evaluate(settings, folder, console)
    evaluation_report.print_report(found, console)
    for file in evaluation_report.write(found, folder):
        console.print(f"{'games':>15}  {file}", soft_wrap=True, highlight=False)


def warmed_up(model: Path, run: "Run", console: Console) -> Path:
    """The model after imitating each environment's teacher on training tasks."""
    settings = run.configuration.veritas_rl
    output = run.folder / "warmed-up-model"
    if output.exists():
        return output
    tasks = itertools.cycle(tasks_of(run.configuration, "train", single=True))
    count = settings.warm_up.steps * settings.warm_up.batch_size
    # Another seed each time round, so that all moves of a position are seen.
    examples = [example(task, f"{settings.seed}/{index}") for index, task in enumerate(itertools.islice(tasks, count))]
    with Progress(console=console, transient=True) as progress:
        bar = progress.add_task("warming up: the answer format and the legal moves", total=settings.warm_up.steps)
        told = warm_up(
            model,
            output,
            examples,
            **settings.warm_up,
            seed=settings.seed,
            on_step=lambda step, steps, loss: progress.update(bar, completed=step),
        )
    console.print(f"warm-up: {told['steps']} updates in {told['seconds']:.0f} s, loss {told['loss']:.3f}")
    return output


def example(task: Task, seed: str) -> tuple[list[Message], str]:
    """A question and what the environment's teacher answers to it."""
    environment = get_environment(task.env)
    (turn,) = environment.start(task).turns()
    teacher = make_bot(environment.teacher, task.env, seed)
    return [dict(message) for message in turn.messages], teacher.act([turn])[0].text


def curve_names(play: str, records: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The metrics that the learning curve shows, by what they are called there.

    Args:
        play: "move" or "episode".
        records: The metrics of each step.
    """
    if play == "move":
        return {"reward": "critic/score/mean", "legal moves": "task/legal", "optimal moves": "task/success"}
    met = {match[1]: key for data in records for key in data if (match := re.fullmatch(OF_OPPONENT, key))}
    return {"games without a mistake": "task/legal", **{f"score against {who}": key for who, key in met.items()}}


def tell(
    run: "Run", judgements: dict[str, Judgement], checkpoint: Path | None, model: Path | None, console: Console
) -> None:
    """Print the table, draw the curve, write both down, and say what to type next."""
    picture, report = run.folder / "learning_curve.png", run.folder / "report.json"
    records = [(step, data) for step, data in MetricsFile(run.metrics).new() if "critic/score/mean" in data]
    names = curve_names(run.configuration.veritas_rl.play, [data for _, data in records])
    curves = {name: [float(data.get(key, math.nan)) for _, data in records] for name, key in names.items()}
    levels = {UNIFORM: judgements[UNIFORM].optimal_rate.mean} if UNIFORM in judgements else {}
    draw_learning_curve(picture, [step for step, _ in records], curves, levels)
    written: dict[str, Any] = {
        name: {
            "legal": dataclasses.asdict(judgement.legal_rate),
            "optimal": dataclasses.asdict(judgement.optimal_rate),
        }
        for name, judgement in judgements.items()
    }
    if TRAINED in judgements:
        start = WARM if WARM in judgements else RAW
        count, classes = len(judgements[TRAINED].classes), len(set(judgements[TRAINED].classes))
        console.print()
        console.print(table_of(judgements, f"{count} held-out positions in {classes} symmetry classes"))
        gain = judgements[TRAINED].gain_over(judgements[start])
        written["gain"] = dataclasses.asdict(gain)
        measure = measure_of(judgements)
        console.print(f"RL added {percent(gain)} {measure} to what it started from (paired by position).")
    report.write_text(json.dumps(written, indent=2) + "\n")
    console.print()
    shown = (("games to look at", run.games),) if run.games.exists() else ()
    for name, where in (
        *shown,
        ("checkpoint", checkpoint or "none: trainer.save_freq says when one is saved"),
        ("trained model", model or "bash train/scripts/merge-ppo.sh makes one of a checkpoint"),
        ("learning curve", picture),
        ("metrics", run.metrics),
        ("report", report),
        ("verl's log", run.log),
    ):
        console.print(f"{name:>16}  {where}", soft_wrap=True, highlight=False)
    console.print("\nNext: another game, on the same machine or on one with GPUs:", highlight=False)
    console.print('  GAME_TYPES="hex(board_size=5)" bash train/scripts/openspiel-ppo-trainer.sh', highlight=False)
