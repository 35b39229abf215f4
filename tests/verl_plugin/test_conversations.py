"""A conversation is the same chat in training, evaluation and serving, for each published chat template.

PYTHONPATH=tests/templates python tests/verl_plugin/test_conversations.py    # writes the picture of the page
"""

import asyncio
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any
from xml.sax.saxutils import escape

import pytest
from omegaconf import OmegaConf
from published_templates import PUBLISHED, generation_config_of, tokenizer_of
from scripted_loop import loop_with
from verl.experimental.agent_loop.agent_loop import AgentLoopOutput
from verl.workers.rollout.replica import TokenOutput
from verl.workers.rollout.router import GlobalRequestLoadBalancer

from veritas_rl.chat_template import end_of_turn, prompt_ids, reply_ids, with_limit
from veritas_rl.envs.base import Reply, Session, Turn
from veritas_rl.envs.registry import get_environment, make_task
from veritas_rl.paths import ROOT
from veritas_rl.players.language_model import LanguageModelPlayer
from veritas_rl.players.reply_text import reply_text
from veritas_rl.players.sampling import Completion, SamplingParams
from veritas_rl.serving.evaluation import Conversation
from veritas_rl.verl_plugin.chat import Chat

PICTURE = ROOT / "docs/images/conversations.svg"
ALL = pytest.mark.parametrize("name", PUBLISHED)
TASK = make_task("openspiel", "tic_tac_toe", 3, mode="episode", context="conversation", opponent="random", seat=0)


class Listening(Session):
    """A session that keeps the turns of the model, and its replies."""

    def __init__(self, session: Session) -> None:
        self.task, self._session = session.task, session
        self.asked: list[Turn] = []
        self.said: list[str] = []

    def turns(self) -> Any:
        return self._session.turns()

    def step(self, replies: Any) -> None:
        mine = [turn for turn in self._session.turns() if turn.seat == self.task.manner.seat]
        self.asked += mine
        self.said += [replies[turn.seat].text for turn in mine]
        self._session.step(replies)
        self.rejected = self._session.rejected

    def scores(self) -> Any:
        return self._session.scores()


def played(
    name: str,
    write: Callable[[Any, str, int], list[int]],
    limit: int = 4000,
    *,
    say_limit: bool = False,
    enable_thinking: bool = False,
    requests: list[str] | None = None,
    **task: Any,
) -> tuple[list[AgentLoopOutput], Listening]:
    """Play `TASK` with a rollout that replies with `write(tokenizer, first legal reply, number of the reply)`.

    The ids of the requests are added to `requests`.
    """
    rollout = {"prompt_length": 2000, "response_length": limit, "agent": {"num_workers": 1}}
    data = {"apply_chat_template_kwargs": {"enable_thinking": enable_thinking}}
    nodes = {"actor_rollout_ref": {"rollout": rollout}, "trainer": {"nnodes": 1}, "data": data}
    config = OmegaConf.create({**nodes, "veritas_rl": {"say_limit": say_limit}})
    tokenizer, changed = tokenizer_of(name), TASK.replace(**task)
    session = Listening(get_environment("openspiel").start(changed))

    async def generate(**asked: Any) -> TokenOutput:
        (turn,) = [turn for turn in session.turns() if turn.seat == changed.manner.seat]
        if requests is not None:
            requests.append(asked["request_id"])
        reply = write(tokenizer, turn.answers[0], len(session.said))
        reply = reply[: asked["sampling_params"]["max_tokens"]]
        assert set(asked["sampling_params"]["stop_token_ids"]) >= {tokenizer.eos_token_id, *end_of_turn(tokenizer)[-1:]}
        return TokenOutput(token_ids=reply, log_probs=[-0.5] * len(reply), stop_reason="completed")

    async def run() -> list[AgentLoopOutput]:
        loop = loop_with(generate, tokenizer, config, generation_config_of(name))
        return await loop.play(changed, session, {})

    return asyncio.run(run()), session


def plain(tokenizer: Any, reply: str, number: int) -> list[int]:
    """A reply as the template and the tokenizer write it."""
    return reply_ids(tokenizer, reply)


def thoughtful(tokenizer: Any, reply: str, number: int) -> list[int]:
    return plain(tokenizer, f"<think>\nhm {number}\n</think>\n\n{reply}", number)


def in_channels(tokenizer: Any, reply: str, number: int) -> list[int]:
    said = f"<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>{reply}"
    return plain(tokenizer, said, number)


def in_small_tokens(tokenizer: Any, reply: str, number: int) -> list[int]:
    """A reply in other tokens than the tokenizer's own: two line ends, which it writes as one token."""
    end = tokenizer.encode("\n", add_special_tokens=False)
    return [part for token in plain(tokenizer, f"Well.\n\n{reply}", number) for part in split(tokenizer, token, end)]


def split(tokenizer: Any, token: int, end: list[int]) -> list[int]:
    return [*end, *end] if tokenizer.decode([token]) == "\n\n" else [token]


