"""A whole game in the turn protocol of affinetes' OpenSpiel environment, with its answers, attempts and score.

- A seat has one chat: the rules first, then at each turn the position and the legal actions as `id -> name`, by
  OpenSpiel's own numbers. The reply is the id alone.
- A turn may be answered three times. After the third mistake the game is over, and the seat has lost it.
- A finished game pays by `Game.outcome` on the scale "utility": zero-sum games in proportion to the return, others by
  rank. It is won above 0.5.

The wording of the messages differs from that environment; the scores of the same moves are equal.
"""

import re
from collections.abc import Mapping, Sequence

from veritas_rl.envs.answers import visible_part
from veritas_rl.envs.base import Message, Reason, Reply, Score, Turn
from veritas_rl.envs.openspiel import playing
from veritas_rl.envs.openspiel.game_session import GameSession
from veritas_rl.envs.openspiel.games import Game
from veritas_rl.envs.openspiel.task import OpenSpielTask
from veritas_rl.envs.openspiel.values import result
from veritas_rl.envs.openspiel.view import View

ATTEMPTS = 3
"""The maximum number of answers to a turn."""

_NUMBER = re.compile(r"(?<![\w.-])[0-9]{1,9}(?![\w.-]*\w)")


class IdSession(GameSession):
    """A whole game that is answered by ids.

    Args:
        task: The task.
        game: The task's game.
    """

    def __init__(self, task: OpenSpielTask, game: Game) -> None:
        super().__init__(task, game, game.spiel.new_initial_state())
        self._most_moves = task.manner.max_moves or game.max_moves
        self._chats: dict[int, list[Message]] = {}
        self._left: dict[int, int] = {}
        self._mistakes = dict.fromkeys(range(game.players), 0)
        self._advance()

    def step(self, replies: Mapping[int, Reply]) -> None:
        if not self._turns:
            raise RuntimeError("the session is over")
        rejected: dict[int, Reason] = {}
        actions: dict[int, str] = {}
        self.rejected, self.actions = rejected, actions
        for turn in self._turns:
            seat, legal = turn.seat, turn.view.actions
            self._chats[seat].append({"role": "assistant", "content": replies[seat].text})
            said = read_id(replies[seat], legal)
            if isinstance(said, Reason):
                rejected[seat] = said
                self._mistakes[seat] += 1
                self._left[seat] -= 1
            else:
                self._accepted[seat] = said
                actions[seat] = f"{said} -> {self._state.action_to_string(seat, said)}"
        lost = {seat: reason for seat, reason in rejected.items() if not self._left[seat]}
        if lost:
            self._end({seat: self._score(seat, 0.0, lost.get(seat, Reason.FORFEITED)) for seat in self._mistakes})
        elif rejected:
            for seat in rejected:
                wanted = "Answer with the id of one legal action, a single number, and nothing else."
                left = self._left[seat]
                again = f"That was no legal answer. {wanted} Attempts left: {left}."
                self._chats[seat].append({"role": "user", "content": again})
            self._turns = tuple([self._turn(turn.seat, turn.view) for turn in self._turns if turn.seat in rejected])
        else:
            self._moves += len(self._accepted)
            self.game.apply(self._state, self._accepted)
            self._advance()

    def _advance(self) -> None:
        """Advance to the next decision or to the end."""
        game, state = self.game, self._state
        playing.deal(state, self._chance_seed)
        if state.is_terminal() or self._moves >= self._most_moves:
            returns, over = state.returns(), state.is_terminal()
            scores: dict[int, Score] = {}
            for seat in range(game.players):
                value = game.outcome(returns, seat, "utility") if over else 0.0
                reason = result(value) if over else Reason.UNFINISHED
                scores[seat] = self._score(seat, value, reason, {"return": returns[seat]})
            self._end(scores)
            return
        seats = game.movers(state)
        self._accepted, self._left = {}, dict.fromkeys(seats, ATTEMPTS)
        turns = []
        for seat in seats:
            chat = self._chats.setdefault(seat, [{"role": "system", "content": self._rules(seat)}])
            legal = tuple(state.legal_actions(seat))
            listed = "\n".join([f"{action} -> {state.action_to_string(seat, action)}" for action in legal])
            position = game.position(state, seat)
            asked = f"Current position:\n{position}\n\nYou are player {seat}.\nLegal actions:\n{listed}\n\nYour choice:"
            chat.append({"role": "user", "content": asked})
            turns.append(self._turn(seat, View(state.clone(), legal, game.case)))
        self._turns = tuple(turns)

    def _rules(self, seat: int) -> str:
        game = self.game
        said = 'Answer with the id of one legal action, a single number, and nothing else, as "89" for "89 -> a3".'
        return f"{game.rules()}\n\nYou are {game.role(seat)}. {game.objective('utility')}\n\n{said}"

    def _turn(self, seat: int, view: View) -> Turn:
        chat = self._chats[seat]
        return Turn(
            seat=seat,
            messages=tuple(chat),
            answers=tuple([str(action) for action in view.actions]),
            opening=2 if self.task.manner.context == "conversation" else 0,  # the rules and the first position
            dice=(self._chance_seed, self._state.move_number(), seat),
            view=view,
        )

    def _end(self, scores: dict[int, Score]) -> None:
        self._scores, self._turns = scores, ()

    def _score(self, seat: int, value: float, reason: Reason, details: Mapping[str, float] | None = None) -> Score:
        counted = {"moves": self._moves, "mistakes": self._mistakes[seat]}
        return Score(value, reason is Reason.WON, reason, {**(details or {}), **counted})


def read_id(reply: Reply, legal: Sequence[int]) -> int | Reason:
    """The legal action that a reply names: the reply is its id, or contains no other legal id."""
    said = visible_part(reply)
    if isinstance(said, Reason):
        return said
    plain = (said if isinstance(said, str) else "\n".join(said.inside)).strip()
    if plain.isascii() and plain.isdigit():
        said = int(plain[:10])
        return said if said in legal and len(plain) < 10 else Reason.ILLEGAL
    numbers = {int(found) for found in _NUMBER.findall(plain)}
    named = numbers & set(legal)
    if len(named) == 1:
        return named.pop()
    if named:
        return Reason.AMBIGUOUS
    return Reason.ILLEGAL if numbers else Reason.UNPARSEABLE
