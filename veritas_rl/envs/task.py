"""Tasks: the identity of a problem, the manner of its play, and its pay. All three are plain values.

The identity defines the problem: environment, case, number, mode, seed, split, and the environment's own `Parameters`.
Only the identity determines the task's id and its chance seed. The `Manner` defines how the task is played and shown,
and the `Pay` defines the reward of a finished session. `Task.key` also distinguishes tasks by manner and pay.

An environment with its own values derives from `Parameters`, `Manner`, `Pay` and `Task`:

    @dataclass(frozen=True)
    class QuizTask(Task):
        parameters: QuizParameters = QuizParameters()
"""

import dataclasses
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Self

from veritas_rl.errors import UserError, unknown
from veritas_rl.seeding import digest

SPLITS = ("train", "val")
MODES = ("move", "episode")
CONTEXTS = ("turn", "conversation")
PROMPTS = ("full", "unlisted", "brief")


@dataclass(frozen=True)
class Parameters:
    """The environment's own part of the identity. Most environments have none."""


@dataclass(frozen=True)
class Manner:
    """How a task is played and shown.

    Attributes:
        opponent: The player of every other seat of a whole game; "none" without other seats.
        seat: The trained or judged seat; -1 if the session decides, as in a single move.
        prompt: "full" explains everything; "unlisted" does not list the legal answers; "brief" shows only the question,
            for a model too small to follow instructions.
        context: In a whole game, "turn" shows each position in a new chat; "conversation" uses one growing chat.
    """

    prompts: ClassVar[tuple[str, ...]] = PROMPTS
    """The kinds of prompts of the environment."""

    opponent: str = "none"
    seat: int = -1
    prompt: str = "full"
    context: str = "turn"

    def __post_init__(self) -> None:
        check_choice("prompt", self.prompt, self.prompts)
        check_choice("context", self.context, CONTEXTS)


@dataclass(frozen=True)
class Pay:
    """The reward of a finished session.

    Attributes:
        reward: One of `rewards`. "legal" pays 1 for legal answers; "outcome" pays the value that the session computes.
        gamma: The discount of a reward for each later move of the same seat, in (0, 1].
        legal_share: The share of a reward that is paid for a legal answer of any value, in [0, 1).
    """

    rewards: ClassVar[tuple[str, ...]] = ("legal", "outcome")
    """The names of the environment's rewards."""

    reward: str = "outcome"
    gamma: float = 0.99
    legal_share: float = 0.0

    def __post_init__(self) -> None:
        check_choice("reward", self.reward, self.rewards)
        check_share("gamma", self.gamma, "(0, 1]")
        check_share("legal_share", self.legal_share, "[0, 1)")


def check_choice(name: str, given: object, known: tuple[str, ...]) -> None:
    """Check that a value is one of the known values.

    Raises:
        UserError: The value is unknown; the message lists the nearest names.
    """
    if given not in known:
        raise unknown(name, given, known)


def check_least(name: str, given: int, least: int) -> None:
    """Check that a number is not too small.

    Raises:
        UserError: The number is too small.
    """
    if given < least:
        raise UserError(f"{name} must be at least {least}, {given} was given")


def check_share(name: str, given: float, interval: str) -> None:
    """Check that a number lies in an interval from 0 to 1, such as "(0, 1]".

    Raises:
        UserError: The number lies elsewhere.
    """
    if not 0 <= given <= 1 or (given == 0 and interval[0] == "(") or (given == 1 and interval[-1] == ")"):
        raise UserError(f"{name} must lie in {interval}, {given!r} was given")


PARTS = ("parameters", "manner", "pay")


