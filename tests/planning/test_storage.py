"""Sizes of pinned memory and checkpoints, calculated by hand."""

from collections.abc import Callable

from veritas_rl.planning.plan import Plan
from veritas_rl.planning.storage import TOKENIZER, pinned_bytes


def test_each_pinned_block_is_a_power_of_two() -> None:
    assert pinned_bytes([(3, 5)], 4, 1) == 64
    assert pinned_bytes([(3, 5)], 4, 2) == 64  # two rows of five: 40 bytes
    assert pinned_bytes([(16,), (16,)], 4, 1) == 128
    assert pinned_bytes([(1,)], 2, 8) == 2


def test_an_offloaded_model_of_4b_needs_a_large_host(planned: Callable[..., Plan]) -> None:
    host = planned("h200x1", "lora=off").host()
    pinned = sum(size for part, size in host.items() if "pinned" in part)
    # 12 bytes for each parameter of two models are 90 GiB before rounding.
    assert 90 < pinned / 2**30 < 130
    assert not any("optimizer, pinned" in part for part in planned("h200x1").host())


def test_a_checkpoint_holds_weights_and_moments(planned: Callable[..., Plan]) -> None:
    full = planned("h200x1", "lora=off", "algorithm=grpo").checkpoint()
    assert sum(full.values()) == 12 * 4_022_468_096 + TOKENIZER
    adapters = planned("h200x1").checkpoint()
    assert adapters["actor's optimizer"] == 2 * adapters["actor's weights"]
    assert sum(adapters.values()) < 2 << 30
