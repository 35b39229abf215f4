"""Backgammon. Rules checked against OpenSpiel's `games/backgammon/backgammon.cc`.

A move moves two checkers; a double is played as two such moves in a row. OpenSpiel has one action for each order of the
two checkers, but one text for both actions, so the names in this file state the order. `hyper_backgammon` is not
described, because OpenSpiel always pays 0 for it: a win requires 15 checkers, and the game has only 3.
"""

from typing import ClassVar

import numpy as np

from veritas_rl.envs.openspiel.games.base import Game, State
from veritas_rl.envs.openspiel.notation import Notation, Points

_BAR, _PASS = 100, -1
_DOUBLES = 30
"""The first chance outcome that is a double. Earlier outcomes have two different dice, in either order."""
_SCORES = {
    "winloss_scoring": "Whoever has borne off all 15 checkers first wins.",
    "enable_gammons": "Whoever has borne off all 15 checkers first wins 1 point, or 2 (a gammon) if the other has "
    "borne off none.",
    "full_scoring": "Whoever has borne off all 15 checkers first wins 1 point; 2 (a gammon) if the other has borne off "
    "none; 3 (a backgammon) if the other has moreover a checker on the bar or in the winner's home board.",
}
_NOTATION = Points()
_PIPS = np.stack([np.arange(24, 0, -1), np.arange(1, 25)])
"""The distance of a checker of player 0, and of player 1, from each point to the end."""


