"""Properties of every type: all seeds work, questions differ and are the same in any process, answers are read."""

import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from veritas_rl.envs.answers import FORMS
from veritas_rl.envs.base import Reason, Reply
from veritas_rl.envs.lgc_v2.env import Question, judge
from veritas_rl.envs.lgc_v2.kinds import KINDS
from veritas_rl.envs.lgc_v2.puzzle import LANGUAGES, LEVELS, SEEDS, Puzzle, PuzzleKind, level_of
from veritas_rl.envs.lgc_v2.task_ids import kind_of, parts_of, puzzle_of, task_id_of
from veritas_rl.errors import UserError
from veritas_rl.seeding import generator

each_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
STARTS = (0, 12_345_678, SEEDS - 10_000)
SEEDS_OF_EACH_LEVEL = range(5 * 8)


def made(kind: PuzzleKind, seed: int) -> Puzzle:
    """Make a puzzle without the cache."""
    return kind.make(level_of(seed), seed // len(LEVELS), generator("lgc-v2", kind.name, seed))


@each_kind
def test_every_level_has_a_configuration_and_makes_puzzles(kind: PuzzleKind) -> None:
    assert tuple(kind.levels) == LEVELS
    assert kind.asked_in in FORMS
    for level in LEVELS:
        puzzle = kind.make(level, 3, generator("test", level))
        assert puzzle == kind.make(level, 3, generator("test", level))
        assert puzzle.brief.strip()


@each_kind
def test_the_first_and_the_last_seed_work(kind: PuzzleKind) -> None:
    for seed in (0, 1, 2, 3, 4, *range(SEEDS - 5, SEEDS)):
        puzzle = puzzle_of(kind.name, seed)
        said = puzzle.read(puzzle.answer)
        assert said is not None
        assert puzzle.is_right(said)


@each_kind
def test_no_constant_answer_is_right_in_a_tenth_of_the_puzzles(kind: PuzzleKind) -> None:
    slow = kind.name in ("sudoku", "cryptarithm")
    for level in LEVELS:
        puzzles = [puzzle_of(kind.name, 5 * number + level - 1) for number in range(60 if slow else 500)]
        answers = Counter(puzzle.read(puzzle.answer) for puzzle in puzzles)
        if kind.name == "game_of_24":
            answers = Counter(puzzle.answer for puzzle in puzzles)  # equal values are no equal answers
        ((_, most),) = answers.most_common(1)
        assert most < 0.1 * len(puzzles), level


@each_kind
@pytest.mark.parametrize(
    ("start", "count"),
    [(0, 1_000), *((start, 250) for start in STARTS[1:]), pytest.param(STARTS[1], 10_000, marks=pytest.mark.long)],
)
def test_consecutive_seeds_ask_different_questions(kind: PuzzleKind, start: int, count: int) -> None:
    asked = {made(kind, seed).question("en") for seed in range(start, start + count)}
    assert len(asked) == count


def test_puzzles_are_the_same_bytes_in_any_process() -> None:
    code = (
        "import json\n"
        "from veritas_rl.envs.lgc_v2.kinds import KINDS\n"
        "from veritas_rl.envs.lgc_v2.task_ids import puzzle_of\n"
        "for name in KINDS:\n"
        "    for seed in (*range(20), 99_999_999):\n"
        "        p = puzzle_of(name, seed)\n"
        "        each = [(p.question(x), p.steps(x), p.final(x)) for x in ('en', 'zh')]\n"
        "        print(json.dumps([name, seed, each, p.brief, p.answer, p.form, list(p.near_misses())]))\n"
    )
    printed: list[list[str]] = []
    for seed in ("0", "1"):
        env = {**os.environ, "PYTHONHASHSEED": seed}
        printed.append(
            subprocess.run(
                [sys.executable, "-c", code], env=env, capture_output=True, check=True, text=True
            ).stdout.splitlines()
        )
    assert [one for one, other in zip(*printed, strict=True) if one != other] == []
    # This process, which has made other puzzles before, makes the same puzzle.
    name, seed, each, brief, *_ = json.loads(printed[0][-1])
    assert [puzzle_of(name, seed).question("en"), puzzle_of(name, seed).brief] == [each[0][0], brief]
    assert len(printed[0]) == 21 * len(KINDS)


@each_kind
def test_both_languages_hold_the_data(kind: PuzzleKind) -> None:
    for seed in SEEDS_OF_EACH_LEVEL:
        puzzle = puzzle_of(kind.name, seed)
        english, chinese = (puzzle.question(language) for language in LANGUAGES)
        assert not re.search(r"[\u4e00-\u9fff]", english)
        assert re.search(r"[\u4e00-\u9fff]", chinese)
        assert re.search(r"[\u4e00-\u9fff]", puzzle.steps("zh"))
        assert not re.search(r"[\u4e00-\u9fff]", puzzle.steps("en") + puzzle.final("en"))
        # A brief prompt may have more parentheses than the question, but the same numbers.
        data = re.findall(r"\d+", puzzle.brief) or re.findall(r"[()\[\]{}<>⟨⟩⟦⟧⟪⟫⦃⦄]{3,}", puzzle.brief)
        assert data or puzzle.brief in english
        for part in data:
            assert part in english
            assert part in chinese


@each_kind
def test_near_misses_are_refused(kind: PuzzleKind) -> None:
    for seed in SEEDS_OF_EACH_LEVEL:
        puzzle = puzzle_of(kind.name, seed)
        missed = list(puzzle.near_misses())
        assert len(missed) >= 2
        assert len({name for name, _ in missed}) == len(missed)
        for name, wrong in missed:
            said = puzzle.read(wrong)
            assert said is None or not puzzle.is_right(said), (seed, name, wrong)


@each_kind
@pytest.mark.parametrize("language", LANGUAGES)
def test_the_right_answer_is_read_in_every_way(kind: PuzzleKind, language: str) -> None:
    for seed in SEEDS_OF_EACH_LEVEL:
        puzzle = puzzle_of(kind.name, seed)
        answer = puzzle.answer
        ways = [
            f"{puzzle.steps(language)}\n\n{puzzle.final(language)}",
            f"<think>{next(puzzle.near_misses())[1]}</think>{puzzle.final(language)}",
            f"```\n{answer}\n```",
            f"I see.\n```text\n{answer}\n```\nDone.",
        ]
        if "\n" not in answer:
            ways += [
                f"So \\boxed{{{answer}}}.",
                f"So $\\boxed{{\\text{{{answer}}}}}$.",
                f"The answer is {answer}",
                f"答案是:{answer}",
                f"First I think.\n{answer}",
                f"**{answer}**",
                f"It is `{answer}`",
            ]
        for text in ways:
            score = judge(Reply(text), Question(kind, seed, puzzle), kind.asked_in)
            assert (score.value, score.success) == (1, True), (seed, text, score.reason)


HUGE = {
    "an answer of 10 MB": "7" * 10_000_000,
    "10,000 nested brackets": "(" * 10_000 + "1" + ")" * 10_000,
    "10,000 nested brackets of another kind": "[{" * 5_000 + "}]" * 5_000,
    "brackets that are not closed": "(" * 90_000,
    "a tower of powers": "9^9^9^9",
    "a tower of powers in Python": "9**9**9**9",
    "a huge number": "9" * 90_000,
    "a huge exponent": "1e999999999",
    "nested boxes": "\\boxed{" * 10_000 + "1" + "}" * 10_000,
    "nested fractions": "\\frac{" * 10_000 + "1" + "}{2}" * 10_000,
    "a sudoku of letters": "\n".join(["abcdefghi"] * 9),
    "commas": "," * 90_000,
    "minus signs": "-" * 90_000 + "1",
    "words": "A and not " * 9_000,
    "Python": "__import__('os').system('exit 1')",
    "null characters": "\x00" * 1_000,
    "lone surrogates": "\ud800",
}


def texts(said: str) -> Iterator[str]:
    yield said
    yield f"\\boxed{{{said}}}"
    yield f"```\n{said}\n```"
    yield f"The answer is {said}"
    yield f"`{said}`"


@each_kind
@pytest.mark.parametrize("said", HUGE.values(), ids=HUGE)
def test_hostile_answers_have_a_named_reason_in_under_a_second(kind: PuzzleKind, said: str) -> None:
    mistakes = {Reason.OVERLONG, Reason.UNPARSEABLE, Reason.AMBIGUOUS, Reason.WRONG}
    for seed in (0, 4):
        asked = Question(kind, seed, puzzle_of(kind.name, seed))
        for text in texts(said):
            for form in (kind.asked_in, "text"):
                started = time.thread_time()
                score = judge(Reply(text), asked, form)
                assert time.thread_time() - started < 1
                assert (score.value, score.success) == (0, False)
                assert score.reason in mistakes


@each_kind
def test_a_task_id_holds_type_and_seed(kind: PuzzleKind) -> None:
    for seed in (0, 42, SEEDS - 1):
        assert parts_of(task_id_of(kind, seed)) == (kind, seed)
        assert task_id_of(kind, seed) == kind.type_id * 10**8 + seed
    assert kind_of(kind.name) is kind


@pytest.mark.parametrize("seed", [-1, SEEDS])
def test_a_seed_out_of_range_is_one_clear_line(seed: int) -> None:
    with pytest.raises(
        UserError, match=rf"a seed of sudoku must lie between 0 and 99999999, {seed} was given"
    ) as error:
        puzzle_of("sudoku", seed)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("task_id", [99 * SEEDS, -1])
def test_an_unknown_type_is_one_clear_line(task_id: int) -> None:
    with pytest.raises(UserError, match=rf"task id {task_id} is of type .*: 0 dyck_language.* 7 sudoku") as error:
        parts_of(task_id)
    assert "\n" not in str(error.value)


def test_the_nearest_type_is_named() -> None:
    with pytest.raises(UserError, match=r"unknown puzzle type 'soduko'.*sudoku"):
        puzzle_of("soduko", 0)


def test_types_have_numbers_and_names_of_their_own() -> None:
    assert [kind.type_id for kind in KINDS.values()] == sorted({kind.type_id for kind in KINDS.values()})
    assert all(name == kind.name for name, kind in KINDS.items())