@dataclass(frozen=True)
class Task:
    """One problem, frozen and self-contained: any process can start the same session from its plain values.

    The names of all values are different, even in different parts, so a task can be written as one flat mapping.

    Attributes:
        env: The environment's name in the registry.
        case: One configuration of the environment, such as the OpenSpiel load string "hex(board_size=5)".
        k: The number of the task within its case and split, from 0.
        mode: "move" for one answer, "episode" for a whole game.
        seed: The seed of the set of tasks.
        split: "train" or "val"; they never share a task if the environment can distinguish tasks.
        parameters: The part of the identity that the environment defines.
        manner: How the task is played and shown.
        pay: The reward of the task.
        visit: The number of times that training has already used this task. An environment that estimates values may
            improve the estimate from visit to visit. The visit is not part of the id or the key.
    """

    env: str
    case: str
    k: int
    mode: str = "move"
    seed: int = 42
    split: str = "train"
    parameters: Parameters = Parameters()
    manner: Manner = Manner()
    pay: Pay = Pay()
    visit: int = 0

    def __post_init__(self) -> None:
        check_choice("mode", self.mode, MODES)
        check_choice("split", self.split, SPLITS)
        check_least("k", self.k, 0)
        check_least("visit", self.visit, 0)

    @property
    def id(self) -> str:
        """The identity as text: `env/case/mode#k`, then `?name=value&...` with all values that are not the default.

        An example is `openspiel/hex(board_size=5)/move#17?split=val`.
        """
        changed = "&".join(f"{name}={value}" for name, value in self._changed("parameters").items())
        return f"{self.env}/{self.case}/{self.mode}#{self.k}" + (f"?{changed}" if changed else "")

    @property
    def key(self) -> str:
        """The id and a digest of manner and pay, the key under which data of a task are stored."""
        changed = sorted((self._changed("manner") | self._changed("pay")).items())
        return f"{self.id}~{digest(*changed):016x}"

    @property
    def chance_seed(self) -> str:
        """The seed of deals, dice and opponents' random choices.

        It depends only on the identity, so deals are the same for all players, prompts and rewards.
        """
        return f"{self.env}/{self.case}/{self.mode}#{self.k}?seed={self.seed}&split={self.split}"

    @property
    def library_seed(self) -> int:
        """The seed of the task for a library or a server, which takes a number below 2**31."""
        return digest(self.env, self.chance_seed) % 2**31

    def _changed(self, part: str) -> dict[str, Any]:
        """The values of a part that differ from the default. The parameters include seed and split."""
        values = vars(getattr(self, part))
        if part == "parameters":
            values = {"seed": self.seed, "split": self.split} | values
        defaults = _defaults_of(type(self))
        return {name: value for name, value in values.items() if value != defaults[name]}

    def to_dict(self) -> dict[str, str | int | float]:
        """The task as a flat dict of strings and numbers, for parquet, Ray and the replay buffer."""
        plain = {name: value for name, value in vars(self).items() if name not in PARTS}
        return plain | vars(self.parameters) | vars(self.manner) | vars(self.pay)

    def replace(self, **changes: Any) -> Self:
        """The task with some values changed, named as in `to_dict`: `task.replace(reward="legal", k=3)`.

        Raises:
            UserError: A name is unknown, or a value is invalid.
        """
        return type(self).from_dict(self.to_dict() | changes)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The task of a dict by `to_dict`; missing values have their defaults.

        Raises:
            UserError: A name is unknown, or a value is invalid.
        """
        places = _places_of(cls)
        own: dict[str, Any] = {}
        parts: dict[str, dict[str, Any]] = {part: {} for part in PARTS}
        for name, value in values.items():
            if name not in places:
                raise unknown("task value", name, places)
            part, kind = places[name]
            (parts[part] if part else own)[name] = kind(value)
        types = _part_types_of(cls)
        return cls(**own, **{part: types[part](**given) for part, given in parts.items()})


@cache
def _part_types_of(task_type: type[Task]) -> dict[str, type]:
    """The dataclass of each part."""
    hints = typing.get_type_hints(task_type)
    return {part: hints[part] for part in PARTS}


@cache
def _places_of(task_type: type[Task]) -> dict[str, tuple[str, type]]:
    """The part of each value, "" for the task itself, and its type.

    Raises:
        TypeError: Two values have the same name, or a value is neither text nor a number.
    """
    found: dict[str, tuple[str, type]] = {}
    for part, kind in (("", task_type), *_part_types_of(task_type).items()):
        hints = typing.get_type_hints(kind)
        for field in dataclasses.fields(kind):
            if field.name in PARTS:
                continue
            if field.name in found or hints[field.name] not in (str, int, float):
                raise TypeError(f"{task_type.__name__}: {field.name} exists twice, or is neither text nor a number")
            found[field.name] = (part, hints[field.name])
    return found


@cache
def task_values(task_type: type[Task]) -> tuple[str, ...]:
    """The names of all values of a task, as in `Task.to_dict`."""
    return tuple(_places_of(task_type))


@cache
def _defaults_of(task_type: type[Task]) -> dict[str, Any]:
    _places_of(task_type)  # raises for a class that cannot be written as a flat mapping
    return task_type("", "", 0).to_dict()
