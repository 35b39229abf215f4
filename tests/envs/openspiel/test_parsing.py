"""Reading replies: the documented format is accepted, any other text gets a reason, and nothing raises."""

import random
import time

import pytest

from veritas_rl.envs.answers import MAX_CHARACTERS
from veritas_rl.envs.base import Reason, Reply
from veritas_rl.envs.openspiel.notation import Words
from veritas_rl.envs.openspiel.parsing import parse

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
        ("\\boxed{0} \\boxed{0}", 0),
        ("\\boxed{0}, which is \\boxed{a1}", 0),
        ("\\boxed{03}", 3),
        ("\\boxed{0: a1}", 0),
        ("\\boxed{a1 (0)}", 0),
        ("\\boxed{\\text{column 12}}", 12),
        ("\\boxed{{a1}}", 0),
        ("\\boxed{a1}}", 0),
    ],
)
def test_answers_are_read_as_actions(text: str, action: int) -> None:
    assert parse(Reply(text), NAMES, Words) == action


def test_without_a_grammar_names_are_read_letter_for_letter() -> None:
    assert parse(Reply("\\boxed{column 12}"), NAMES) == 12
    assert parse(Reply("\\boxed{\\text{column 12}}"), NAMES) == 12
    assert parse(Reply("\\boxed{Column 12}"), NAMES) is Reason.ILLEGAL
    assert parse(Reply("\\boxed{bxC3}"), NAMES) is Reason.ILLEGAL


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
        ("\\boxed{0} \\boxed{99}", Reason.AMBIGUOUS),
        ("\\boxed{0, 3}", Reason.AMBIGUOUS),
        ("\\boxed{0 or 0}", Reason.AMBIGUOUS),
        ("\\boxed{a1/12}", Reason.AMBIGUOUS),
        ("\\boxed{\\boxed{0}}", Reason.AMBIGUOUS),
        ("\\boxed{1}", Reason.ILLEGAL),
        ("\\boxed{120}", Reason.ILLEGAL),
        ("\\boxed{2}", Reason.ILLEGAL),
        ("\\boxed{a}", Reason.ILLEGAL),
        ("\\boxed{BXC3}", Reason.AMBIGUOUS),
        ("\\boxed{+3}", Reason.ILLEGAL),
        ("\\boxed{-0}", Reason.ILLEGAL),
        ("\\boxed{0: bxc3}", Reason.AMBIGUOUS),
        ("\\boxed{3.0}", Reason.ILLEGAL),
        ("\\boxed{1_2}", Reason.ILLEGAL),
        ("\\boxed{٣}", Reason.ILLEGAL),
        ("\\boxed{\uff13}", Reason.ILLEGAL),
        ("\\boxed{a₁}", Reason.ILLEGAL),
        ("\\boxed{2: a1}", Reason.ILLEGAL),
        ("\\boxed{0: a2}", Reason.ILLEGAL),
        ("\\boxed{ACTION}", Reason.ILLEGAL),
        ("\\boxed{" + "9" * 50_000 + "}", Reason.ILLEGAL),
        ("x" * (MAX_CHARACTERS + 1), Reason.OVERLONG),
        ("\\boxed{0}" + " " * MAX_CHARACTERS, Reason.OVERLONG),
    ],
)
def test_mistakes_have_their_reasons(text: str, reason: Reason) -> None:
    assert parse(Reply(text), NAMES, Words) is reason


def test_a_truncated_reply_is_a_mistake_whatever_it_says() -> None:
    assert parse(Reply("\\boxed{0}", truncated=True), NAMES) is Reason.TRUNCATED


def test_letters_that_fold_onto_ascii_do_not_count() -> None:
    assert parse(Reply("\\boxed{\u212a}"), {0: "k"}, Words) is Reason.ILLEGAL  # the Kelvin sign


SCRAPS = (
    *("\\boxed{", "}", "{", "<think>", "</think>", "0", "3", "12", "a1", "column 12", " ", "\n", ",", "or", "\\text{"),
    *("\\", "boxed", "\x00", "\ud800", "٣", "é", "+", "-", "illegal", "\\boxed{0}", "\\boxed{7}", "(", ")", ":", "."),
    *("x" * 300, "\u202e", "\u200b", "\u2028", "\ud83d", "\ufeff", "$$", "<THINK>", "9" * 400, "\\Boxed{0}", '"', "*"),
)


def test_random_text_raises_nothing_and_moves_only_from_a_box() -> None:
    rng = random.Random(0)
    answered = 0
    for _ in range(20_000):
        text = "".join(rng.choices(SCRAPS, k=rng.randint(0, 12)))
        got = parse(Reply(text), NAMES, Words)
        if isinstance(got, Reason):
            assert got.is_mistake
            continue
        answered += 1
        held = [box.split("\\boxed{")[-1] for box in text.split("}")[:-1] if "\\boxed{" in box]
        assert [said for said in held if str(got) in said or NAMES[got] in said]
    assert answered > 100  # the fuzzing also reaches the accepting branch


def test_huge_hostile_replies() -> None:
    rng = random.Random(8)
    for _ in range(200):
        unit = rng.choice(SCRAPS)
        size = rng.choice((1_000, 50_000, MAX_CHARACTERS, MAX_CHARACTERS + 1, 500_000))
        got = parse(Reply((unit * (size // len(unit) + 1))[:size] + "\\boxed{3}"), NAMES, Words)
        if size + 9 > MAX_CHARACTERS:
            assert got is Reason.OVERLONG
        else:
            assert got == 3 or isinstance(got, Reason)


@pytest.mark.parametrize(
    "scrap", ["<think>", "</think>", "\\boxed{", "\\boxed{0}", "\\", "{", "}", " ", "0,", "<think></think>"]
)
def test_hostile_replies_cost_linear_time(scrap: str) -> None:
    text = "\\boxed{" + scrap * (90_000 // len(scrap)) + "}"
    start = time.perf_counter()
    for _ in range(3):
        parse(Reply(text), {action: f"a{action}" for action in range(30)}, Words)
    assert time.perf_counter() - start < 3
