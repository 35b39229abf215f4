"""GNU Backgammon, which evaluates the positions after each move.

The value of a move is the player's probability of winning, by GNU Backgammon's evaluation at a number of plies; 0 plies
use only its neural network. There is no cube, and gammons count as plain wins. If a player moves twice in a turn, the
first move has the value of the best second move.
"""

import base64
from collections.abc import Sequence
from importlib import resources

from veritas_rl.envs.openspiel.engines.process import EngineError, LineProcess, find_program
from veritas_rl.envs.openspiel.engines.spec import EngineSpec
from veritas_rl.envs.openspiel.games import Game, State

BAR = 100
"""OpenSpiel's number of the bar."""
SECONDS_OF_PLIES = (0.01, 0.5, 20.0, 600.0)
"""The most seconds for one position, by plies: a hundred times the duration on one core of 2020."""

Checkers = tuple[int, ...]
"""25 counts of one player's checkers: on points 1 to 24, counted from the player's own side, and on the bar."""


class GnuBackgammon:
    """A running GNU Backgammon.

    Args:
        spec: The engine's name and the number of plies.

    Raises:
        UserError: GNU Backgammon is not installed.
        EngineError: GNU Backgammon cannot be started.
    """

    def __init__(self, spec: EngineSpec) -> None:
        self._plies = spec.limit
        with resources.as_file(resources.files("veritas_rl.envs.openspiel.engines") / "gnubg_server.py") as script:
            self._process = LineProcess([find_program(spec), "-t", "-q", "-r", "-p", str(script)], "gnubg")
            try:
                self._process.ask("ready", lambda line: line == "ready")
            except EngineError:
                self._process.close()
                raise

    def values(self, game: Game, state: State, player: int, scale: str) -> dict[int, float]:
        found = {action: _leaves(state.child(action), player) for action in state.legal_actions()}
        positions = [leaf for leaves in found.values() for leaf in leaves if isinstance(leaf, str)]
        chances = self._chances(list(dict.fromkeys(positions)))
        return {
            action: max(1.0 - chances[leaf] if isinstance(leaf, str) else leaf for leaf in leaves)
            for action, leaves in found.items()
        }

    def move(self, game: Game, state: State, player: int) -> int:
        values = self.values(game, state, player, "result")
        return max(values, key=lambda action: values[action])

    def close(self) -> None:
        self._process.close()

    def abandon(self) -> None:
        self._process.abandon()

    def _chances(self, ids: list[str]) -> dict[str, float]:
        """For each position, the probability that the player on roll wins."""
        if not ids:
            return {}
        work = SECONDS_OF_PLIES[self._plies] * len(ids)
        *_, answer = self._process.ask(
            f"win {self._plies} {' '.join(ids)}", lambda line: line.startswith(("win ", "error ")), work
        )
        word, *numbers = answer.split()
        if word != "win" or len(numbers) != len(ids):
            raise EngineError(f"gnubg answers {answer[:80]!r} for {len(ids)} positions")
        try:
            chances = [float(number) for number in numbers]
        except ValueError as error:
            raise EngineError(f"gnubg answers {answer[:80]!r}") from error
        if not all(0.0 <= chance <= 1.0 for chance in chances):
            raise EngineError(f"gnubg answers {answer[:80]!r}, which are no probabilities")
        return dict(zip(ids, chances, strict=True))


def is_plain(game: Game) -> bool:
    """Whether a case is backgammon with 15 checkers in which all wins count equally."""
    parameters = game.parameters
    return (
        game.short_name == "backgammon"
        and not parameters.get("hyper_backgammon", False)
        and parameters.get("scoring_type", "winloss_scoring") == "winloss_scoring"
    )


def checkers_of(state: State, player: int) -> Checkers:
    """The positions of a player's checkers."""
    order = range(23, -1, -1) if player == 0 else range(24)
    return (*(state.board(player, place) for place in order), state.board(player, BAR))


def position_id(mine: Sequence[int], other: Sequence[int]) -> str:
    """GNU Backgammon's position id, 14 characters.

    Source: the GNU Backgammon manual, "A technical description of the Position ID".

    Args:
        mine: The checkers of the player on roll, see `Checkers`.
        other: The checkers of the other player.
    """
    bits = "".join("1" * count + "0" for side in (other, mine) for count in side)
    number = int(bits[::-1], 2)  # the first bit is the least significant bit
    return base64.b64encode(number.to_bytes(10, "little")).decode().rstrip("=")


def read_position_id(text: str) -> tuple[Checkers, Checkers]:
    """The checkers of the player on roll and of the other player; the inverse of `position_id`."""
    number = int.from_bytes(base64.b64decode(text + "=="), "little")
    counts = [len(run) for run in f"{number:080b}"[::-1].split("0")]
    return tuple(counts[25:50]), tuple(counts[:25])


def _leaves(state: State, player: int) -> list[str | float]:
    """The positions that a player can reach before the other player's roll: ids, or the values of finished games."""
    if state.is_terminal():
        return [(1 + state.returns()[player]) / 2]
    if state.current_player() == player:
        return [leaf for action in state.legal_actions() for leaf in _leaves(state.child(action), player)]
    return [position_id(checkers_of(state, 1 - player), checkers_of(state, player))]
