"""Judges a player on single answers: the share of legal answers and of solved tasks, with intervals.

The tasks come from the validation split. Its equivalence classes never occur in training if there are enough classes to
split. The tasks may belong to several environments. An environment may estimate the value of an answer, as OpenSpiel
does by playouts in a game that is too large to solve; then `Judgement.exact` is false.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from veritas_rl.envs.abilities import solved_by
from veritas_rl.envs.base import Player, Reply, Score, Session, Turn, play, shape
from veritas_rl.envs.custom_reward import CustomReward
from veritas_rl.envs.environment import Environment
from veritas_rl.envs.registry import get_environment, prepare, prepared
from veritas_rl.envs.task import Task
from veritas_rl.judging.statistics import Estimate, clustered_mean

EXACT = ("exact", "solved", "equilibrium")
"""The values of `Score.details["value_source"]` that mean an exact value. A score without that detail is exact."""


@dataclass(frozen=True)
class Judgement:
    """The results of one player on a list of tasks.

    Attributes:
        legal: For each task, the share of legal answers.
        optimal: For each task, the share of answers that solved it.
        value: For each task, the mean value of the answers; a mistake has the value 0.
        classes: The equivalence class of each task: its environment, its case, and the class among the case's tasks.
        exact: Whether every value was exact and none an estimate.
        envs: The environments of the tasks.
        custom: For each task, the mean custom reward of the answers; empty without a custom reward function.
    """

    legal: tuple[float, ...]
    optimal: tuple[float, ...]
    value: tuple[float, ...]
    classes: tuple[tuple[str, str, Hashable], ...]
    exact: bool
    envs: tuple[str, ...]
    custom: tuple[float, ...] = ()

    @cached_property
    def legal_rate(self) -> Estimate:
        """The share of legal answers."""
        return clustered_mean(self.legal, self.classes)

    @cached_property
    def optimal_rate(self) -> Estimate:
        """The share of answers that solved their task."""
        return clustered_mean(self.optimal, self.classes)

    @cached_property
    def mean_value(self) -> Estimate:
        """The mean value of the answers, in [0, 1]."""
        return clustered_mean(self.value, self.classes)

    @cached_property
    def mean_custom(self) -> Estimate | None:
        """The mean of the custom rewards; None without a custom reward function."""
        return clustered_mean(self.custom, self.classes) if self.custom else None

    @property
    def answers(self) -> str:
        """What `legal_rate` counts, in the environment's words; in general words for several environments."""
        return self._described().answers

    @property
    def solved(self) -> str:
        """What `optimal_rate` counts."""
        return solved_by(self._described(), self.exact)

    def _described(self) -> type[Environment]:
        return type(get_environment(self.envs[0])) if len(self.envs) == 1 else Environment

    def by_case(self) -> dict[str, "Judgement"]:
        """The judgement of each case by itself, in the order of the tasks."""
        places: dict[str, list[int]] = {}
        for place, (_, case, _) in enumerate(self.classes):
            places.setdefault(case, []).append(place)
        return {case: self._of(some) for case, some in places.items()}

    def _of(self, places: Sequence[int]) -> "Judgement":
        rates = (self.legal, self.optimal, self.value, self.custom)
        legal, optimal, value, custom = (tuple(of[i] for i in places) if of else () for of in rates)
        classes = tuple(self.classes[i] for i in places)
        return replace(self, legal=legal, optimal=optimal, value=value, classes=classes, custom=custom)

    def gain_over(self, other: "Judgement") -> Estimate:
        """The optimal rate of this judgement minus that of `other`, paired by task.

        Raises:
            ValueError: The two were not judged on the same tasks.
        """
        return self._difference(other, self.optimal, other.optimal)

    def value_gain_over(self, other: "Judgement") -> Estimate:
        """The mean value of this judgement minus that of `other`, paired by task.

        Raises:
            ValueError: The two were not judged on the same tasks.
        """
        return self._difference(other, self.value, other.value)

    def _difference(self, other: "Judgement", mine: Sequence[float], theirs: Sequence[float]) -> Estimate:
        if self.classes != other.classes:
            raise ValueError("the two judgements are of different tasks; a paired difference needs the same tasks")
        return clustered_mean([a - b for a, b in zip(mine, theirs, strict=True)], self.classes)


