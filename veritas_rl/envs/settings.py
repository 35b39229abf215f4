"""The settings of an environment: a frozen pydantic model, which is the single place of its fields and their defaults.

The bounds of what a task contains are in the parts of the task (`task.py`): settings are valid if their parts are.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, ValidationInfo, model_validator

from veritas_rl.configs import split_list
from veritas_rl.envs.task import MODES, Manner, Parameters, Pay
from veritas_rl.errors import UserError

Part = TypeVar("Part", bound=Parameters | Manner | Pay)


def whole_number(name: str, value: Any, least: int) -> int:
    """An integer from an integer or a text.

    Raises:
        UserError: The value is no integer, or is less than `least`.
    """
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UserError(f"{name} must be a whole number of at least {least}, {value!r} was given")
    return value


def at_least(least: int) -> BeforeValidator:
    """The type of a field: a whole number of at least `least`, or a text of one."""

    def whole(value: Any, info: ValidationInfo) -> int:
        return whole_number(str(info.field_name), value, least)

    return BeforeValidator(whole)


def numbers(least: int) -> BeforeValidator:
    """The type of a field: whole numbers of at least `least`, from a list, one number, or a text with commas."""

    def several(value: Any, info: ValidationInfo) -> tuple[int, ...]:
        name = str(info.field_name)
        given = split_list(value, name) if value is None or isinstance(value, str) else value
        items = given if isinstance(given, Iterable) else [given]
        return tuple(whole_number(name, item, least) for item in items)

    return BeforeValidator(several)


def _names(value: Any, info: ValidationInfo) -> tuple[str, ...]:
    return split_list(value, str(info.field_name))


Names = Annotated[Any, BeforeValidator(_names)]
"""A tuple of names, given as a list or a text with commas."""

Number = Annotated[float, Field(strict=True)]
"""A number, no text of one."""


class Settings(BaseModel):
    """The settings that every environment has. Those of an environment derive from it.

    Attributes:
        cases: Names of cases, as a list or a text with commas; empty for all.
        num_tasks_per_case: The number of tasks of each case.
        seed: The seed of the set of tasks.
        prompt: The kind of prompt, see `Manner`.
        reward: The reward, see `Pay`.
        legal_share: The share of the reward that is paid for any answer without a mistake.

    Raises:
        UserError: A key is unknown, or a value is invalid; the message names a valid one.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    user_keys: ClassVar[Mapping[str, str]] = {"reward_mode": "reward"}
    """The names that users type, each with the field that it sets."""

    cases_key: ClassVar[str] = "cases"
    """The field for the cases that users name on a command line."""

    selecting_keys: ClassVar[tuple[str, ...]] = ("cases",)
    """The fields that select cases. A stage that sets one of these fields inherits none of them."""

    demonstrated: ClassVar[str] = ""
    """The default cases of demonstrations, as users name them; "" for all."""

    modes: ClassVar[tuple[str, ...]] = MODES
    """The modes of tasks, if there is a field `mode`."""

    single: ClassVar[Mapping[str, Any]] = {}
    """The values for single-answer tasks with the most exact values. The warm-up and the evaluation of a model use
    these tasks in every run."""

    judged: ClassVar[Mapping[str, Any]] = {}
    """Further values for the held-out tasks that judge a run, which the run's own settings do not change."""

    part_types: ClassVar[tuple[type[Parameters | Manner | Pay], ...]] = (Parameters, Manner, Pay)
    """The classes of the parts of a task, which check their values."""

    cases: Names = ()
    num_tasks_per_case: Annotated[int, at_least(1)] = 1000
    seed: Annotated[int, at_least(0)] = 42
    prompt: str = "full"
    reward: str = "outcome"
    legal_share: Number = 0.0

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            first = error.errors()[0]
            own = first.get("ctx", {}).get("error")
            if isinstance(own, Exception):
                raise own from None
            key, said = ".".join(map(str, first["loc"])), first["msg"].removeprefix("Input ")
            raise UserError(f"{key} {said}, {first['input']!r} was given") from None

    @model_validator(mode="after")
    def _has_valid_parts(self) -> "Settings":
        for kind in self.part_types:
            self.part(kind)
        return self

    def part(self, kind: type[Part], **own: Any) -> Part:
        """A part of a task: the settings of its names.

        Args:
            kind: The class of the part.
            own: Values of the task that are no settings.

        Raises:
            UserError: A value is invalid.
        """
        known = type(self).model_fields
        named = {one.name: getattr(self, one.name) for one in dataclasses.fields(kind) if one.name in known}
        return kind(**(named | own))

    def _put(self, **values: Any) -> None:
        """Replace values while the settings are made."""
        for name, value in values.items():
            object.__setattr__(self, name, value)
