"""Reading replies: the documented format is taken, everything else gets a reason, nothing raises."""

import random
import time

import pytest

from veritas_rl.envs.answers import MAX_CHARACTERS
from veritas_rl.envs.base import Reason, Reply
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


PROMPT = (
    "You are playing Hex.\n\nLegal actions (number: name):\n0: a1\n3: bxc3\n4: Bxc3\n12: column 12\n\n"
    "Answer with exactly one legal action, in a box, like \\boxed{ACTION} with ACTION replaced by what you choose."
)
SPELLINGS = {"0": 0, "3": 3, "4": 4, "12": 12, "a1": 0, "bxc3": 3, "Bxc3": 4, "column 12": 12, "A1": 0, "COLUMN 12": 12}
INSIDE = [
    *SPELLINGS,
    *(
        "",
        " ",
        "1",
        "2",
        "99",
        "-1",
        "-3",
        "+3",
        "03",
        "3.0",
        "1e1",
        "1_2",
        "0x3",
        "9" * 400,
        "BXC3",
        "column",
        "a",
        "a12",
    ),
    *(
        "٣",
        "\uff13",
        "a₁",
        "\u212a",
        "\u200b3",
        "3\u0301",
        "\ud800",
        "\x00",
        "\u202e3",
        "0, 3",
        "0 or 0",
        "a1/12",
        "0: a1",
    ),
    *(
        "\\boxed{0}",
        "\\boxed{\\boxed{12}}",
        "{3}",
        "{{",
        "\\text{3}",
        "<think>3</think>",
        "ACTION",
        ", ".join(SPELLINGS),
    ),
    PROMPT,
]
AROUND = [
    *(
        "",
        "",
        "",
        " ",
        "\n",
        "I think ",
        "3 ",
        "a1 ",
        "}",
        "{",
        "\\",
        "\\boxed",
        "boxed{0}",
        "\\boxed {0}",
        "\\Boxed{0}",
        "$$",
    ),
    *(
        "<think>",
        "</think>",
        "<think>\\boxed{0}</think>",
        "<think>so \\boxed{0}",
        "\\boxed{3}</think>",
        "<THINK>",
        "</think >",
    ),
    *(
        "\u2028",
        "\u202e",
        "\ud83d",
        "\x00",
        "\ufeff",
        "é" * 50,
        "x" * 300,
        PROMPT,
        "\n".join(f"{a}: {n}" for a, n in NAMES.items()),
    ),
]
FUZZED = 100_000


def chosen(text: str) -> int | None:
    """The one legal answer of a reply, tag by tag from the left: a second way to read the documented format."""
    outside, thinking, rest = "", False, text
    while rest:
        opened, closed = (at if (at := rest.find(tag)) >= 0 else len(rest) for tag in ("<think>", "</think>"))
        before = rest[: min(opened, closed)]
        outside += "" if thinking else before
        rest = rest[min(opened, closed) :]
        if closed < opened:
            outside, thinking, rest = (outside if thinking else "") + "\n", False, rest[len("</think>") :]
        elif opened < closed:
            thinking, rest = True, rest[len("<think>") :]
    start = outside.find("\\boxed{")
    end = outside.find("}", start)
    if start < 0 or end < 0 or "\\boxed{" in outside[start + 1 :]:
        return None
    return SPELLINGS.get(outside[start + 7 : end].strip())


def test_a_hundred_thousand_hostile_replies() -> None:
    """No exception, and nothing is taken but exactly one legal answer in exactly one box outside of the thinking."""
    rng = random.Random(7)
    taken, reasons = 0, set()
    for index in range(FUZZED):
        boxes = rng.choice((0, 1, 1, 1, 1, 2, 3))
        text = rng.choice(AROUND)
        for _ in range(boxes):
            closed = "}" if rng.random() < 0.9 else ""
            text += f"\\boxed{{{rng.choice(INSIDE)}{closed}" + rng.choice(AROUND)
        got = parse(Reply(text, truncated=index % 50 == 0), NAMES)
        if isinstance(got, Reason):
            reasons.add(got)
        taken += not isinstance(got, Reason)
        wanted = None if index % 50 == 0 else chosen(text)
        assert got == wanted if wanted is not None else isinstance(got, Reason) and got.is_mistake, (text, got)
    assert taken > FUZZED / 20  # the fuzz reaches the accepting branch, too
    assert reasons == {Reason.EMPTY, Reason.UNPARSEABLE, Reason.AMBIGUOUS, Reason.ILLEGAL, Reason.TRUNCATED}


def test_huge_hostile_replies() -> None:
    rng = random.Random(8)
    for _ in range(200):
        unit = rng.choice([*AROUND, *INSIDE]) or " "
        size = rng.choice((1_000, 50_000, MAX_CHARACTERS, MAX_CHARACTERS + 1, 500_000))
        got = parse(Reply((unit * (size // len(unit) + 1))[:size] + "\\boxed{3}"), NAMES)
        if size + 9 > MAX_CHARACTERS:
            assert got is Reason.OVERLONG
        else:
            assert got == 3 or isinstance(got, Reason)


@pytest.mark.parametrize("scrap", ["<think>", "</think>", "\\boxed{", "\\", "{", "}", " ", "0,", "<think></think>"])
def test_hostile_replies_cost_linear_time(scrap: str) -> None:
    text = "\\boxed{" + scrap * (90_000 // len(scrap)) + "}"
    start = time.perf_counter()
    for _ in range(3):
        parse(Reply(text), {action: f"a{action}" for action in range(30)})
    assert time.perf_counter() - start < 3
