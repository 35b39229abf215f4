"""What surrounds supervised fine-tuning: a model to begin with, a judgement before and after, and a folder for RL."""

import dataclasses
import json
import os
import re
import signal
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from transformers import AutoTokenizer
from transformers.utils.logging import disable_progress_bar

from veritas_rl.checkpoints.assemble import merge_checkpoint
from veritas_rl.checkpoints.layout import step_folder
from veritas_rl.checkpoints.models import Base
from veritas_rl.envs.mixture import open_tasks
from veritas_rl.envs.task import Task
from veritas_rl.errors import UserError
from veritas_rl.judging.held_out import Judgement, distinct, judge, judge_uniform
from veritas_rl.judging.report import measure_of, percent, table_of
from veritas_rl.launch.journey import UNIFORM
from veritas_rl.launch.main import LOG_TAIL_LINES, die_with_parent, end
from veritas_rl.launch.progress import MetricsFile, watch
from veritas_rl.launch.resume import trim
from veritas_rl.launch.sft import SftRun
from veritas_rl.launch.sft_data import check_lengths
from veritas_rl.launch.tiny_model import build_tiny_model
from veritas_rl.launch.variables import quoted
from veritas_rl.paths import ROOT
from veritas_rl.players.generation import GenerationEngine
from veritas_rl.players.language_model import LanguageModelPlayer, load_language_model
from veritas_rl.players.sampling import SamplingParams

TORCHRUN_TELLS = re.compile(r"torch/distributed/elastic/.*\bfailed \(exitcode")
ERROR = re.compile(r"(?:\[rank\d+\]: *)?((?:\w+\.)*\w*(?:Error|Exception)\b.*)")

BEFORE, AFTER = "before", "after SFT"

TASKS_PER_CASE = 4096
"""Validation tasks of each case from which the held-out positions are taken."""


def travel(run: SftRun, console: Console) -> None:
    """Make or take the model, judge it, train it, make a model folder of the result, and say where everything is.

    Args:
        run: A planned run whose folder exists. What it made before it was cut off is used again.
        console: Where to tell.

    Raises:
        UserError: A row is too long, verl ended with an error, or nothing was learned.
    """
    configuration = run.configuration
    disable_progress_bar()  # transformers draws one for each file, between ours
    console.print(f"logs and reports: {run.folder}", soft_wrap=True)
    steps = configuration.trainer.total_training_steps
    if run.start is not None:
        anew = "trainer.resume_mode=disable starts anew"
        console.print(f"going on from step {run.first_step} of {steps}, {run.start} ({anew})", soft_wrap=True)
    path = configuration.model.path
    if path is None:
        path = run.folder / "model"
        if not path.exists():
            build_tiny_model(path, configuration.veritas_rl.seed)
    else:
        path = Base.find(path).folder
    if configuration.data.truncation == "error":
        check_lengths(run.data, AutoTokenizer.from_pretrained(path), configuration.data.max_length)
    judgements: dict[str, Judgement] = {}
    tasks = evaluation_tasks(run)
    if tasks:
        judgements = {UNIFORM: judge_uniform(tasks), BEFORE: judge_model(path, tasks, run)}
        console.print(f"judging by {len(tasks)} held-out positions; 95% intervals in brackets")
        console.print(f"{BEFORE}: {_rates(judgements[BEFORE])}")
    run = dataclasses.replace(run, overrides=(*run.overrides, f"model.path={quoted(str(path))}"))
    if run.first_step < steps:
        trim(run.metrics, run.first_step)
        train(run, console)
    checkpoint = step_folder(run.checkpoints, steps)
    folder = run.folder / f"trained-model-{checkpoint.name}"
    if not folder.exists():
        weights = merge_checkpoint(checkpoint, folder, str(path)).weights
        if weights is not None:
            console.print(f"trained: {len(weights.differing)} of {weights.compared} tensors differ from the start")
    if tasks:
        judgements[AFTER] = judge_model(folder, tasks, run)
    tell(run, judgements, checkpoint, folder, console)


def train(run: SftRun, console: Console) -> None:
    """Run verl to its end, with a live bar.

    Raises:
        UserError: verl ended with an error, and the message says where its log is.
    """
    with run.log.open("ab") as log:
        process = subprocess.Popen(
            run.command(),
            cwd=ROOT,
            env={**os.environ, **run.environment()},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=die_with_parent,
        )
        try:
            steps = run.configuration.trainer.total_training_steps
            code = watch(process, run.log, run.metrics, steps, console, run.first_step, told=losses())
        finally:
            # A second Ctrl-C may not leave ranks behind.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            end(process)
            signal.signal(signal.SIGINT, signal.default_int_handler)
    if code:
        raise UserError(cause(run.log, code, console))


