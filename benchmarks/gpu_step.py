"""The cost of a training step on a GPU, against the card's own rates, the plan's forecast, and verl's own example.

    python benchmarks/gpu_step.py                              # one H200, the shape of Qwen3-4B, random weights
    python benchmarks/gpu_step.py --device cpu --model tiny    # the same measurements on a CPU, in minutes

The script needs no weights and no network: it makes a model of the named shape with random weights and a byte
tokenizer. Such a model never ends a reply, so every reply is as long as the limit. The script prints

- the card: the rate at which it multiplies large matrices, with which the trainer's passes are compared;
- each pass of actor and critic, with rows packed and padded: seconds, tokens per second, the share of the matrix rate
  (MFU; recomputation is not counted as useful work), the peak memory against the plan's forecast;
- a step: reply tokens per second in the rollout, seconds to send the weights, the card's memory in use against the
  forecast, and the core seconds that games, prompts, opponents and rewards take;
- the same step of verl's own single-turn loop: the same model, prompts, lengths, batch and settings, with verl's own
  dataset, agent loop, reward loop and trainer.

Positional arguments are Hydra overrides for both loops. The fastest of several steps counts.
"""

import argparse
import dataclasses
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from statistics import fmean
from typing import Any

import pyarrow
import pyarrow.parquet
import torch
from omegaconf import DictConfig
from rich.console import Console
from rich.table import Table
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from veritas_rl.chat_template import prompt_ids
from veritas_rl.checkpoints.folder import save_model_folder
from veritas_rl.envs.base import Player, Reply, Turn, play
from veritas_rl.envs.registry import get_environment
from veritas_rl.envs.task import Task
from veritas_rl.launch import rl
from veritas_rl.launch.configuration import tasks_of
from veritas_rl.launch.hardware import this_machine
from veritas_rl.launch.tiny_model import build_tiny_model, byte_tokenizer
from veritas_rl.paths import ROOT
from veritas_rl.planning.compose import plan_of
from veritas_rl.planning.devices import DEVICES, GIB
from veritas_rl.planning.duration import forward_work
from veritas_rl.planning.models import config_of, find_shape
from veritas_rl.planning.plan import Plan
from veritas_rl.players.registry import is_bot, make_bot, stand_in
from veritas_rl.seeding import generator
from veritas_rl.verl_plugin.dataset import row_of

PASSES = Path(__file__).with_name("gpu_passes.py")
PADDED = ("actor_rollout_ref.model.use_remove_padding={}", "critic.model.use_remove_padding={}")
SMALL = (
    *("rollout=transformers", "lora=off", "data.max_prompt_length=512"),
    # Several micro-batches of a few rows each.
    *("actor_rollout_ref.actor.ppo_max_token_len_per_gpu=768", "critic.ppo_max_token_len_per_gpu=768"),
)
"""The settings on a CPU."""

GOAL_OURS, GOAL_VERL = 0.05, 1.05


def reward_of_length(data_source: str, solution_str: str, ground_truth: str, extra_info: Any = None) -> float:
    """The reward for verl's own loop, which takes almost no time."""
    return float(len(solution_str) % 2)


def matrix_rate(device: str) -> float:
    """FLOP per second in products of large square matrices: bf16 on a GPU, fp32 on a CPU."""
    side, dtype = (8192, torch.bfloat16) if device == "cuda" else (1024, torch.float32)
    left, right = (torch.randn(side, side, device=device, dtype=dtype) for _ in range(2))
    fastest = float("inf")
    for _ in range(20):
        started = time.perf_counter()
        torch.matmul(left, right)
        if device == "cuda":
            torch.cuda.synchronize()
        fastest = min(fastest, time.perf_counter() - started)
    return 2 * side**3 / fastest


