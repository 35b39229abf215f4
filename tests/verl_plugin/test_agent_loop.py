"""The agent loop's handling of every kind of reply, with a scripted rollout."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from omegaconf import DictConfig, OmegaConf
from scripted_loop import loop_with
from verl.experimental.agent_loop.agent_loop import AgentLoopOutput
from verl.workers.rollout.replica import TokenOutput

from veritas_rl.envs.registry import task_of
from veritas_rl.envs.task import Task
from veritas_rl.errors import UserError
from veritas_rl.launch.tiny_model import byte_tokenizer
from veritas_rl.verl_plugin import agent_loop
from veritas_rl.verl_plugin.agent_loop import recorded
from veritas_rl.verl_plugin.dataset import DynamicEnvDataset
from veritas_rl.viewing.recording import RecordedSession

TOKENIZER: Any = byte_tokenizer()
LIMIT = 8


def configured(
    prompt_length: int, response_length: int, own: dict[str, Any], reward: Path | None = None, **adapter: Any
) -> tuple[DictConfig, dict[str, Any]]:
    """What the loop reads of verl's configuration, and a row."""
    rollout = {"prompt_length": prompt_length, "response_length": response_length, "agent": {"num_workers": 1}}
    nodes = {"actor_rollout_ref": {"rollout": rollout}, "trainer": {"nnodes": 1}, "data": {}}
    custom = {"custom_reward_function": {"path": reward and str(reward), "name": "compute_score"}}
    config = OmegaConf.create({**nodes, "veritas_rl": own, "reward": custom})
    settings = {"env": "openspiel", "adapter_config": {"cases": "tic_tac_toe", "prompt": "brief", **adapter}}
    return config, DynamicEnvDataset("train", None, {"seed": 1, "custom_cls": {"config": settings}})[0]


def play_with(
    write: Callable[[list[int]], list[int]],
    prompt_length: int = 200,
    response_length: int = LIMIT,
    *,
    say_limit: bool = False,
    length_penalty: float | None = None,
    reward: Path | None = None,
    **adapter: Any,
) -> list[AgentLoopOutput]:
    """Play one tic-tac-toe task with a rollout that replies with `write(prompt tokens)`.

    `reward` is the file of a custom reward function.
    """
    own = {"say_limit": say_limit, "length_penalty": length_penalty}
    config, row = configured(prompt_length, response_length, own, reward, **adapter)

    async def generate(**asked: Any) -> TokenOutput:
        assert asked["sampling_params"]["temperature"] == 1.0
        reply = write(asked["prompt_ids"])
        assert asked["sampling_params"]["max_tokens"] <= response_length
        return TokenOutput(token_ids=reply, log_probs=[-0.5] * len(reply), stop_reason="completed")

    async def run() -> list[AgentLoopOutput]:
        loop = loop_with(generate, TOKENIZER, config)
        return await loop.run({"temperature": 1.0}, **row)

    return asyncio.run(run())


def play(reply: list[int], prompt_length: int = 200, **adapter: Any) -> list[AgentLoopOutput]:
    """Play one tic-tac-toe task with a rollout that always writes these tokens."""
    return play_with(lambda _: reply, prompt_length, **adapter)


def first_cell(token_ids: list[int]) -> list[int]:
    """The reply of a player that takes the first empty cell of the last board."""
    board = "".join(TOKENIZER.decode(token_ids, skip_special_tokens=True).split()[-4:])
    cell = next(char for char in board if char.isdigit())
    return [*tokens(f"\\boxed{{{cell}}}"), TOKENIZER.eos_token_id]


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


def test_a_prompt_says_how_long_the_reply_may_be_where_that_is_set() -> None:
    reply = [*tokens("\\boxed{0}"), TOKENIZER.eos_token_id]
    plain, said = (play_with(lambda _: reply, 400, 12, say_limit=said)[0].prompt_ids for said in (False, True))
    assert "at most" not in TOKENIZER.decode(plain)
    assert "Your reply may have at most 12 tokens" in TOKENIZER.decode(said)
    wrong = [*tokens("\\boxed{99}"), TOKENIZER.eos_token_id]
    again = {"mode": "episode", "context": "conversation", "opponent": "random", "retries": 1}
    (played,) = play_with(lambda _: wrong, 400, 900, say_limit=True, **again)
    chat = TOKENIZER.decode([*played.prompt_ids, *played.response_ids])
    assert chat.count("boxed{99}") == 2
    assert chat.count("This conversation may have at most 900 tokens") == 1