class Backgammon(Game):
    """Points are numbered from the mover's side, 24 to 1, so that the mover always moves down; "25" is the bar."""

    default_cases: ClassVar = ("backgammon",)
    screening_moves: ClassVar = 450
    grade_moves: ClassVar = 15
    limits: ClassVar = {"max_player_turns": (1, 100_000), "scoring_type": tuple(_SCORES)}
    budget: ClassVar = (600, 15)
    most_moves: ClassVar = 500
    playout_moves: ClassVar = 4
    margin_unit: ClassVar = 10.0

    def rules(self) -> str:
        turns = self.parameters["max_player_turns"]
        return (
            "You are playing backgammon with 2 players, x and o, who have 15 checkers each. Points are numbered from "
            "1 to 24 from your own side: you move from high points to low ones, and your points 6 to 1 are your home "
            "board; your point n is the other player's point 25 - n. A turn begins with two dice, which chance rolls; "
            "there is no doubling cube. Each die moves one of your checkers down by its number, to a point that holds "
            "at most one checker of the other player. A lone checker there is hit and goes to the bar, from where it "
            "must come in again before its owner moves anything else: with a die n to point 25 - n. With all your "
            "checkers in your home board you may bear off: with a die n from point n, or from your highest point if "
            "that is lower than n. A double is played twice, as two moves of two checkers in a row. Both dice must be "
            "played if possible; if only one of them can be, then the higher one if possible. Otherwise you pass. A "
            "move is written as start/end for each die in the order played, such as 24/20 13/11; bar and off say where "
            "a checker comes in or leaves, * that it hits, (5 first) which die comes first where both bear off. "
            f"{_SCORES[self.parameters['scoring_type']]} If nobody "
            f"has won after {turns + 1} turns of both players together, the game is a draw."
        )

    def role(self, player: int) -> str:
        return f"player {'xo'[player]}"

    def position(self, state: State, player: int) -> str:
        mine, other = self._checkers(state, player)
        seen = self._seen(state)

        def row(points: range) -> str:
            cells = []
            for point in points:
                owner, number = ("xo"[player], mine[point]) if mine[point] else ("xo"[1 - player], other[point])
                cells.append(f"{owner}{number}" if number else ".")
            half = [" ".join(f"{cell:>3}" for cell in cells[start : start + 6]) for start in (0, 6)]
            return " |".join(half)

        def numbers(points: range) -> str:
            half = [" ".join(f"{point:>3}" for point in points[start : start + 6]) for start in (0, 6)]
            return " |".join(half)

        upper, lower = range(13, 25), range(12, 0, -1)
        dice = ", ".join(seen["Dice"]) or "none: the game is over"
        again = " (a double; second of two moves)" if seen["Extra turn"] == "1" else ""
        whose = "The other player's" if state.current_player() == 1 - player else "Your"
        first = " (a double; first of two moves)" if len(seen["Dice"]) > len(set(seen["Dice"])) else ""
        off = self._off(seen)
        return "\n".join(
            [
                numbers(upper),
                row(upper),
                "",
                row(lower),
                numbers(lower),
                f"On the bar: x {seen['Bar'].count('x')}, o {seen['Bar'].count('o')}",
                f"Borne off: x {off[0]}, o {off[1]}",
                f"Turns played so far: {self._turns(state)}",
                f"{whose} dice: {dice}{again or first}",
            ]
        )

    def brief(self, state: State, player: int) -> str:
        """Dice; own and opponent's checkers by point from 24 down to 1 in hexadecimal, with bar and off."""
        mine, other = self._checkers(state, player)
        seen = self._seen(state)
        off = self._off(seen)

        def side(points: list[int], owner: int) -> str:
            return "".join(f"{points[point]:x}" if points[point] else "." for point in range(24, 0, -1)) + (
                f" {seen['Bar'].count('xo'[owner])} {off[owner]}"
            )

        again = "+" if seen["Extra turn"] == "1" else ""
        return f"{seen['Dice']}{again}\n{side(mine, player)}\n{side(other, 1 - player)}"

    def action_name(self, state: State, player: int, action: int) -> str:
        parts, hit = [], set()
        moves = state.spiel_move_to_checker_moves(player, action)
        for move in moves:
            if move.pos == _PASS:
                continue
            start = 25 if move.pos == _BAR else 24 - move.pos if player == 0 else move.pos + 1
            end = start - move.num
            blot = end > 0 and end not in hit and state.board(1 - player, 24 - end if player == 0 else end - 1) == 1
            if blot:
                hit.add(end)
            parts.append(f"{'bar' if start == 25 else start}/{end if end > 0 else 'off'}{'*' if blot else ''}")
        if len(parts) == 2 and all("/off" in part for part in parts) and moves[0].num != moves[1].num:
            parts.append(f"({moves[0].num} first)")
        return " ".join(parts) or "pass"

    def cells(self, state: State, player: int, action: int, name: str) -> tuple[str, ...]:
        """The start and the end of each checker's move, in the order played."""
        moves = [part.rstrip("*").split("/") for part in name.split() if "/" in part]
        return tuple(point for move in moves for point in move)

    def notation(self, state: State, player: int) -> Notation:
        return _NOTATION

    def margin(self, state: State, player: int) -> float:
        """The lead in pips; a checker on the bar has 25 pips to go."""
        seen = np.array(state.observation_tensor(player))
        # Each point has four numbers: whether it has 1, 2 or 3 checkers, and how many more than 3.
        one, two, three, more = seen[:192].reshape(2, 24, 4).transpose(2, 0, 1)
        checkers = one + 2 * two + 3 * three + more + 3 * (more > 0)
        mine, theirs = _PIPS if player == 0 else _PIPS[::-1]
        bars = seen[195] - seen[192]
        return float(checkers[1] @ theirs - checkers[0] @ mine + 25 * bars)

    def information_key(self, state: State, player: int) -> str:
        return f"{player} {self._turns(state)}\n{self.brief(state, player)}"

    def symmetry_key(self, state: State, player: int) -> str:
        """The seats are equivalent. The number of turns is left out, because few games reach the limit."""
        return self.brief(state, player)

    def state_key(self, state: State) -> str:
        return f"{state.observation_string(0)}{self._turns(state)}"

    @staticmethod
    def _checkers(state: State, player: int) -> tuple[list[int], list[int]]:
        """The player's and the opponent's checkers on points 1 to 24 from the player's side; index 0 is unused."""
        order = range(24, -1, -1) if player == 0 else range(-1, 24)
        sides = [[0 if place in (24, -1) else state.board(owner, place) for place in order] for owner in (0, 1)]
        return (sides[0], sides[1]) if player == 0 else (sides[1], sides[0])

    @staticmethod
    def _seen(state: State) -> dict[str, str]:
        lines = state.observation_string(0).strip().split("\n")
        return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)} | {
            "Scores": lines[-1]
        }

    @staticmethod
    def _off(seen: dict[str, str]) -> tuple[int, int]:
        x, o = seen["Scores"].removeprefix("Scores, X: ").split(", O: ")
        return int(x), int(o)

    @staticmethod
    def _turns(state: State) -> int:
        """Finished turns of both players. A double that moved two checkers is followed by a second move."""
        history, turns, step = state.history(), 0, 0
        while step + 1 < len(history):
            roll, move = history[step], history[step + 1]
            double = roll >= _DOUBLES and 25 not in divmod(move % 676, 26)
            if double and step + 2 >= len(history):
                break  # the second move is still to come
            turns, step = turns + 1, step + 2 + double
        return turns
