"""Battleship. Rules checked against OpenSpiel's `games/battleship/battleship.cc`.

A player may shoot at a cell again. When all shots are used up, the sunk ships decide the game. OpenSpiel cannot
resample the game, so this file draws fleets that are consistent with the answers to the player's shots.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import ClassVar, NamedTuple

import pyspiel

from veritas_rl.envs.openspiel.games.base import Game, State, letters
from veritas_rl.envs.openspiel.notation import Notation, Placed

PARTICLES = 16
"""The number of drawn fleets of which one is used."""

_ANSWERS = {"W": "water", "H": "hit", "S": "sunk"}
_SHOT = re.compile(r"/shot_(\d+)_(\d+):([WHS])")

Answers = tuple[tuple[int, str], ...]
"""A player's shots, in order: the cell, and W (water), H (hit) or S (sunk)."""
_NOTATION = Placed(
    {
        **dict.fromkeys(("right", "horizontal", "horizontally", "across", "to the right"), "right"),
        **dict.fromkeys(("down", "vertical", "vertically", "downwards"), "down"),
    },
    before="place|ship",
    alone="shoot|shoot at|shot at|fire at|attack|cell|at",
)


class Battleship(Game):
    """A shot is named by its cell, such as "c4"; a ship's placement by its top or left cell and its direction, such as
    "c4 right".

    It is no default case, because its moves rarely differ in value: under random shots all placements are worth the
    same, and most shots nearly the same."""

    screening_moves: ClassVar = 250
    deal_moves: ClassVar[int] = 370
    limits: ClassVar = {"num_shots": (1, 100), "allow_repeated_shots": (False, True)}
    margin_unit: ClassVar = 3.0
    result_share: ClassVar = 0.5

    def rules(self) -> str:
        width, height = self._shape
        shots = self.parameters["num_shots"]
        again = (
            "A cell may be shot at again, which gains nothing"
            if self.parameters["allow_repeated_shots"]
            else "A cell may be shot at only once"
        )
        return (
            f"You are playing battleship with 2 players, counted from 0. Each has a board of {width} columns (a to "
            f"{letters(width)[-1]} from left to right) and {height} rows (1 to {height} from top to bottom) that the "
            "other does not see. First the players place their ships in turns, player 0 first, one ship at a time, in "
            f"the order of these lengths: {', '.join(map(str, self._lengths))}. A ship covers that many cells in one "
            'row or column: "c4 right" places it on c4 and on to the right in row 4, "c4 down" on c4 and on downwards '
            "in column c. Ships may touch but not overlap. Then the players shoot in turns, player 0 first, one shot a "
            f"turn, at cells of the other's board; each has {shots} shots. A shot is answered with water (no ship), "
            "hit (a ship, of which not all cells are hit yet) or sunk (a ship, of which all cells are now hit). "
            f"{again}. Each player sees where the other shoots. The game ends as soon as all ships of a player are "
            "sunk, or when all shots are used up. Then whoever has sunk more ships of the other wins, whatever their "
            "lengths; equal numbers are a draw."
        )

    def position(self, state: State, player: int) -> str:
        placed, answers, shots = self._placed(state, player), self._answers(state, player), self._shots(state, player)
        placing = len(placed) < len(self._lengths)
        ships = []
        for length, action in zip(self._lengths, placed, strict=False):
            hits = len(set(self._cells(action, length)) & set(shots))
            damage = "sunk" if hits == length else f"{hits} hit" if hits else "not hit"
            ships.append(f"length {length} at {self._name(action)}{'' if placing else f' ({damage})'}")
        lines = [
            "Your board (# ship, X ship that was hit, o water that was shot at, . other water):",
            self._draw(self._own(state, player)),
            f"Your ships: {', '.join(ships) or 'none yet'}",
        ]
        if placing:
            return "\n".join([*lines, f"You now place your ship of length {self._lengths[len(placed)]}."])
        named = [f"{self._name(cell)} {_ANSWERS[answer]}" for cell, answer in answers]
        return "\n".join(
            [
                *lines,
                "The other's board (X hit, S hit that sank a ship, o water, . not shot at):",
                self._draw(self._theirs(answers)),
                f"Your shots so far, in order: {', '.join(named) or 'none'}",
                f"The other's shots so far, in order: {', '.join(map(self._name, shots)) or 'none'}",
                f"You have {self.parameters['num_shots'] - len(answers)} shots left.",
            ]
        )

    def brief(self, state: State, player: int) -> str:
        placed, answers = self._placed(state, player), self._answers(state, player)
        own = "\n".join(self._own(state, player))
        if len(placed) < len(self._lengths):
            return f"{player}\n{own}\n{self._lengths[len(placed)]}"
        theirs = "\n".join(self._theirs(answers))
        return f"{player}\n{own}\n\n{theirs}\n{self.parameters['num_shots'] - len(answers)}"

    def action_name(self, state: State, player: int, action: int) -> str:
        return self._name(action)

    def notation(self, state: State, player: int) -> Notation:
        return _NOTATION

    def margin(self, state: State, player: int) -> float:
        """The number of hit cells of the opponent's ships, minus that of the player's ships."""
        hit = {cell for cell, answer in self._answers(state, player) if answer != "W"}
        ships = zip(self._placed(state, player), self._lengths, strict=False)
        own = {cell for ship in ships for cell in self._cells(*ship)}
        return len(hit) - len(own.intersection(self._shots(state, player)))

    def symmetry_key(self, state: State, player: int) -> str:
        """Each of the two boards may be rotated and mirrored independently."""
        ships = [self._cells(*ship) for ship in zip(self._placed(state, player), self._lengths, strict=False)]
        shots, answers = self._shots(state, player), self._answers(state, player)
        own, theirs = [], []
        for image in _images(*self._shape):
            placed = [sorted([image[cell] for cell in ship]) for ship in ships]
            own.append(f"{placed} {[image[cell] for cell in shots]}")
            theirs.append(" ".join([f"{image[cell]}{answer}" for cell, answer in answers]))
        return f"{player}|{min(own)}|{min(theirs)}"

    def resample(self, state: State, player: int, uniform: Callable[[], float]) -> State:
        """Resample the opponent's fleet among the fleets that are consistent with the answers to the player's shots.

        `PARTICLES` fleets are drawn ship by ship, first the ships that cover hits. One fleet is selected with a
        probability proportional to the inverse of its probability of being drawn (sampling-importance-resampling, Rubin
        1987). The result is nearly uniform over the consistent fleets.
        """
        placed = len(self._placed(state, 1 - player))
        fleets = _fleets(*self._shape, self._lengths[:placed], self._answers(state, player))
        ships = iter(fleets.sample(uniform))
        copy = self.spiel.new_initial_state()
        for step in state.full_history():
            hidden = step.player != player and step.action >= self._area
            copy.apply_action(next(ships) if hidden else step.action)
        return copy

    @property
    def _shape(self) -> tuple[int, int]:
        """Columns and rows."""
        return self.parameters["board_width"], self.parameters["board_height"]

    @property
    def _area(self) -> int:
        """The number of shot actions. The placements of horizontal ships follow, then those of vertical ships."""
        return self.parameters["board_width"] * self.parameters["board_height"]

    @property
    def _lengths(self) -> tuple[int, ...]:
        return tuple(map(int, self.parameters["ship_sizes"].strip("[]").split(";")))

    def _cells(self, action: int, length: int) -> range:
        return _cells(action, length, *self._shape)

    def _name(self, action: int) -> str:
        kind, cell = divmod(action, self._area)
        row, column = divmod(cell, self._shape[0])
        return f"{letters(column + 1)[-1]}{row + 1}{('', ' right', ' down')[kind]}"

    def _placed(self, state: State, player: int) -> list[int]:
        """The actions that placed a player's ships."""
        first = state.full_history()[: 2 * len(self._lengths)]
        return [step.action for step in first if step.player == player]

    def _shots(self, state: State, player: int) -> list[int]:
        """The cells of a player's board at which the opponent has shot, in order."""
        later = state.full_history()[2 * len(self._lengths) :]
        return [step.action for step in later if step.player != player]

    def _answers(self, state: State, player: int) -> Answers:
        found = _SHOT.findall(state.information_state_string(player))
        return tuple((int(row) * self._shape[0] + int(column), answer) for row, column, answer in found)

    def _own(self, state: State, player: int) -> list[str]:
        cells = ["."] * self._area
        for action, length in zip(self._placed(state, player), self._lengths, strict=False):
            for cell in self._cells(action, length):
                cells[cell] = "#"
        for cell in self._shots(state, player):
            cells[cell] = "X" if cells[cell] in "#X" else "o"
        return self._rows(cells)

    def _theirs(self, answers: Answers) -> list[str]:
        cells = ["."] * self._area
        for cell, answer in answers:
            cells[cell] = {"W": "o", "H": "X", "S": "S"}[answer]
        return self._rows(cells)

    def _rows(self, cells: Sequence[str]) -> list[str]:
        width = self._shape[0]
        return ["".join(cells[start : start + width]) for start in range(0, len(cells), width)]

    def _draw(self, rows: Sequence[str]) -> str:
        lines = [f"{number:>2} {' '.join(row)}" for number, row in enumerate(rows, 1)]
        return "\n".join(["   " + " ".join(letters(self._shape[0])), *lines])


