"""Latent tic-tac-toe. Rules checked against OpenSpiel's `games/latent_ttt/latent_ttt.cc`.

A choice is hidden from the opponent until the opponent's next choice, so the player to move does not know exactly one
choice. OpenSpiel cannot resample it; this file resamples that choice.
"""

from collections.abc import Callable
from typing import ClassVar

import pyspiel

from veritas_rl.envs.openspiel.games.base import Game, State
from veritas_rl.envs.openspiel.games.boards import symmetries
from veritas_rl.envs.openspiel.games.tic_tac_toe import cell_name, draw
from veritas_rl.envs.openspiel.notation import Cells, Notation

_NOTATION = Cells()


class LatentTicTacToe(Game):
    """Cells are named as in tic-tac-toe. A player knows all choices but the opponent's last."""

    default_cases: ClassVar = ("latent_ttt",)
    deal_moves: ClassVar[int] = 7
    budget: ClassVar = (3000, 150)

    def rules(self) -> str:
        return (
            "You are playing latent tic-tac-toe on a board of 3 columns (a, b, c from left to right) and 3 rows (1, 2, "
            "3 from top to bottom). x chooses first; then the players alternate, each choosing a cell. If the chosen "
            "cell is empty, the player's mark is put there at once; if it holds a mark already, nothing is put and the "
            "turn is lost. Only the player who chose a cell sees this at once: the opponent sees each choice and its "
            "result one choice later, after having made the next one. So what your opponent chose last is hidden from "
            "you, and may be in any cell that looked empty to the opponent, even in that of your last mark; of your "
            "own choices only the last is hidden from the opponent. You choose among the cells that look empty to you. "
            "Whoever first has three own marks in one row, column or diagonal wins, hidden marks included. A full "
            "board without such a line is a draw. A dot is a cell that looks empty to you."
        )

    def role(self, player: int) -> str:
        return "xo"[player]

    def position(self, state: State, player: int) -> str:
        choices = self._choices(state)
        board: dict[int, str] = {}
        listed = []
        for mover, cell in choices:
            put = board.setdefault(cell, mover) == mover
            listed.append(f"{mover} {cell_name(cell)}{'' if put else ' (taken: turn lost)'}")
        if state.history():
            listed.append(f"{'ox'[player]} hidden")
        return f"{draw(self._view(state, player))}\nChoices so far, in order: {', '.join(listed) or 'none'}"

    def brief(self, state: State, player: int) -> str:
        choices = "".join([cell_name(cell) for _, cell in self._choices(state)])
        return f"{self.role(player)}\n{self._view(state, player)}\n{choices}".rstrip()

    def action_name(self, state: State, player: int, action: int) -> str:
        return cell_name(action)

    def notation(self, state: State, player: int) -> Notation:
        return _NOTATION

    def information_key(self, state: State, player: int) -> str:
        return f"{player}{''.join([str(cell) for _, cell in self._choices(state)])}"

    def symmetry_key(self, state: State, player: int) -> str:
        cells = [cell for _, cell in self._choices(state)]
        return str(player) + min("".join([str(image[cell]) for cell in cells]) for image in symmetries(3, 3))

    def resample(self, state: State, player: int, uniform: Callable[[], float]) -> State:
        """The opponent's last choice, resampled uniformly among those that did not end the game."""
        copy = self.spiel.new_initial_state()
        if not state.history():
            return copy
        for _, cell in self._choices(state):
            copy.apply_action(cell)
        found = [child for child in map(copy.child, copy.legal_actions()) if not child.is_terminal()]
        if not found:
            raise pyspiel.SpielError("latent_ttt: no choice of the opponent fits what the player knows")
        return found[int(uniform() * len(found))]

    @staticmethod
    def _choices(state: State) -> list[tuple[str, int]]:
        """The mark and the cell of all choices except the last, which the player to move does not know."""
        return [("xo"[step.player], step.action) for step in state.full_history()[:-1]]

    @staticmethod
    def _view(state: State, player: int) -> str:
        return state.observation_string(player).strip("\n")