def test_a_reply_of_no_token_is_cut_and_not_learned_from() -> None:
    (output,) = play([])
    assert (output.reward_score, info(output)["reason"]) == (0.0, "truncated")
    assert (output.response_ids, output.response_mask) == ([TOKENIZER.eos_token_id], [0])


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
    # Both seats choose the center, which is legal only for the first seat.
    assert [info(output)["reason"] for output in outputs] == ["forfeited", "illegal"]
    assert [output.num_turns for output in outputs] == [2, 2]


def test_two_seats_of_one_model_are_each_paid_by_their_own_result() -> None:
    """Both take the first empty cell: x gets a1 c1 b2 a3 and wins on the diagonal."""
    outputs = play_with(first_cell, mode="episode", gamma=0.9)
    seats = [output.extra_fields["move"]["seat"] for output in outputs]
    assert seats == [0, 1, 0, 1, 0, 1, 0]
    assert [info(output)["reason"] for output in outputs] == ["won", "lost"] * 3 + ["won"]
    rewards = [output.reward_score for output in outputs]
    assert rewards[1::2] == [0.0, 0.0, 0.0]
    assert rewards[::2] == pytest.approx([0.9**3, 0.9**2, 0.9, 1.0])  # discounted by the winner's remaining moves


CUSTOM = """
calls = []

def compute_score(solution_str, score, tokens, result, move, extra_info):
    calls.append(move)
    return {"score": score + 10 * move, "length": len(tokens), "said": solution_str}
"""


@pytest.fixture
def custom(tmp_path: Path) -> Path:
    file = tmp_path / "my_reward.py"
    file.write_text(CUSTOM)
    return file


def test_a_custom_reward_function_gets_the_reply_and_returns_the_reward(custom: Path) -> None:
    for action in range(9):
        reply = [*tokens(f"\\boxed{{{action}}}"), TOKENIZER.eos_token_id]
        (plain,), (output,) = play(reply), play_with(lambda _, reply=reply: reply, reward=custom)
        assert plain.reward_score is not None
        assert output.reward_score == plain.reward_score + 10
        own = {"shaped": plain.reward_score, "length": float(len(reply)), "said": f"\\boxed{{{action}}}"}
        assert info(output) == {**info(plain), **own}


def test_a_custom_reward_function_is_called_for_each_reply_of_a_game(custom: Path) -> None:
    plain = play_with(first_cell, mode="episode", gamma=0.9)
    outputs = play_with(first_cell, mode="episode", gamma=0.9, reward=custom)
    added = [
        (output.reward_score or 0) - (before.reward_score or 0) for output, before in zip(outputs, plain, strict=True)
    ]
    assert added == pytest.approx([10, 10, 20, 20, 30, 30, 40])


def test_a_custom_reward_function_gets_a_conversation_at_once(custom: Path) -> None:
    settings: dict[str, Any] = {"mode": "episode", "context": "conversation", "opponent": "random"}
    (output,) = play_with(first_cell, 200, 400, reward=custom, **settings)
    said = info(output)["said"].split("\n\n")
    assert len(said) >= 3
    assert all(reply.startswith("\\boxed{") for reply in said)
    assert info(output)["length"] == sum(output.response_mask)
    assert output.reward_score == info(output)["shaped"] + 10 * len(said)


