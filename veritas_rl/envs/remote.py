"""Sessions that a server of another program plays: it writes the questions, reads the replies, and pays at the end."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Protocol, Self
from urllib.parse import urlsplit

from pydantic import model_validator

from veritas_rl.envs.base import Message, Reason, Reply, Score, Session, Turn
from veritas_rl.envs.environment import Environment
from veritas_rl.envs.settings import Number, Settings, at_least
from veritas_rl.envs.task import Manner, Task, check_least
from veritas_rl.errors import UserError

MOST_CHARACTERS = 200_000
"""The most characters of a reply; a longer reply is not sent."""


def check_address(url: str, kind: str) -> str:
    """The address without a final slash.

    Args:
        url: The address.
        kind: The name of the protocol, for messages.

    Raises:
        UserError: The text is no address, or contains a password, which would be part of all task ids.
    """
    try:
        parts = urlsplit(url)
        known = parts.scheme in ("http", "https") and bool(parts.hostname) and not (parts.query or parts.fragment)
    except ValueError:
        known = False
        parts = None
    if not known or parts is None:
        raise UserError(f"{url or 'nothing'} is no address of a server; type one such as {kind}:http://127.0.0.1:8000")
    if parts.username or parts.password:
        raise UserError(
            "the address must not contain a password, because all task ids contain the address; leave it out"
        )
    return url.rstrip("/")


@dataclass(frozen=True)
class RemoteManner(Manner):
    """The limits of calls and sessions. The server writes the prompts.

    Attributes:
        seconds: The most seconds for one call.
        most_steps: The most steps of a session; a longer session ends as unfinished.
    """

    prompts: ClassVar[tuple[str, ...]] = ("full",)

    context: str = "conversation"
    seconds: float = 120.0
    most_steps: int = 500

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least("most_steps", self.most_steps, 1)
        if not 0 < self.seconds < float("inf"):
            raise UserError(f"seconds must be more than 0, {self.seconds!r} was given")


class RemoteConfig(Settings):
    """The settings of the sessions of every kind of server.

    Attributes:
        cases: The addresses of servers, as a list or a text with commas.
        context: "conversation" is one growing chat; "turn" trains each reply separately, with the earlier chat as its
            prompt.
        seconds: The most seconds for one call of the server.
        most_steps: The most steps of a session; a longer session ends as unfinished and pays 0.
        gamma: The discount of the reward for each later reply.
    """

    protocol: ClassVar[str]
    """The name of the protocol, before the address."""

    context: str = "conversation"
    seconds: Number = 120.0
    most_steps: Annotated[int, at_least(1)] = 500
    gamma: Number = 0.99

    @model_validator(mode="after")
    def _has_servers(self) -> Self:
        urls = tuple(dict.fromkeys(check_address(case, self.protocol) for case in self.cases))
        if not urls:
            raise UserError(f"the address of the server is missing; set env={self.protocol}:http://127.0.0.1:8000")
        self._put(cases=urls)
        return self


class RemoteEnvironment(Environment):
    """The sessions of servers of one kind.

    Args:
        address: The address of the default server.
    """

    answers, solved = "replies that were accepted", "solved tasks"

    def __init__(self, address: str = "") -> None:
        self._address = address

    def read_config(self, values: Mapping[str, Any]) -> Any:
        """The configuration. The default server is the address in the environment's name."""
        return super().read_config({"cases": self._address, **values})


@dataclass(frozen=True)
class Shown:
    """What a server shows after a reset or a step.

    Attributes:
        text: The question, or the result at the end.
        done: Whether the session is over.
        reward: The reward of a session that is over, as the server sent it.
        truncated: Whether the server has stopped the session at a limit of its own.
        rejected: Whether the last reply was a mistake that may be corrected.
        refused: Whether the server does not take the last reply at all, so that the session is over.
    """

    text: str = ""
    done: bool = False
    reward: object = None
    truncated: bool = False
    rejected: bool = False
    refused: bool = False


class Played(Protocol):
    """A session on a server. Each method raises `UserError` if the server fails."""

    def reset(self) -> Shown:
        """Begin the session."""
        ...

    def step(self, reply: str) -> Shown:
        """Send a reply."""
        ...

    def stop(self) -> None:
        """Leave the session before its end."""
        ...


class RemoteSession(Session):
    """One session of a server, from the reset to its end.

    Args:
        task: The task. Its case is the server's address.
        manner: Its manner.
        played: The session on the server.
    """

    def __init__(self, task: Task, manner: RemoteManner, played: Played) -> None:
        self.task = task
        self._manner, self._played = manner, played
        self._chat: list[Message] = []
        self._steps = 0
        self._score: Score | None = None
        self._show(played.reset())
        self._opening = len(self._chat) if manner.context == "conversation" else 0

    def turns(self) -> Sequence[Turn]:
        if self._score is not None:
            return []
        return [
            Turn(
                seat=0,
                messages=tuple(self._chat),
                answers=(),
                opening=self._opening,
                dice=(self.task.chance_seed, self._steps, 0),
            )
        ]

    def step(self, replies: Mapping[int, Reply]) -> None:
        if self._score is not None:
            raise RuntimeError("the session is over")
        reply = replies[0]
        self._steps += 1
        self.rejected = {}
        cut = (
            Reason.OVERLONG
            if reply.overlong or len(reply.text) > MOST_CHARACTERS
            else Reason.TRUNCATED
            if reply.truncated
            else None
        )
        if cut is not None:
            self._leave(cut)
            return
        self._chat.append({"role": "assistant", "content": reply.text})
        shown = self._played.step(reply.text)
        if shown.refused:
            self._leave(Reason.UNPARSEABLE)
            return
        if shown.rejected and not shown.done:
            self.rejected = {0: Reason.UNPARSEABLE}
        self._show(shown)

    def scores(self) -> dict[int, Score]:
        if self._score is None:
            raise RuntimeError("the session is not over")
        return {0: self._score}

    def board(self, seat: int) -> str:
        return self._chat[-1]["content"] if self._chat else ""

    def _show(self, shown: Shown) -> None:
        """Add what the server shows to the chat, and set the score if the session is over."""
        self._chat.append({"role": "user", "content": shown.text})
        details = {"steps": self._steps}
        if shown.done:
            paid = shown.reward
            if not isinstance(paid, int | float) or isinstance(paid, bool) or not math.isfinite(paid):
                raise UserError(f"the environment at {self.task.case} returned a reward that is no number: {paid!r}")
            value = min(1.0, max(0.0, float(paid)))
            if shown.truncated:
                self._score = Score(0.0, False, Reason.UNFINISHED, details)
            else:
                won = value > 0.5
                self._score = Score(value, won, Reason.CORRECT if won else Reason.WRONG, details)
        elif self._steps >= self._manner.most_steps:
            self._leave(Reason.UNFINISHED)

    def _leave(self, reason: Reason) -> None:
        """Set the score of an unfinished session, and stop it on the server."""
        if reason.is_mistake:
            self.rejected = {0: reason}
        self._score = Score(0.0, False, reason, {"steps": self._steps})
        self._played.stop()
