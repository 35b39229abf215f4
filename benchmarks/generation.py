"""Tokens a second of the generation engine against one padded `model.generate` of the same prompts, in turn.

    python benchmarks/generation.py [--requests 256] [--new-tokens 4] [--copies 1] [--rounds 5]

It prints the median of each and their ratio. Both generate from the small model of the CPU run, on this machine.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from veritas_rl.launch.tiny_model import build_tiny_model
from veritas_rl.players.generation import GenerationEngine
from veritas_rl.players.sampling import SamplingParams

BYTES = 256
"""The first tokens of the small model's vocabulary are plain bytes."""


def seconds(work: Callable[[], object]) -> float:
    """How long one call takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=256)
    parser.add_argument("--new-tokens", type=int, default=4)
    parser.add_argument("--copies", type=int, default=1, help="how often each prompt is asked, as GRPO does")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    random = Random(0)
    prompts = [
        [random.randrange(BYTES) for _ in range(random.randrange(20, 61))]
        for _ in range(given.requests // given.copies)
    ] * given.copies
    with tempfile.TemporaryDirectory() as folder:
        path = build_tiny_model(Path(folder) / "model", seed=0)
        models: list[Any] = [AutoModelForCausalLM.from_pretrained(path) for _ in range(2)]
    plain, served = models
    pad = plain.config.pad_token_id
    width = max(map(len, prompts))
    ids = torch.tensor([[pad] * (width - len(prompt)) + prompt for prompt in prompts])
    # An end token that no model writes: every request runs to its limit, on both sides.
    engine = GenerationEngine(served, (-1,), pad, max_batch_size=given.requests, max_model_len=width + given.new_tokens)
    params = SamplingParams(given.new_tokens)

    def stock() -> None:
        plain.generate(
            ids,
            attention_mask=(ids != pad).long(),
            max_new_tokens=given.new_tokens,
            min_new_tokens=given.new_tokens,
            do_sample=True,
        )

    def ours() -> None:
        engine.generate([(prompt, params) for prompt in prompts])

    stock()
    ours()
    times = [(seconds(stock), seconds(ours)) for _ in range(given.rounds)]
    engine.close()
    tokens = len(prompts) * given.new_tokens
    one, two = (tokens / median(column) for column in zip(*times, strict=True))
    ratio = median(stock_time / our_time for stock_time, our_time in times)
    print(f"model.generate {one:.0f} tokens/s, engine {two:.0f} tokens/s, ratio {ratio:.2f} (median of {given.rounds})")


if __name__ == "__main__":
    main()
