"""The values of a position's moves from the best rung of the ladder, see the package."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from statistics import fmean

from veritas_rl.envs.base import Reason
from veritas_rl.envs.openspiel.engines import engine_values
from veritas_rl.envs.openspiel.games import Game, State
from veritas_rl.envs.openspiel.games.base import share
from veritas_rl.envs.openspiel.task import OpenSpielPay
from veritas_rl.envs.openspiel.values import equilibrium, playouts, search
from veritas_rl.envs.openspiel.values.minimax import ExactSolver, is_exact, solver_of
from veritas_rl.envs.openspiel.values.outlook import outlook
from veritas_rl.envs.openspiel.values.playouts import Sample
from veritas_rl.envs.openspiel.values.question import Question
from veritas_rl.errors import UserError
from veritas_rl.seeding import generator

LINES = 1e6
"""The maximum number of lines of play, as estimated by `outlook`, of a late position that is solved."""
MAX_VISITS = 8
"""The number of visits whose playouts improve a mean; later visits add none."""
MAX_MOVES = 32
"""The maximum number of legal moves that playouts compare to find the best move; of more moves, this many are drawn."""
ERRORS = 2.0
"""The number of standard errors of the difference by which a good move is better than the average legal move."""
ENGINE_TOLERANCE = 0.02
"""The difference in probability of winning up to which an engine's moves count as equally good."""
ROUNDING = 1e-9


@dataclass(frozen=True)
class Estimate:
    """The value of a move.

    Attributes:
        value: The value for the mover, in [0, 1].
        error: The standard error of `value`, if it is an estimate with a known error.
    """

    value: float
    error: float | None = None


class MoveValues(ABC):
    """The values of the moves of one position, computed on access.

    Args:
        source: The rung of the values.
        actions: The legal actions.
    """

    def __init__(self, source: str, actions: Sequence[int]) -> None:
        self.source = source
        self.actions = tuple(actions)

    def anticipate(self, *, best: bool) -> None:  # noqa: B027
        """Compute what the values of all actions are compared with.

        Args:
            best: Whether they are also compared with the best action.
        """

    @abstractmethod
    def of(self, action: int) -> Estimate:
        """The value of a legal action."""

    @property
    @abstractmethod
    def average(self) -> float:
        """The value of a uniformly random legal action."""

    @abstractmethod
    def lost(self, action: int) -> float:
        """The loss of an action against the best one, in [0, 1]."""

    @abstractmethod
    def is_good(self, action: int) -> bool:
        """Whether an action counts as a success: if all values are known, as good as the best action; otherwise
        significantly better than the average legal action. A single legal action is always a success."""


class KnownValues(MoveValues):
    """Values that are known, or estimated in the same way, for all moves.

    Args:
        source: The rung of the values.
        values: The value of each legal action.
        tolerance: The difference from the best value up to which an action counts as equally good.
    """

    def __init__(self, source: str, values: Mapping[int, float], tolerance: float = 0.0) -> None:
        super().__init__(source, tuple(values))
        self.values = values
        self.tolerance = tolerance

    def of(self, action: int) -> Estimate:
        return Estimate(self.values[action])

    @property
    def average(self) -> float:
        return fmean(self.values.values())

    def lost(self, action: int) -> float:
        return max(self.values.values()) - self.values[action]

    def is_good(self, action: int) -> bool:
        return max(self.values.values()) - self.values[action] <= self.tolerance + ROUNDING


class EquilibriumValues(KnownValues):
    """Expected returns if all players play an equilibrium.

    Args:
        game: The game.
        returns: The expected return of each legal action.
    """

    def __init__(self, game: Game, returns: Mapping[int, float]) -> None:
        least, greatest = game.spiel.min_utility(), game.spiel.max_utility()
        values = {action: (mean - least) / (greatest - least) for action, mean in returns.items()}
        super().__init__("equilibrium", values, equilibrium.TOLERANCE / (greatest - least))
        self.unit = game.loss_unit

    def lost(self, action: int) -> float:
        return _scaled(super().lost(action), self.unit)


