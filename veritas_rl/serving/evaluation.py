"""One evaluation: a model at an OpenAI-compatible address plays one task to its end, and is scored.

The result has the form of affinetes' environments: task_name, score, success, time_taken, extra; and error and
error_type if the model gave no answer.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from veritas_rl.envs.abilities import name_of
from veritas_rl.envs.base import Message, Missing, Reply, Turn
from veritas_rl.envs.registry import get_environment
from veritas_rl.players.chat_client import Asked, ChatClient, ServerFailure
from veritas_rl.serving.episodes import Episode, plain_score

T = TypeVar("T")
InThread = Callable[[Callable[[], T]], Awaitable[T]]
"""Runs a function in a thread."""


class Conversation:
    """The messages of a model in one session: a new chat for each turn, or one growing chat."""

    def __init__(self) -> None:
        self.all: list[Message] = []
        """Every message, in order."""
        self._chat: list[Message] = []

    def asked(self, turn: Turn) -> list[Message]:
        """The messages for a turn."""
        # A conversation, and a turn that follows a mistake, repeat the earlier messages, which are already recorded.
        known = len(self._chat) if list(turn.messages[: len(self._chat)]) == self._chat else 0
        self.all += turn.messages[known:]
        self._chat = list(turn.messages)
        return self._chat

    def said(self, reply: Reply) -> None:
        """Record the model's reply."""
        message = {"role": "assistant", "content": reply.text}
        self._chat = [*self._chat, message]
        self.all.append(message)


async def evaluate(
    make: Callable[[], Episode],
    asked: Asked,
    client: ChatClient,
    in_thread: InThread[Any],
    seconds: float,
) -> dict[str, Any]:
    """Let a model play a session to its end.

    Args:
        make: Makes the episode.
        asked: The model and its sampling settings.
        client: The client of the model's server.
        in_thread: Runs a slow function in a thread.
        seconds: The time limit of the evaluation in seconds.

    Returns:
        The result as plain values. A model that gives no answer gets score 0 and an error.

    Raises:
        UserError: The task does not exist.
    """
    begun = time.monotonic()
    episode: Episode = await in_thread(make)
    conversation, read, written, failure = Conversation(), 0, 0, ""
    try:
        async with asyncio.timeout(seconds):
            while (turn := episode.shown.turn) is not None:
                reply = await client.ask(asked, conversation.asked(turn))
                if reply.missing is Missing.WITHHELD:
                    failure = "a filter of the provider withheld a reply"
                    break
                conversation.said(reply)
                read, written = read + reply.prompt_tokens, written + reply.tokens
                await in_thread(lambda given=reply: episode.answer(given))
    except ServerFailure as error:
        failure = str(error)
    except TimeoutError:
        failure = f"the evaluation was not over after {seconds:g} s"
    return _result(episode, asked, conversation, (read, written), failure, time.monotonic() - begun)


def _result(
    episode: Episode,
    asked: Asked,
    conversation: Conversation,
    tokens: tuple[int, int],
    failure: str,
    seconds: float,
) -> dict[str, Any]:
    task, shown = episode.task, episode.shown
    environment = get_environment(task.env)
    group = environment.group(task)
    seat = max(task.manner.seat, 0)
    score = shown.scores.get(seat)
    returns = [found.details.get("return") for _, found in sorted(shown.scores.items())]
    extra: dict[str, Any] = {
        "conversation": conversation.all,
        "action_history": [_action(player, name, player == seat) for player, name in episode.history],
        "observation": shown.board or shown.text,
        "task_type": group,
        "game_name": group,
        "task_id": name_of(environment, task).task_id,
        "seed": task.seed,
        "opponent_type": task.manner.opponent,
        "llm_player_id": seat,
        "final_return": score.details.get("return") if score else None,
        "all_returns": returns if shown.done and None not in returns else None,
        "usage": {"prompt_tokens": tokens[0], "completion_tokens": tokens[1], "total_tokens": sum(tokens)},
        "model": asked.model,
        "task": task.id,
        "reason": str(score.reason) if score else "",
        "scores": {str(player): plain_score(found) for player, found in sorted(shown.scores.items())},
        "notes": episode.notes,
    }
    result: dict[str, Any] = {
        "task_name": f"{task.env}:{group}",
        "score": score.value if score else 0.0,
        "success": bool(score and score.success),
        "time_taken": seconds,
        "extra": extra,
    }
    if failure:
        result |= {"error": failure, "error_type": "llm_failure"}
    return result


def _action(player: int, name: str, is_llm: bool) -> dict[str, Any]:
    """An action in the form of affinetes' lists, such as "4 -> x(1,1)". The id is included if games are
    answered by ids."""
    number, arrow, named = name.partition(" -> ")
    by_id = bool(arrow) and number.isdigit()
    return {
        "player_id": player,
        "action": int(number) if by_id else name,
        "action_str": named if by_id else name,
        "is_llm": is_llm,
    }
