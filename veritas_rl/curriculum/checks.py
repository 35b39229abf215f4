"""Check numbers in settings. Each error is one line that names the key."""

from typing import Any

from veritas_rl.errors import UserError


def whole(name: str, value: Any) -> int:
    """Check a whole number of at least 1.

    Raises:
        UserError: The value is not such a number.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UserError(f"{name} must be a whole number of at least 1, not {value!r}")
    return value


def inside(name: str, value: Any) -> float:
    """Check a number between 0 and 1, both excluded.

    Raises:
        UserError: The value is not such a number.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
        raise UserError(f"{name} must be a number between 0 and 1, such as 0.6, not {value!r}")
    return float(value)


def probability(name: str, value: Any) -> float:
    """Check a probability from 0 to 1.

    Raises:
        UserError: The value is not such a number.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise UserError(f"{name} must be a probability from 0 to 1, such as 0.3, not {value!r}")
    return float(value)
