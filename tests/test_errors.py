"""Errors for users: one line, similar names first, exit code 2."""

import pytest

from veritas_rl.errors import UserError, exit_on_user_error, unknown


def test_unknown_names_the_near_ones_first() -> None:
    error = unknown("game", "hx", ["hex", "go"])
    assert str(error) == "unknown game 'hx': did you mean hex? known: go, hex"


def test_unknown_without_near_names() -> None:
    assert str(unknown("game", "zzzz", ["hex", "go"])) == "unknown game 'zzzz': known: go, hex"


def test_a_user_error_ends_with_code_2_and_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    def main() -> None:
        raise UserError("first\nsecond")

    with pytest.raises(SystemExit) as ended:
        exit_on_user_error(main)
    assert ended.value.code == 2
    assert capsys.readouterr().err == "error: first second\n"


def test_other_errors_pass_through() -> None:
    def main() -> None:
        raise KeyError("a fault of ours")

    with pytest.raises(KeyError):
        exit_on_user_error(main)


@pytest.mark.parametrize(("returned", "code"), [(None, 0), (0, 0), (3, 3)])
def test_returned_values_become_exit_codes(returned: int | None, code: int) -> None:
    with pytest.raises(SystemExit) as ended:
        exit_on_user_error(lambda: returned)
    assert ended.value.code == code