@pytest.mark.parametrize(("limit", "lost"), [(200, 0.0), (20, 0.5), (15, 1.0)])
def test_a_reply_near_the_limit_of_tokens_loses_reward(limit: int, lost: float) -> None:
    reply = [*tokens("\\boxed{4}"), TOKENIZER.eos_token_id]
    reply = [*tokens("a" * (15 - len(reply))), *reply]
    assert len(reply) == 15
    (plain,) = play_with(lambda _: reply, 200, limit)
    (output,) = play_with(lambda _: reply, 200, limit, length_penalty=0.5)
    assert info(output) == {**info(plain), "length_penalty": pytest.approx(lost)}
    assert output.reward_score == pytest.approx((plain.reward_score or 0) - lost)


def test_a_custom_reward_function_is_not_called_without_a_reply(custom: Path) -> None:
    (output,) = play_with(lambda _: [1 << 20], 5, reward=custom)
    assert output.reward_score == 0.0
    assert "shaped" not in info(output)


def test_a_custom_reward_function_cannot_replace_the_score(tmp_path: Path) -> None:
    file = tmp_path / "my_reward.py"
    file.write_text("def compute_score(score): return {'score': score, 'success': 1.0}\n")
    with pytest.raises(UserError, match="returned 'success', which a run logs itself: rename it"):
        play_with(lambda _: [TOKENIZER.eos_token_id], reward=file)


@pytest.mark.parametrize("opponent", ["random", "self"])
def test_the_opponents_moves_are_no_samples(opponent: str) -> None:
    outputs = play_with(first_cell, mode="episode", opponent=opponent)
    seats = {output.extra_fields["move"]["seat"] for output in outputs}
    assert len(seats) == (2 if opponent == "self" else 1)
    assert all(output.response_mask == [1] * len(output.response_ids) for output in outputs)
    if opponent == "random":
        assert len(outputs) < 6
        assert all(
            output.reward_score == info(outputs[0])["value"] * 0.99**left for left, output in enumerate(outputs[::-1])
        )


def test_in_a_conversation_the_loss_is_on_exactly_what_was_sampled() -> None:
    read: list[list[int]] = []
    wrote: list[list[int]] = []

    def write(token_ids: list[int]) -> list[int]:
        read.append(token_ids)
        wrote.append(first_cell(token_ids))
        return wrote[-1]

    (output,) = play_with(write, 200, 400, mode="episode", context="conversation", opponent="random")
    assert len(read) >= 3
    ids = output.prompt_ids + output.response_ids
    learned = [token for token, mask in zip(output.response_ids, output.response_mask, strict=True) if mask]
    assert learned == [token for reply in wrote for token in reply]
    for asked, reply in zip(read, wrote, strict=True):
        assert ids[: len(asked)] == asked  # each reply was sampled after exactly these tokens
        assert ids[len(asked) : len(asked) + len(reply)] == reply
    assert output.response_logprobs == [-0.5 * mask for mask in output.response_mask]
    text = TOKENIZER.decode(ids)
    chat = [
        {"role": "user", "content": "QQ"},
        {"role": "assistant", "content": "RR"},
        {"role": "user", "content": "SS"},
    ]
    between = TOKENIZER.apply_chat_template(chat, tokenize=False, add_generation_prompt=True).partition("RR")[2]
    assert between.partition("SS")[0] in text  # the template's text between two messages


def test_a_mistake_that_is_made_good_pays_nothing_and_the_game_goes_on() -> None:
    read_texts: list[str] = []

    def write(token_ids: list[int]) -> list[int]:
        text = TOKENIZER.decode(token_ids, skip_special_tokens=True)
        read_texts.append(text)
        if len(read_texts) == 1:
            return [*tokens("hm"), TOKENIZER.eos_token_id]
        return first_cell(tokens(text.partition("hm")[0]) if "hm" in text else token_ids)

    outputs = play_with(write, 600, mode="episode", illegal="retry:1", legal_share=0.2)
    assert "hm" in read_texts[1]
    assert "no legal answer (unparseable)" in read_texts[1]
    assert outputs[0].reward_score == 0.0
    assert info(outputs[0])["reason"] == "won"
    assert outputs[-1].reward_score == 1.0
    assert outputs[2].reward_score == pytest.approx(0.2)  # the loser's reward for a legal move


