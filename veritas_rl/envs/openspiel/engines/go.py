"""GNU Go and Pachi, through the Go Text Protocol. Both are players; only GNU Go is a source of values.

GNU Go estimates the final score after a pass, and the points that each move gains over a pass. A logistic function maps
their sum to a probability of winning. A move that GNU Go does not consider has the value of a pass.

Pachi searches until a periodic check finds enough playouts. So its number of playouts and its moves vary between calls,
and Pachi is not a source of values.
"""

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping

from veritas_rl.envs.openspiel.engines.gtp import COLOURS, GtpProcess, action_of, is_go
from veritas_rl.envs.openspiel.engines.process import EngineError, find_program
from veritas_rl.envs.openspiel.engines.spec import EngineSpec
from veritas_rl.envs.openspiel.games import Game, State

SIZES = range(5, 20)
"""The board sizes that both engines support."""
POINTS_PER_SIZE = 2.0
"""The scale of the logistic function, in points per column of the board. For 33 games of GNU Go against itself from
random positions on 9 x 9, the likelihood is largest at values of 2 to 3."""
SECONDS_OF_A_MOVE = 120.0
"""The most seconds for a move of GNU Go on the largest board at its highest level: a hundred times the duration on one
core of 2020."""
SLOWEST_PLAYOUTS = 10
"""The playouts per second of Pachi on the slowest machine."""
_BOUNDS = re.compile(r"\(upper bound: (-?[0-9.]+), lower: (-?[0-9.]+)\)")


class GoEngine(ABC):
    """A running Go program.

    Args:
        spec: The program's name and its limit of work.

    Raises:
        UserError: The program is not installed.
        EngineError: The program does not start, or does not support the protocol.
    """

    def __init__(self, spec: EngineSpec) -> None:
        self.spec = spec
        self.process = GtpProcess(self.command(find_program(spec), spec.limit), spec.kind.name)

    @staticmethod
    @abstractmethod
    def command(program: str, limit: int) -> list[str]:
        """The command that starts the program."""

    @property
    @abstractmethod
    def work(self) -> float:
        """The seconds that the slowest machine may need for a move."""

    def set_up(self, game: Game, state: State) -> str:
        """Play the moves of a state on a new board, and return the color to move."""
        self.process.set_up(game, state)
        return COLOURS[state.current_player()]

    def move(self, game: Game, state: State, player: int) -> int:
        """The action that the program plays."""
        return action_of(game, self.process.ask(f"genmove {self.set_up(game, state)}", self.work))

    def close(self) -> None:
        self.process.close()

    def abandon(self) -> None:
        self.process.abandon()


class GnuGo(GoEngine):
    """GNU Go. It captures dead stones before it passes, because OpenSpiel counts all stones as alive."""

    @staticmethod
    def command(program: str, limit: int) -> list[str]:
        rules = ["--chinese-rules", "--simple-ko", "--forbid-suicide"]
        return [program, "--mode", "gtp", "--level", str(limit), *rules, "--never-resign", "--capture-all-dead"]

    @property
    def work(self) -> float:
        return SECONDS_OF_A_MOVE

    def set_up(self, game: Game, state: State) -> str:
        colour = super().set_up(game, state)
        self.process.ask("clear_cache")
        self.process.ask("set_random_seed 1")
        return colour

    def values(self, game: Game, state: State, player: int, scale: str) -> Mapping[int, float]:
        """The probability of winning after each action, see the module's docstring."""
        colour = self.set_up(game, state)
        estimate = self.process.ask("estimate_score", self.work)
        bounds = _BOUNDS.search(estimate)
        if not bounds:
            raise EngineError(f"gtp:gnugo estimates the score as {estimate!r}")
        # Both bounds are White's score minus Black's, if White or Black moves first. After a pass the opponent moves.
        white_first, black_first = map(float, bounds.groups())
        passed = -white_first if player == 0 else black_first
        self.process.ask(f"reg_genmove {colour}", self.work)
        gains = self._gains(game)
        points = POINTS_PER_SIZE * game.parameters["board_size"]
        values = {}
        for action in state.legal_actions():
            child = state.child(action)
            if child.is_terminal():
                values[action] = (1 + child.returns()[player]) / 2
            else:
                values[action] = _logistic((passed + gains.get(action, 0.0)) / points)
        return values

    def _gains(self, game: Game) -> dict[int, float]:
        """The points that each move of the last search gains over a pass."""
        gains = {}
        for line in self.process.ask_rows("all_move_values"):
            point, *numbers = line.split()
            try:
                (gain,) = map(float, numbers)
            except ValueError as error:
                raise EngineError(f"gtp:gnugo values a move as {line!r}") from error
            gains[action_of(game, point)] = gain
        return gains


class Pachi(GoEngine):
    """Pachi with one thread and without a neural network."""

    @staticmethod
    def command(program: str, limit: int) -> list[str]:
        search = ["threads=1", "force_seed=1", "pass_all_alive", "no_tbook", "resign_threshold=0"]
        return [program, "-d", "0", "-s", "1", "-t", f"={limit}", "-r", "chinese", *search]

    @property
    def work(self) -> float:
        return self.spec.limit / SLOWEST_PLAYOUTS

    def values(self, game: Game, state: State, player: int, scale: str) -> Mapping[int, float]:
        """Raise an error, because Pachi is not a source of values.

        Raises:
            EngineError: Always.
        """
        raise EngineError("gtp:pachi values no moves")


def fits(game: Game) -> bool:
    """Whether a case is Go on a board that both engines support."""
    return is_go(game) and game.parameters["board_size"] in SIZES


def _logistic(value: float) -> float:
    return 1 / (1 + math.exp(-value))