def random_model(name: str, folder: Path, device: str, context: int) -> Path:
    """Make a folder with a model of a named shape and random weights; if `name` is a folder, return it unchanged."""
    if Path(name).is_dir():
        return Path(name)
    if name == "tiny":
        return build_tiny_model(folder, seed=0, context=context)
    shape = config_of(find_shape(name, ask_hub=False))
    tokenizer = byte_tokenizer()
    ends = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id, "bos_token_id": None}
    config = AutoConfig.for_model(**shape, **ends)
    with torch.device(device), torch.random.fork_rng():
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    return save_model_folder(model, tokenizer, folder)


def lengths_of(rows: int, prompt: int, reply: int, most: int) -> list[tuple[int, int]]:
    """Tokens of prompt and reply of each row, spread as in a game: some rows are several times as long as others."""
    draw = generator("gpu_step", rows, prompt, reply)
    prompts = [min(most, int(prompt * draw.lognormvariate(-0.1, 0.45)) + 1) for _ in range(rows)]
    return [(length, draw.randint(reply // 4, reply)) for length in prompts]


def passes(overrides: Sequence[str], role: str, lengths: Sequence[tuple[int, int]], device: str) -> dict[str, Any]:
    """Time the passes of a role in a separate process; see `gpu_passes.py`."""
    asked = {"overrides": list(overrides), "role": role, "lengths": lengths, "repeats": 3}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        group = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1])}
    ranks = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"}
    platform = {"VERL_PLATFORM": "cpu"} if device == "cpu" else {}
    done = subprocess.run(
        [sys.executable, PASSES, json.dumps(asked)],
        env={**os.environ, **ranks, **group, **platform},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"the passes of the {role} failed:\n{done.stderr[-4000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def forecast_of(plan: Plan, role: str, name: str, waste: float) -> int:
    """The bytes that torch allocates at the peak of a pass, according to the plan."""
    engine = plan.actor if role == "actor" else plan.critic
    assert engine is not None
    engine = dataclasses.replace(engine, padding=waste)
    parts = engine.update_parts() if name == "update" else engine.inference_parts(entropy=role == "actor")
    return sum(parts.values())


def needed_work(plan: Plan, role: str, name: str, lengths: Sequence[tuple[int, int]]) -> float:
    """The FLOP that a pass needs, without padding and recomputation."""
    whole = [prompt + reply for prompt, reply in lengths]
    seen = sum(length**2 for length in whole) / sum(whole)
    once = forward_work(plan.shape, sum(whole), seen, head=role == "actor")
    return once * (1 if name == "inference" else 3 - bool(plan.settings.actor.lora_rank))


def show_passes(plan: Plan, typed: Sequence[str], given: argparse.Namespace, rate: float) -> Iterator[dict[str, Any]]:
    """Time every pass, packed and padded."""
    lengths = lengths_of(given.rows, given.prompt, given.reply, plan.settings.rollout.prompt)
    tokens = sum(map(sum, lengths))
    for role in ("actor", "critic"):
        for packed in (True, False):
            run = run_of([*typed, *(text.format(str(packed).lower()) for text in PADDED)])
            measured = passes(run.overrides, role, lengths, given.device)
            planned = plan_of(run.configuration, plan.hardware, plan.device, plan.shape)
            for name in ("inference", "update"):
                seconds = measured[name]["seconds"]
                yield {
                    "pass": f"{role}, {name}",
                    "rows": "packed" if packed else "padded",
                    "seconds": seconds,
                    "tokens a second": tokens / seconds,
                    "mfu": needed_work(planned, role, name, lengths) / seconds / rate,
                    "waste": measured["waste"],
                    "peak": measured[name]["peak"],
                    "forecast": forecast_of(planned, role, name, measured["most_waste"]),
                }


def run_of(typed: Sequence[str]) -> rl.RlRun:
    """Plan a run as the launcher does, without starting it."""
    return rl.plan(typed, {}, this_machine(), datetime.now(), dry=True)


@contextmanager
def card_in_use(device: str) -> Iterator[list[int]]:
    """Collect the card's memory in use by all processes, in bytes, five times a second; collect nothing on a CPU."""
    seen: list[int] = []
    if device == "cpu":
        yield seen
        return
    query = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "-lms", "200"]
    watch = subprocess.Popen(query, stdout=subprocess.PIPE, text=True)

    def read() -> None:
        for line in watch.stdout or ():
            if line.strip().isdigit():
                seen.append(int(line) << 20)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        yield seen
    finally:
        watch.terminate()
        reader.join(timeout=5)


