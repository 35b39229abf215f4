"""The same messages are the same tokens in fine-tuning, RL, evaluation and serving, or are refused by name."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from omegaconf import OmegaConf
from published_templates import PUBLISHED, generation_config_of, tokenizer_of
from scripted_loop import loop_with
from verl.workers.rollout.replica import TokenOutput

from veritas_rl.datasets.rows import write_parquet
from veritas_rl.envs.base import Message, Reason, Reply, Score, Session, Turn
from veritas_rl.envs.registry import make_task
from veritas_rl.errors import UserError
from veritas_rl.players.language_model import LanguageModelPlayer
from veritas_rl.players.loading import LoadedModel
from veritas_rl.players.sampling import Completion, SamplingParams
from veritas_rl.serving.chat import ChatRequest, ServedModel
from veritas_rl.verl_plugin.sft_dataset import FineTuningRows

SYSTEM: Message = {"role": "system", "content": "Play well."}
QUESTION: Message = {"role": "user", "content": "Your move."}
REPLY: Message = {"role": "assistant", "content": "<think>\nhm\n</think>\n\nb2"}
AGAIN: Message = {"role": "user", "content": "And now?"}

CHATS = {
    "a question": (QUESTION,),
    "a system message": (SYSTEM, QUESTION),
    "a conversation": (QUESTION, REPLY, AGAIN),
    "a conversation with a system message": (SYSTEM, QUESTION, REPLY, AGAIN),
    "two questions in a row": (QUESTION, AGAIN),
}
WITH_SYSTEM = {name for name, chat in CHATS.items() if SYSTEM in chat}


class Asking(Session):
    """A session of one turn with these messages."""

    def __init__(self, messages: tuple[Message, ...]) -> None:
        self.task = make_task("openspiel", "tic_tac_toe", 3)
        self._turns = (Turn(0, messages, ()),)

    def turns(self) -> tuple[Turn, ...]:
        return self._turns

    def step(self, replies: Mapping[int, Reply]) -> None:
        self._turns = ()

    def scores(self) -> dict[int, Score]:
        return {0: Score(0.0, False, Reason.UNPARSEABLE)}


def in_fine_tuning(name: str, messages: tuple[Message, ...], thinking: bool, folder: Path) -> list[int]:
    write_parquet(folder / "rows.parquet", [{"messages": [*messages, {"role": "assistant", "content": "c3"}]}])
    config = {"apply_chat_template_kwargs": {"enable_thinking": thinking}}
    rows = FineTuningRows(folder / "rows.parquet", tokenizer_of(name), config)
    last = rows[len(rows) - 1]
    ids, mask = last["input_ids"].tolist(), last["loss_mask"].tolist()
    return ids[: len(ids) - mask[::-1].index(0)]


def in_rl(name: str, messages: tuple[Message, ...], thinking: bool, folder: Path) -> list[int]:
    asked: list[list[int]] = []
    nodes: dict[str, Any] = {"rollout": {"prompt_length": 2000, "response_length": 8, "agent": {"num_workers": 1}}}
    data = {"apply_chat_template_kwargs": {"enable_thinking": thinking}}
    config = OmegaConf.create({"actor_rollout_ref": nodes, "trainer": {"nnodes": 1}, "data": data})

    async def generate(**request: Any) -> TokenOutput:
        asked.append(request["prompt_ids"])
        return TokenOutput(token_ids=[1], log_probs=[-0.5], stop_reason="completed")

    async def run() -> None:
        loop = loop_with(generate, tokenizer_of(name), config, generation_config_of(name))
        session = Asking(messages)
        await loop.play(session.task.replace(opponent="self", seat=0, mode="episode"), session, {})

    asyncio.run(run())
    return asked[0]


def in_evaluation(name: str, messages: tuple[Message, ...], thinking: bool, folder: Path) -> list[int]:
    asked: list[Any] = []

    def generate(requests: Any) -> list[Completion]:
        asked.extend(requests)
        return [Completion([], [], "stop") for _ in requests]

    engine: Any = SimpleNamespace(generate=generate)
    LanguageModelPlayer(engine, tokenizer_of(name), SamplingParams(8), 1, enable_thinking=thinking).act(
        [Turn(0, messages, ())]
    )
    return list(asked[0][0])


def in_serving(name: str, messages: tuple[Message, ...], thinking: bool, folder: Path) -> list[int]:
    engine: Any = SimpleNamespace(max_model_len=4000)
    asked = ChatRequest.model_validate(
        {"messages": list(messages), "chat_template_kwargs": {"enable_thinking": thinking}}
    )
    return asyncio.run(ServedModel(LoadedModel(engine, tokenizer_of(name), "")).prepare(asked))[0]


@pytest.mark.parametrize("name", PUBLISHED)
@pytest.mark.parametrize("chat", CHATS)
@pytest.mark.parametrize("thinking", [False, True])
def test_the_same_messages_are_the_same_tokens_or_are_refused_by_name(
    name: str, chat: str, thinking: bool, tmp_path: Path
) -> None:
    messages, published = CHATS[chat], PUBLISHED[name]
    ways = (in_fine_tuning, in_rl, in_evaluation, in_serving)
    refused = (chat in WITH_SYSTEM and not published.system) or (
        chat == "two questions in a row" and published.alternating
    )
    if refused:
        roles = f"{messages[0]['role']}, {messages[1]['role']}"
        for way in ways:
            with pytest.raises(
                UserError, match=rf"chat template does not accept messages of the roles {roles}"
            ) as error:
                way(name, messages, thinking, tmp_path)
            assert way is not in_serving or getattr(error.value, "code", None) == 400
        return
    first, *others = [way(name, messages, thinking, tmp_path) for way in ways]
    assert others == [first] * len(others)
    shown = tokenizer_of(name).decode(first)
    assert all(message["content"] in shown for message in messages if message["role"] != "assistant")
