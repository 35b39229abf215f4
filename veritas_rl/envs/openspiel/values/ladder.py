"""The values of a position's moves by the best rung of the ladder that bears it; see the package."""

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
"""A position with more lines of play, by the estimate of `outlook`, is not tried."""
MAX_VISITS = 8
"""Playouts of so many visits sharpen a mean; later visits add none."""
MAX_MOVES = 32
"""Among so many legal moves the best one is looked for by playouts; of more, so many are drawn."""
ERRORS = 2.0
"""A move is better than the average legal one if it is so by this many standard errors of the difference."""
ENGINE_TOLERANCE = 0.02
"""Moves this near to the best, in probability of winning, are equally good by an engine."""
ROUNDING = 1e-9


@dataclass(frozen=True)
class Estimate:
    """What a move is worth.

    Attributes:
        value: In [0, 1], for the mover.
        error: The standard error of `value`, where that is an estimate of known error.
    """

    value: float
    error: float | None = None


class MoveValues(ABC):
    """What the moves of one position are worth, each valued when it is asked for.

    Args:
        source: The rung that values them.
        actions: The legal actions.
    """

    def __init__(self, source: str, actions: Sequence[int]) -> None:
        self.source = source
        self.actions = tuple(actions)

    @abstractmethod
    def of(self, action: int) -> Estimate:
        """What a legal action is worth."""

    @property
    @abstractmethod
    def average(self) -> float:
        """What a uniformly random legal action is worth."""

    @abstractmethod
    def lost(self, action: int) -> float:
        """What an action loses against the best one, in [0, 1]."""

    @abstractmethod
    def is_good(self, action: int) -> bool:
        """Whether an action counts as a success: as good as the best one where the values of all are known, better than
        the average legal one beyond its error elsewhere; the only legal action always."""


class KnownValues(MoveValues):
    """Values that are known, or estimated, for all moves alike.

    Args:
        source: The rung.
        values: By legal action.
        tolerance: How far from the best value an action counts as equally good.
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
    """Expected returns where everybody plays an equilibrium.

    Args:
        game: The game.
        returns: By legal action.
    """

    def __init__(self, game: Game, returns: Mapping[int, float]) -> None:
        least, greatest = game.spiel.min_utility(), game.spiel.max_utility()
        values = {action: (mean - least) / (greatest - least) for action, mean in returns.items()}
        super().__init__("equilibrium", values, equilibrium.TOLERANCE / (greatest - least))
        self.unit = game.loss_unit / (greatest - least) if game.loss_unit else None

    def lost(self, action: int) -> float:
        lost = super().lost(action)
        return lost if self.unit is None else share(lost, self.unit)


class PlayoutValues(MoveValues):
    """Means of playouts.

    Args:
        question: The position.
        pay: Says how many, and the scale.
        visit: How often the task was asked before; the playouts of those visits count too.
    """

    def __init__(self, question: Question, pay: OpenSpielPay, visit: int) -> None:
        super().__init__("playouts", question.actions)
        self.question = question
        self.count = pay.playouts or playouts.usual_count(question.case)
        self.scale = pay.scale
        self.visits = min(visit + 1, MAX_VISITS)

    def of(self, action: int) -> Estimate:
        sample = self._sample(action)
        return Estimate(sample.mean, sample.error)

    @property
    def average(self) -> float:
        return self._sample(None).mean

    def lost(self, action: int) -> float:
        return max(0.0, self._sample(self._best).mean - self._sample(action).mean)

    def is_good(self, action: int) -> bool:
        difference, error = self._sample(action).less(self._sample(None))
        return difference > ERRORS * error or len(self.actions) == 1

    def _sample(self, action: int | None) -> Sample:
        return playouts.sample_of(self.question, action, self.count, self.scale, self.visits)

    @cached_property
    def _best(self) -> int:
        """The best of at most `MAX_MOVES` actions by a part of the playouts each."""
        actions = list(self.actions)
        if len(actions) > MAX_MOVES:
            actions = generator("moves", self.question.case, self.question.known).sample(actions, MAX_MOVES)
        few = max(2, self.count // len(actions))
        return max(actions, key=lambda action: playouts.sample_of(self.question, action, few, self.scale).mean)


def move_values(game: Game, state: State, player: int, pay: OpenSpielPay, visit: int = 0) -> MoveValues:
    """What the legal actions of a player are worth.

    Args:
        game: The game.
        state: Where the player is asked.
        player: Who.
        pay: The scale, the number of playouts, and whether an engine is asked.
        visit: How often the task was asked before.
    """
    question = Question.of(game, state, player)
    return _known(question, pay.engine, pay.scale) or PlayoutValues(question, pay, visit)


@lru_cache(maxsize=4096)
def _known(question: Question, engine: str, scale: str) -> KnownValues | None:
    """The values by the first rung that knows them all; None if none does."""
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


@lru_cache(maxsize=4096)
def solved(question: Question) -> Mapping[int, float] | None:
    """The minimax value of each legal action in units of return, where a search of limited size reaches every end."""
    game = question.game
    if not game.solvable or not game.solver_nodes or outlook(question)[1] > LINES:
        return None
    try:
        return ExactSolver(game, game.solver_nodes).values(question.state)
    except UserError:  # larger than that
        return None


def _results(worths: Mapping[int, float]) -> dict[int, float]:
    """1 for a win, 0.5 for a draw, 0 for a loss."""
    return {action: 0.5 * (1 + (worth > 0) - (worth < 0)) for action, worth in worths.items()}


def state_value(game: Game, state: State, player: int, pay: OpenSpielPay) -> float:
    """What a state is worth to a player, in [0, 1], such as one where a game is cut short: by minimax where it is near
    enough to the end, by what was gained since the root where the game has a margin, else by playouts.

    Args:
        game: The game.
        state: A state in which somebody is asked. Hidden cards count as they lie.
        player: Whose value is asked; another one may be to move.
        pay: The scale and the number of playouts.
    """
    mover = game.movers(state)[0]
    question = Question.of(game, state, mover)
    late = solved(question)
    if late is not None:
        best = max(_results(late).values())
        return best if mover == player else 1.0 - best
    if game.is_graded:
        return game.graded(game.spiel.new_initial_state(), state, player, pay.scale)
    return playouts.mean_of_state(question, player, pay.playouts or playouts.usual_count(game.case), pay.scale)


def result(value: float) -> Reason:
    """What a finished game of this value is called: won above 0.5."""
    return Reason.WON if value > 0.5 else Reason.LOST if value < 0.5 else Reason.DRAWN