def cause(log: Path, code: int, console: Console) -> str:
    """What ended verl, with the end of its log printed; without what torchrun adds, which never says why."""
    lines = log.read_text(errors="replace").splitlines()
    added = [number for number, line in enumerate(lines) if TORCHRUN_TELLS.search(line)]
    lines = lines[: added[-1]] if added else lines
    console.print("\n".join(lines[-LOG_TAIL_LINES:]), markup=False, highlight=False)
    errors = [found.group(1) for line in lines[-LOG_TAIL_LINES:] if (found := ERROR.match(line))]
    # Each rank tells of the same.
    why = "; ".join(dict.fromkeys(errors)) or f"exit code {code}"
    return f"verl ended with {why}: its log is {log}"


def losses() -> Callable[[Mapping[str, Any]], str | None]:
    """Says of a step's metrics the loss of the batch and the last that was measured on val_files."""
    last = ""

    def told(data: Mapping[str, Any]) -> str | None:
        nonlocal last
        if "val/loss" in data:
            last = f"  val {data['val/loss']:.3f}"
        return f"loss {data['train/loss']:.3f}{last}" if "train/loss" in data else None

    return told


def evaluation_tasks(run: SftRun) -> list[Task]:
    """Held-out positions of the games in the training rows, each once; none where nothing is judged.

    Rows that name no task, as those of converted JSONL, are not judged.
    """
    settings = run.configuration.veritas_rl
    if settings.evaluation is None:
        return []
    rows = [row for row in run.data.column("extra_info") if row and {"env", "case", "prompt", "seed"} <= row.keys()]
    chosen: list[Task] = []
    kinds = sorted({(row["env"], row["prompt"], row["seed"]) for row in rows})
    for env, prompt, seed in kinds:
        config = {
            "cases": sorted(
                {row["case"] for row in rows if (row["env"], row["prompt"], row["seed"]) == (env, prompt, seed)}
            ),
            "prompt": prompt,
            "seed": seed,
            "num_tasks_per_case": TASKS_PER_CASE,
        }
        tasks = open_tasks({"env": env, "adapter_config": config}, "val", settings.seed, "launch", single=True)
        chosen += distinct(tasks, settings.evaluation.positions // len(kinds))
    return chosen


def judge_model(folder: Path, tasks: list[Task], run: SftRun) -> Judgement:
    """Let a model answer each task, at temperature 1."""
    settings = run.configuration.veritas_rl
    model, tokenizer = load_language_model(folder)
    engine = GenerationEngine(
        model,
        (tokenizer.eos_token_id,),
        tokenizer.pad_token_id,
        max_batch_size=512,
        max_model_len=run.configuration.data.max_length,
        seed=settings.seed,
    )
    try:
        params = SamplingParams(settings.evaluation.response_length, temperature=1.0)
        return judge(LanguageModelPlayer(engine, tokenizer, params), tasks, settings.evaluation.draws)
    finally:
        engine.close()


def _rates(judgement: Judgement) -> str:
    optimal = f"{percent(judgement.optimal_rate)} {measure_of({'': judgement})}"
    return f"{percent(judgement.legal_rate)} legal moves, {optimal}"


def tell(run: SftRun, judgements: dict[str, Judgement], checkpoint: Path, model: Path, console: Console) -> None:
    """Print the table, write it down, and say what to type next."""
    report = run.folder / "report.json"
    written: dict[str, Any] = {
        name: {
            "legal": dataclasses.asdict(judgement.legal_rate),
            "optimal": dataclasses.asdict(judgement.optimal_rate),
        }
        for name, judgement in judgements.items()
    }
    if judgements:
        count, classes = len(judgements[AFTER].classes), len(set(judgements[AFTER].classes))
        console.print()
        console.print(table_of(judgements, f"{count} held-out positions in {classes} symmetry classes"))
        gain = judgements[AFTER].gain_over(judgements[BEFORE])
        written["gain"] = dataclasses.asdict(gain)
        console.print(f"SFT added {percent(gain)} {measure_of(judgements)} (paired by position).")
    last = {key: value for _, data in MetricsFile(run.metrics).new() for key, value in data.items() if "loss" in key}
    written["losses"] = last
    report.write_text(json.dumps(written, indent=2) + "\n")
    console.print()
    for name, where in (
        ("losses", ", ".join(f"{key} {value:.4f}" for key, value in sorted(last.items()))),
        ("checkpoint", checkpoint),
        ("trained model", model),
        ("metrics", run.metrics),
        ("report", report),
        ("verl's log", run.log),
    ):
        console.print(f"{name:>15}  {where}", soft_wrap=True, highlight=False)
    console.print("\nNext: reinforcement learning from there:", highlight=False)
    begin = f"  AGENT_MODEL_REPO_ID={model} bash train/scripts/openspiel-ppo-trainer.sh"
    console.print(begin, highlight=False, soft_wrap=True)
