"""game_of_24: an independent solver confirms every label, and answers are read as models write them."""

import subprocess
import sys
from collections import Counter
from itertools import combinations_with_replacement, permutations

import pytest

from veritas_rl.envs.answers import one_answer
from veritas_rl.envs.answers.visible import visible
from veritas_rl.envs.base import Reason, Reply
from veritas_rl.envs.lgc_v2 import second
from veritas_rl.envs.lgc_v2.env import Question, judge
from veritas_rl.envs.lgc_v2.kinds.game_of_24 import (
    NONE,
    TARGETS,
    GameOf24,
    GameOf24Config,
    GameOf24Puzzle,
    combined,
    hands,
    signed_sums,
    solutions,
    solvable_triples,
)
from veritas_rl.envs.lgc_v2.puzzle import LANGUAGES, LEVELS, SEEDS
from veritas_rl.envs.lgc_v2.second.game_of_24 import can_make
from veritas_rl.envs.lgc_v2.task_ids import puzzle_of

FRACTIONS = GameOf24Puzzle((3, 3, 8, 8), 24, solutions((3, 3, 8, 8), [24])[24])
IMPOSSIBLE = GameOf24Puzzle((1, 1, 1, 1), 24, None)


def puzzle(seed: int) -> GameOf24Puzzle:
    made = puzzle_of("game_of_24", seed)
    assert isinstance(made, GameOf24Puzzle)
    return made


def judged(asked: GameOf24Puzzle, text: str) -> Reason:
    return judge(Reply(text), Question(GameOf24(), 0, asked), GameOf24.asked_in).reason


def test_hand_worked_puzzles() -> None:
    # The only solution is 8 / (3 - 8 / 3), with fractions.
    assert FRACTIONS.answer == "8 / (3 - 8 / 3)"
    assert FRACTIONS.steps("en").splitlines() == [
        "Combine two numbers at a time:",
        "8 / 3 = 8/3 (left: 3, 8, 8/3)",
        "3 - (8/3) = 1/3 (left: 8, 1/3)",
        "8 / (1/3) = 24 (left: 24)",
    ]
    assert solutions((1, 1, 1, 1), TARGETS) == {}
    assert set(solutions((1, 2, 3), range(-2, 10))) == {-2, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9}
    assert combined((2, 3)) == 6
    assert combined((0, 3)) == 5


def test_the_known_number_of_solvable_hands() -> None:
    """Exactly 404 of the 495 hands of four numbers from 1 to 9 make 24; the independent solver agrees."""
    known = list(combinations_with_replacement(range(1, 10), 4))
    solvable = [hand for hand in known if solutions(hand, [24])]
    assert (len(known), len(solvable)) == (495, 404)
    assert all(can_make(list(hand), 24) == (hand in solvable) for hand in known[::7])


def test_triples_are_those_that_make_the_target() -> None:
    expected = {
        order
        for hand in combinations_with_replacement(range(1, 14), 3)
        if can_make(list(hand), 24)
        for order in permutations(hand)
    }
    assert set(solvable_triples(13, 24)) == expected


def test_two_hundred_labels_hold_by_the_second_way() -> None:
    without = 0
    for seed in range(200):
        made = puzzle(seed)
        assert second.disagreement("game_of_24", made.question("en"), made.answer) == ""
        said = made.read(made.answer)
        assert said is not None
        assert made.is_right(said)
        without += made.answer == NONE
    assert 2 <= without <= 20


@pytest.mark.parametrize("seed", range(0, 40, 3))
def test_planted_wrong_labels_are_found_by_the_second_way(seed: int) -> None:
    made = puzzle(seed)
    wrong = dict(made.near_misses())
    assert len(wrong) >= 4
    for name, answer in wrong.items():
        assert second.disagreement("game_of_24", made.question("en"), answer) != "", name


def test_near_misses_are_refused() -> None:
    for seed in range(200):
        made = puzzle(seed)
        for name, wrong in made.near_misses():
            said = made.read(wrong)
            assert said is None or not made.is_right(said), (seed, name)
            assert judged(made, f"```\n{wrong}\n```") is not Reason.CORRECT


