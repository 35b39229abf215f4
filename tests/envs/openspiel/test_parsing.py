"""Reading replies: the documented format is taken, everything else gets a reason, nothing raises."""

import random
import time

import pytest

from veritas_rl.envs.base import Reason, Reply
from veritas_rl.envs.openspiel.parsing import MAX_CHARACTERS, parse

NAMES = {0: "a1", 3: "bxc3", 4: "Bxc3", 12: "column 12"}


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("\\boxed{0}", 0),
        ("I take \\boxed{a1}.", 0),
        ("\\boxed{ 12\n}", 12),
        ("\\boxed{COLUMN 12}", 12),
        ("\\boxed{A1}", 0),
        ("\\boxed{bxc3}", 3),
        ("\\boxed{Bxc3}", 4),
        ("<think>maybe \\boxed{0}</think>\\boxed{12}", 12),
        ("maybe \\boxed{0}</think>\\boxed{12}", 12),
        ("\\boxed{12}<think>was that right?", 12),
        ("<think>a</think><think>b</think> \\boxed{3}", 3),
    ],
)
def test_answers(text: str, action: int) -> None:
    assert parse(Reply(text), NAMES) == action


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", Reason.EMPTY),
        (" \n\t ", Reason.EMPTY),
        ("<think></think>", Reason.EMPTY),
        ("<think>so \\boxed{0}", Reason.EMPTY),
        ("so \\boxed{0}</think>", Reason.EMPTY),
        ("<think>a<think>b</think>\\boxed{0}</think>", Reason.EMPTY),
        ("0", Reason.UNPARSEABLE),
        ("a1", Reason.UNPARSEABLE),
        ("boxed{0}", Reason.UNPARSEABLE),
        ("\\boxed{0", Reason.UNPARSEABLE),
        ("\\boxed{}", Reason.UNPARSEABLE),
        ("\\boxed{ }", Reason.UNPARSEABLE),
        ("\\boxed{0} \\boxed{0}", Reason.AMBIGUOUS),
        ("\\boxed{0} \\boxed{99}", Reason.AMBIGUOUS),
        ("\\boxed{0, 3}", Reason.AMBIGUOUS),
        ("\\boxed{0 or 0}", Reason.AMBIGUOUS),
        ("\\boxed{a1/12}", Reason.AMBIGUOUS),
        ("\\boxed{\\boxed{0}}", Reason.AMBIGUOUS),
        ("\\boxed{1}", Reason.ILLEGAL),
        ("\\boxed{120}", Reason.ILLEGAL),
        ("\\boxed{2}", Reason.ILLEGAL),
        ("\\boxed{a}", Reason.ILLEGAL),
        ("\\boxed{BXC3}", Reason.ILLEGAL),
        ("\\boxed{+3}", Reason.ILLEGAL),
        ("\\boxed{-0}", Reason.ILLEGAL),
        ("\\boxed{03}", Reason.ILLEGAL),
        ("\\boxed{3.0}", Reason.ILLEGAL),
        ("\\boxed{1_2}", Reason.ILLEGAL),
        ("\\boxed{٣}", Reason.ILLEGAL),
        ("\\boxed{\uff13}", Reason.ILLEGAL),
        ("\\boxed{a₁}", Reason.ILLEGAL),
        ("\\boxed{0: a1}", Reason.ILLEGAL),
        ("\\boxed{ACTION}", Reason.ILLEGAL),
        ("\\boxed{" + "9" * 50_000 + "}", Reason.ILLEGAL),
        ("x" * (MAX_CHARACTERS + 1), Reason.OVERLONG),
        ("\\boxed{0}" + " " * MAX_CHARACTERS, Reason.OVERLONG),
    ],
)
def test_mistakes(text: str, reason: Reason) -> None:
    assert parse(Reply(text), NAMES) is reason


def test_a_truncated_reply_is_a_mistake_whatever_it_says() -> None:
    assert parse(Reply("\\boxed{0}", truncated=True), NAMES) is Reason.TRUNCATED


def test_letters_that_fold_onto_ascii_do_not_count() -> None:
    assert parse(Reply("\\boxed{\u212a}"), {0: "k"}) is Reason.ILLEGAL  # the Kelvin sign


def test_fuzz() -> None:
    """Random scraps of the format: never an exception, and an action only where one box holds just that action."""
    scraps = [
        *("\\boxed{", "}", "{", "<think>", "</think>", "0", "3", "12", "a1", "column 12", " ", "\n", ",", "or"),
        *("\\", "boxed", "\x00", "\ud800", "٣", "é", "+", "-", "illegal", "\\boxed{0}", "\\boxed{7}"),
    ]
    rng = random.Random(0)
    answered = 0
    for _ in range(5000):
        text = "".join(rng.choices(scraps, k=rng.randint(0, 12)))
        got = parse(Reply(text), NAMES)
        if isinstance(got, Reason):
            assert got.is_mistake
            continue
        answered += 1
        held = [box.split("}")[0].strip().lower() for box in text.split("\\boxed{")[1:] if "}" in box]
        matching = [said for said in held if said in (str(got), NAMES[got].lower())]
        assert matching
        assert "think>" in text or len(held) == text.count("\\boxed{") == 1
    assert answered > 100  # the fuzz reaches the accepting branch, too


@pytest.mark.parametrize("scrap", ["<think>", "</think>", "\\boxed{", "\\", "{", "}", " ", "0,", "<think></think>"])
def test_hostile_replies_cost_linear_time(scrap: str) -> None:
    text = "\\boxed{" + scrap * (90_000 // len(scrap)) + "}"
    start = time.perf_counter()
    for _ in range(3):
        parse(Reply(text), {action: f"a{action}" for action in range(30)})
    assert time.perf_counter() - start < 3
