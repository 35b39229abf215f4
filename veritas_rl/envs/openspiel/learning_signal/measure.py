"""Measure one task: its moves' values, their rewards, the true values if they are known, and the time."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from veritas_rl.envs.base import Reply, Score, Session, Turn
from veritas_rl.envs.openspiel import positions
from veritas_rl.envs.openspiel.cases import load
from veritas_rl.envs.openspiel.games import Game, State
from veritas_rl.envs.openspiel.learning_signal import statistics
from veritas_rl.envs.openspiel.session import OpenSpielSession
from veritas_rl.envs.openspiel.task import OpenSpielTask
from veritas_rl.envs.openspiel.values.equilibrium import TOLERANCE, equilibrium_of, has_equilibrium
from veritas_rl.envs.openspiel.values.minimax import ExactSolver, is_exact, solver_of
from veritas_rl.envs.openspiel.values.outlook import outlook
from veritas_rl.envs.openspiel.values.playouts import fresh_sample
from veritas_rl.envs.openspiel.values.question import Question
from veritas_rl.envs.openspiel.view import View
from veritas_rl.errors import UserError
from veritas_rl.seeding import digest, generator

BATCHES = 16
"""The number of equal batches into which the playouts of a move are divided, an even number for two halves."""
LEAST_SPREAD = 0.02
"""The smallest spread at which moves count as different, on the scale of values in [0, 1]."""
EXACT_SOURCES = ("exact", "solved", "equilibrium")
"""The sources of values that are not estimates."""
LENGTH_GAMES = 8
"""The number of games that estimate how long a game continues."""
FAR = 1_000_000
"""The number `k` of a task that is only used to fill the caches."""
MOST_MOVES_LEFT = 40
"""The mean number of further moves in random games above which a position is not searched for its true values, because
no search of a feasible size would reach every end."""
SAME = 1e-9
"""The difference below which values count as equal."""


Start = Callable[[OpenSpielTask], Session]
"""Makes the session of a task."""


def start_session(task: OpenSpielTask) -> Session:
    """Start the session of a task."""
    return OpenSpielSession(task, load(task.case))


@dataclass(frozen=True)
class Job:
    """One task to be measured.

    Attributes:
        task: The task.
        playouts: The number of fresh playouts of each move; a multiple of `BATCHES`.
        nodes: The maximum number of states in a search for the true values.
        most_moves: The maximum number of measured legal moves, evenly spread; None for all.
    """

    task: OpenSpielTask
    playouts: int
    nodes: int
    most_moves: int | None = None


@dataclass(frozen=True)
class Truth:
    """The true values of moves.

    Attributes:
        values: The value of each legal action, in units of return.
        tolerance: The difference from the best value up to which an action counts as equally good.
    """

    values: Mapping[int, float]
    tolerance: float = 0.0

    def best(self, above: float) -> list[int]:
        """The best actions; empty unless their value exceeds the return `above`."""
        best = max(self.values.values())
        return [a for a, value in self.values.items() if best > above + SAME and value > best - self.tolerance - SAME]

    def mistakes(self, chosen: Sequence[int]) -> tuple[float, float]:
        """The share of the chosen actions that are not among the best, and the mean loss of the chosen actions."""
        best = max(self.values.values())
        lost = [best - self.values[action] for action in chosen]
        return sum(loss > self.tolerance + SAME for loss in lost) / len(lost), sum(lost) / len(lost)


@dataclass(frozen=True)
class TaskSignal:
    """The measurement of a task. Package `learning_signal` defines the terms.

    Attributes:
        actions: The number of measured legal moves.
        third: The third of the game that contains the position: 0, 1 or 2.
        source: The reward's name for the source of its values; "playouts" or "exact" for a decision of a whole game.
        tested: Whether the values are means of playouts, so that the test is needed; False for a forced task.
        differs: Whether the moves really differ.
        p: The p-value of the test; None if the task was not tested.
        spread: The spread of the moves' values; None for a forced task.
        halves: The sums for the correlation of two halves, see `statistics.halves_of`; None if the task was not tested.
        truth: Whether the true values are known; False for a forced task.
        mistake: The share of the best-paid moves that are mistakes; None if the true values or the rewards are unknown.
        alike: Whether all measured moves have the same reward; False for a decision of a whole game.
        unpaid: Whether a best move is paid nothing, like an illegal answer, although a worse return exists; False if
            the true values or the rewards are unknown.
        regret: The mean loss of the best-paid moves, in units of return; None if `mistake` is None.
        successes: The number of moves that succeed; None for a decision of a whole game.
        seconds: CPU time of one task.
    """

    actions: int
    third: int
    source: str
    tested: bool
    differs: bool
    p: float | None
    spread: float | None
    halves: tuple[float, float, float] | None
    truth: bool
    mistake: float | None
    alike: bool
    unpaid: bool
    regret: float | None
    successes: int | None
    seconds: float

    @property
    def forced(self) -> bool:
        """Whether there is one legal move."""
        return self.actions == 1


def measure_task(job: Job, start: Start = start_session) -> TaskSignal:
    """Measure one task. Only `seconds` differs between processes."""
    task = job.task
    game = load(task.case)
    _warm_up(task.replace(k=FAR), start)
    turn, seconds = _asked(task, start)
    view: View = turn.view
    chosen = _spread(len(view.actions), job.most_moves)
    state, seat, actions = view.state, turn.seat, [view.actions[place] for place in chosen]
    third = third_of(game, state, task.id)
    scores = _paid(task, turn.seat, [turn.answers[place] for place in chosen], start) if task.mode == "move" else []
    source = _source(game, scores)
    successes = sum(score.success for score in scores) if scores else None
    plain = TaskSignal(
        actions=len(actions),
        third=third,
        source=source,
        tested=False,
        differs=False,
        p=None,
        spread=None,
        halves=None,
        truth=False,
        mistake=None,
        alike=len({score.value for score in scores}) == 1,
        unpaid=False,
        regret=None,
        successes=successes,
        seconds=seconds,
    )
    if plain.forced:
        return plain
    tested = source not in EXACT_SOURCES
    p = halves = mistake = regret = None
    unpaid = False
    if tested:
        samples = _fresh(game, state, seat, actions, job.playouts, task)
        p = statistics.p_of_equal_moves(samples, digest("learning signal", "permutations", task.id))
        halves = statistics.halves_of(samples)
    else:
        samples = np.array([score.value for score in scores] or _solved(game, state, actions))[:, None]
    spread = statistics.spread_of(samples)
    truth = true_values(game, state, job.nodes)
    if truth is not None and scores:
        truth = replace(truth, values={action: truth.values[action] for action in actions})
        paid = {action: score.value for action, score in zip(actions, scores, strict=True)}
        best_paid = [action for action, value in paid.items() if value >= max(paid.values()) - SAME]
        mistake, regret = truth.mistakes(best_paid)
        unpaid = any(paid[action] < SAME for action in truth.best(above=game.spiel.min_utility()))
    return replace(
        plain,
        tested=tested,
        differs=spread >= LEAST_SPREAD and (p is None or p <= statistics.FALSE_POSITIVE_RATE),
        p=p,
        spread=spread,
        halves=halves,
        truth=truth is not None,
        mistake=mistake,
        unpaid=unpaid,
        regret=regret,
    )


def _spread(count: int, most: int | None) -> list[int]:
    """At most `most` of the indices 0 to `count` - 1, evenly spread, including the first and the last."""
    if most is None or count <= most:
        return list(range(count))
    return [round(index * (count - 1) / (most - 1)) for index in range(most)]


@lru_cache(maxsize=256)
def _warm_up(task: OpenSpielTask, start: Start) -> None:
    """Fill the caches of a case with an unmeasured task, so that no measured time includes them."""
    _asked(task, start)
    if is_exact(task.case):
        solver_of(task.case).values(load(task.case).spiel.new_initial_state())


def _asked(task: OpenSpielTask, start: Start) -> tuple[Turn, float]:
    """The measured turn, and the CPU time of the whole task.

    A single move has one turn. A whole game is played with random legal answers of all seats, and one of its turns is
    drawn uniformly.
    """
    random = generator("learning signal", "answers", task.id)
    if task.k:
        start(task.replace(k=task.k - 1))  # in case tasks are drawn in order: exclude the time of earlier tasks
    started = time.process_time()
    session = start(task)
    seen: list[Turn] = []
    while turns := session.turns():
        seen += turns
        session.step({turn.seat: Reply(random.choice(turn.answers)) for turn in turns})
    session.scores()
    seconds = time.process_time() - started
    return (seen[0] if task.mode == "move" else random.choice(seen)), seconds


def _paid(task: OpenSpielTask, seat: int, answers: Sequence[str], start: Start) -> list[Score]:
    """The session's reward for each of these legal answers of a single move."""
    scores = []
    for answer in answers:
        session = start(task)
        session.step({seat: Reply(answer)})
        scores.append(session.scores()[seat])
    return scores


