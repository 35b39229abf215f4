"""What surrounds the training of a run: a model to begin with, and a judgement before and after.

On a machine without a GPU nobody has a model at hand, so one is made and warmed up: it imitates a player that chooses
among the legal moves at random, which teaches it to read a position and to answer, and nothing about playing well.
What it plays better afterwards, it learned from rewards.
"""

import dataclasses
import itertools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig
from rich.console import Console
from rich.progress import Progress

from veritas_rl.arena.positions import Judgement, distinct, judge, judge_uniform
from veritas_rl.arena.report import draw_learning_curve, percent, table_of
from veritas_rl.envs.base import Message, Task
from veritas_rl.envs.registry import get_environment
from veritas_rl.launch.configuration import catalogue_of
from veritas_rl.launch.progress import MetricsFile
from veritas_rl.launch.tiny_model import build_tiny_model
from veritas_rl.launch.warmup import warm_up
from veritas_rl.players.generation import GenerationEngine
from veritas_rl.players.language_model import LanguageModelPlayer, load_language_model
from veritas_rl.players.random import RandomPlayer
from veritas_rl.players.sampling import SamplingParams

if TYPE_CHECKING:
    from veritas_rl.launch.main import Run

UNIFORM, RAW, WARM, TRAINED = "uniform random legal player", "before", "after the warm-up", "after RL"


def travel(run: "Run", console: Console, train: Callable[["Run", Console], None]) -> None:
    """Make or take the model, judge it, train it, judge it again, and say where everything is.

    Args:
        run: A planned run whose folder exists.
        console: Where to tell.
        train: Runs verl to its end.
    """
    settings, path = run.configuration.veritas_rl, run.configuration.actor_rollout_ref.model.path
    judgements: dict[str, Judgement] = {}
    tasks = evaluation_tasks(run.configuration) if settings.evaluation else []

    def judged(name: str, folder: Path) -> None:
        if tasks:
            with console.status(f"judging the model on {len(tasks)} positions"):
                judgements[name] = judge_model(folder, tasks, run.configuration)

    if tasks:
        judgements[UNIFORM] = judge_uniform(tasks)
    if path is None:
        path = build_tiny_model(run.folder / "model", settings.seed)
        judged(RAW, path)
        if settings.warm_up:
            path = warmed_up(path, run, console)
            judged(WARM, path)
    else:
        judged(RAW, Path(path))
    run = dataclasses.replace(run, overrides=(*run.overrides, f"actor_rollout_ref.model.path={path}"))
    train(run, console)
    trained = Path(run.configuration.trainer.default_local_dir).absolute()
    folder = trained / f"global_step_{last_step(trained)}" / "actor"
    if tasks:
        judged(TRAINED, folder / "huggingface")
    tell(run, judgements, folder, console)


def evaluation_tasks(configuration: DictConfig) -> list[Task]:
    """The held-out positions: the first tasks of the validation split, each position once."""
    catalogue = catalogue_of(configuration, "val", reward_mode="outcome")
    return distinct(itertools.islice(catalogue, configuration.veritas_rl.evaluation.positions))


def judge_model(folder: Path, tasks: Sequence[Task], configuration: DictConfig) -> Judgement:
    """Let a model answer each task with its most likely reply."""
    model, tokenizer = load_language_model(folder)
    rollout = configuration.actor_rollout_ref.rollout
    engine = GenerationEngine(
        model,
        (tokenizer.eos_token_id,),
        tokenizer.pad_token_id,
        max_batch_size=rollout.max_num_seqs,
        max_model_len=rollout.prompt_length + rollout.response_length,
    )
    try:
        return judge(
            LanguageModelPlayer(engine, tokenizer, SamplingParams(rollout.response_length, temperature=0.0)), tasks
        )
    finally:
        engine.close()


def warmed_up(model: Path, run: "Run", console: Console) -> Path:
    """The model after imitating a random legal player on training positions."""
    settings = run.configuration.veritas_rl
    catalogue, examples = catalogue_of(run.configuration, "train"), []
    for index in range(settings.warm_up.steps * settings.warm_up.batch_size):
        examples.append(example(catalogue[index % len(catalogue)], f"{settings.seed}/{index}"))
    with Progress(console=console, transient=True) as progress:
        bar = progress.add_task("warming up: the answer format and the legal moves", total=settings.warm_up.steps)
        output = run.folder / "warmed-up-model"
        warm_up(
            model,
            output,
            examples,
            **settings.warm_up,
            seed=settings.seed,
            on_step=lambda step, steps, loss: progress.update(bar, completed=step),
        )
    return output


def example(task: Task, seed: str) -> tuple[list[Message], str]:
    """A position and what a random legal player answers to it."""
    (turn,) = get_environment(task.env).start(task).turns()
    return [dict(message) for message in turn.messages], RandomPlayer(seed).act([turn])[0].text


def last_step(checkpoints: Path) -> int:
    """The step of the newest whole checkpoint, from the tracker file that verl writes after it."""
    return int((checkpoints / "latest_checkpointed_iteration.txt").read_text())


def tell(run: "Run", judgements: dict[str, Judgement], checkpoint: Path, console: Console) -> None:
    """Print the table, draw the curve, write both down, and say what to type next."""
    picture, report = run.folder / "learning_curve.png", run.folder / "report.json"
    records = [(step, data) for step, data in MetricsFile(run.metrics).new() if "critic/score/mean" in data]
    names = {"reward": "critic/score/mean", "legal moves": "game/legal", "optimal moves": "game/success"}
    curves = {name: [float(data[key]) for _, data in records] for name, key in names.items()}
    levels = {UNIFORM: judgements[UNIFORM].optimal_rate().mean} if UNIFORM in judgements else {}
    draw_learning_curve(picture, [step for step, _ in records], curves, levels)
    written: dict[str, Any] = {
        name: {
            "legal": dataclasses.asdict(judgement.legal_rate()),
            "optimal": dataclasses.asdict(judgement.optimal_rate()),
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
        console.print(f"RL added {percent(gain)} optimal moves to what it started from (paired by position).")
    report.write_text(json.dumps(written, indent=2) + "\n")
    console.print()
    for name, where in (
        ("checkpoint", checkpoint),
        ("learning curve", picture),
        ("metrics", run.metrics),
        ("report", report),
        ("verl's log", run.log),
    ):
        console.print(f"{name:>15}  {where}", soft_wrap=True, highlight=False)
    console.print("\nNext: another game, on the same machine or on one with GPUs:", highlight=False)
    console.print('  GAME_TYPES="hex(board_size=5)" bash train/scripts/openspiel-ppo-trainer.sh', highlight=False)