def test_levels_grow_and_none_stands_among_four_numbers_only() -> None:
    counts = {1: 3, 2: 4, 3: 4, 4: 5, 5: 6}
    none: Counter[int] = Counter()
    for seed in range(1000):
        made, level = puzzle(seed), seed % 5 + 1
        assert len(made.numbers) == counts[level]
        assert made.target in GameOf24.levels[level].targets
        none[level] += made.solution is None
        assert level < 4 or made.target not in signed_sums(made.numbers)
    assert {level for level in none if none[level]} == {2, 3}
    assert all(0.03 < none[level] / 200 < 0.1 for level in (2, 3))


def test_consecutive_numbers_do_not_repeat() -> None:
    for level in LEVELS[1:]:
        config = GameOf24.levels[level]
        assert len(hands(config.count, config.largest, config.above)[0]) >= 2000
    for level in (1, 2, 5):
        shown = [puzzle(5 * number + level - 1).brief for number in range(300)]
        assert len(set(shown)) == 300
    assert len({puzzle(5 * number + 2).form for number in range(300)}) == 300


def test_far_seeds_work() -> None:
    for seed in range(SEEDS - 10, SEEDS):
        assert second.disagreement("game_of_24", puzzle(seed).question("en"), puzzle(seed).answer) == ""


def test_the_poorest_hands_of_five_numbers_make_a_target() -> None:
    for hand in hands(5, 13)[0][:6]:
        assert any(can_make(list(hand), target) for target in TARGETS), hand


def test_the_form_forgets_the_order() -> None:
    assert FRACTIONS.form == GameOf24Puzzle((8, 3, 8, 3), 24, None).form
    assert FRACTIONS.form != GameOf24Puzzle((3, 3, 8, 8), 36, None).form


@pytest.mark.parametrize(
    "text",
    [
        "```\n8 / (3 - 8 / 3)\n```",
        "```python\n8/(3-8/3) = 24\n```",
        "```\n8 ÷ (3 − 8 ÷ 3)\n```",
        "So \\boxed{\\frac{8}{3 - \\frac{8}{3}}}.",
        "So \\boxed{\\text{8 / (3 - 8 / 3)} = 24}",
        "The answer is 8 / (3 - 8/3) = 24.",
        "答案是 8 / (3 - 8/3)。",
        "I combine them.\n8 / (3 - 8 / 3)",
        "It is `8 / (3 - 8 / 3)`, as said.",
        "<think>```\n3 + 3\n```</think>\n```\n8 / (3 - 8 / 3)\n```",
        "```\n8 / (3 - 8 / 3)\n```\nor\n```\n(8) / (3 - (8 / 3)) = 24\n```",
        "```\n-8 / (8 / 3 - 3)\n```",
        "```\n24 = 8 / [3 - (8 / 3)]\n```",
        "```\n8 / \uff083 - 8 / 3\uff09 \uff1d 24\n```",
        "As asked: ```8 / (3 - 8 / 3)```, which is 24",
        "```\n8 / (3 - 8 / 3) = 8 / (1 / 3) = 24\n```",
        "```\n= 8 / (3 - 8 / 3) == 24;\n```",
        "```\nAnswer: 8 / (3 - 8 / 3)\n```",
        "This works:\n\\[\n8 / (3 - 8 / 3) = 24\n\\]",
        "First\n```\n8 / 3 = 8/3\n```\nthen\n```\n3 * 8 = 24\n```\nTogether:\n```\n8 / (3 - 8 / 3) = 24\n```",
        "Try this:\n```\n3 * 3 + 8 + 8\n```\nThat is 25. Answer:\n```\n8 / (3 - 8 / 3)\n```",
    ],
)
def test_right_answers_are_read_as_models_write_them(text: str) -> None:
    assert judged(FRACTIONS, text) is Reason.CORRECT


def test_every_sign_for_times_and_divided_is_read() -> None:
    asked = GameOf24Puzzle((4, 7, 8, 8), 24, solutions((4, 7, 8, 8), [24])[24])
    assert judged(asked, "```\n(7 − 8 ÷ 8) × 4 = 24\n```") is Reason.CORRECT
    assert judged(asked, "$$\\boxed{\\left(7 - \\dfrac{8}{8}\\right) \\times 4}$$") is Reason.CORRECT
    assert judged(asked, "\\[(7 - 8 \\div 8) \\cdot 4 = 24\\]") is Reason.CORRECT


