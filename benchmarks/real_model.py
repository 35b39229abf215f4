"""A step of GRPO on a pretrained model on a CPU: with shared prompts, without them, in fp32, and in plain torch.

    python benchmarks/real_model.py [--steps 5] [--prompt 40,245] [--reply 7]

A step is what a run of `start=pretrained` does with 8 prompts and 8 replies each: the replies are generated, the old
log-probabilities are computed, and two mini-batches update the adapters. verl's worker makes the passes without Ray.
Each way has a process of its own, as in a run. The ways alternate, and the script prints the median of each with its
least and most, and ratios:

- a step with a prompt for each reply, over one in which a group shares its prompt;
- a step in fp32, over one in bf16;
- the passes with torch's fused attention alone, over those in which short sequences have plain products;
- the passes and the rollout with PEFT's own forward pass of an adapter, over this package's;
- the passes through verl, over the same passes in plain torch, which shares prompts too;
- tokens per second of the rollout's engine, over those of a padded `model.generate`.

A prompt of tic-tac-toe has 40 tokens if it is brief and 245 if it is full, and a reply has 7. `--memory` trains two
steps with the launcher instead, and prints the largest proportional set size (PSS) of the run's processes.
"""

import argparse
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from statistics import median
from typing import Any

import psutil
import torch
from apart import Apart
from peft import LoraConfig, get_peft_model, inject_adapter_in_model
from rich.console import Console
from rich.table import Table
from transformers import AutoModelForCausalLM

from veritas_rl.checkpoints.packaged import provide
from veritas_rl.launch.hardware import this_machine
from veritas_rl.launch.rl import plan
from veritas_rl.paths import ROOT
from veritas_rl.players.generation import GenerationEngine
from veritas_rl.players.processor import one_thread
from veritas_rl.players.sampling import SamplingParams
from veritas_rl.shared_prompts import VENDOR

PROMPTS, GROUP, UPDATES = 8, 8, 2


@dataclass(frozen=True)
class Load:
    """What a step computes: a model, and the tokens of each prompt and reply."""

    model: str
    prompt: int
    reply: int

    def batch(self) -> Any:
        """A batch of random tokens."""
        from veritas_rl.verl_plugin.alone import random_rows

        return random_rows([(self.prompt, self.reply)] * (PROMPTS * GROUP), group=GROUP)

    def configuration(self, *overrides: str) -> Any:
        """The configuration of a run."""
        typed = ["algorithm=grpo", f"actor_rollout_ref.model.path={self.model}"]
        typed += [f"data.max_prompt_length={self.prompt + 64}", *overrides]
        return plan(typed, {}, this_machine(), datetime.now()).configuration


def through_verl(
    load: Load, *overrides: str, shared: bool = True, fused: bool = False, peft: bool = False
) -> Callable[[], None]:
    """The passes of a step: old log-probabilities, and the updates.

    Args:
        load: What the step computes.
        overrides: Settings of the run.
        shared: Whether the replies of a group share their prompt.
        fused: Whether torch's fused attention computes all sequences.
        peft: Whether PEFT's own forward pass computes the adapters.
    """
    from veritas_rl.verl_plugin.alone import infer, tu, update, worker_of
    from veritas_rl.verl_plugin.cpu import adapters, attention

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        os.environ["MASTER_PORT"] = str(free.getsockname()[1])
    configuration = load.configuration(*overrides, f"actor_rollout_ref.actor.use_prefix_grouper={str(shared).lower()}")
    if shared:
        os.environ["VERL_ENGINE_VENDOR"] = VENDOR
    if fused:
        attention.LONGEST = 0
    if peft:
        adapters.install = lambda model: None
    actor, batch = worker_of("actor", configuration), load.batch()
    size = len(batch) // UPDATES
    parts: list[Any] = [
        tu.index_select_tensor_dict(batch, [*range(start, start + size)]) for start in range(0, len(batch), size)
    ]

    def work() -> None:
        infer("actor", actor, batch)
        for part in parts:
            update("actor", actor, part, configuration)

    return work


def adapter_of(load: Load) -> LoraConfig:
    """The adapter of a run."""
    model = load.configuration().actor_rollout_ref.model
    return LoraConfig(r=model.lora_rank, lora_alpha=model.lora_alpha, target_modules=model.target_modules)