def contexts(outputs: list[AgentLoopOutput]) -> list[tuple[list[int], list[int]]]:
    """For each reply of the trajectories the tokens before it, and its own."""
    found: list[tuple[list[int], list[int]]] = []
    for output in outputs:
        ids, mask = output.prompt_ids + output.response_ids, [0] * len(output.prompt_ids) + output.response_mask
        start = None
        for place, learned in enumerate([*mask, 0]):
            if learned and start is None:
                start = place
            if not learned and start is not None:
                found.append((ids[:start], ids[start:place]))
                start = None
    return found


@ALL
@pytest.mark.parametrize("write", [plain, thoughtful, in_small_tokens])
def test_each_reply_is_learned_after_what_the_template_shows_at_its_turn(name: str, write: Any) -> None:
    tokenizer = tokenizer_of(name)
    outputs, session = played(name, write)
    assert len(session.asked) >= 3
    for (before, reply), turn, said in zip(contexts(outputs), session.asked, session.said, strict=True):
        assert tokenizer.decode(before) == tokenizer.decode(prompt_ids(tokenizer, turn.messages))
        assert reply_text(tokenizer, reply) == said  # whole, and nothing else
    if write is plain:
        assert len(outputs) == (1 if PUBLISHED[name].appends else len(session.asked))
    assert {output.reward_score for output in outputs} == {outputs[0].reward_score}
    assert {output.extra_fields["move"]["left"] for output in outputs} == {0}
    assert all(output.response_logprobs == [-0.5 * mask for mask in output.response_mask] for output in outputs)


@pytest.mark.parametrize("name", ["qwen3_instruct_2507", "llama3", "gemma3", "phi3_5", "smollm2"])
def test_a_template_that_only_appends_gives_one_trajectory_of_sampled_tokens(name: str) -> None:
    for write in (plain, in_small_tokens):
        (output,), session = played(name, write)
        learned = [token for token, mask in zip(output.response_ids, output.response_mask, strict=True) if mask]
        sampled = [write(tokenizer_of(name), turn.answers[0], 0) for turn in session.asked]
        assert learned == [token for reply in sampled for token in reply]


@pytest.mark.parametrize("name", ["smollm2", "gpt_oss"])
def test_a_conversation_stays_on_the_server_that_has_its_beginning_in_the_cache(name: str) -> None:
    balancer = GlobalRequestLoadBalancer({str(number): None for number in range(64)})
    games = list[set[str]]()
    for context in ("conversation", "conversation", "turn"):
        requests = list[str]()
        played(name, plain, context=context, requests=requests)
        assert len(requests) >= 3
        games.append({balancer.acquire_server(request)[0] for request in requests})
    assert [len(servers) == 1 for servers in games] == [True, True, False]
    assert games[0] != games[1]


def test_a_reply_in_channels_goes_on_as_the_template_shows_it() -> None:
    outputs, session = played("gpt_oss", in_channels)
    assert len(outputs) == len(session.asked) >= 3
    shown = tokenizer_of("gpt_oss").decode(outputs[-1].prompt_ids)
    assert "<|channel|>analysis" not in shown
    assert shown.count("<|channel|>final<|message|>") == len(session.asked) - 1


@ALL
@pytest.mark.parametrize("spare", [0, 1, 40, 300])
def test_a_conversation_never_exceeds_its_limit(name: str, spare: int) -> None:
    """The room is looked at before the next question is added, at any length that the first reply leaves."""
    tokenizer = tokenizer_of(name)
    limit = len(plain(tokenizer, "\\boxed{0}", 0)) + spare
    outputs, session = played(name, plain, limit)
    opening = len(prompt_ids(tokenizer, session.asked[0].messages))
    for output in outputs:
        assert len(output.prompt_ids) + len(output.response_ids) <= opening + limit
        assert output.response_mask[-1] == 1  # no question without a reply
        assert output.reward_score == 0.0
    assert outputs[-1].extra_fields["reward_extra_info"]["reason"] == "truncated"


def listener(asked: list[tuple[Sequence[int], SamplingParams]]) -> Any:
    """An engine that keeps what it is asked, and replies with nothing."""

    def generate(requests: Sequence[tuple[Sequence[int], SamplingParams]]) -> list[Completion]:
        asked.extend(requests)
        return [Completion([], [], "stop") for _ in requests]

    return SimpleNamespace(generate=generate)


