"""The logic of a game between a person and a player. The page and the terminal display it.

The person plays one seat, the player all others, in its own thread. To take back a move, a new session of the same task
is played again up to that move. That gives the same deals and keeps the player's replies.
"""

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from veritas_rl.checkpoints.folder import write_whole
from veritas_rl.envs.base import Choice, Player, Reply, Score, Turn
from veritas_rl.envs.registry import get_environment
from veritas_rl.envs.task import Task
from veritas_rl.errors import UserError
from veritas_rl.viewing.games_page import read_games, write_games
from veritas_rl.viewing.recording import PlayedGame, RecordedSession

GAMES, MOVES = "games", "demonstrations.jsonl"
"""The files of finished games for the games page, and of the person's moves as demonstrations."""


@dataclass(frozen=True)
class Said:
    """The messages and the reply of a seat at a move.

    Attributes:
        player: The player.
        messages: The messages.
        reply: The reply.
    """

    player: str
    messages: Sequence[Mapping[str, str]]
    reply: str


class Table:
    """Consecutive games between a person and a player.

    Args:
        task: The first game. The task's number `k` determines deals and dice. Each further game has the next number.
        seat: The person's seat.
        player: The player of the other seats; None in a game without opponent.
        name: The player's display name.
        folder: The folder of finished games; None to save none.

    Raises:
        UserError: The game or the seat does not exist.
    """

    def __init__(self, task: Task, seat: int, player: Player | None, name: str, folder: Path | None = None) -> None:
        self._environment = get_environment(task.env)
        self.seats = self._environment.players_of(task)
        self._player, self.name, self._folder = player, name, folder
        self._first = task
        self._changed = threading.Condition(threading.RLock())
        self._one_at_a_time = threading.Lock()
        self._games = self._round = 0
        self.version = 0
        self.new_game(seat)

    def new_game(self, seat: int) -> None:
        """Begin the next game. An unfinished game is not saved.

        Args:
            seat: The person's seat.

        Raises:
            UserError: The seat does not exist.
        """
        if not 0 <= seat < self.seats:
            raise UserError(f"{self._first.case} has the seats 0 to {self.seats - 1}, got seat {seat}")
        with self._changed:
            opponent = self.name if self.seats > 1 else "none"
            task = self._first.replace(k=self._first.k + self._games, seat=seat, opponent=opponent)
            self.you, self._task = seat, task
            self._games += 1
            self._begin([])

    # Display.

    @property
    def place(self) -> str:
        """The numbers of the game and of the move. An answer is accepted only if they are unchanged."""
        return f"{self._games}.{len(self._steps)}"

    @property
    def case(self) -> str:
        return self._first.case

    @property
    def over(self) -> bool:
        """Whether the game has ended."""
        return not self._turns

    @property
    def asked(self) -> Turn | None:
        """The person's turn; None if it is not the person's turn."""
        if self.you in self._replies:
            return None
        return next((turn for turn in self._turns if turn.seat == self.you), None)

    def choices(self) -> Sequence[Choice]:
        """The person's legal moves."""
        return self._session.choices(self.you) if self.asked else ()

    def board(self) -> str:
        """The person's view of the board."""
        return self._session.board(self.you)

    @property
    def can_undo(self) -> bool:
        """Whether the person's last move may be taken back, because it revealed no hidden information."""
        return not self._session.hides and any(self.you in step for step in self._steps)

    def said(self, move: int) -> Said:
        """The messages and the reply at a move of this game, counted from 0.

        Raises:
            UserError: There is no such move, or the move is hidden until the game is over.
        """
        with self._changed:
            played = self._record.played
            if not 0 <= move < len(played):
                raise UserError(f"move {move} does not exist yet")
            if not self._may_see(played[move].seat):
                raise UserError("the messages of another seat are hidden until the game is over")
            return Said(played[move].player, played[move].messages, played[move].reply)

    def games_page(self) -> str:
        """The page of the saved games.

        Raises:
            UserError: No game was saved.
        """
        page = self._folder / f"{GAMES}.html" if self._folder else None
        if page is None or not page.exists():
            raise UserError("no game was saved yet; finish a game first")
        return page.read_text("utf-8")

    def hints(self) -> dict[str, Any]:
        """The values of the person's choices: `source`, and `choices` with name, value and good, best first."""
        with self._changed:
            session = self._session if self.asked else None
            source, found = session.hints(self.you) if session else ("", ())
        best = sorted(found, key=lambda hint: -hint.value)
        return {"source": source, "choices": [vars(hint) for hint in best]}

    def values(self) -> dict[str, Any]:
        """The content of the page as plain values."""
        with self._changed:
            # The board shows what the person may know of hidden moves.
            shown = [
                {"number": number, "seat": move.seat, "role": move.role, "action": move.action, "ok": move.accepted}
                for number, move in enumerate(self._record.played)
                if self._may_see(move.seat)
            ]
            return {
                "version": self.version,
                "place": self.place,
                "case": self.case,
                "number": self._task.k,
                "you": self.you,
                "seats": [
                    {"seat": seat, "role": self._session.role(seat), "player": self._name(seat)}
                    for seat in range(self.seats)
                ],
                "rules": self._session.rules(self.you),
                "hides": self._session.hides,
                "board": self.board(),
                "choices": [{"name": choice.name, "cells": choice.cells} for choice in self.choices()],
                "asked": self.asked is not None,
                "thinking": self._thinking,
                "moves": shown,
                "over": self._endings(),
                "can_undo": self.can_undo,
                "error": self._error,
                "kept": self._kept,
            }

    def wait(self, version: int, seconds: float) -> None:
        """Wait until the state differs from a version, or until the time is over."""
        with self._changed:
            self._changed.wait_for(lambda: self.version != version, seconds)

    def wait_for_person(self) -> None:
        """Wait until the person can act."""
        with self._changed:
            self._changed.wait_for(lambda: not self._thinking or self.asked is not None)

    # Actions of the person.

    def choose(self, index: int, place: str) -> None:
        """Play a choice by its number in `choices`.

        Raises:
            UserError: The game has moved on, or the choice does not exist.
        """
        with self._changed:
            self._check(place)
            choices = self.choices()
            if not 0 <= index < len(choices):
                raise UserError(f"the choice {index} does not exist")
            self._answer(self.you, Reply(choices[index].reply))

    def type(self, text: str, place: str) -> None:
        """Play a typed move.

        Raises:
            UserError: The game has moved on, or the text is no legal move.
        """
        with self._changed:
            self._check(place)
            reply = self._session.reply_of(self.you, text)
            if not reply:
                raise UserError(f"{text[:80]!r} is no legal move here")
            self._answer(self.you, Reply(reply))

    def undo(self) -> None:
        """Take back the person's last move and all later moves.

        Raises:
            UserError: There is no such move, or the game has hidden information.
        """
        with self._changed:
            if not self.can_undo:
                raise UserError("no move can be taken back: you made none yet, or the game has hidden information")
            last = max(index for index, step in enumerate(self._steps) if self.you in step)
            self._begin(self._steps[:last])

    def ask_again(self) -> None:
        """Ask the player again after it failed to answer."""
        with self._changed:
            if self._error:
                self._go_on()

    # Reactions to the actions.

    def _begin(self, steps: Sequence[Mapping[int, Reply]]) -> None:
        """Start the game again and repeat these steps."""
        session = self._environment.start(self._task)
        record = RecordedSession(session, self._name)
        for step in steps:
            record.step(step)
        turns = tuple(record.turns())
        self._session, self._record, self._turns = session, record, turns
        self._steps = list(steps)
        self._replies: dict[int, Reply] = {}
        self._kept = ""
        self._round += 1
        self._go_on()

    def _go_on(self) -> None:
        """Ask the player on each of its waiting seats; save a finished game."""
        self._error, self._thinking = "", False
        waiting = [turn for turn in self._turns if turn.seat != self.you and turn.seat not in self._replies]
        if self.over:
            self._keep()
        elif waiting and self._player is not None:
            self._thinking = True
            # A daemon thread does not delay the end of the process.
            threading.Thread(target=self._think, args=(waiting, self._round), daemon=True).start()
        self.version += 1
        self._changed.notify_all()

    def _think(self, turns: Sequence[Turn], round_: int) -> None:
        with self._one_at_a_time:
            if self._player is None or round_ != self._round:
                return
            try:
                replies, error = self._player.act(turns), ""
            except UserError as failed:
                replies, error = [], str(failed)
            except Exception as failed:
                # Any error is shown to the person as one line, and the person may ask the player again.
                replies, error = [], f"{self.name} failed: {type(failed).__name__}: {failed}"
        with self._changed:
            if round_ != self._round:
                return  # the move was taken back, or another game was started
            if error:
                self._error, self._thinking = error, False
                self.version += 1
                self._changed.notify_all()
                return
            self._thinking = False
            for turn, reply in zip(turns, replies, strict=True):
                self._replies[turn.seat] = reply
            self._step()

    def _check(self, place: str) -> None:
        if self.over:
            raise UserError("the game is over")
        if place != self.place or not self.asked:
            raise UserError("the game has moved on since this move was chosen; choose again")

    def _answer(self, seat: int, reply: Reply) -> None:
        self._replies[seat] = reply
        self._step()

    def _step(self) -> None:
        """Make the step when all seats have answered."""
        if {turn.seat for turn in self._turns} <= self._replies.keys():
            replies, self._replies = self._replies, {}
            self._record.step(replies)
            self._steps.append(replies)
            self._turns = tuple(self._record.turns())
            self._round += 1
        elif self._thinking:
            self.version += 1
            self._changed.notify_all()
            return
        self._go_on()

    def _may_see(self, seat: int) -> bool:
        """Whether the person may see the messages and moves of a seat."""
        return seat == self.you or self.over or not self._session.hides

    def _name(self, seat: int) -> str:
        return "you" if seat == self.you else self.name

    def _endings(self) -> list[dict[str, Any]] | None:
        if not self.over:
            return None
        scores: dict[int, Score] = self._session.scores()
        return [
            {
                "seat": seat,
                "role": self._session.role(seat),
                "player": self._name(seat),
                "reason": str(score.reason),
                "value": score.value,
            }
            for seat, score in sorted(scores.items())
        ]

    def _keep(self) -> None:
        """Add the finished game to the files of the folder."""
        if self._folder is None or self._kept:
            return
        path = self._folder / f"{GAMES}.jsonl"
        try:
            games = [*(read_games(path) if path.exists() else []), self._record.game()]
            write_games(self._folder, GAMES, games, "Games that you played")
            write_whole(self._folder / MOVES, "".join(map(_demonstrations, games)))
        except (OSError, ValueError, TypeError, KeyError) as error:
            self._error = f"the game could not be kept in {self._folder}: {error}"
            return
        self._kept = str(path)


def _demonstrations(game: PlayedGame) -> str:
    """The person's moves of a game, one JSON object per line; those of a conversation in the line of the last."""
    end = next(ending for ending in game.endings if ending.seat == game.seat)
    about = {"task_id": game.task_id, "data_source": game.task_id.partition("/")[0], "reason": end.reason}
    lines: list[dict[str, Any]] = []
    for turn, chat in game.chats(game.seat):
        if turn.accepted:
            if turn.goes_on:
                del lines[-1:]
            lines.append({"messages": list(chat), "response": turn.reply, **about, "value": end.value})
    return "".join(json.dumps(line) + "\n" for line in lines)