def in_plain_torch(load: Load) -> Callable[[], None]:
    """The same passes with one PEFT model and no framework. Each mini-batch is one padded batch of packed groups."""
    import verl.workers.engine.fsdp  # noqa: F401 (before the module that derives from it)

    from veritas_rl.verl_plugin.alone import tu
    from veritas_rl.verl_plugin.shared_prompts import layout, packed

    rl, batch = load.configuration().actor_rollout_ref, load.batch()
    base = AutoModelForCausalLM.from_pretrained(load.model, dtype=getattr(torch, rl.actor.fsdp_config.model_dtype))
    adapted: Any = get_peft_model(base, adapter_of(load))
    trained = [parameter for parameter in adapted.parameters() if parameter.requires_grad]
    for parameter in trained:
        parameter.data = parameter.data.float()
    optimizer = torch.optim.AdamW(trained, lr=rl.actor.optim.lr, fused=True)
    size = len(batch) // UPDATES
    parts: list[Any] = [
        tu.index_select_tensor_dict(batch, [*range(start, start + size)]) for start in range(0, len(batch), size)
    ]

    def log_probs(part: Any) -> torch.Tensor:
        made = layout(part, packed(part), dtype=base.dtype)
        with torch.autocast("cpu", torch.bfloat16, enabled=base.dtype == torch.bfloat16):
            logits = adapted(**made.inputs, use_cache=False).logits.flatten(0, 1)[made.sources]
        logits = logits.float()
        return logits.gather(-1, part["responses"].values()[:, None])[:, 0] - logits.logsumexp(-1)

    def work() -> None:
        with torch.no_grad():
            old: list[Any] = [log_probs(part) for part in parts]
        for part, before in zip(parts, old, strict=True):
            ratio, advantage = (log_probs(part) - before).exp(), part["advantages"].values()
            loss = torch.maximum(-advantage * ratio, -advantage * ratio.clamp(0.8, 1.2)).mean()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(trained, 1.0)
            optimizer.step()
            optimizer.zero_grad()

    return work


def prompts_of(load: Load) -> torch.Tensor:
    """The prompts of a step: int, (replies, tokens)."""
    draw = torch.Generator().manual_seed(0)
    return torch.randint(4, 250, (PROMPTS, load.prompt), generator=draw).repeat_interleave(GROUP, 0)


def with_adapter(load: Load, dtype: str) -> Any:
    """The model with an adapter beside its base, both in one dtype."""
    kind = getattr(torch, dtype)
    model: Any = AutoModelForCausalLM.from_pretrained(load.model, dtype=kind)
    return inject_adapter_in_model(adapter_of(load), model).to(kind)


def by_engine(load: Load, dtype: str, peft: bool = False) -> Callable[[], object]:
    """The replies of a step by the rollout's engine. `peft`: with PEFT's own forward pass of an adapter."""
    from veritas_rl.verl_plugin.cpu import adapters

    with one_thread():
        served = with_adapter(load, dtype)
        if not peft:
            adapters.install(served)
            adapters.merge(served)
    ids = prompts_of(load)
    engine = GenerationEngine(served, (-1,), 0, max_batch_size=len(ids), max_model_len=load.prompt + load.reply)
    asked = [(row.tolist(), SamplingParams(load.reply)) for row in ids]
    return lambda: engine.generate(asked)


def by_generate(load: Load, dtype: str) -> Callable[[], object]:
    """The replies of a step by a padded `model.generate`."""
    plain = with_adapter(load, dtype)
    ids = prompts_of(load)
    limits = {"max_new_tokens": load.reply, "min_new_tokens": load.reply}
    mask = torch.ones_like(ids)
    return lambda: plain.generate(ids, attention_mask=mask, do_sample=True, pad_token_id=0, **limits)


