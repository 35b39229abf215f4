"""The algorithms of reinforcement learning, a file each: the paper, what it needs, and its estimate of advantages.

`algorithm=NAME` is a file here and the settings in `train/verl/config/algorithm/NAME.yaml`, which also choose one of
verl's policy losses. verl estimates the advantages of an algorithm without an estimate of its own.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from omegaconf import DictConfig


@dataclass(frozen=True)
class Move:
    """One trajectory of a batch: a reply, or the replies of one seat in a conversation.

    Attributes:
        task: The task, which the games of a group share.
        game: The game of the batch.
        name: The game's name, such as "hex".
        opponent: The player of the seats that are not trained; "self" if all are trained.
        seat: The seat that replied.
        turn: The index of the trajectory among this seat's in this game.
        reward: The reward, shaped or custom.
        value: The seat's final score in [0, 1]; the mean of its rewards if they are custom.
        discount: The discount of `reward`; 1 if it is custom.
        decision: The index of the decision that it answers among those of this game, if answers are listed.
        probability: The policy's probability of the whole reply, if answers are listed.
    """

    task: str
    game: str
    name: str
    opponent: str
    seat: int
    turn: int
    reward: float
    value: float
    discount: float
    decision: int = 0
    probability: float = 1.0


Advantages = Callable[[Sequence[Move], Mapping[str, Any], dict[str, float]], list[float]]
"""Estimates the advantage of each move of a batch from the moves, verl's node `algorithm` of the configuration, and the
algorithm's memory. The memory is empty at first, may be changed, and is part of a checkpoint."""


@dataclass(frozen=True)
class Algorithm:
    """What the launcher and the trainer know of an algorithm besides its settings.

    Attributes:
        estimator: Its value of `algorithm.adv_estimator`.
        critic: Whether a critic is trained.
        groups: Whether the replies to one task are compared, so that it needs at least two.
        lists: Whether a batch has every legal answer to each decision once, instead of sampled replies.
        reads: The keys of `algorithm` in the configuration that its advantages depend on.
        advantages: Its estimate; None for verl's.
    """

    estimator: str
    critic: bool = False
    groups: bool = False
    lists: bool = False
    reads: tuple[str, ...] = ()
    advantages: Advantages | None = None


@cache
def known() -> dict[str, Algorithm]:
    """All algorithms by name."""
    return {one.name: import_module(f"{__name__}.{one.name}").ALGORITHM for one in iter_modules(__path__)}


def name_of(estimator: str) -> str | None:
    """The algorithm with this estimator, and not one of its variants, which only have other settings.

    Args:
        estimator: A value of `algorithm.adv_estimator`.

    Returns:
        Its name; None for an estimator of verl that no file here stands for.
    """
    found = [name for name, one in known().items() if one.estimator == estimator]
    return estimator if estimator in found else next(iter(found), None)


def of_estimator(estimator: str) -> Algorithm | None:
    """As `name_of`, the algorithm itself."""
    return known().get(name_of(estimator) or "")


def has_critic(configuration: DictConfig) -> bool:
    """Whether the algorithm of verl's configuration trains a critic."""
    found = of_estimator(configuration.algorithm.adv_estimator)
    return found is not None and found.critic


def lists_answers(configuration: DictConfig) -> bool:
    """Whether the algorithm of verl's configuration trains on listed answers."""
    found = of_estimator(configuration.algorithm.adv_estimator)
    return found is not None and found.lists


def reading(setting: str) -> list[str]:
    """The estimators that depend on a key of `algorithm` in the configuration."""
    return sorted({one.estimator for one in known().values() if setting in one.reads})


def compared(moves: Sequence[Move]) -> list[tuple[float, list[float]]]:
    """What an algorithm of groups compares each move with, seat by seat and turn by turn.

    Each seat of each game has the same total weight, however many replies it has.

    Returns:
        For each move its weight, the mean number of a seat's replies in the batch divided by its own seat's, and the
        rewards of the same turn of the same seat in all games of its task.
    """
    groups: dict[tuple[str, int, int], list[float]] = defaultdict(list)
    counts: dict[tuple[str, int], int] = defaultdict(int)
    for move in moves:
        groups[move.task, move.seat, move.turn].append(move.reward)
        counts[move.game, move.seat] += 1
    mean = len(moves) / max(1, len(counts))
    return [(mean / counts[move.game, move.seat], groups[move.task, move.seat, move.turn]) for move in moves]