@ALL
def test_evaluation_and_serving_show_what_training_shows(name: str) -> None:
    tokenizer = tokenizer_of(name)
    outputs, session = played(name, thoughtful, 3000, say_limit=True)
    asked: list[tuple[Sequence[int], SamplingParams]] = []
    player = LanguageModelPlayer(listener(asked), tokenizer, SamplingParams(3000), 1, say_limit=True)
    player.act(session.asked)
    served = Conversation()
    turns = zip(contexts(outputs), asked, session.asked, session.said, strict=True)
    for (before, _), (prompt, params), turn, said in turns:
        assert tokenizer.decode(prompt) == tokenizer.decode(before)
        assert params.max_new_tokens == 3000 - (len(before) - len(outputs[0].prompt_ids))
        messages = with_limit(served.asked(turn), 3000, turn.opening)
        assert tokenizer.decode(prompt_ids(tokenizer, messages)) == tokenizer.decode(before)
        served.said(Reply(said))
    replies = [message for message in served.all if message["role"] == "assistant"]
    assert len(served.all) == 2 * len(replies) == 2 * len(session.asked)


def test_a_player_whose_conversation_has_no_room_is_not_asked() -> None:
    _, session = played("chatml", plain)
    asked: list[tuple[Sequence[int], SamplingParams]] = []
    replies = LanguageModelPlayer(listener(asked), tokenizer_of("chatml"), SamplingParams(20), 1).act(session.asked)
    assert len(asked) == 1
    assert [reply.truncated for reply in replies] == [False, *[True] * (len(session.asked) - 1)]
    assert {reply.text for reply in replies} == {""}


def test_a_chat_does_not_go_on_where_the_template_changed_it() -> None:
    tokenizer = tokenizer_of("chatml")
    chat = Chat(tokenizer, [1, 2])
    chat.say([3, 4], [-1.0, -1.0])
    assert not chat.goes_on([1, 2, 3, 5, 6], 100)
    assert not chat.goes_on([1, 9, 3, 4, 6], 100)
    assert not chat.goes_on([1, 2, 3, 4, 6], 4)
    assert chat.ids == [1, 2, 3, 4]
    assert chat.goes_on([1, 2, 3, 4, 6], 5)
    assert (chat.ids, chat.response_mask, chat.log_probs) == ([1, 2, 3, 4, 6], [1, 1, 0], [-1.0, -1.0, 0.0])


COLOURS = {0: "#f3f4f6", 1: "#bbf7d0"}
"""The colours of the picture: tokens that are read, and tokens that are learned."""
COLUMN, WIDTH, LINE = 38, 8.43, 19
"""Characters of a column, and the width and height of a character in pixels."""
SHOWN = {
    "qwen3_instruct_2507": "Qwen3 Instruct 2507: one trajectory",
    "qwen3": "Qwen3: one trajectory for each reply",
    "gemma3": "Gemma 3: one trajectory",
}


def picture() -> str:
    """Draw the trajectories of one game in three templates as SVG, which docs/conversations.md shows."""
    parts: list[str] = []
    bottom = 0.0
    for column, (name, title) in enumerate(SHOWN.items()):
        write = plain if name == "gemma3" else thoughtful
        outputs, _ = played(name, write, enable_thinking=True, prompt="brief", max_moves=3)
        left, top = 10 + column * (COLUMN + 3) * WIDTH, 24.0
        parts.append(f'<text x="{left}" y="{top}" font-weight="bold">{escape(title)}</text>')
        for output in outputs:
            cells = drawn(tokenizer_of(name), output)
            top += LINE / 2
            for line, text, learned in cells:
                start, row = line
                x, y = left + start * WIDTH, top + row * LINE
                parts.append(
                    f'<rect x="{x:.1f}" y="{y:.1f}" width="{len(text) * WIDTH:.1f}" height="{LINE}" '
                    f'fill="{COLOURS[learned]}"/><text x="{x:.1f}" y="{y + LINE - 5:.1f}">{escape(text)}</text>'
                )
            top += (cells[-1][0][1] + 1) * LINE
        bottom = max(bottom, top)
    width = 20 + len(SHOWN) * (COLUMN + 3) * WIDTH
    style = 'font-family="monospace" font-size="14" xml:space="preserve"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{bottom + 10:.0f}" {style}>'
    return "\n".join(
        [head, f'<rect width="{width:.0f}" height="{bottom + 10:.0f}" fill="white"/>', *parts, "</svg>", ""]
    )


def drawn(tokenizer: Any, output: AgentLoopOutput) -> list[tuple[tuple[int, int], str, int]]:
    """The pieces of a trajectory: column and row, text, and whether it is learned."""
    mask = [0] * len(output.prompt_ids) + output.response_mask
    texts = [tokenizer.decode([token]).replace("\n", "\u21b5\n") for token in output.prompt_ids + output.response_ids]
    found: list[tuple[tuple[int, int], str, int]] = []
    start = row = 0
    for text, learned in zip(texts, mask, strict=True):
        for number, piece in enumerate(text.split("\n")):
            if number or start + len(piece) > COLUMN:
                start, row = 0, row + 1
            if piece:
                found.append(((start, row), piece, learned))
                start += len(piece)
    return found


def test_the_picture_of_the_page_is_current() -> None:
    assert PICTURE.read_text() == picture()


if __name__ == "__main__":
    PICTURE.write_text(picture())