def measured(load: Load, steps: int) -> dict[str, list[float]]:
    """The seconds of each part of each step."""
    dtype = load.configuration().actor_rollout_ref.actor.fsdp_config.model_dtype
    ways = {
        "passes": Apart(through_verl, load),
        "passes, a prompt for each reply": Apart(partial(through_verl, shared=False), load),
        "passes with fused attention": Apart(partial(through_verl, fused=True), load),
        "passes with PEFT's adapters": Apart(partial(through_verl, peft=True), load),
        "passes in fp32": Apart(through_verl, load, "veritas_rl.precision=float32"),
        "passes in plain torch": Apart(in_plain_torch, load),
        "engine": Apart(by_engine, load, dtype),
        "engine with PEFT's adapter": Apart(partial(by_engine, peft=True), load, dtype),
        "generate": Apart(by_generate, load, dtype),
        "engine in fp32": Apart(by_engine, load, "float32"),
    }
    for way in ways.values():
        way()
    taken = [{name: way() for name, way in ways.items()} for _ in range(steps)]
    for way in ways.values():
        way.close()
    return {name: [step[name] for step in taken] for name in ways}


def report(load: Load, taken: dict[str, list[float]]) -> Table:
    """The medians and ratios of one prompt length."""
    replies = [PROMPTS * GROUP * load.reply / took for took in taken["engine"]]
    names = ("engine", "passes"), ("engine", "passes, a prompt for each reply"), ("engine in fp32", "passes in fp32")
    step, whole, exact = ([sum(parts) for parts in zip(*(taken[name] for name in pair), strict=True)] for pair in names)
    rows = {
        "a step, s": (step, None),
        "a step with a prompt for each reply, s": (whole, (whole, step)),
        "a step in fp32, s": (exact, (exact, step)),
        "passes through verl, s": (taken["passes"], (taken["passes"], taken["passes in plain torch"])),
        "the same with fused attention, s": (
            taken["passes with fused attention"],
            (taken["passes with fused attention"], taken["passes"]),
        ),
        "the same with PEFT's own adapters, s": (
            taken["passes with PEFT's adapters"],
            (taken["passes with PEFT's adapters"], taken["passes"]),
        ),
        "rollout with PEFT's own adapter, over the rollout's, s": (
            taken["engine with PEFT's adapter"],
            (taken["engine with PEFT's adapter"], taken["engine"]),
        ),
        "rollout, tokens/s": (replies, (taken["generate"], taken["engine"])),
    }
    table = Table(title=f"prompts of {load.prompt} tokens, replies of {load.reply}, {PROMPTS} groups of {GROUP}")
    for name in ("", "median", "least to most", "ratio"):
        table.add_column(name, no_wrap=True)
    for name, (values, pair) in rows.items():
        ratio = "" if pair is None else f"{median(a / b for a, b in zip(*pair, strict=True)):.2f}"
        table.add_row(name, f"{median(values):.2f}", f"{min(values):.2f} to {max(values):.2f}", ratio)
    return table


def memory(model: str) -> int:
    """The largest PSS of a run's processes together, in bytes."""
    most = 0
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [
                *("bash", "train/scripts/openspiel-ppo-trainer.sh", f"trainer.default_local_dir={folder}/run"),
                *("trainer.total_training_steps=2", "veritas_rl.evaluation=null"),
            ],
            cwd=ROOT,
            env={**os.environ, "AGENT_MODEL_REPO_ID": model, "GAME_TYPES": "tic_tac_toe"},
            stdout=subprocess.DEVNULL,
        )
        while process.poll() is None:
            total = 0
            for one in (psutil.Process(), *psutil.Process().children(recursive=True)):
                try:
                    total += one.memory_full_info().pss
                except psutil.Error:
                    continue  # it has ended
            most = max(most, total)
            time.sleep(1)
        if process.returncode:
            raise SystemExit(f"the run ended with exit code {process.returncode}")
    return most


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--prompt", default="40,245")
    parser.add_argument("--reply", type=int, default=7)
    parser.add_argument("--memory", action="store_true")
    given = parser.parse_args()
    model = provide(given.model)
    if given.memory:
        print(f"largest PSS of all processes: {memory(model) / 2**30:.2f} GiB")
        return
    os.environ.update({"MASTER_ADDR": "127.0.0.1", "RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"})
    os.environ["VERL_PLATFORM"] = "cpu"
    for prompt in map(int, given.prompt.split(",")):
        load = Load(model, prompt, given.reply)
        Console().print(report(load, measured(load, given.steps)))


if __name__ == "__main__":
    main()
