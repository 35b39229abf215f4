"""Checks users' numbers: each mistake is one line that names the key."""

from typing import Any

from veritas_rl.errors import UserError


def whole(name: str, value: Any) -> int:
    """A whole number of at least 1.

    Raises:
        UserError: It is none.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UserError(f"{name} must be a whole number of at least 1, {value!r} was given")
    return value


def inside(name: str, value: Any) -> float:
    """A share that is neither 0 nor 1.

    Raises:
        UserError: It is no number between them.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
        raise UserError(f"{name} must lie between 0 and 1, such as 0.6; {value!r} was given")
    return float(value)


def probability(name: str, value: Any) -> float:
    """A probability, 0 and 1 among them.

    Raises:
        UserError: It is none.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise UserError(f"{name} must be a probability from 0 to 1, such as 0.3; {value!r} was given")
    return float(value)
