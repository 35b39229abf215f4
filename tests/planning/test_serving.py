"""The rollout's share of a GPU, calculated by hand for Qwen3-4B."""

from collections.abc import Callable

from veritas_rl.planning.plan import Plan


def test_the_cache_of_a_token(planned: Callable[..., Plan]) -> None:
    # Keys and values of 36 layers with 8 heads of 128 dimensions, in bf16.
    assert planned("h200x1").server.token == 2 * 36 * 8 * 128 * 2
    assert planned("h200x2", "actor_rollout_ref.rollout.tensor_model_parallel_size=2").server.token == 36 * 8 * 128 * 2


def test_the_share_holds_weights_and_cache(planned: Callable[..., Plan]) -> None:
    half, most = (
        planned("h200x1", f"actor_rollout_ref.rollout.gpu_memory_utilization={share}").server for share in (0.5, 0.7)
    )
    assert most.share - half.share == most.cache - half.cache > 0
    assert half.share > half.weights + half.cache > 0.95 * half.share
    assert most.at_once > half.at_once


def test_weights_are_kept_on_the_host_only_for_adapters(planned: Callable[..., Plan]) -> None:
    assert planned("h200x1").server.backup == 2 * 4_022_468_096
    assert planned("h200x1", "lora=off").server.backup == 0
