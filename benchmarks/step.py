"""The overhead of verl over the arithmetic of a training step on a CPU, and over the start of a run.

    python benchmarks/step.py [--steps 16]

The script runs the default training for some steps through verl. Then it repeats the work of one step in one plain
process: it generates the replies to as many tasks of the same kind, computes the critic's values, and makes the same
updates with plain torch. It prints

- the seconds of a step through verl beyond those of the plain process,
- the update of the actor through verl, as a multiple of the plain update,
- the time from launching verl to the end of its first step, as a multiple of a bare `import verl`.

Through verl, too, the updates of critic and actor follow one another (VERITAS_RL_CPU_PATCHES=-separate_critic).
The fastest of several measurements counts, because other work on a shared machine slows the others. Three runs are
started, two of them for a single step.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import torch
from rich.console import Console
from rich.table import Table
from transformers import AutoConfig, AutoModelForTokenClassification

from veritas_rl.chat_template import prompt_ids
from veritas_rl.envs.registry import get_environment, task_of
from veritas_rl.launch.configuration import compose_configuration, mini_batch_overrides
from veritas_rl.paths import ROOT
from veritas_rl.players.generation import GenerationEngine
from veritas_rl.players.language_model import load_language_model
from veritas_rl.players.sampling import Completion, SamplingParams
from veritas_rl.verl_plugin.cpu.switch import SEPARATE_CRITIC, VARIABLE
from veritas_rl.verl_plugin.dataset import DynamicEnvDataset


def seconds(work: Callable[[], object]) -> float:
    """The seconds that one call takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def trained(folder: Path, steps: int, *overrides: str, **variables: str) -> tuple[list[dict[str, float]], Path, float]:
    """Train through verl.

    Args:
        folder: A new folder for the run's checkpoints.
        steps: The number of steps.
        overrides: Hydra overrides.
        variables: Additional environment variables.

    Returns:
        The metrics of each step, the folder of the warmed-up model, and the seconds from launching verl to the end of
        its first step.
    """
    mark = f"trainer.default_local_dir={folder}"
    process = subprocess.Popen(
        [
            *("bash", "train/scripts/openspiel-ppo-trainer.sh", mark),
            *(f"trainer.total_training_steps={steps}", "trainer.critic_warmup=0", "trainer.save_freq=-1"),
            *("veritas_rl.evaluation=null", *overrides),
        ],
        cwd=ROOT,
        env={**os.environ, **variables},
        stdout=subprocess.DEVNULL,
    )
    launched = first = None
    logs = None
    while process.poll() is None:
        if logs is None and (folder / "run.json").exists():
            logs = Path(json.loads((folder / "run.json").read_text())["folder"])
        if launched is None:
            launched = next(
                (
                    found.info["create_time"]
                    for found in psutil.process_iter(["cmdline", "create_time"])
                    if {"verl.trainer.main_ppo", mark} <= set(found.info["cmdline"] or [])
                ),
                None,
            )
        metrics = logs / "metrics.jsonl" if logs else None
        if first is None and metrics and metrics.exists() and metrics.stat().st_size:
            first = time.time()
        time.sleep(0.05)
    if process.returncode or logs is None or launched is None or first is None:
        sys.exit("the training failed; its output is above")
    records = [json.loads(line)["data"] for line in (logs / "metrics.jsonl").read_text().splitlines()]
    return records, logs / "warmed-up-model", first - launched