class PlayoutValues(MoveValues):
    """Means of playouts.

    Args:
        question: The position.
        pay: The pay, with the number of playouts and the scale.
        visit: The number of earlier visits of the task, whose playouts count too.
    """

    def __init__(self, question: Question, pay: OpenSpielPay, visit: int) -> None:
        super().__init__("playouts", question.actions)
        self.question = question
        self.count = playouts.count_of(question.case, pay.playouts)
        self.scale = pay.scale
        self.unit = question.game.loss_unit
        self.visits = min(visit + 1, MAX_VISITS)

    def of(self, action: int) -> Estimate:
        sample = self._sample(action)
        return Estimate(sample.mean, sample.error)

    def anticipate(self, *, best: bool) -> None:
        self._sample(None)
        if best:
            self._sample(self._best)

    @property
    def average(self) -> float:
        return self._sample(None).mean

    def lost(self, action: int) -> float:
        return _scaled(max(0.0, self._sample(self._best).mean - self._sample(action).mean), self.unit)

    def is_good(self, action: int) -> bool:
        difference, error = self._sample(action).less(self._sample(None))
        return difference > ERRORS * error or len(self.actions) == 1

    def _sample(self, action: int | None) -> Sample:
        return playouts.sample_of(self.question, action, self.count, self.scale, self.visits)

    @cached_property
    def _best(self) -> int:
        """The best of at most `MAX_MOVES` actions, by a part of the playouts for each."""
        actions = list(self.actions)
        if len(actions) > MAX_MOVES:
            actions = generator("moves", self.question.case, self.question.known).sample(actions, MAX_MOVES)
        few = max(2, self.count // len(actions))
        return max(actions, key=lambda action: playouts.sample_of(self.question, action, few, self.scale).mean)


def _scaled(lost: float, unit: float | None) -> float:
    return lost if unit is None else share(lost, unit)


def move_values(game: Game, state: State, player: int, pay: OpenSpielPay, visit: int = 0) -> MoveValues:
    """The values of a player's legal actions.

    Args:
        game: The game.
        state: The state of the decision.
        player: The player to move.
        pay: The scale, the number of playouts, and the engine.
        visit: The number of earlier visits of the task.
    """
    question = Question.of(game, state, player)
    return _known(question, pay.engine, pay.scale) or PlayoutValues(question, pay, visit)


@lru_cache(maxsize=8192)
def _known(question: Question, engine: str, scale: str) -> KnownValues | None:
    """The values from the first rung that knows all of them; None if none does."""
    game = question.game
    if is_exact(game.case):
        return KnownValues("exact", _results(solver_of(game.case).values(question.state)))
    late = solved(question)
    if late is not None:
        return KnownValues("solved", _results(late))
    if equilibrium.has_equilibrium(game.case):
        return EquilibriumValues(game, equilibrium.equilibrium_of(game.case).values(question.state))
    asked = engine_values(game, question.state, question.player, engine, scale) if engine else None
    if asked is not None:
        return KnownValues("engine", asked, ENGINE_TOLERANCE)
    found = search.searched(question)
    return None if found is None else KnownValues("search", found, search.TOLERANCE)


@lru_cache(maxsize=8192)
def solved(question: Question) -> Mapping[int, float] | None:
    """The minimax value of each legal action in units of return; None if a search of limited size does not finish."""
    game = question.game
    if not game.solvable or not game.solver_nodes or outlook(question)[1] > LINES:
        return None
    try:
        return ExactSolver(game, game.solver_nodes).values(question.state)
    except UserError:  # the search exceeded its limit
        return None


def _results(worths: Mapping[int, float]) -> dict[int, float]:
    """1 for a win, 0.5 for a draw, 0 for a loss."""
    return {action: 0.5 * (1 + (worth > 0) - (worth < 0)) for action, worth in worths.items()}


def state_value(game: Game, state: State, player: int, pay: OpenSpielPay) -> float:
    """The value of a state for a player, in [0, 1], such as the last state of a game that reached its limit of moves.
    It is computed by minimax near the end of a game, by the configured engine in games of two, by the margin in games
    that have one, and otherwise by playouts.

    Args:
        game: The game.
        state: A decision node, with its true hidden cards.
        player: The player of the value, who need not be the player to move.
        pay: The scale, the number of playouts, and the engine.
    """
    mover = game.movers(state)[0]
    question = Question.of(game, state, mover)
    late = solved(question)
    known = None if late is None else _results(late)
    if known is None and pay.engine and game.players == 2:
        known = engine_values(game, state, mover, pay.engine, pay.scale)
    if known is not None:
        best = max(known.values())
        return best if mover == player else 1.0 - best
    if game.is_graded:
        return game.graded(game.spiel.new_initial_state(), state, player, pay.scale)
    return playouts.mean_of_state(question, player, playouts.count_of(game.case, pay.playouts), pay.scale)


def result(value: float) -> Reason:
    """The reason for which a game with this value ended: won above 0.5, lost below 0.5, else drawn."""
    return Reason.WON if value > 0.5 else Reason.LOST if value < 0.5 else Reason.DRAWN
