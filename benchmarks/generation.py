"""Tokens per second of the transformers rollout, and of its engine alone, against one padded `model.generate`.

    OMP_WAIT_POLICY=PASSIVE python benchmarks/generation.py [--requests 256] [--new-tokens 8] [--rounds 7]

Each request has a prompt of 20 to 60 tokens and its own limit, from 1 to `--new-tokens`; a padded generation has to run
to the largest limit. Only tokens within the limits count. The rollout is the Ray actor of a training run, called as the
agent loop calls it. The three ways alternate and serve the small model of the CPU run. The script prints the median of
each and the ratios.
"""

import argparse
import asyncio
import tempfile
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import ray
import torch
from transformers import AutoModelForCausalLM
from verl.utils.config import omega_conf_to_dataclass

from veritas_rl.launch.hardware import Hardware
from veritas_rl.launch.rl import plan
from veritas_rl.launch.tiny_model import build_tiny_model
from veritas_rl.players.generation import GenerationEngine
from veritas_rl.players.sampling import SamplingParams
from veritas_rl.verl_plugin.cpu.client import BatchingClient, server_name
from veritas_rl.verl_plugin.cpu.rollout import GenerationServer

BYTES = 256
"""The first tokens of the small model's vocabulary are plain bytes."""


def seconds(work: Callable[[], object]) -> float:
    """The seconds that one call takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=256)
    parser.add_argument("--new-tokens", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    random = Random(0)
    prompts = [[random.randrange(BYTES) for _ in range(random.randrange(20, 61))] for _ in range(given.requests)]
    limits = [random.randrange(1, given.new_tokens + 1) for _ in prompts]
    folder = tempfile.TemporaryDirectory()
    path = build_tiny_model(Path(folder.name) / "model", seed=0)
    models: list[Any] = [AutoModelForCausalLM.from_pretrained(path) for _ in range(2)]
    plain, served = models
    pad = plain.config.pad_token_id
    width = max(map(len, prompts))
    ids = torch.tensor([[pad] * (width - len(prompt)) + prompt for prompt in prompts])
    # No model writes the end token -1, so every request runs to its limit. The rollout keeps its own end tokens, which
    # stop about one request in a hundred early.
    engine = GenerationEngine(served, (-1,), pad, max_batch_size=given.requests, max_model_len=width + given.new_tokens)

    made = plan([f"actor_rollout_ref.model.path={path}"], {}, Hardware(2, 0, 0), datetime.now()).configuration
    node = made.actor_rollout_ref
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    remote: Any = ray.remote(GenerationServer).options(name=server_name(0))
    server = remote.remote()
    ray.get(server.begin.remote(omega_conf_to_dataclass(node.rollout), node.model, "cpu"))

    def stock() -> None:
        length = max(limits)
        mask = (ids != pad).long()
        plain.generate(ids, attention_mask=mask, max_new_tokens=length, min_new_tokens=length, do_sample=True)

    def alone() -> None:
        engine.generate([(prompt, SamplingParams(limit)) for prompt, limit in zip(prompts, limits, strict=True)])

    async def asked() -> None:
        client = BatchingClient(servers=1)
        await asyncio.gather(
            *(
                client.generate("", prompt_ids=prompt, sampling_params={"temperature": 1.0, "max_tokens": limit})
                for prompt, limit in zip(prompts, limits, strict=True)
            )
        )

    def rollout() -> None:
        asyncio.run(asked())

    ways = {"model.generate": stock, "engine": alone, "rollout": rollout}
    for work in ways.values():
        work()
    times = [{name: seconds(work) for name, work in ways.items()} for _ in range(given.rounds)]
    engine.close()
    ray.kill(server)
    ray.shutdown()
    folder.cleanup()
    for name in ways:
        rate = sum(limits) / median(took[name] for took in times)
        ratio = median(took["model.generate"] / took[name] for took in times)
        print(f"{name:>15}  {rate:7.0f} tokens/s  ratio {ratio:.2f} (median of {given.rounds})")


if __name__ == "__main__":
    main()