def test_a_game_counts_the_moves_that_are_left_to_a_seat() -> None:
    outputs = play_with(first_cell, mode="episode")
    assert [output.extra_fields["move"]["left"] for output in outputs] == [3, 2, 2, 1, 1, 0, 0]


@pytest.mark.parametrize("context", ["turn", "conversation"])
def test_a_game_that_is_recorded_is_the_one_that_was_played(monkeypatch: pytest.MonkeyPatch, context: str) -> None:
    sessions: list[RecordedSession] = []
    plain = agent_loop.start

    def start(task: Task) -> RecordedSession:
        sessions.append(recorded(task, plain(task)))
        return sessions[-1]

    settings: dict[str, Any] = {"mode": "episode", "opponent": "random", "context": context}
    expected = play_with(first_cell, 200, 400, **settings)
    monkeypatch.setattr(agent_loop, "start", start)
    outputs = play_with(first_cell, 200, 400, **settings)
    assert [output.response_ids for output in outputs] == [output.response_ids for output in expected]
    assert [output.reward_score for output in outputs] == [output.reward_score for output in expected]
    game = sessions[0].game()
    mine = [turn for turn in game.turns if turn.player == "model"]
    assert {turn.seat for turn in mine} == {game.seat}
    assert {turn.player for turn in game.turns if turn.seat != game.seat} == {"random"} == {game.opponent}
    for turn, output in zip(mine, outputs if context == "turn" else outputs * len(mine), strict=True):
        written = TOKENIZER.decode(output.prompt_ids + output.response_ids)
        assert turn.messages[-1]["content"] in written
        assert turn.reply in written
    (reason,) = {info(output)["reason"] for output in outputs}
    assert next(end.reason for end in game.endings if end.seat == game.seat) == reason


def listed(prompt_length: int = 200, response_length: int = LIMIT, **adapter: Any) -> list[AgentLoopOutput]:
    """The answers to one task that are listed."""
    config, row = configured(prompt_length, response_length, {"say_limit": False, "length_penalty": None}, **adapter)

    async def generate(**_: Any) -> TokenOutput:
        raise AssertionError("nothing is generated")

    async def run() -> list[AgentLoopOutput]:
        return loop_with(generate, TOKENIZER, config).listed(task_of(row["extra_info"]))

    return asyncio.run(run())


def test_each_legal_answer_to_a_position_is_listed_with_its_reward() -> None:
    outputs = listed(reward_mode="optimal", legal_share=0.5)
    answers = [TOKENIZER.decode(output.response_ids, skip_special_tokens=True) for output in outputs]
    assert len({*answers}) == len(outputs) > 1
    for answer, output in zip(answers, outputs, strict=True):
        (said,) = play([*tokens(answer), TOKENIZER.eos_token_id], reward_mode="optimal", legal_share=0.5)
        assert (output.prompt_ids, output.response_ids) == (said.prompt_ids, said.response_ids)
        assert (output.reward_score, info(output)) == (said.reward_score, info(said))
    assert {output.reward_score for output in outputs} > {1.0}


def test_each_answer_to_each_decision_of_a_small_game_is_listed() -> None:
    outputs = listed(cases="kuhn_poker", mode="episode", opponent="self")
    asked: dict[int, set[tuple[int, ...]]] = {}
    for output in outputs:
        asked.setdefault(output.extra_fields["move"]["decision"], set()).add(tuple(output.prompt_ids))
    # Three cards in each of four histories, and each decision has two answers.
    assert len(outputs) == 24
    assert len(set().union(*asked.values())) == len(asked) == 12
    assert {output.extra_fields["move"]["seat"] for output in outputs} == {0, 1}


def test_what_cannot_be_listed_is_one_line() -> None:
    with pytest.raises(UserError, match=r"tokens: raise data.max_prompt_length=3$"):
        listed(3)
    with pytest.raises(UserError, match=r"set adapter_config.opponent=self$"):
        listed(mode="episode", opponent="random")
    with pytest.raises(UserError, match=r"small games of two players with hidden information"):
        listed(mode="episode", opponent="self")