class _Berth(NamedTuple):
    """A placement of a ship: the ship, the action, and its cells as a bit mask."""

    ship: int
    action: int
    cells: int


def _cells(action: int, length: int, width: int, height: int) -> range:
    """The cells of a ship that an action places."""
    kind, first = divmod(action, width * height)
    step = 1 if kind == 1 else width
    return range(first, first + length * step, step)


@lru_cache(maxsize=8)
def _images(width: int, height: int) -> tuple[tuple[int, ...], ...]:
    """The symmetries of the board, each as the images of all cells."""
    cells = [divmod(cell, width) for cell in range(width * height)]
    found = [
        tuple((height - 1 - row if flip else row) * width + (width - 1 - col if turn else col) for row, col in cells)
        for flip in (False, True)
        for turn in (False, True)
    ]
    if width == height:
        found += [tuple(image[col * width + row] for row, col in cells) for image in found]
    return tuple(found)


@lru_cache(maxsize=8)
def _berths(width: int, height: int, lengths: tuple[int, ...]) -> tuple[tuple[_Berth, ...], ...]:
    """For each ship, all placements on an empty board."""
    area, found = width * height, []
    for ship, length in enumerate(lengths):
        lying = [area + row * width + col for row in range(height) for col in range(width - length + 1)]
        standing = [2 * area + row * width + col for row in range(height - length + 1) for col in range(width)]
        found.append(
            tuple(
                _Berth(ship, action, sum(1 << cell for cell in _cells(action, length, width, height)))
                for action in lying + standing
            )
        )
    return tuple(found)


