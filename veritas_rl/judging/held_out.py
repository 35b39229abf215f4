"""Judging a player on single moves: how many are legal, how many are as good as any, with intervals.

The positions are the validation tasks of an environment, whose symmetry classes never occur in training where a game
is large enough to be split. Where a game can be solved, a move is optimal if no other has a greater value; elsewhere a
move counts that is worth more than half by playouts, and `Judgement.exact` is false.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from veritas_rl.envs.base import Player, Reply, Score, Session, play
from veritas_rl.envs.registry import get_environment
from veritas_rl.envs.task import Task
from veritas_rl.judging.statistics import Estimate, clustered_mean
from veritas_rl.players.random import RandomPlayer


@dataclass(frozen=True)
class Judgement:
    """What one player did on a list of positions.

    Attributes:
        legal: For each position the share of legal answers.
        optimal: For each position the share of answers with the best value.
        classes: The symmetry class of each position.
        exact: Whether every value was exact. Otherwise a move counts that is worth more than half by playouts.
    """

    legal: tuple[float, ...]
    optimal: tuple[float, ...]
    classes: tuple[Hashable, ...]
    exact: bool

    @cached_property
    def legal_rate(self) -> Estimate:
        """The share of legal moves."""
        return clustered_mean(self.legal, self.classes)

    @cached_property
    def optimal_rate(self) -> Estimate:
        """The share of optimal moves; an illegal one is not optimal."""
        return clustered_mean(self.optimal, self.classes)

    def gain_over(self, other: "Judgement") -> Estimate:
        """The difference in optimal rate, this minus the other, paired position by position.

        Raises:
            ValueError: The two were not judged on the same positions.
        """
        if self.classes != other.classes:
            raise ValueError("a paired difference needs the same positions in the same order")
        return clustered_mean([a - b for a, b in zip(self.optimal, other.optimal, strict=True)], self.classes)


def plain_session(task: Task) -> Session:
    """A fresh session of a task, in its own environment."""
    return get_environment(task.env).start(task)


def judge(
    player: Player, tasks: Sequence[Task], draws: int = 1, session_of: Callable[[Task], Session] = plain_session
) -> Judgement:
    """Let a player answer each task.

    Args:
        player: Who answers.
        tasks: Single-move tasks with reward "outcome" or "optimal".
        draws: How often each is answered; a task counts by its mean, so that a player that draws its moves is judged
            by what it usually does.
        session_of: Makes the session of a task.
    """
    sessions = [session_of(task) for task in tasks for _ in range(draws)]
    scores = [next(iter(scores.values())) for scores in play(sessions, player)]
    tried = [scores[start : start + draws] for start in range(0, len(scores), draws)]
    exact = all(_is_exact(score) for score in scores if score.legal)
    return Judgement(
        tuple(sum(score.legal for score in drawn) / draws for drawn in tried),
        tuple(sum(score.success for score in drawn) / draws for drawn in tried),
        _classes(tasks),
        exact,
    )


def judge_uniform(tasks: Sequence[Task]) -> Judgement:
    """The uniformly random legal player: by its exact expectation where values are exact, else by one draw a task."""
    scores: list[list[Score]] = []
    for task in tasks:
        (turn,) = get_environment(task.env).start(task).turns()
        first = RandomPlayer(task.id).act([turn])[0].text
        tried = [_answered(task, turn.seat, first)]
        if _is_exact(tried[0]):
            tried += [_answered(task, turn.seat, answer) for answer in turn.answers if answer != first]
        scores.append(tried)
    optimal = tuple(sum(score.success for score in tried) / len(tried) for tried in scores)
    exact = all(_is_exact(tried[0]) for tried in scores)
    return Judgement((1.0,) * len(tasks), optimal, _classes(tasks), exact)


def _answered(task: Task, seat: int, answer: str) -> Score:
    session = get_environment(task.env).start(task)
    session.step({seat: Reply(answer)})
    return session.scores()[seat]


def _is_exact(score: Score) -> bool:
    return score.details.get("value_source") in ("exact", "equilibrium")


def distinct(tasks: Iterable[Task], most: int) -> list[Task]:
    """The first tasks, at most so many, without those that ask what an earlier one asked, word for word."""
    seen: set[str] = set()
    kept: list[Task] = []
    for task in tasks:
        if len(kept) == most:
            break
        question = str([turn.messages for turn in get_environment(task.env).start(task).turns()])
        if question not in seen:
            seen.add(question)
            kept.append(task)
    return kept


def _classes(tasks: Sequence[Task]) -> tuple[Hashable, ...]:
    return tuple((task.case, get_environment(task.env).equivalence_class(task)) for task in tasks)
