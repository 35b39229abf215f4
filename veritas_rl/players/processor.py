"""What a language model needs on a CPU in order to be as fast as the processor."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread here, so that the calling thread gets no pool of threads.

    OpenMP gives each thread that computes a pool of its own. If all pools together have more threads than there are
    cores, the pools of libgomp hardly spin any more, whatever GOMP_SPINCOUNT says, and small operations take 1.6 times
    as long. So the threads around a `GenerationEngine` compute alone, and the engine's thread has the only pool.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def join_head_input(model: Any) -> None:
    """Let a model compute the logits of some places of several rows in one product.

    torch multiplies a slice of the hidden states row by row if the weights of the head are frozen. In bf16 it copies
    the weights for each row: with 49,152 tokens, 16 rows take a second, and 4 ms as a joined tensor.
    https://github.com/pytorch/pytorch/issues/151934 describes it.
    """
    head = model.get_output_embeddings()
    if head is not None:
        head.register_forward_pre_hook(lambda _, inputs: (inputs[0].contiguous(), *inputs[1:]))
