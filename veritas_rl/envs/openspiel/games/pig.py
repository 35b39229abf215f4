"""Pig. Rules checked against OpenSpiel's `games/pig/pig.cc`."""

from typing import ClassVar

from veritas_rl.envs.openspiel.games.base import Game, State
from veritas_rl.envs.openspiel.notation import Notation, Words

_MOVES = ("roll", "stop")
_NOTATION = Words(
    {
        **dict.fromkeys(("roll again", "roll once more", "keep rolling", "roll the die", "roll the dice"), "roll"),
        **dict.fromkeys(("hold", "stop rolling", "bank", "bank the points", "end the turn", "end my turn"), "stop"),
    }
)


class Pig(Game):
    """A player sees all scores and the points of the turn."""

    default_cases: ClassVar = ("pig",)
    playout_moves: ClassVar = 4
    margin_unit: ClassVar = 12.0
    limits: ClassVar = {
        "players": (2, 10),
        "horizon": (2, 100_000),
        "winscore": (2, 10_000),
        "diceoutcomes": (2, 100),
        "piglet": (False, True),
    }

    def rules(self) -> str:
        sides, goal, horizon = (self.parameters[name] for name in ("diceoutcomes", "winscore", "horizon"))
        worth = "1 point" if self.parameters["piglet"] else "its number of points"
        return (
            f"You are playing Pig with {self.players} players, counted from 0, who take turns beginning with player 0. "
            f"In a turn a player rolls a die with faces 1 to {sides} as often as wanted. A 1 ends the turn, and the "
            f"points of the turn are lost. Any other face adds {worth} to the turn. To stop adds the points of the "
            "turn to the player's score and ends the turn; a player may also stop before the first roll. Whoever "
            f"first has a score of at least {goal} wins; a player with enough points for that must stop. Each "
            f"decision to roll or stop counts as a move: after {horizon} moves of all players together the game is a "
            "draw, unless the last one wins."
        )

    def position(self, state: State, player: int) -> str:
        scores, turn = self._points(state)
        shown = ", ".join(f"player {seat}: {score}" for seat, score in enumerate(scores))
        return f"Scores: {shown}\nPoints of this turn so far: {turn}\nMoves made so far: {self._moves(state)}"

    def brief(self, state: State, player: int) -> str:
        """The points of the turn; the scores in the order of turns, the player's first."""
        scores, turn = self._points(state)
        return " ".join(map(str, [turn, *scores[player:], *scores[:player]]))

    def action_name(self, state: State, player: int, action: int) -> str:
        return _MOVES[action]

    def notation(self, state: State, player: int) -> Notation:
        return _NOTATION

    def margin(self, state: State, player: int) -> float:
        """The lead in points over the best other player; points of an unfinished turn count in full."""
        scores, turn = self._points(state)
        if state.current_player() >= 0:
            scores[state.current_player()] += turn
        return scores[player] - max(score for seat, score in enumerate(scores) if seat != player)

    def information_key(self, state: State, player: int) -> str:
        return f"{player} {self._moves(state)} {self.brief(state, player)}"

    def symmetry_key(self, state: State, player: int) -> str:
        """All seats are equivalent. The number of moves is left out, because few games reach the horizon."""
        return self.brief(state, player)

    def state_key(self, state: State) -> str:
        return f"{state.observation_string(0)}{self._moves(state)}"

    @staticmethod
    def _points(state: State) -> tuple[list[int], int]:
        scores, _, turn = (
            state.observation_string(0).split("\n")[0].removeprefix("Scores: ").partition(", Turn total: ")
        )
        return [int(score) for score in scores.split()], int(turn)

    @staticmethod
    def _moves(state: State) -> int:
        """The number of decisions so far, without the chance outcome after each roll."""
        history, moves, step = state.history(), 0, 0
        while step < len(history):
            moves, step = moves + 1, step + (2 if history[step] == 0 else 1)
        return moves
