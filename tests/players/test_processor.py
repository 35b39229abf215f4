"""What a language model needs on a CPU."""

import subprocess
import sys
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from veritas_rl.players.processor import join_head_input, one_thread

COUNT = """
import os, threading, torch
from contextlib import nullcontext
from veritas_rl.players.processor import one_thread
torch.set_num_threads(4)
def work():
    with {way}:
        torch.zeros(1 << 20).copy_(torch.ones(1 << 20, dtype=torch.bfloat16))
    print(len(os.listdir("/proc/self/task")))
thread = threading.Thread(target=work)
before = len(os.listdir("/proc/self/task"))
print(before)
thread.start(); thread.join()
"""


@pytest.mark.parametrize(("way", "started"), [("one_thread()", 1), ("nullcontext()", 4)])
def test_a_thread_that_computes_alone_starts_no_pool(way: str, started: int) -> None:
    done = subprocess.run([sys.executable, "-c", COUNT.format(way=way)], capture_output=True, text=True, check=True)
    before, during = map(int, done.stdout.split())
    assert during - before == started


def test_the_number_of_threads_returns_after_an_error() -> None:
    before = torch.get_num_threads()

    def fail() -> None:
        with one_thread():
            assert torch.get_num_threads() == 1
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert torch.get_num_threads() == before


def test_the_head_multiplies_joined_hidden_states() -> None:
    """Without the hook a frozen head gets a slice, which torch multiplies row by row."""
    config = LlamaConfig(
        vocab_size=40, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2
    )
    model: Any = LlamaForCausalLM(config).requires_grad_(False)
    joined: list[bool] = []
    ids = torch.arange(24).reshape(4, 6)

    def look(_: object, inputs: tuple[torch.Tensor, ...], __: object) -> None:
        joined.append(inputs[0].is_contiguous())

    model.lm_head.register_forward_hook(look)
    before = model(ids, logits_to_keep=2).logits
    join_head_input(model)
    after = model(ids, logits_to_keep=2).logits
    assert joined == [False, True]
    torch.testing.assert_close(before, after)
