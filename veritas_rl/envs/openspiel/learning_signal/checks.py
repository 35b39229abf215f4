"""Linter checks of the learning signal of OpenSpiel tasks: a small measurement of each case, with findings at a
significance of 5%.

8 tasks suffice to find faults that most tasks have. Rarer faults need more tasks, and so do published figures, see
`train/tools/learning_signal.py`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from veritas_rl.envs.audit import NotApplicable, OwnCheck
from veritas_rl.envs.base import Reason, Reply, Score
from veritas_rl.envs.openspiel.cases import load
from veritas_rl.envs.openspiel.games import Game
from veritas_rl.envs.openspiel.learning_signal.measure import Job, Start, TaskSignal, measure_task
from veritas_rl.envs.openspiel.learning_signal.statistics import (
    chance_of_so_many,
    correlation,
    reliability,
    surely_below,
)
from veritas_rl.envs.openspiel.playing import apply_chance
from veritas_rl.envs.openspiel.task import OpenSpielTask
from veritas_rl.envs.openspiel.values.playouts import count_of
from veritas_rl.envs.task import Task
from veritas_rl.seeding import generator

Found = Callable[[str, str], None]
"""Records a finding: the task's id, and what is wrong."""

PLAYOUTS = 128
MOST_MOVES, LEAST_MOVES = 32, 4
MOST_STEPS = 50_000
NODES = 4_000
"""The measurement of each task: the number of fresh playouts of a move, the maximum and minimum number of measured
moves, the playout moves that limit this number, and the maximum number of states in a search for true values."""
GAMES = 20
CUT_GAMES = 3
"""The number of random whole games, and the number of games that are stopped half-way."""
MOST_CUT = 0.01
"""The largest share of random games that may exceed `max_moves`."""
FEWEST_TASKS = 5
"""The minimum number of tasks for a check of the shares below."""
SIGNIFICANT = 0.05
LEAST_DIFFER = 0.4
"""The smallest accepted share of tasks whose moves really differ."""
MOST_MISTAKES = 0.05
"""The largest accepted share of tasks with known values whose best-paid move is a mistake."""
MOST_FIXED = 0.5
"""The largest accepted share of tasks with different moves in which the position alone decides success."""
LATER = 3
"""The visit that is compared with the first one: its means have four times as many playouts."""
MOST_ERROR_LEFT = 0.8
"""The largest accepted share of the errors of means that is left at the visit `LATER`; one half is expected."""
LEAST_RELIABILITY = 0.5
"""The smallest accepted correlation of two independent values of the same moves: their spread equals their noise."""