class _Fleets:
    """The fleets that are consistent with some answers.

    Args:
        berths: The possible placements of each ship that is already placed.
        answers: The answers.
    """

    def __init__(self, berths: Sequence[Sequence[_Berth]], answers: Answers) -> None:
        self.answers = [(1 << cell, answer == "S") for cell, answer in answers if answer != "W"]
        self.hits = sum({bit for bit, _ in self.answers})
        water = sum({1 << cell for cell, answer in answers if answer == "W"})
        self.berths = [[b for b in places if not b.cells & water and self._fits(b.cells)] for places in berths]
        self.touching = [berth for places in self.berths for berth in places if berth.cells & self.hits]

    def sample(self, uniform: Callable[[], float]) -> list[int]:
        """The actions that place a sampled fleet, see `Battleship.resample`.

        Raises:
            pyspiel.SpielError: No fleet fits.
        """
        drawn = [found for _ in range(PARTICLES) if (found := self._draw(uniform))]
        if drawn:
            totals = list(accumulate([weight for _, weight in drawn]))
            fleet = drawn[bisect_right(totals, uniform() * totals[-1])][0]
        else:  # every draw ran into a dead end
            fleet = next(self._search((), uniform), None)
        if fleet is None:
            raise pyspiel.SpielError("battleship: no fleet fits the answers")
        return [berth.action for berth in sorted(fleet)]

    def _fits(self, cells: int) -> bool:
        """Whether the answers report a ship on these cells as sunk exactly when its last cell is hit."""
        shot = 0
        for bit, sunk in self.answers:
            if bit & cells:
                shot |= bit
                if (shot == cells) != sunk:
                    return False
        return True

    def _options(self, fleet: tuple[_Berth, ...]) -> list[_Berth]:
        """The placements that may extend a fleet: those that cover the hit with the fewest placements, or, if all hits
        are covered, those of the first ship without a placement. So each fleet is reached in exactly one way."""
        taken, placed = 0, set()
        for berth in fleet:
            taken |= berth.cells
            placed.add(berth.ship)
        left = self.hits & ~taken
        if not left:
            ship = next(ship for ship in range(len(self.berths)) if ship not in placed)
            return [berth for berth in self.berths[ship] if not berth.cells & taken]
        free = [berth for berth in self.touching if not berth.cells & taken and berth.ship not in placed]
        covering = []
        while left:
            bit = left & -left
            left ^= bit
            covering.append([berth for berth in free if berth.cells & bit])
        return min(covering, key=len)

    def _complete(self, fleet: tuple[_Berth, ...]) -> bool:
        return len(fleet) == len(self.berths) and not self.hits & ~sum(berth.cells for berth in fleet)

    def _draw(self, uniform: Callable[[], float]) -> tuple[tuple[_Berth, ...], int] | None:
        """A fleet drawn step by step, and the inverse of its probability; None at a dead end."""
        fleet: tuple[_Berth, ...] = ()
        weight = 1
        while not self._complete(fleet):
            options = self._options(fleet)
            if not options:
                return None
            weight *= len(options)
            fleet = (*fleet, options[int(uniform() * len(options))])
        return fleet, weight

    def _search(self, fleet: tuple[_Berth, ...], uniform: Callable[[], float]) -> Iterator[tuple[_Berth, ...]]:
        """All matching fleets that extend this one, in random order."""
        if self._complete(fleet):
            yield fleet
            return
        for berth in sorted(self._options(fleet), key=lambda _: uniform()):
            yield from self._search((*fleet, berth), uniform)


@lru_cache(maxsize=64)  # a search draws many fleets for one decision
def _fleets(width: int, height: int, lengths: tuple[int, ...], answers: Answers) -> _Fleets:
    return _Fleets(_berths(width, height, lengths), answers)