class Plain:
    """The work of a step in this process, with plain torch.

    Args:
        model: The folder of the model.
        configuration: The configuration of the training.
    """

    def __init__(self, model: Path, configuration: Any) -> None:
        self.settings = configuration
        self.actor, self.tokenizer = load_language_model(model)
        config = AutoConfig.from_pretrained(model, num_labels=1)
        self.critic = AutoModelForTokenClassification.from_pretrained(model, config=config)
        self.actor_optimizer = torch.optim.AdamW(self.actor.parameters(), lr=1e-5)
        self.critic_optimizer = torch.optim.AdamW(self.critic.parameters(), lr=1e-5)
        rollout = configuration.actor_rollout_ref.rollout
        server, _ = load_language_model(model)
        self.params = SamplingParams(rollout.response_length, temperature=1.0)
        self.engine = GenerationEngine(
            server,
            (self.tokenizer.eos_token_id,),
            self.tokenizer.pad_token_id,
            max_batch_size=rollout.max_num_seqs,
            max_model_len=rollout.prompt_length + rollout.response_length,
        )
        data = configuration.data
        rows = DynamicEnvDataset("train", None, data)
        tasks = [task_of(rows[index]["extra_info"]) for index in range(data.train_batch_size)]
        turns = [get_environment(task.env).start(task).turns()[0] for task in tasks]
        self.prompts = [prompt_ids(self.tokenizer, turn.messages) for turn in turns]

    def measure(self) -> dict[str, float]:
        """The seconds of each part of a step."""
        replies: list[Completion] = []

        def generate() -> None:
            replies.extend(self.engine.generate([(prompt, self.params) for prompt in self.prompts]))

        took = {"generation": seconds(generate)}
        rows = [[*prompt, *reply.token_ids] for prompt, reply in zip(self.prompts, replies, strict=True)]
        width = max(map(len, rows))
        ids = torch.tensor([row + [self.tokenizer.pad_token_id] * (width - len(row)) for row in rows])
        learned = torch.zeros(len(rows), width)
        old = torch.zeros(len(rows), width)
        for index, (prompt, reply) in enumerate(zip(self.prompts, replies, strict=True)):
            span = slice(len(prompt) - 1, len(rows[index]) - 1)
            learned[index, span] = 1.0
            old[index, span] = torch.tensor(reply.logprobs)
        advantages = torch.randn(len(rows), 1)

        @torch.no_grad()
        def values() -> None:
            self.critic(input_ids=ids, use_cache=False)

        def parts(learner: Any) -> Iterator[tuple[torch.Tensor, ...]]:
            copies = self.settings.actor_rollout_ref.rollout.n
            for _ in range(learner.ppo_epochs):
                yield from zip(
                    *(column.split(learner.ppo_mini_batch_size * copies) for column in (ids, learned, old, advantages)),
                    strict=True,
                )

        def update_critic() -> None:
            for tokens, mask, _, target in parts(self.settings.critic):
                predicted = self.critic(input_ids=tokens, use_cache=False).logits[:, :, 0]
                loss = ((predicted - target) ** 2 * mask).sum() / mask.sum()
                self._step(loss, self.critic, self.critic_optimizer)

        def update_actor() -> None:
            for tokens, mask, before, advantage in parts(self.settings.actor_rollout_ref.actor):
                every = self.actor(input_ids=tokens, use_cache=False).logits[:, :-1].log_softmax(dim=-1)
                new = every.gather(-1, tokens[:, 1:, None])[:, :, 0]
                ratio = ((new - before[:, :-1]) * mask[:, :-1]).exp()
                gain = torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage)
                entropy = -(every.exp() * every).sum(dim=-1)
                loss = -((gain + 0.01 * entropy) * mask[:, :-1]).sum() / mask.sum()
                self._step(loss, self.actor, self.actor_optimizer)

        for name, work in (("values", values), ("update_critic", update_critic), ("update_actor", update_actor)):
            took[name] = seconds(work)
        return took

    @staticmethod
    def _step(loss: torch.Tensor, model: Any, optimizer: torch.optim.Optimizer) -> None:
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=16)
    steps = parser.parse_args().steps
    environment = {**os.environ, "VERL_PLATFORM": "cpu"}
    bare = min(
        seconds(lambda: subprocess.run([sys.executable, "-W", "ignore", "-c", "import verl"], env=environment))
        for _ in range(3)
    )
    with tempfile.TemporaryDirectory() as folder:
        records, model, start = trained(Path(folder) / "checkpoints", steps, **{VARIABLE: f"-{SEPARATE_CRITIC}"})
        for name in ("second", "third"):
            start = min(start, trained(Path(folder) / name, 1, "veritas_rl.warm_up=null")[2])
    # The first step warms caches, through verl and in the plain process.
    through = {
        name: min(record[f"timing_s/{name}"] for record in records[1:])
        for name in ("step", "gen", "values", "update_critic", "update_actor")
    }
    settings = ["hardware=cpu", "start=made", "lora=off", "rollout=transformers"]
    settings += mini_batch_overrides(compose_configuration(settings), settings)
    configuration = compose_configuration(settings)
    plain = Plain(model, configuration)
    plain.measure()
    rounds = [plain.measure() for _ in range(10)]
    alone = {name: min(took[name] for took in rounds) for name in rounds[0]}
    total = min(sum(took.values()) for took in rounds)

    table = Table(title="Seconds of a training step, the fastest")
    for column in ("part", "through verl", "plain torch", "ratio"):
        table.add_column(column, justify="left" if column == "part" else "right")
    pairs = {"generation": "gen"} | {name: name for name in ("values", "update_critic", "update_actor")}
    for name, theirs in pairs.items():
        table.add_row(
            name, f"{through[theirs]:.2f}", f"{alone[name]:.2f}", f"{through[theirs] / max(alone[name], 1e-9):.2f}"
        )
    table.add_row("the whole step", f"{through['step']:.2f}", f"{total:.2f}", f"{through['step'] / total:.2f}")
    console = Console()
    console.print(table)
    console.print(f"seconds of a step beyond the plain process: {through['step'] - total:.2f}")
    console.print(f"update of the actor against plain torch: {through['update_actor'] / alone['update_actor']:.2f}")
    console.print(f"first step after {start:.1f} s, import verl {bare:.1f} s: {start / bare:.1f} times")


if __name__ == "__main__":
    main()