def _source(game: Game, scores: Sequence[Score]) -> str:
    if not scores:
        return "exact" if is_exact(game.case) else "playouts"
    return "+".join(sorted({str(score.details["value_source"]) for score in scores}))


def _solved(game: Game, state: State, actions: Sequence[int]) -> list[float]:
    """The minimax values in [0, 1] of a solved game."""
    values = solver_of(game.case).values(state)
    return [0.5 + 0.5 * values[action] for action in actions]


def _fresh(
    game: Game, state: State, seat: int, actions: Sequence[int], playouts: int, task: OpenSpielTask
) -> statistics.Samples:
    """Means of fresh playouts with independent random numbers, of shape (actions, `BATCHES`)."""
    size, question = playouts // BATCHES, Question.of(game, state, seat)
    rows = [
        [
            fresh_sample(question, action, size, task.pay.scale, (task.id, action, batch)).mean
            for batch in range(BATCHES)
        ]
        for action in actions
    ]
    return np.array(rows)


def true_values(game: Game, state: State, nodes: int) -> Truth | None:
    """The true values of the legal actions of the player to move; None if they are unknown.

    Args:
        game: The game.
        state: The state of the decision.
        nodes: The maximum number of states in a search of this position, if the game is not solved as a whole.
    """
    if has_equilibrium(game.case):
        return Truth(equilibrium_of(game.case).values(state), TOLERANCE)
    if is_exact(game.case):
        return Truth(solver_of(game.case).values(state))
    if not game.solvable or outlook(Question.of(game, state, state.current_player()))[0] > MOST_MOVES_LEFT:
        return None
    try:
        return Truth(ExactSolver(game, nodes).values(state))
    except UserError:  # the search exceeded `nodes`
        return None


def third_of(game: Game, state: State, name: str) -> int:
    """The third of the game that contains a state: 0, 1 or 2.

    Args:
        game: The game.
        state: The state of the decision.
        name: The seed of the games that continue from the state, between players of the kind in `positions.walks`.
    """
    made = sum(step.player >= 0 for step in state.full_history()) // (game.players if game.simultaneous else 1)
    games = [generator("learning signal", "length", name, index) for index in range(LENGTH_GAMES)]
    left = sum(positions.moves_left(game, state, random) for random in games)
    return 3 * LENGTH_GAMES * made // (LENGTH_GAMES * made + left)
