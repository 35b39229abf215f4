"""The agent loop against a rollout that says what the test wants: what becomes of each kind of reply."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from omegaconf import OmegaConf
from verl.experimental.agent_loop.agent_loop import AgentLoopOutput, DictConfigWrap
from verl.workers.rollout.replica import TokenOutput

from veritas_rl.launch.tiny_model import byte_tokenizer
from veritas_rl.verl_plugin.agent_loop import GameAgentLoop
from veritas_rl.verl_plugin.dataset import DynamicEnvDataset

TOKENIZER = byte_tokenizer()
LIMIT = 8


def play(reply: list[int], prompt_length: int = 200, **adapter: Any) -> list[AgentLoopOutput]:
    """Play one tic-tac-toe task with a rollout that always writes these tokens."""
    rollout = {"prompt_length": prompt_length, "response_length": LIMIT}
    config = OmegaConf.create({"actor_rollout_ref": {"rollout": rollout}, "data": {}})
    settings = {"env": "openspiel", "adapter_config": {"cases": "tic_tac_toe", "prompt": "brief", **adapter}}
    row = DynamicEnvDataset("train", None, {"seed": 1, "custom_cls": {"config": settings}})[0]

    async def generate(**asked: Any) -> TokenOutput:
        assert asked["sampling_params"] == {"temperature": 1.0, "max_tokens": LIMIT}
        return TokenOutput(token_ids=reply, log_probs=[-0.5] * len(reply), stop_reason="completed")

    async def run() -> list[AgentLoopOutput]:
        loop: Any = GameAgentLoop(
            trainer_config=DictConfigWrap(config),
            server_manager=SimpleNamespace(generate=generate),  # pyright: ignore[reportArgumentType]
            tokenizer=TOKENIZER,  # pyright: ignore[reportArgumentType]
            processor=None,  # pyright: ignore[reportArgumentType]
            dataset_cls=DynamicEnvDataset,  # pyright: ignore[reportArgumentType]
            data_config=DictConfigWrap(config.data),
        )
        return await loop.run({"temperature": 1.0}, **row)

    return asyncio.run(run())


def tokens(text: str) -> list[int]:
    return TOKENIZER.encode(text, add_special_tokens=False)


def info(output: AgentLoopOutput) -> dict[str, Any]:
    return output.extra_fields["reward_extra_info"]


def test_a_legal_move_is_paid_and_its_tokens_are_learned_from() -> None:
    paid = []
    for action in range(9):
        reply = [*tokens(f"\\boxed{{{action}}}"), TOKENIZER.eos_token_id]
        (output,) = play(reply, reward_mode="legal")
        assert output.response_ids == reply
        assert output.response_mask == [1] * len(reply)
        assert output.response_logprobs == [-0.5] * len(reply)
        assert output.reward_score == info(output)["legal"]
        paid.append(output.reward_score)
    assert 0 < sum(paid) < 9


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ([TOKENIZER.eos_token_id], "empty"),
        ([*tokens("b2"), TOKENIZER.eos_token_id], "unparseable"),
        ([*tokens("\\boxed{9}"), TOKENIZER.eos_token_id], "illegal"),
        (tokens("\\boxed{4}\\boxed"), "truncated"),
        (tokens("x" * LIMIT), "truncated"),
    ],
)
def test_a_mistake_pays_nothing_and_has_a_reason(reply: list[int], reason: str) -> None:
    (output,) = play(reply)
    assert (output.reward_score, info(output)["reason"]) == (0.0, reason)
    assert info(output)["truncated"] == float(reason == "truncated")


def test_a_reply_that_ends_at_the_limit_is_not_a_cut_one() -> None:
    reply = [*tokens("think\\boxed{4}")[: LIMIT - 1], TOKENIZER.eos_token_id]
    (output,) = play(reply)
    assert len(reply) == LIMIT
    assert info(output)["reason"] != "truncated"


def test_a_prompt_that_does_not_fit_is_not_asked() -> None:
    (output,) = play([1 << 20], prompt_length=5)
    assert (output.reward_score, info(output)["reason"]) == (0.0, "overlong")
    assert output.response_mask == [0]


def test_a_whole_game_is_one_trajectory_a_move() -> None:
    reply = [*tokens("\\boxed{4}"), TOKENIZER.eos_token_id]
    outputs = play(reply, mode="episode")
    # Both seats choose the centre: the first may, the second may not.
    assert [info(output)["reason"] for output in outputs] == ["forfeited", "illegal"]
    assert [output.num_turns for output in outputs] == [2, 2]