class SignalChecks:
    """The checks of the learning signal, which share one measurement of each task.

    Args:
        start: Makes the session of a task.
    """

    def __init__(self, start: Start) -> None:
        self._start = start
        self._measured: dict[tuple[str, ...], list[TaskSignal]] = {}

    def all(self) -> Mapping[str, OwnCheck]:
        """The checks by name."""
        return {
            "games end": self.games_end,
            "moves differ": self.moves_differ,
            "values above noise": self.values_above_noise,
            "visits add playouts": self.visits_add_playouts,
            "best moves paid best": self.best_moves_paid_best,
            "success is the move's": self.success_is_the_moves,
        }

    def games_end(self, tasks: Sequence[Task], found: Found) -> str:
        """Random whole games end by the rules within `max_moves`, and a stopped game pays at least one player."""
        task = OpenSpielTask.of(tasks[0])
        game = load(task.case)
        most = task.manner.max_moves or game.max_moves
        lengths = [_length(game, index, most) for index in range(GAMES)]
        cut = sum(length is None for length in lengths)
        if chance_of_so_many(cut, GAMES, MOST_CUT) < SIGNIFICANT:
            found("", f"{cut} of {GAMES} random games are not over after {most} moves")
        usual = sorted(length or most for length in lengths)[GAMES // 2]
        unfinished = [
            scores
            for index in range(CUT_GAMES)
            if (scores := self._cut(task.replace(mode="episode", k=index, max_moves=max(1, usual // 2))))
        ]
        if unfinished and not any(score.value for scores in unfinished for score in scores):
            found("", f"{len(unfinished)} games that were cut after {usual // 2} moves pay nothing to anybody")
        return f"{GAMES - cut} of {GAMES} random games end within {most} moves; {len(unfinished)} games were cut"

    def _cut(self, task: OpenSpielTask) -> list[Score]:
        """The scores of a random game that is not over after `max_moves`; empty if the game is over."""
        session, random = self._start(task), generator("lint", "cut", task.id)
        while turns := session.turns():
            session.step({turn.seat: Reply(random.choice(turn.answers)) for turn in turns})
        scores = list(session.scores().values())
        return scores if all(score.reason is Reason.UNFINISHED for score in scores) else []

    def moves_differ(self, tasks: Sequence[Task], found: Found) -> str:
        """In enough tasks the legal moves have different values and different pay."""
        signals = self._signals(tasks)
        flat = sum(signal.alike or not signal.differs for signal in signals)
        if chance_of_so_many(flat, len(signals), 1 - LEAST_DIFFER) < SIGNIFICANT:
            found("", f"in {flat} of {len(signals)} tasks all moves are worth the same, or there is one move alone")
        return f"moves differ in {len(signals) - flat} of {len(signals)} tasks"

    def values_above_noise(self, tasks: Sequence[Task], found: Found) -> str:
        """Values by playouts differ between moves by more than their noise.

        The correlation of two halves of fresh playouts is the reliability of means of `PLAYOUTS` / 2 playouts. That of
        the reward's means, which have another number of playouts, follows by the formula of Spearman and Brown (1910).
        """
        tested = [signal for signal in self._signals(tasks) if signal.tested and signal.source == "playouts"]
        halves = correlation(signal.halves for signal in tested if signal.halves is not None)
        if halves is None:
            raise NotApplicable("no different values are means of playouts")
        count = count_of(tasks[0].case, OpenSpielTask.of(tasks[0]).pay.playouts)
        longer = 2 * count / PLAYOUTS
        means, expected = f"means of {count} playouts", reliability(max(0.0, halves), longer)
        freedom = sum(signal.actions - 1 for signal in tested)
        if surely_below(halves, reliability(LEAST_RELIABILITY, 1 / longer), freedom):
            found("", f"the noise exceeds the spread of the values: two {means} would correlate {expected:.2f}")
        return f"two {means} would correlate {expected:.2f}, by {len(tested)} tasks"

    def visits_add_playouts(self, tasks: Sequence[Task], found: Found) -> str:
        """A later visit of a task adds playouts, so the errors of its means are smaller."""
        if tasks[0].mode != "move" or tasks[0].pay.reward == "legal":
            raise NotApplicable("nothing is estimated")
        errors = [
            (first, self._error(task, LATER))
            for task in map(OpenSpielTask.of, tasks)
            if (first := self._error(task, 0))
        ]
        if not errors:
            raise NotApplicable("no value is an uncertain mean of playouts")
        first, later = (sum(of) for of in zip(*errors, strict=True))
        left = f"{later / first:.0%} of the errors of the first visit are left at visit {LATER}"
        if later > MOST_ERROR_LEFT * first:
            found("", f"{left}: visits add no playouts")
        return left

    def _error(self, task: OpenSpielTask, visit: int) -> float:
        """The standard error of the value of the first legal answer to a single move; 0 if the value is exact."""
        session = self._start(replace(task, visit=visit))
        (turn,) = session.turns()
        session.step({turn.seat: Reply(turn.answers[0])})
        return float(session.scores()[turn.seat].details.get("value_error", 0.0))

    def best_moves_paid_best(self, tasks: Sequence[Task], found: Found) -> str:
        """If true values are cheap, the best-paid move is among the best moves, and no best move is paid nothing."""
        known = [(task, signal) for task, signal in zip(tasks, self._signals(tasks), strict=True) if signal.truth]
        if not known:
            raise NotApplicable("true values are unknown")
        for task, signal in known:
            if signal.unpaid:
                found(task.id, "a best move is paid nothing, as an illegal answer is")
        wrong = [task for task, signal in known if (signal.mistake or 0) >= 0.5]
        if chance_of_so_many(len(wrong), len(known), MOST_MISTAKES) < SIGNIFICANT:
            found(
                wrong[0].id, f"in {len(wrong)} of {len(known)} tasks with known values the best-paid move is a mistake"
            )
        return f"{len(wrong)} mistakes in {len(known)} tasks with known values"

    def success_is_the_moves(self, tasks: Sequence[Task], found: Found) -> str:
        """Where moves differ, not all of them succeed, and not all of them fail."""
        differ = [signal for signal in self._signals(tasks) if signal.differs and signal.successes is not None]
        if not differ:
            raise NotApplicable("the moves differ in no task")
        fixed = sum(signal.successes in (0, signal.actions) for signal in differ)
        if chance_of_so_many(fixed, len(differ), MOST_FIXED) < SIGNIFICANT:
            found("", f"in {fixed} of {len(differ)} tasks whose moves differ all moves succeed, or none")
        return f"moves succeed and fail in {len(differ) - fixed} of {len(differ)} tasks whose moves differ"

    def _signals(self, tasks: Sequence[Task]) -> list[TaskSignal]:
        if tasks[0].pay.reward == "legal":
            raise NotApplicable("all legal answers have the same value")
        if len(tasks) < FEWEST_TASKS:
            raise NotApplicable(f"the check needs at least {FEWEST_TASKS} tasks")
        key = tuple(task.key for task in tasks)
        if key not in self._measured:
            most = _most_moves(load(tasks[0].case))
            jobs = [Job(OpenSpielTask.of(task), PLAYOUTS, NODES, most) for task in tasks]
            self._measured[key] = [measure_task(job, self._start) for job in jobs]
        return self._measured[key]


def _most_moves(game: Game) -> int:
    """The number of measured moves per task, which falls with the length of its playouts."""
    if game.solvable and not game.is_graded:
        return MOST_MOVES  # OpenSpiel's own playouts are fast
    length = game.playout_moves or _length(game, 0, game.max_moves) or game.max_moves
    return max(LEAST_MOVES, min(MOST_MOVES, MOST_STEPS // (PLAYOUTS * length)))


def _length(game: Game, index: int, most: int) -> int | None:
    """The length of a random game in moves of all seats; None if it is not over after the limit."""
    random = generator("lint", "length", game.case, index)
    state, moves = game.spiel.new_initial_state(), 0
    while not state.is_terminal():
        if state.is_chance_node():
            apply_chance(state, random.random())
            continue
        movers = game.movers(state)
        if moves >= most:
            return None
        moves += len(movers)
        game.apply(state, {seat: random.choice(state.legal_actions(seat)) for seat in movers})
    return moves