@pytest.mark.parametrize(
    "text",
    [
        "```\nNone\n```",
        "```\nNone.\n```",
        '```\n"None"\n```',
        "\\boxed{\\text{None}}",
        "The answer is None.",
        "none",
        "无解",
    ],
)
def test_none_is_right_only_where_there_is_no_solution(text: str) -> None:
    assert judged(IMPOSSIBLE, text) is Reason.CORRECT
    assert judged(FRACTIONS, text) is Reason.WRONG


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("```\n3 * 8\n```", Reason.UNPARSEABLE),
        ("```\n3 * 8 * (8 - 3)\n```", Reason.WRONG),
        ("```\n3 * 8 + 3 - 3 + 8 - 8\n```", Reason.WRONG),
        ("```\n33 - 8 - 8\n```", Reason.UNPARSEABLE),
        ("```\n8 / (3 - 8 / 3) = 25\n```", Reason.UNPARSEABLE),
        ("```\n8 / (3 - 8 / 3) = 24 = 24\n```", Reason.UNPARSEABLE),
        ("```\n8 / (3 - 8 / 3) = 8 / (1 / 4) = 24\n```", Reason.UNPARSEABLE),
        ("```\n24\n```", Reason.UNPARSEABLE),
        ("```\n24 = 24\n```", Reason.UNPARSEABLE),
        ("```\n9^9^9^9\n```", Reason.UNPARSEABLE),
        ("```\n9**9**9**9\n```", Reason.UNPARSEABLE),
        ("```\n__import__('os').system('true')\n```", Reason.UNPARSEABLE),
        ("```\n8 / (3 - 8 / 3)\n```\nor\n```\nNone\n```", Reason.AMBIGUOUS),
        ("```\n8 / (3 - 8 / 3)\n```\nor\n```\n3 + 3 + 8 + 8\n```", Reason.AMBIGUOUS),
        ("```\n" + "(" * 10_000 + "8" + ")" * 10_000 + "\n```", Reason.UNPARSEABLE),
        ("```\n" + "8+" * 40_000 + "8\n```", Reason.UNPARSEABLE),
        ("\\boxed{" + "\\frac{8}{" * 9_000 + "}" * 9_000 + "}", Reason.UNPARSEABLE),
    ],
)
def test_everything_else_is_refused_with_a_reason(text: str, reason: Reason) -> None:
    assert judged(FRACTIONS, text) is reason


@pytest.mark.parametrize("language", LANGUAGES)
def test_questions_and_steps_name_what_is_asked(language: str) -> None:
    for seed in range(20):
        made = puzzle(seed)
        question = made.question(language)
        assert ", ".join(map(str, made.numbers)) in question
        assert str(made.target) in question
        # The question offers NONE as an answer exactly if it can be right.
        assert (NONE in question) == (len(made.numbers) == 4)
        steps = made.steps(language)
        lines = steps.splitlines()
        assert len(lines) == (1 if made.solution is None else len(made.numbers))
        assert made.solution is None or lines[-1].split("(")[-1].rstrip(")").endswith(str(made.target))
        assert one_answer(visible(f"{steps}\n\n{made.final(language)}"), made.read, "block") == made.read(made.answer)
    assert str(combined((1, 1, 1, 1))) in IMPOSSIBLE.steps(language)


def test_the_same_puzzles_under_any_hash_seed() -> None:
    code = (
        "from veritas_rl.envs.lgc_v2.task_ids import puzzle_of\n"
        "print([(p.question('en'), p.answer) for p in (puzzle_of('game_of_24', seed) for seed in range(25))])"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(printed) == 1
    assert printed.pop().strip() == str([(puzzle(seed).question("en"), puzzle(seed).answer) for seed in range(25)])


@pytest.mark.parametrize("wrong", [(2, 9, (24,), 0.0), (7, 9, (24,), 0.0), (4, 9, (), 0.0), (5, 9, (24,), 0.1)])
def test_levels_that_make_no_sense_are_refused(wrong: tuple[int, int, tuple[int, ...], float]) -> None:
    count, largest, targets, unsolvable = wrong
    with pytest.raises(ValueError, match="numbers"):
        GameOf24Config(count, largest, targets, unsolvable=unsolvable)
