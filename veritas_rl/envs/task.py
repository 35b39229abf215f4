"""What a task is: what is asked, how it is played and shown, and what is paid for it. All three are plain values.

The identity says what is asked: environment, case, number, mode, seed, split, and the environment's own `Parameters`.
It alone makes the task's id, and the chance seed follows from it. The `Manner` says how the task is played and shown,
the `Pay` what a finished session is worth; a change of either leaves the id as it is. `Task.key` distinguishes tasks
that differ in any of the three.

An environment with values of its own derives from `Parameters`, `Manner`, `Pay` and `Task`:

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
    """What an environment adds to the identity of its tasks. Most environments add nothing."""


@dataclass(frozen=True)
class Manner:
    """How a task is played and shown.

    Attributes:
        opponent: The player bound to every other seat of a whole game; "none" where there is no other seat.
        seat: The seat to be trained or judged; -1 where the session decides, as in a single move.
        prompt: "full" explains everything; "unlisted" does not list the legal answers; "brief" shows the bare question,
            for a model too small to read.
        context: In a whole game, "turn" shows each position in a chat of its own; "conversation" is one chat that
            grows.
    """

    prompts: ClassVar[tuple[str, ...]] = PROMPTS
    """The kinds of prompt that the environment has."""

    opponent: str = "none"
    seat: int = -1
    prompt: str = "full"
    context: str = "turn"

    def __post_init__(self) -> None:
        check_choice("prompt", self.prompt, self.prompts)
        check_choice("context", self.context, CONTEXTS)


@dataclass(frozen=True)
class Pay:
    """What a finished session is worth.

    Attributes:
        reward: What is paid, one of `rewards`. "legal" pays 1 for answers that could be read and were allowed;
            "outcome" pays the value that the session finds.
        gamma: The discount of a reward for each later move of the same seat, in (0, 1].
        legal_share: The share of a reward that is paid for a legal answer as such, in [0, 1).
    """

    rewards: ClassVar[tuple[str, ...]] = ("legal", "outcome")
    """What the environment can pay."""

    reward: str = "outcome"
    gamma: float = 0.99
    legal_share: float = 0.0

    def __post_init__(self) -> None:
        check_choice("reward", self.reward, self.rewards)
        if not 0 < self.gamma <= 1:
            raise UserError(f"gamma must lie in (0, 1], {self.gamma!r} was given")
        if not 0 <= self.legal_share < 1:
            raise UserError(f"legal_share must lie in [0, 1), {self.legal_share!r} was given")


def check_choice(name: str, given: object, known: tuple[str, ...]) -> None:
    """Refuse a value that is none of those that exist.

    Raises:
        UserError: It is none; the nearest names are listed.
    """
    if given not in known:
        raise unknown(name, given, known)


def check_least(name: str, given: int, least: int) -> None:
    """Refuse a number below the smallest one that works.

    Raises:
        UserError: It is less.
    """
    if given < least:
        raise UserError(f"{name} must be at least {least}, {given} was given")


PARTS = ("parameters", "manner", "pay")


@dataclass(frozen=True)
class Task:
    """One thing to solve, frozen and self-contained: any process rebuilds the same session from its plain values.

    No two of the values have one name, whichever part they stand in, so a task is written as one flat mapping.

    Attributes:
        env: The environment's name in the registry.
        case: One configuration of the environment, such as the OpenSpiel load string "hex(board_size=5)".
        k: Which task of the case, counted from 0 within its split.
        mode: "move" for one answer, "episode" for a whole game.
        seed: The seed of the set of tasks.
        split: "train" or "val"; the two never share a task where the environment can distinguish tasks.
        parameters: The rest of the identity, which the environment defines.
        manner: How it is played and shown.
        pay: What it is worth.
        visit: How often training asked it before. An environment that estimates what an answer is worth may estimate it
            better from visit to visit. It is no part of the id or the key: what is asked stays the same.
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
        """The identity as text: `env/case/mode#k`, then every value that is not the default, `?name=value&...`.

        As in `openspiel/hex(board_size=5)/move#17?split=val`.
        """
        changed = "&".join(f"{name}={value}" for name, value in self._changed("parameters").items())
        return f"{self.env}/{self.case}/{self.mode}#{self.k}" + (f"?{changed}" if changed else "")

    @property
    def key(self) -> str:
        """The id and a digest of manner and pay: what is stored by task is stored under it."""
        changed = sorted((self._changed("manner") | self._changed("pay")).items())
        return f"{self.id}~{digest(*changed):016x}"

    @property
    def chance_seed(self) -> str:
        """What deals, dice and opponents' draws are seeded with.

        It is a part of the identity, so two players meet the same deals, whatever is shown or paid.
        """
        return f"{self.env}/{self.case}/{self.mode}#{self.k}?seed={self.seed}&split={self.split}"

    def _changed(self, part: str) -> dict[str, Any]:
        """The values of a part that are not the default; of the parameters with seed and split."""
        values = vars(getattr(self, part))
        if part == "parameters":
            values = {"seed": self.seed, "split": self.split} | values
        defaults = _defaults_of(type(self))
        return {name: value for name, value in values.items() if value != defaults[name]}

    def to_dict(self) -> dict[str, str | int | float]:
        """The task as a flat dict of strings and numbers, as it goes through parquet, Ray and a replay buffer."""
        plain = {name: value for name, value in vars(self).items() if name not in PARTS}
        return plain | vars(self.parameters) | vars(self.manner) | vars(self.pay)

    def replace(self, **changes: Any) -> Self:
        """The task with some values changed, named as in `to_dict`: `task.replace(reward="legal", k=3)`.

        Raises:
            UserError: A name is no value of a task, or a value is refused.
        """
        return type(self).from_dict(self.to_dict() | changes)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The task of this class that `to_dict` wrote; values that are missing have their defaults.

        Raises:
            UserError: A name is no value of a task, or a value is refused.
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
    """In which part each value stands, "" for the task itself, and its type.

    Raises:
        TypeError: Two values have one name, or one is neither text nor a number.
    """
    found: dict[str, tuple[str, type]] = {}
    for part, kind in (("", task_type), *_part_types_of(task_type).items()):
        hints = typing.get_type_hints(kind)
        for field in dataclasses.fields(kind):
            if field.name in PARTS:
                continue
            if field.name in found or hints[field.name] not in (str, int, float):
                raise TypeError(f"{task_type.__name__}: {field.name} stands twice, or is no plain value")
            found[field.name] = (part, hints[field.name])
    return found


@cache
def task_values(task_type: type[Task]) -> tuple[str, ...]:
    """The names of all values of a task, as `Task.to_dict` writes them."""
    return tuple(_places_of(task_type))


@cache
def _defaults_of(task_type: type[Task]) -> dict[str, Any]:
    _places_of(task_type)  # refuses a class that cannot be written flat
    return task_type("", "", 0).to_dict()
