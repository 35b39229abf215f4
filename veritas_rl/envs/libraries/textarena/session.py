"""A game of TextArena as a session."""

import math
import re
from collections.abc import Mapping, Sequence

from veritas_rl.envs.answers import boxed
from veritas_rl.envs.base import FAULT, Reason, Reply, Score, Session, Turn, error_detail
from veritas_rl.envs.libraries.textarena.games import Game
from veritas_rl.envs.libraries.textarena.random_answers import Position
from veritas_rl.envs.task import Task

_BRACKETS = re.compile(r"\[[^\[\]\n]*\]")

UNREADABLE = (ValueError, IndexError, KeyError)
"""What the library raises if it cannot read an answer, such as a number of thousands of digits."""


class TextArenaSession(Session):
    """A whole game.

    The library writes the questions and reads the answers. It allows a seat some mistakes in a row, most games one, and
    asks again. After one more, and after a reply without any answer, a game of one or two is over and pays nothing to
    any seat. With more seats the library goes on without the seat if it can. A game that fails is unfinished and pays
    nothing, and nobody has made a mistake.

    Args:
        task: The task.
        game: A new game.
        most_moves: The most answers of a game. A longer game is stopped and pays nothing.
    """

    def __init__(self, task: Task, game: Game, most_moves: int) -> None:
        self.task = task
        self._game, self._most_moves = game, most_moves
        self._moves = 0
        self._mistakes = [0] * game.seats
        self._scores: dict[int, Score] | None = None
        self._shown = [""] * game.seats
        self._turns: tuple[Turn, ...] = ()
        self._ask()

    def turns(self) -> Sequence[Turn]:
        return self._turns

    def step(self, replies: Mapping[int, Reply]) -> None:
        if not self._turns:
            raise RuntimeError("the session is over")
        seat = self._turns[0].seat
        self.rejected, self.actions = {}, {}
        self._moves += 1
        said = boxed(replies[seat], whole=True)
        if not isinstance(said, Reason) and len({found.strip() for found in _BRACKETS.findall(said)}) > 1:
            said = Reason.AMBIGUOUS  # the library would take the first one that it can read
        if isinstance(said, Reason):
            self._forfeit(seat, said)
            return
        try:
            accepted, over = self._game.move(said)
        except UNREADABLE:
            self._forfeit(seat, Reason.ILLEGAL)
            return
        except Exception as error:  # a fault of the library
            self._stop(error)
            return
        if accepted:
            self.actions = {seat: said}
        else:
            self._mistakes[seat] += 1
            self.rejected = {seat: Reason.ILLEGAL}
        if over:
            self._turns, self._scores = (), self._finished()
        elif self._moves >= self._most_moves:
            self._stop()
        else:
            self._ask()

    def scores(self) -> dict[int, Score]:
        if self._scores is None:
            raise RuntimeError("the session is not over")
        return self._scores

    def board(self, seat: int) -> str:
        return self._shown[seat]

    def role(self, seat: int) -> str:
        return self._game.role(seat)

    def reply_of(self, seat: int, text: str) -> str:
        (turn,) = self._turns
        return text if turn.view.accepts(text) else ""

    def _ask(self) -> None:
        try:
            seat, shown = self._game.asked()
        except Exception as error:  # a fault of the library
            self._stop(error)
            return
        self._shown[seat] = shown
        if self._game.has_failed(seat):  # some games ask on
            if self._game.seats > 2:
                self._stop()
            else:
                self._forfeit(seat, Reason.ILLEGAL)
            return
        self._turns = (
            Turn(
                seat=seat,
                messages=({"role": "user", "content": shown},),
                answers=(),
                dice=(self.task.chance_seed, self._moves, seat),
                view=Position(self._game, shown),
            ),
        )

    def _stop(self, fault: Exception | None = None) -> None:
        """End a game that has no result. A seat that has failed has made a mistake all the same."""
        details = {FAULT: error_detail(fault)} if fault else {}
        self._turns = ()
        self._scores = {
            seat: self._score(seat, 0.0, Reason.ILLEGAL if self._game.has_failed(seat) else Reason.UNFINISHED, details)
            for seat in range(self._game.seats)
        }

    def _forfeit(self, seat: int, reason: Reason) -> None:
        self._mistakes[seat] += 1
        self.rejected = {seat: reason}
        self._turns = ()
        self._scores = {
            one: self._score(one, 0.0, reason if one == seat else Reason.FORFEITED) for one in range(self._game.seats)
        }

    def _finished(self) -> dict[int, Score]:
        """The scores of a finished game."""
        game, rewards = self._game, self._game.rewards()
        failed = [seat for seat in rewards if game.has_failed(seat)]
        found: dict[int, Score] = {}
        for seat, reward in rewards.items():
            if seat in failed:
                found[seat] = self._score(seat, 0.0, Reason.ILLEGAL)
            elif failed and game.seats == 2:
                found[seat] = self._score(seat, 0.0, Reason.FORFEITED)
            elif math.isnan(reward):
                found[seat] = self._score(seat, 0.0, Reason.UNFINISHED)
            else:
                found[seat] = self._score(seat, *_value(reward, game.seats), {"return": reward})
        return found

    def _score(
        self, seat: int, value: float, reason: Reason, details: Mapping[str, float | str] | None = None
    ) -> Score:
        logged = {**(details or {}), "moves": self._moves, "mistakes": self._mistakes[seat]}
        return Score(value, reason is Reason.WON, reason, logged)


def _value(reward: float, seats: int) -> tuple[float, Reason]:
    """The value of a reward, and what it means.

    A game of one seat pays from 0 to 1, and 1 is the goal. Other games pay from -1 to 1, and more than 0 is a win.
    """
    if seats == 1:
        value = min(max(reward, 0.0), 1.0)
        return value, Reason.WON if value == 1 else Reason.LOST
    value = (min(max(reward, -1.0), 1.0) + 1) / 2
    return value, Reason.WON if reward > 0 else Reason.LOST if reward < 0 else Reason.DRAWN