def plain_session(task: Task) -> Session:
    """A new session of a task in its environment."""
    return get_environment(task.env).start(task)


class _Heard:
    """A player whose replies are kept, in order.

    Args:
        player: The player.
    """

    def __init__(self, player: Player) -> None:
        self._player = player
        self.replies: list[Reply] = []

    def act(self, turns: Sequence[Turn]) -> Sequence[Reply]:
        """The player's replies."""
        said = self._player.act(turns)
        self.replies += said
        return said


def judge(
    player: Player,
    tasks: Sequence[Task],
    draws: int = 1,
    session_of: Callable[[Task], Session] = plain_session,
    custom: CustomReward | None = None,
) -> Judgement:
    """Let a player answer each task.

    Args:
        player: The player.
        tasks: Tasks of a single answer each, as `Settings.single` makes them.
        draws: How often each task is answered. A task counts with the mean of its answers.
        session_of: Makes the session of a task.
        custom: A custom reward function, whose rewards are reported beside the scores.
    """
    prepare(tasks)
    asked = [task for task in tasks for _ in range(draws)]
    heard = _Heard(player)
    scores = [next(iter(scores.values())) for scores in play([session_of(task) for task in asked], heard)]
    rewards: list[float] = []
    if custom is not None:
        answered = zip(asked, scores, heard.replies, strict=True)
        rewards = [custom_reward(custom, task, score, reply) for task, score, reply in answered]
    tried = [scores[start : start + draws] for start in range(0, len(scores), draws)]
    found = _judgement(
        tasks,
        tuple(sum(score.legal for score in drawn) / draws for drawn in tried),
        tuple(sum(score.success for score in drawn) / draws for drawn in tried),
        tuple(sum(score.value for score in drawn) / draws for drawn in tried),
        all(_is_exact(score) for score in scores if score.legal),
    )
    return replace(
        found, custom=tuple(sum(rewards[start : start + draws]) / draws for start in range(0, len(rewards), draws))
    )


def custom_reward(custom: CustomReward, task: Task, score: Score, reply: Reply) -> float:
    """The custom reward of a single answer, as in training: a reply without tokens has the reward of `shape`."""
    shaped = shape(score, task)
    return custom(task, score, shaped, reply.text, reply.token_ids)[0] if reply.token_ids else shaped


def judge_uniform(tasks: Sequence[Task]) -> Judgement | None:
    """The exact expectation of the uniformly random legal player; None if a task's legal answers cannot be listed."""
    scores: list[list[Score]] = []
    for task in tasks:
        (turn,) = get_environment(task.env).start(task).turns()
        if not turn.answers:
            return None
        scores.append([_answered(task, turn.seat, answer) for answer in turn.answers])
    optimal = tuple(sum(score.success for score in tried) / len(tried) for tried in scores)
    value = tuple(sum(score.value for score in tried) / len(tried) for tried in scores)
    return _judgement(tasks, (1.0,) * len(tasks), optimal, value, all(_is_exact(tried[0]) for tried in scores))


def _answered(task: Task, seat: int, answer: str) -> Score:
    session = get_environment(task.env).start(task)
    session.step({seat: Reply(answer)})
    return session.scores()[seat]


def _is_exact(score: Score) -> bool:
    return score.details.get("value_source", EXACT[0]) in EXACT


def distinct(tasks: Iterable[Task], most: int) -> list[Task]:
    """The first `most` tasks, without tasks whose messages are those of an earlier task."""
    seen: set[str] = set()
    kept: list[Task] = []
    for task in prepared(tasks, min(most, 256)):
        if len(kept) == most:
            break
        question = str([turn.messages for turn in get_environment(task.env).start(task).turns()])
        if question not in seen:
            seen.add(question)
            kept.append(task)
    return kept


def _judgement(
    tasks: Sequence[Task],
    legal: tuple[float, ...],
    optimal: tuple[float, ...],
    value: tuple[float, ...],
    exact: bool,
) -> Judgement:
    classes = tuple((task.env, task.case, get_environment(task.env).equivalence_class(task)) for task in tasks)
    return Judgement(legal, optimal, value, classes, exact, tuple(dict.fromkeys(task.env for task in tasks)))