def trained(typed: Sequence[str], more: Sequence[str], device: str) -> tuple[dict[str, float], int]:
    """Train some steps through verl, without the launcher's work before and after.

    Args:
        typed: Overrides for the launcher.
        more: Additional overrides for verl only.
        device: "cuda" or "cpu".

    Returns:
        The least seconds of each part and the mean of every other metric, over all steps but the first; and the peak of
        the card's memory in use, in bytes.
    """
    made = run_of(typed)
    made.folder.mkdir(parents=True, exist_ok=True)
    with made.log.open("w") as log, card_in_use(device) as seen:
        done = subprocess.run(
            [*made.command(), *more],
            cwd=ROOT,
            env={**os.environ, **made.environment()},
            stdout=log,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if done.returncode:
        sys.exit(f"verl ended with exit code {done.returncode}; its log is {made.log}")
    records = [json.loads(line)["data"] for line in made.metrics.read_text().splitlines()]
    steps = [record for record in records if "timing_s/step" in record][1:]
    names = [name for name, value in steps[0].items() if isinstance(value, float | int)]
    taken = {name: [step[name] for step in steps if name in step] for name in names}
    least = {name: (min if name.startswith("timing_s/") else fmean)(values) for name, values in taken.items()}
    return least, max(seen, default=0)


def overrides_of_verl(configuration: DictConfig, rows: Path, device: str) -> list[str]:
    """Overrides that select verl's own single-turn dataset, agent loop, reward loop and trainer for the same run."""
    return [
        *("data.custom_cls.path=null", "data.custom_cls.name=null"),
        *(f"data.train_files={rows}", f"data.val_files={rows}"),
        "actor_rollout_ref.rollout.agent.default_agent_loop=single_turn_agent",
        "actor_rollout_ref.rollout.agent.agent_loop_manager_class=null",
        "trainer.v1.trainer_mode=sync",
        *("trainer.v1.sampler.custom_sampler.path=null", "trainer.v1.sampler.custom_sampler.name=null"),
        f"reward.custom_reward_function.path={Path(__file__).resolve()}",
        f"reward.custom_reward_function.name={reward_of_length.__name__}",
        f"reward.num_workers={1 if device == 'cpu' else 8}",
    ]


def write_rows(tasks: Sequence[Task], file: Path) -> Path:
    """Write the prompts of tasks in the format of verl's own dataset; return the file."""
    rows = [row_of(task, index) for index, task in enumerate(tasks)]
    columns = {
        "data_source": [row["data_source"] for row in rows],
        "prompt": [[*get_environment(task.env).start(task).turns()[0].messages] for task in tasks],
        "reward_model": [row["reward_model"] for row in rows],
        "extra_info": [{"index": row["index"]} for row in rows],
    }
    pyarrow.parquet.write_table(pyarrow.table(columns), file)
    return file


class Filler:
    """A player that tokenizes every prompt as the rollout does, and replies immediately with filler of full length."""

    def __init__(self, tokenizer: Any, tokens: int) -> None:
        self._tokenizer = tokenizer
        self._reply = tokenizer.decode([100] * tokens)

    def act(self, turns: Sequence[Turn]) -> list[Reply]:
        for turn in turns:
            prompt_ids(self._tokenizer, turn.messages)
        # The reply ends with a legal answer if answers can be listed, so that rewards are computed.
        return [Reply(f"{self._reply}{turn.answers[0] if turn.answers else ''}") for turn in turns]


def own_seconds(tasks: Sequence[Task], tokenizer: Any, tokens: int) -> float:
    """Seconds that games, prompts, opponents and rewards of tasks take, one task after the other."""
    filler = Filler(tokenizer, tokens)
    started = time.perf_counter()
    for task in tasks:
        environment, opponent = get_environment(task.env), stand_in(task.manner.opponent, task.env, task.case)
        seats: dict[int, Player] = dict.fromkeys(range(environment.players_of(task)), filler)
        if is_bot(opponent, task.env):
            seats |= {seat: make_bot(opponent, task.env) for seat in seats if seat != task.manner.seat}
        play([environment.start(task)], seats)
    return time.perf_counter() - started


def show(console: Console, title: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Print rows, which have equal keys, as a table."""
    table = Table(title=title, title_justify="left")
    for index, name in enumerate(rows[0]):
        table.add_column(name, justify="left" if index == 0 else "right")
    for row in rows:
        table.add_row(*(_shown(name, value) for name, value in row.items()))
    console.print(table, highlight=False)


def _shown(name: str, value: Any) -> str:
    if name in ("peak", "forecast"):
        return f"{value / GIB:.2f} GiB"
    if name == "mfu":
        return f"{value:.1%}"
    return value if isinstance(value, str) else f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


def step_of(plan: Plan, metrics: Mapping[str, float], card: int, own: float) -> list[tuple[str, str]]:
    """The costs of a step through this package's loop, as rows of a name and a value."""
    settings, step = plan.settings, metrics["timing_s/step"]
    tokens = metrics["response_length/mean"] * settings.prompts * settings.samples
    rows = [
        ("seconds of a step", f"{step:.2f}"),
        *((name, f"{metrics[key]:.2f}") for name, key in PARTS.items() if key in metrics),
        ("tokens of replies a second in the rollout", f"{tokens / metrics['timing_s/gen']:,.0f}"),
        ("seconds to send the weights", f"{metrics['timing_s/update_weights']:.2f}"),
        (
            "games, prompts, opponents, rewards: seconds of one core",
            f"{own:.2f}, {own / step:.1%} of a step (goal: {GOAL_OURS:.0%})",
        ),
    ]
    if card:
        forecast = plan.peak.total
        rows.append(("card in use at most", f"{card / GIB:.1f} GiB, forecast {forecast / GIB:.1f} ({plan.peak.name})"))
    return rows


PARTS = {
    "  rollout": "timing_s/gen",
    "  old log-probabilities": "timing_s/old_log_prob",
    "  values": "timing_s/values",
    "  update of the critic": "timing_s/update_critic",
    "  update of the actor": "timing_s/update_actor",
}
"""The parts of a step, and verl's metric of each part's seconds."""


def parse() -> argparse.Namespace:
    """Parse the command line, and fill in the defaults of the device."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--device", choices=("cuda", "cpu"), default="cuda")
    add("--model", default="Qwen/Qwen3-4B-Instruct-2507", help="a hub id of a known shape, a folder, or tiny")
    add("--hardware", help="the hardware group; default: h200x1, or cpu with --device cpu")
    add("--game", default="connect_four", help="the game; default: connect_four, whose prompts suit a byte tokenizer")
    add("--prompts", type=int, help="number of tasks of a step; default: 256, or 16 on a CPU")
    add("--prompt", type=int, help="mean number of tokens of a prompt in the passes; default: 522, or 64 on a CPU")
    add("--reply", type=int, help="maximum number of tokens of a reply; default: 1024, or 16 on a CPU")
    add("--rows", type=int, help="number of rows of a pass; default: 64, or 16 on a CPU")
    add("--steps", type=int, default=3, help="number of steps of a run; the first step is not counted; default: 3")
    add("--json", type=Path, help="a JSON file for all results")
    add("--only", choices=("passes", "steps"), help="measure only the trainer's passes, or only whole steps")
    add("overrides", nargs="*", help="Hydra overrides, such as algorithm=grpo")
    given = parser.parse_intermixed_args()
    small = given.device == "cpu"
    defaults = {"prompts": (256, 16), "prompt": (522, 64), "reply": (1024, 16), "rows": (64, 16)}
    for name, (large, tiny) in defaults.items():
        if getattr(given, name) is None:
            setattr(given, name, tiny if small else large)
    given.hardware = given.hardware or ("cpu" if small else "h200x1")
    return given


def main() -> None:
    """The command line."""
    given, console = parse(), Console(width=140)
    found: dict[str, Any] = {"when": datetime.now().isoformat(timespec="seconds"), "torch": torch.__version__}
    with tempfile.TemporaryDirectory() as place:
        model = random_model(given.model, Path(place) / "model", given.device, 4096)
        typed = [
            *(f"hardware={given.hardware}", f"actor_rollout_ref.model.path={model}"),
            *(SMALL if given.device == "cpu" else []),
            *(f"data.train_batch_size={given.prompts}", f"data.max_response_length={given.reply}"),
            *(f"data.custom_cls.config.adapter_config.cases={given.game}", "data.custom_cls.config.curriculum=null"),
            *("trainer.save_freq=-1", "trainer.test_freq=-1", "trainer.val_before_train=false"),
            *(f"trainer.total_training_steps={given.steps}", "trainer.critic_warmup=0", "veritas_rl.evaluation=null"),
            *given.overrides,
        ]
        configuration = run_of(typed).configuration
        device = DEVICES["h200"] if given.device == "cuda" else None
        if device is not None:
            properties = torch.cuda.get_device_properties(0)
            device = dataclasses.replace(device, name=properties.name, memory=properties.total_memory)
        plan = plan_of(configuration, given.hardware, device, find_shape(str(model), ask_hub=False))
        rate = matrix_rate(given.device)
        found |= {"device": plan.device.name, "matrix_rate": rate, "parameters": plan.shape.parameters()}
        console.print(f"{plan.device.name}: {rate / 1e12:.3f} TFLOP/s in matrix products, torch {torch.__version__}")
        console.print(f"{given.model}: {plan.shape.parameters():,} parameters, {given.rows} rows, random weights")
        if given.device == "cuda":
            torch.cuda.empty_cache()
        if given.only != "steps":
            found["passes"] = list(show_passes(plan, typed, given, rate))
            show(console, "Passes of the trainer", found["passes"])
        if given.only != "passes":
            found["step"] = measure_steps(console, plan, typed, configuration, Path(place), given)
    if given.json:
        given.json.write_text(json.dumps(found, indent=1))


def measure_steps(
    console: Console,
    plan: Plan,
    typed: Sequence[str],
    configuration: DictConfig,
    place: Path,
    given: argparse.Namespace,
) -> dict[str, Any]:
    """Train through this package's loop and through verl's own loop, print both, and return their metrics."""
    tasks = list(tasks_of(configuration, "train")[: given.prompts * given.steps])
    samples = configuration.actor_rollout_ref.rollout.n
    tokenizer = AutoTokenizer.from_pretrained(configuration.actor_rollout_ref.model.path)
    own = samples * own_seconds(tasks[: given.prompts], tokenizer, given.reply)
    ours, card = trained([*typed, f"trainer.default_local_dir={place}/ours"], [], given.device)
    for name, value in step_of(plan, ours, card, own):
        console.print(f"{name:>58}  {value}", highlight=False)
    found: dict[str, Any] = {"ours": ours, "card": card, "own_seconds": own, "forecast": plan.peak.total}
    if plan.settings.episodes:
        return found
    rows = write_rows(tasks, place / "prompts.parquet")
    more = overrides_of_verl(configuration, rows, given.device)
    theirs, _ = trained([*typed, f"trainer.default_local_dir={place}/theirs"], more, given.device)
    ratio = ours["timing_s/step"] / theirs["timing_s/step"]
    said = f"{theirs['timing_s/step']:.2f}, ours is {ratio:.2f} times it (goal: at most {GOAL_VERL})"
    console.print(f"{'seconds of a step of the single-turn example of verl':>58}  {said}", highlight=False)
    return {**found, "theirs": theirs, "ratio": ratio}


if __name__ == "__main__":
    main()
