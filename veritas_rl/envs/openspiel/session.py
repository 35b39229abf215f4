"""The session of a single OpenSpiel move or of a whole game."""

import dataclasses
from collections.abc import Mapping, Sequence

from veritas_rl.envs.base import MEASURE, Choice, Hint, Reason, Reply, Score, Turn
from veritas_rl.envs.openspiel import playing, positions, text
from veritas_rl.envs.openspiel.game_session import GameSession
from veritas_rl.envs.openspiel.games import Decision, Game
from veritas_rl.envs.openspiel.parsing import read_action
from veritas_rl.envs.openspiel.task import OpenSpielTask
from veritas_rl.envs.openspiel.values import MoveValues, move_values, result, state_value
from veritas_rl.envs.openspiel.view import View

QUOTED_CHARACTERS = 2000
"""The maximum number of characters quoted from a mistaken reply that the player may correct."""


class OpenSpielSession(GameSession):
    """A single move, or a whole game.

    In the reward mode "legal" a legal single move pays 1. In "outcome" it pays its value, see the package `values`. In
    "optimal" it pays 1 minus its loss against the best move, so the full reward is possible even in a lost position. If
    several players move simultaneously, the single move is that of one of them, and the others move at random.

    A whole game starts at the root. Chance is drawn from (`Task.chance_seed`, ply), so a task has the same deals on the
    same path. A seat's mistake ends the game when its retries are used up, and pays nothing to any seat, so no seat
    profits from it. A game that reaches the limit of moves pays each seat the value of its position. All seats are
    scored.

    Args:
        task: The task.
        game: The task's game.
        decision: The decision of a single move; by default the task's own position.
    """

    def __init__(self, task: OpenSpielTask, game: Game, decision: Decision | None = None) -> None:
        if task.mode == "move":
            asked = decision or positions.decision_of(game.case, task.k, task.seed, task.part, task.parameters.depth)
            state, self._asked = asked[0], (asked[1],)
        else:
            state, self._asked = game.spiel.new_initial_state(), ()
        super().__init__(task, game, state)
        self._manner, self._pay = task.manner, task.pay
        self._names: dict[int, dict[int, str]] = {}
        self._retries = [task.manner.retries] * game.players
        self._mistakes = [0] * game.players
        self._said: dict[int, tuple[Turn, str]] = {}
        """In a conversation, the last turn and reply of each seat."""
        self._advance()

    def step(self, replies: Mapping[int, Reply]) -> None:
        if not self._turns:
            raise RuntimeError("the session is over")
        rejected: dict[int, Reason] = {}
        actions: dict[int, str] = {}
        self.rejected, self.actions = rejected, actions
        for turn in self._turns:
            names = self._names[turn.seat]
            if turn.opening:
                self._said[turn.seat] = turn, replies[turn.seat].text
            action = read_action(replies[turn.seat], self.game, self._state, turn.seat, self.game.listed(names))
            if isinstance(action, Reason):
                rejected[turn.seat] = action
            else:
                self._accepted[turn.seat] = action
                actions[turn.seat] = names[action]
        if rejected:
            for seat in rejected:
                self._mistakes[seat] += 1
            final = {seat: reason for seat, reason in rejected.items() if not self._retries[seat]}
            if not final:
                self._ask_again(replies)
                return
            self._forfeit(final)
        elif self.task.mode == "move":
            self._scores = {seat: self._judge(seat, action) for seat, action in self._accepted.items()}
        else:
            self._moves += len(self._accepted)
            self.game.apply(self._state, self._accepted)
        self._advance()

    def anticipate(self) -> None:
        if self.task.mode == "move" and self._pay.reward != "legal":
            for turn in self._turns:
                self._values(turn.seat).anticipate(best=self._pay.reward == "optimal")

    def rules(self, seat: int) -> str:
        return f"{self.game.rules()}\n\nYou are {self.game.role(seat)}. {self.game.objective(self._pay.scale)}"

    @property
    def hides(self) -> bool:
        return self.game.hidden

    def choices(self, seat: int) -> Sequence[Choice]:
        names = self._names[seat]
        return [
            Choice(name, text.answer(number), self.game.cells(self._state, seat, action, name))
            for (action, name), number in zip(names.items(), self.game.listed(names), strict=True)
        ]

    def reply_of(self, seat: int, text: str) -> str:
        reply = Reply(f"\\boxed{{{text}}}")
        action = read_action(reply, self.game, self._state, seat, self.game.listed(self._names[seat]))
        return "" if isinstance(action, Reason) else reply.text

    def hints(self, seat: int) -> tuple[str, Sequence[Hint]]:
        values = move_values(self.game, self._state, seat, self._pay)
        return values.source, [
            Hint(name, values.of(action).value, values.is_good(action)) for action, name in self._names[seat].items()
        ]

    def _advance(self) -> None:
        """Advance to the next decision: draw chance, and score a finished game."""
        state = self._state
        playing.deal(state, self._chance_seed)
        most = self._manner.max_moves or self.game.max_moves
        if self._scores is None and (state.is_terminal() or self._moves >= most):
            self._scores = self._finish()
        if self._scores is not None:
            self._turns = ()
            return
        seats = self._asked or self.game.movers(state)
        self._accepted = {}
        self._names = {seat: self.game.action_names(state, seat) for seat in seats}
        self._turns = tuple([self._turn(seat, names) for seat, names in self._names.items()])

    def _turn(self, seat: int, names: Mapping[int, str]) -> Turn:
        listed, prompt = self.game.listed(names), self._manner.prompt
        if seat in self._said:
            last, reply = self._said[seat]
            messages = last.chat_after(reply, text.update(self.game, self._state, seat, listed, prompt))
            opening = last.opening
        else:
            messages = text.messages(self.game, self._state, seat, listed, prompt, self._pay.scale)
            opening = len(messages) if self._manner.context == "conversation" else 0
        return Turn(
            seat=seat,
            messages=messages,
            answers=text.answers(listed),
            opening=opening,
            dice=(self._chance_seed, self._state.move_number(), seat),
            view=View(self._state.clone(), tuple(names), self.game.case),
        )

    def _ask_again(self, replies: Mapping[int, Reply]) -> None:
        """Ask the seats whose mistakes may be corrected; the other seats have answered."""
        turns = []
        for turn in self._turns:
            if turn.seat in self.rejected:
                self._retries[turn.seat] -= 1
                # A conversation contains every reply as it is.
                quoted = replies[turn.seat].text[: None if turn.opening else QUOTED_CHARACTERS]
                messages = turn.chat_after(quoted, text.correction(self.rejected[turn.seat]))
                turns.append(dataclasses.replace(turn, messages=messages))
        self._turns = tuple(turns)

    def _judge(self, seat: int, action: int) -> Score:
        name = self._names[seat][action]
        if self._pay.reward == "legal":
            return Score(1.0, True, Reason.LEGAL, {"action": name})
        values = self._values(seat)
        found = values.of(action)
        details: dict[str, str | float] = {"action": name, "value_source": values.source}
        if found.error is not None:
            details["value_error"] = found.error
        paid = found.value if self._pay.reward == "outcome" else 1.0 - values.lost(action)
        return Score(paid, values.is_good(action), Reason.LEGAL, details)

    def _values(self, seat: int) -> MoveValues:
        return move_values(self.game, self._state, seat, self._pay, self.task.visit)

    def _forfeit(self, mistakes: Mapping[int, Reason]) -> None:
        seats = mistakes if self.task.mode == "move" else range(self.game.players)
        self._scores = {seat: self._score(seat, 0.0, mistakes.get(seat, Reason.FORFEITED)) for seat in seats}

    def _finish(self) -> dict[int, Score]:
        """Score all seats of a game that is over or has reached its limit of moves."""
        game, state = self.game, self._state
        over, returns, scores = state.is_terminal(), state.returns(), {}
        for seat in range(game.players):
            if over or game.players == 1:  # the value of a game for one player is what it has paid so far
                value, details = game.outcome(returns, seat, self._pay.scale), {"return": returns[seat]}
            else:
                value, details = state_value(game, state, seat, self._pay), {}
            reason = result(value) if over else Reason.UNFINISHED
            scores[seat] = self._score(seat, value, reason, details)
        return scores

    def _score(self, seat: int, value: float, reason: Reason, details: Mapping[str, float] | None = None) -> Score:
        """The score of a whole game, or of a mistake, for one seat."""
        logged = dict(details or {})
        if self.task.mode == "episode":
            logged |= {"moves": self._moves, "mistakes": self._mistakes[seat]}
            logged |= {f"{MEASURE}{name}": found for name, found in self.game.measures(self._state, seat).items()}
        if self._pay.reward == "legal" and details is not None:
            return Score(1.0, True, reason, logged)
        return Score(value, reason is Reason.WON, reason, logged)
