"""The open sessions of a server. Their number is limited, idle sessions are ended, and each session runs one
step at a time.

An `Episode` is a session with bots on the seats that are not the client's. It shows the client one turn at a time, even
if several of the client's seats move simultaneously. `Episodes` holds the open episodes by their ids.
"""

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from veritas_rl.envs.base import Player, Reply, Score, Session, Turn, shape
from veritas_rl.envs.registry import get_environment
from veritas_rl.envs.task import Task
from veritas_rl.errors import UserError
from veritas_rl.players.registry import make_bot

KEPT_RESULTS = 1000
"""The number of finished sessions whose results are kept."""


QUICK, QUICK_STEPS = ("none", "random"), 100
"""The first `QUICK_STEPS` steps of a game take less than a millisecond each against the opponents `QUICK`."""


class Refused(UserError):
    """A request that the server refuses, with the HTTP status."""

    def __init__(self, code: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Shown:
    """The observation of a client after a reset or a step.

    Attributes:
        turn: The turn to answer; None at the end.
        rewards: At the end, the reward of each seat, in [0, 1].
        reward: The reward of the client's seat that acted last; 0 before the end.
        done: Whether the session is over.
        scores: At the end, the score of each seat.
        rejected: Why the last reply was rejected, if another reply is allowed.
        board: At the end, the view of the client's seat.
        steps: The number of the client's replies.
    """

    turn: Turn | None
    rewards: Mapping[int, float] = field(default_factory=dict)
    reward: float = 0.0
    done: bool = False
    scores: Mapping[int, Score] = field(default_factory=dict)
    rejected: str = ""
    board: str = ""
    steps: int = 0

    @property
    def text(self) -> str:
        """The messages of the turn as one text, in a conversation those since the last reply; at the end the result."""
        if self.turn is not None:
            messages = self.turn.messages
            shown = messages[-1:] if 0 < self.turn.opening < len(messages) else messages
            return "\n\n".join(message["content"] for message in shown)
        results = [f"seat {seat}: {score.reason}, {score.value:g}" for seat, score in sorted(self.scores.items())]
        lines = ["The session is over.", *results, *([self.board] if self.board else [])]
        return "\n".join(lines)


class Episode:
    """One session of a client.

    Args:
        task: The task. Its manner names the client's seat and the opponent.
        session: The session of the task; by default the environment's usual one.
        notes: Notes on the task for the client.
    """

    def __init__(self, task: Task, session: Session | None = None, notes: list[str] | None = None) -> None:
        self.task = task
        self.notes = notes or []
        self.session = session or get_environment(task.env).start(task)
        self.history: list[tuple[int, str]] = []
        """The seat and the name of each action so far. It may contain hidden information."""
        self._bot: Player | None = None
        if task.manner.opponent != "none":
            self._bot = make_bot(task.manner.opponent, task.env)
        self._waiting: list[Turn] = []
        self._replies: dict[int, Reply] = {}
        self._steps = 0
        self._last_seat = max(task.manner.seat, 0)
        self._advance()
        self.shown = self._show("")

    @property
    def is_quick(self) -> bool:
        """Whether a step is fast: no opponent searches, and the game is not long."""
        return self.task.mode == "episode" and self.task.manner.opponent in QUICK and self._steps < QUICK_STEPS

    def answer(self, reply: Reply) -> Shown:
        """Answer the current turn.

        Raises:
            Refused: The session is over.
        """
        if not self._waiting:
            raise Refused(HTTPStatus.CONFLICT, "the session is over: reset starts another one")
        turn = self._waiting.pop(0)
        self._replies[turn.seat] = reply
        self._last_seat = turn.seat
        self._steps += 1
        rejected = ""
        if not self._waiting:
            self._step()
            rejected = str(self.session.rejected.get(turn.seat, ""))
            self._advance()
        self.shown = self._show(rejected)
        return self.shown

    def _step(self) -> None:
        self.session.step(self._replies)
        self.history += self.session.actions.items()
        self._replies = {}

    def _advance(self) -> None:
        """Let the bots play until it is the client's turn or the session is over."""
        while turns := self.session.turns():
            mine = [turn for turn in turns if self._bot is None or turn.seat == self.task.manner.seat]
            if self._bot is not None and len(mine) < len(turns):
                others = [turn for turn in turns if turn.seat != self.task.manner.seat]
                replies = self._bot.act(others)
                self._replies = {turn.seat: reply for turn, reply in zip(others, replies, strict=True)}
            if mine:
                self._waiting = mine
                return
            self._step()

    def _show(self, rejected: str) -> Shown:
        if self._waiting:
            return Shown(self._waiting[0], rejected=rejected, steps=self._steps)
        scores = self.session.scores()
        rewards = {seat: shape(score, self.task) for seat, score in scores.items()}
        mine = self._last_seat if self._bot is None else self.task.manner.seat
        return Shown(
            None,
            rewards,
            rewards.get(mine, 0.0),
            done=True,
            scores=scores,
            board=self.session.board(mine),
            steps=self._steps,
        )

    @property
    def seat(self) -> int:
        """The client's seat; with several seats, the seat to move."""
        if self._bot is not None:
            return self.task.manner.seat
        return self._waiting[0].seat if self._waiting else self._last_seat

    def describe(self) -> dict[str, Any]:
        """Further information for a client, as plain values."""
        shown = self.shown
        info: dict[str, Any] = {
            "env": self.task.env,
            "task": self.task.id,
            "case": self.task.case,
            "seed": self.task.seed,
            "seat": self.seat,
            "opponent": self.task.manner.opponent,
            "step_count": shown.steps,
        }
        if self.notes:
            info["notes"] = self.notes
        if shown.rejected:
            info["rejected"] = shown.rejected
        if shown.turn is not None:
            info["messages"] = list(shown.turn.messages)
        if shown.done:
            info["scores"] = {str(seat): plain_score(score) for seat, score in shown.scores.items()}
            info["rewards"] = {str(seat): reward for seat, reward in shown.rewards.items()}
        return info


def plain_score(score: Score) -> dict[str, Any]:
    """A score as plain values."""
    return {"value": score.value, "success": score.success, "reason": str(score.reason), **score.details}


@dataclass
class _Place:
    """The entry of an episode, which is None until the episode is made."""

    episode: Episode | None
    used: float
    lock: threading.Lock = field(default_factory=threading.Lock)


class Episodes:
    """The open sessions, each with an id that cannot be guessed. Any thread may use it.

    Args:
        most: The maximum number of open sessions.
        idle: The seconds without a step after which a session ends.
        clock: Returns the time in seconds.
    """

    def __init__(self, most: int, idle: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.most = most
        self.idle = idle
        self._clock = clock
        self._lock = threading.Lock()
        self._open: OrderedDict[str, _Place] = OrderedDict()
        """The entries by id, in the order of their last use."""
        self._finished: OrderedDict[str, Episode] = OrderedDict()

    def __len__(self) -> int:
        with self._lock:
            self._expire()
            return len(self._open)

    def open(self, make: Callable[[], Episode]) -> tuple[str, Episode]:
        """Make an episode.

        Raises:
            Refused: Too many sessions are open.
            UserError: As `make`.
        """
        name = secrets.token_hex(16)
        place = _Place(None, self._clock())
        place.lock.acquire()
        try:
            with self._lock:
                self._expire()
                if len(self._open) >= self.most:
                    raise Refused(
                        HTTPStatus.SERVICE_UNAVAILABLE, f"{self.most} sessions are open, which is the limit; try later"
                    )
                self._open[name] = place
            try:
                place.episode = make()
            except BaseException:
                self.drop(name)
                raise
            self._used(name, place)
            return name, place.episode
        finally:
            place.lock.release()

    def answer(self, name: str, reply: Reply) -> Episode:
        """Answer the current turn of an episode.

        Raises:
            Refused: The episode does not exist, is over, or runs another step.
        """
        with self._lock:
            self._expire()
            place = self._open.get(name)
            over = name in self._finished
        if over:
            raise Refused(HTTPStatus.CONFLICT, "the session is over: reset starts another one")
        if place is None:
            raise Refused(HTTPStatus.NOT_FOUND, self._gone())
        if not place.lock.acquire(blocking=False):
            raise Refused(HTTPStatus.CONFLICT, "another step of this session is running; wait for its response")
        try:
            if place.episode is None:
                raise Refused(HTTPStatus.NOT_FOUND, self._gone())
            try:
                place.episode.answer(reply)
            except Refused:
                raise
            except BaseException:  # a failed step leaves the session in an unknown state, so the session ends
                self.drop(name)
                raise
            self._used(name, place)
            return place.episode
        finally:
            place.lock.release()

    def look(self, name: str) -> Episode:
        """An episode, open or finished.

        Raises:
            Refused: The episode does not exist.
        """
        with self._lock:
            self._expire()
            place = self._open.get(name)
            found = place.episode if place else self._finished.get(name)
        if found is None:
            raise Refused(HTTPStatus.NOT_FOUND, self._gone())
        return found

    def drop(self, name: str) -> bool:
        """End an episode; return whether it existed."""
        with self._lock:
            return (self._open.pop(name, None) or self._finished.pop(name, None)) is not None

    def _used(self, name: str, place: _Place) -> None:
        """Record the use of an episode. A finished episode no longer counts towards the limit."""
        with self._lock:
            if name not in self._open:
                return  # the session was stopped in the meantime
            place.used = self._clock()
            if place.episode is not None and place.episode.shown.done:
                del self._open[name]
                self._finished[name] = place.episode
                while len(self._finished) > KEPT_RESULTS:
                    self._finished.popitem(last=False)
            else:
                self._open.move_to_end(name)

    def _expire(self) -> None:
        """End sessions that were idle for too long."""
        until = self._clock() - self.idle
        while self._open:
            name, place = next(iter(self._open.items()))
            if place.used > until or place.lock.locked():
                return
            del self._open[name]

    def _gone(self) -> str:
        return f"there is no such session: it was stopped, or nobody used it for {self.idle:g} s; reset starts another"
