"""Oware. Rules checked against OpenSpiel's `games/oware/oware.cc`.

A repeated position ends the game, so the information state contains all positions since the last capture.
OpenSpiel raises an error at move 1000; random games of these sizes end before move 500.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import ClassVar

from veritas_rl.envs.openspiel.games.base import Game, State
from veritas_rl.envs.openspiel.games.histories import Followed
from veritas_rl.envs.openspiel.notation import Houses, Notation

_NOTATION = Houses()


class Oware(Game):
    """A move is named by its house: A, B, ... of player 0, a, b, ... of player 1, each from the owner's left."""

    default_cases: ClassVar = ("oware", "oware(num_seeds_per_house=3)", "oware(num_seeds_per_house=5)")
    limits: ClassVar = {"num_seeds_per_house": (1, 8), "num_houses_per_player": (2, 6)}
    budget: ClassVar = (300, 30)
    solver_nodes: ClassVar = 0
    most_moves: ClassVar = 600
    playout_moves: ClassVar = 4
    margin_unit: ClassVar = 1.0
    result_share: ClassVar = 0.5

    def rules(self) -> str:
        houses, seeds = self._houses, self.parameters["num_seeds_per_house"]
        total, last = 2 * houses * seeds, "ABCDEF"[houses - 1]
        return (
            f"You are playing oware with 2 players. Player 0 owns the {houses} houses A to {last}, the lower row from "
            f"left to right; player 1 owns the {houses} houses a to {last.lower()}, the upper row from right to left. "
            f"At the start each house holds {seeds} seed{'s' if seeds > 1 else ''}. Player 0 moves first; then the "
            "players alternate. In a move you take all seeds out of one of your houses and sow them, one into each of "
            f"the houses that follow in the order A to {last}, a to {last.lower()}, then A again; the house that they "
            "come from is left out, however many they are. If the last seed falls into a house of the opponent and "
            "makes it 2 or 3 seeds, you capture all seeds of that house; then, going back against the order of sowing, "
            "those of each next house too, as long as it is the opponent's and holds 2 or 3 seeds. But a move that "
            "would so capture all seeds in the opponent's houses captures nothing. If all houses of the opponent are "
            "empty, you must make a move that sows seeds there. The game ends when a player has captured more than "
            f"half of the {total} seeds or both have captured {total // 2}; when the player to move has no move; or "
            "when a position comes again with the same player to move. In the last two cases each player also gets the "
            "seeds left in the own houses. Whoever has more seeds then wins; equal numbers are a draw."
        )

    def role(self, player: int) -> str:
        last = "ABCDEF"[self._houses - 1]
        return f"player {player} (houses {f'a to {last.lower()}' if player else f'A to {last}'})"

    def position(self, state: State, player: int) -> str:
        seeds, score = self._board(state)
        upper, lower = seeds[: self._houses - 1 : -1], seeds[: self._houses]
        names = "ABCDEF"[: self._houses]
        rows = [names[::-1].lower(), upper, lower, names]
        since, boards = self._since_capture(state)
        lines = [" ".join([f"{entry:>2}" for entry in row]) for row in rows]
        lines.append(f"Captured so far: player 0: {score[0]}, player 1: {score[1]}")
        moves = [self._name((player + len(since) - turn) % 2, action) for turn, action in enumerate(since)]
        lines.append(f"Moves since the last capture: {' '.join(moves) or 'none'}")
        again = [self._name(player, action) for action in self._repeating(state, boards)]
        lines.append(
            f"Moves that would bring an earlier position again, and so end the game: {' '.join(again) or 'none'}"
        )
        return "\n".join(lines)

    def brief(self, state: State, player: int) -> str:
        """The seeds in the order of sowing from the player's own first house; the captures, the player's own first."""
        seeds, score = self._board(state)
        if player:
            seeds, score = seeds[self._houses :] + seeds[: self._houses], score[::-1]
        rows = (seeds[: self._houses], seeds[self._houses :], score, self._since_capture(state)[0])
        return "\n".join([" ".join(map(str, row)) for row in rows]).rstrip()

    def action_name(self, state: State, player: int, action: int) -> str:
        return self._name(player, action)

    def cells(self, state: State, player: int, action: int, name: str) -> tuple[str, ...]:
        """The house."""
        return (name,)

    def notation(self, state: State, player: int) -> Notation:
        return _NOTATION

    def margin(self, state: State, player: int) -> float:
        """The lead in captured seeds."""
        score = self._board(state)[1]
        return score[player] - score[1 - player]

    def information_key(self, state: State, player: int) -> str:
        moves, boards = self._since_capture(state)
        return f"{state.observation_string(player)} after {boards[0]} {' '.join(map(str, moves))}".rstrip()

    def state_key(self, state: State) -> str:
        return self.information_key(state, 0)

    @property
    def _houses(self) -> int:
        return self.parameters["num_houses_per_player"]

    @staticmethod
    def _board(state: State) -> tuple[list[int], list[int]]:
        """The seeds of all houses in the order of sowing, and the captures of the players."""
        _, score, seeds = state.observation_string(0).split("|")
        return list(map(int, seeds.split())), list(map(int, score.split()))

    def _repeating(self, state: State, boards: Sequence[str]) -> list[int]:
        """The legal actions that repeat a board since the last capture with the same player to move."""
        if state.is_terminal():
            return []
        seen = {(board.split(" | ")[0], board.split(" | ")[2]) for board in boards}
        player, (seeds, _) = state.current_player(), self._board(state)
        return [
            action for action in state.legal_actions() if (str(1 - player), self._sown(seeds, player, action)) in seen
        ]

    def _sown(self, seeds: list[int], player: int, action: int) -> str:
        """The seeds of all houses after a move that captures nothing, as OpenSpiel writes them; "" if it captures."""
        house, board = player * self._houses + action, list(seeds)
        hand, board[house], place = board[house], 0, house
        while hand:
            place = (place + 1) % len(board)
            if place != house:
                board[place] += 1
                hand -= 1
        theirs = range((1 - player) * self._houses, (2 - player) * self._houses)
        captured = 0
        while place in theirs and board[place] in (2, 3):
            captured += board[place]
            place -= 1
        # A move that would take all seeds of the opponent captures nothing.
        return "" if captured and captured < sum(board[other] for other in theirs) else " ".join(map(str, board))

    def _since_capture(self, state: State) -> tuple[list[int], tuple[str, ...]]:
        """The moves since the last capture, or since the start, and the positions from then on."""
        history, boards = state.history(), self._boards.of(state)
        return history[len(history) - len(boards) + 1 :], boards

    @cached_property
    def _boards(self) -> Followed[tuple[str, ...]]:
        """The positions since the last capture."""
        return Followed(self.spiel, (), _followed)

    @staticmethod
    def _name(player: int, action: int) -> str:
        return "abcdef"[action] if player else "ABCDEF"[action]


def _followed(boards: tuple[str, ...], state: State) -> tuple[str, ...]:
    """The positions since the last capture in a state that follows the last of `boards`."""
    board = state.observation_string(0)
    captured = bool(boards) and board.split("|")[1] != boards[-1].split("|")[1]
    return (board,) if captured else (*boards, board)
