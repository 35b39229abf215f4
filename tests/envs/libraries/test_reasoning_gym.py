"""The sets of reasoning-gym: each one is asked, answered and judged."""

import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

import numpy
import pytest

from veritas_rl.demonstrations.generate import Settings, generate
from veritas_rl.envs.abilities import KnowsWords
from veritas_rl.envs.base import Reason, Reply, Score
from veritas_rl.envs.libraries import installed
from veritas_rl.envs.libraries.reasoning_gym import sets
from veritas_rl.envs.libraries.reasoning_gym.scoring import Question, can_be_answered, judge, paid_answer
from veritas_rl.envs.lint import lint
from veritas_rl.envs.registry import get_environment, make_task, open_catalogue
from veritas_rl.envs.task import Task
from veritas_rl.errors import UserError

WITHOUT_TRUTH = {"boxnet", "graph_color"}
"""Sets that have a rule for right answers and no answer."""

ASKED = """
import json, random, sys
from veritas_rl.envs.libraries import installed
from veritas_rl.envs.libraries.reasoning_gym import sets
random.seed(int(sys.argv[1]))
order = 1 if sys.argv[1] == "1" else -1
indices, names = (7, 11, 2**30)[::order], sets.names()[::order]
asked = {name: [sets.asked(name, index) for index in indices][::order] for name in names}
print(json.dumps({name: [(one.text, one.truth) for one in some] for name, some in asked.items()}))
"""


def tasks_of(split: str = "train", **settings: Any) -> Sequence[Task]:
    return open_catalogue({"env": "reasoning-gym", "adapter_config": settings}, split)


def judged(task: Task, text: str) -> Score:
    session = get_environment(task.env).start(task)
    session.step({0: Reply(text)})
    return session.scores()[0]


def question_of(task: Task) -> Question:
    (turn,) = get_environment(task.env).start(task).turns()
    return turn.view


@pytest.mark.parametrize("prompt", ["full", "brief"])
def test_the_solution_of_every_set_is_paid_and_nonsense_is_not(prompt: str) -> None:
    tasks = tasks_of(num_tasks_per_case=2, prompt=prompt)
    assert len({task.case for task in tasks}) == len(sets.names()) == 90
    unsolved = set()
    for task in tasks:
        (turn,) = get_environment(task.env).start(task).turns()
        if turn.solution:
            assert judged(task, turn.solution).success, task.id
        else:
            unsolved.add(task.case)
        truth = turn.view.truth or "x"
        for wrong in ("xyzzy", "nan", f"{truth} {truth} {truth}", f"I think that it is {truth}, or so it seems"):
            score = judged(task, f"<answer>{wrong}</answer>")
            assert (score.value, score.reason) == (0, Reason.WRONG), (task.id, wrong)
    assert unsolved == WITHOUT_TRUTH


def test_processes_ask_the_same_questions() -> None:
    """Whatever their hash seeds and global generators are."""
    running = [
        subprocess.Popen(
            [sys.executable, "-c", ASKED, seed], stdout=subprocess.PIPE, env={**os.environ, "PYTHONHASHSEED": seed}
        )
        for seed in ("1", "2")
    ]
    first, second = (json.loads(process.communicate()[0]) for process in running)
    assert [case for case in first if first[case] != second[case]] == []


def test_the_splits_share_no_question_and_neighbouring_seeds_no_more_than_chance() -> None:
    settings = {"cases": ["gcd", "dice", "family_relationships"], "num_tasks_per_case": 150}
    asked = {
        (split, seed): [question_of(task).text for task in tasks_of(split, seed=seed, **settings)]
        for split, seed in (("train", 1), ("train", 2), ("val", 1))
    }
    assert not set(asked["train", 1]) & set(asked["val", 1])
    gcd = [set(texts[:150]) for texts in asked.values()]
    assert len(gcd[0] & gcd[1]) <= 2


def test_levels_are_those_of_the_curriculum() -> None:
    assert {task.case for task in tasks_of(cases="chain_sum,acre", levels="1,3")} == {
        "chain_sum_level_1",
        "chain_sum_level_3",
        "acre",
    }
    lengths = [len(question_of(tasks_of(cases=f"chain_sum_level_{level}")[0]).text) for level in (1, 6)]
    assert lengths[0] < lengths[1]
    assert "caesar_cipher_level_3" not in {task.case for task in tasks_of(levels=3, num_tasks_per_case=1)}


def test_the_words_of_a_set_are_those_of_all_its_questions() -> None:
    environment = get_environment("reasoning-gym")
    assert isinstance(environment, KnowsWords)
    words = set(environment.words(["gcd"]))
    assert {"Greatest", "Common", "Divisor", "numbers"} <= words
    assert all(word in question_of(task).text for task in tasks_of(cases="gcd", num_tasks_per_case=5) for word in words)


def test_a_part_of_the_score_is_paid_on_request() -> None:
    whole, part = (tasks_of(cases="futoshiki", reward=reward)[0] for reward in ("outcome", "partial"))
    truth = question_of(whole).truth
    assert truth is not None
    changed = truth[:-1] + str(int(truth[-1]) % 4 + 1)
    assert judged(whole, f"<answer>{changed}</answer>").value == 0
    score = judged(part, f"<answer>{changed}</answer>")
    assert 0 < score.value < 1
    assert not score.success


def test_answers_are_read_from_marks_boxes_and_blocks() -> None:
    task = tasks_of(cases="gcd")[0]
    truth = question_of(task).truth
    for reply in (f"<answer> {truth}\n</answer>", f"\\boxed{{{truth}}}", f"<answer>\n```\n{truth}\n```\n</answer>"):
        assert judged(task, reply).success, reply
    assert judged(task, f"{truth}").reason is Reason.UNPARSEABLE
    assert judged(task.replace(prompt="brief"), f"{truth}").success
    assert judged(task, f"<answer>{truth}</answer> or <answer>0</answer>").reason is Reason.AMBIGUOUS


@pytest.mark.parametrize(
    "answer",
    [
        "__import__('pathlib').Path('ran').touch()",
        "(9**9**9**9)",
        "9" * 199,
        "exec('1')",
        "().__class__",
        "[x for x in iter(int, 1)]",
        "(" * 200,
        "lambda: 0",
        "factorial(10**9)",
        "oracle_answer",
        "answer",
        "Q",
        "[" * 50_000,
        '{"a": [' + "[]," * 20_000 + "[]]}",
        '["fill A", "empty A"' + ', "fill A"' * 3000 + "]",
    ],
)
def test_an_answer_is_never_run_and_never_takes_long(
    answer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for reward in ("outcome", "partial"):
        for task in tasks_of(num_tasks_per_case=1, reward=reward):
            get_environment(task.env).start(task)
            started = time.process_time()
            assert judged(task, f"<answer>{answer}</answer>").value < 0.2, task.id
            assert time.process_time() - started < 2, task.id
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "truth", "answer"),
    [
        ("countdown", "85 + 42", "85 + 42 - 0x55"),
        ("countdown", "85 + 42", "85 + 42 + 85e0"),
        ("countdown", "85 + 42", "85 + 42*1**42"),
        ("gsm_symbolic", "279", "-279"),
        ("gsm_symbolic", "279", ".279"),
        ("gsm_symbolic", "712", "712,712,712"),
        ("time_intervals", "5 days", "5 weeks"),
        (
            "knights_knaves",
            "Zoey is a laggard, and Oliver is a pioneer",
            "Oliver is a pioneer Zoey is a laggard pioneer",
        ),
        ("spell_backward", "citinoibe", "citinoibes"),
        ("game_of_life_halting", "False", "anything"),
        ("complex_arithmetic", "15.0 - 5.0i", "nan"),
        ("power_function", "1.0", "inf"),
    ],
)
def test_what_the_library_overpays_is_paid_nothing(name: str, truth: str, answer: str) -> None:
    assert paid_answer(name, Question("?", truth, lambda answer: 1.0), answer) == 0


@pytest.mark.parametrize(
    ("name", "truth", "answer"),
    [
        ("power_function", "897303639322.6414", "8.97e+11"),
        ("gsm_symbolic", "1279", "1,279.0"),
        ("palindrome_generation", "nxaxn", "xnanx"),
        ("jugs", '["fill A"]', '["fill A","empty A","fill A"]'),
        ("countdown", "85 + 42", "(42+85)"),
        ("syllogism", "Yes", "yes"),
        ("n_queens", "_ Q\nQ _", "Q _\n_ Q"),
    ],
)
def test_other_right_answers_are_seen_by_the_library(name: str, truth: str, answer: str) -> None:
    assert paid_answer(name, Question("?", truth, lambda answer: 1.0), answer) == 1


def test_a_score_is_clipped_and_what_is_no_number_pays_nothing() -> None:
    for score, value in ((lambda answer: float("nan"), 0), (lambda answer: -1.0, 0), (lambda answer: 7, 1)):
        assert paid_answer("gcd", Question("?", "4", score), "4") == value


def test_what_a_score_raises_stands_in_the_details() -> None:
    def fails(answer: str) -> float:
        raise ValueError(f"no divisor: {answer}{'!' * 1000}")

    failing = Question("?", "4", fails)
    given = judge(failing, Reply("5"), "gcd", brief=True, partly=True)
    assert (given.value, given.reason) == (0, Reason.WRONG)
    assert given.details["score_error"] == f"ValueError: no divisor: 5{'!' * 1000}"[:200]
    assert not can_be_answered("gcd", failing)


def test_demonstrations_of_all_sets_leave_out_those_without_an_answer() -> None:
    asked = Settings(env="reasoning-gym", games="", expert="solution", prompt="brief", number=len(sets.names()))
    made, counts = generate(asked)
    assert {one.task.case for one in made} == {*sets.names()} - WITHOUT_TRUTH
    assert counts.kept == asked.number


def test_a_question_that_the_library_fails_to_make_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing:
        def __init__(self) -> None:
            self.kept, self.failed = sets._dataset("gcd"), 0

        def __getitem__(self, index: int) -> Any:
            if not self.failed:
                self.failed += 1
                raise ValueError("too hard")
            return self.kept[index]

        def score_answer(self, answer: str, entry: Any) -> float:
            return self.kept.score_answer(answer, entry)

    failing = Failing()
    monkeypatch.setattr(sets, "_dataset", lambda case: failing)
    task = tasks_of(cases="gcd", seed=7)[0]
    assert judged(task, f"<answer>{question_of(task).truth}</answer>").success
    assert failing.failed == 1


def test_the_library_changes_nothing_of_the_process() -> None:
    before = random.getstate(), numpy.random.get_state(legacy=False), sys.stdout
    for name in sets.names():
        question = sets.asked(name, 3)
        paid_answer(name, question, question.truth or "")
    assert random.getstate() == before[0]
    assert str(numpy.random.get_state(legacy=False)) == str(before[1])
    assert sys.stdout is before[2]


def test_threads_ask_the_same_questions() -> None:
    cases, out = ("list_functions", "codeio", "tsumego", "gcd"), sys.stdout
    alone = [sets.asked(case, index).text for index in range(20) for case in cases]
    with ThreadPoolExecutor(4) as threads:
        asked = list(threads.map(lambda item: sets.asked(item[1], item[0]).text, product(range(20), cases)))
    assert asked == alone
    assert sys.stdout is out


def test_slow_sets_are_prepared_in_the_background(monkeypatch: pytest.MonkeyPatch) -> None:
    environment, threads = get_environment("reasoning-gym"), dict[int, str]()
    asked = sets.asked

    def watched(case: str, index: int) -> Question:
        threads[index] = threading.current_thread().name
        return asked(case, index)

    tasks = tasks_of(cases="futoshiki", num_tasks_per_case=30)
    for task in tasks[:12]:
        environment.start(task)  # some of them are slow, so that the set is known to be
    monkeypatch.setattr(sets, "asked", watched)
    environment.prepare(tasks[12:16])
    deadline = time.monotonic() + 60
    while len(threads) < 4 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert set(threads.values()) == {"reasoning-gym"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"cases": "word_ladder"}, "depend on PYTHONHASHSEED"),
        ({"cases": "puzzle24"}, "any four numbers"),
        ({"cases": "simple_integration"}, "needs hours"),
        ({"cases": "jugs_level_2"}, "cannot be used"),
        ({"cases": "caesar_cipher_level_3"}, "its own settings are refused"),
        ({"cases": "chain_sum_level_99"}, "levels, level 99 was given"),
        ({"cases": "chain_sums"}, "did you mean chain_sum"),
        ({"levels": 0}, "levels must be a whole number of at least 1"),
        ({"cases": "chain_sum", "levels": 80}, "no case has a level"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_line(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        tasks_of(**settings)


def test_a_set_without_two_splits_says_so() -> None:
    task = make_task("reasoning-gym", "game_of_life_halting_level_4", 0, split="val")
    with pytest.raises(UserError, match="too few different ones"):
        get_environment("reasoning-gym").start(task)


def test_the_linter_finds_what_the_bare_library_pays_and_repeats() -> None:
    place = f"{Path(__file__).parents[3] / 'benchmarks/bare_reasoning_gym.py'}:BareReasoningGym"
    rows = lint(place, ["letter_counting", "ransom_note", "chain_sum"], 4)
    found = {(row.case, row.check) for row in rows if row.findings}
    assert ("ransom_note", "same in any process") in found
    assert {("chain_sum", "splits apart"), ("chain_sum", "seeds differ")} <= found
    assert all("composite" not in row.case for row in rows)


@pytest.mark.parametrize(("found", "message"), [(None, "is not installed"), ("0.1.9", "its sets differ")])
def test_a_missing_or_other_library_is_named(found: str | None, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib.metadata import PackageNotFoundError

    def version(name: str) -> str:
        if found is None:
            raise PackageNotFoundError(name)
        return found

    monkeypatch.setattr(installed, "version", version)
    sets.library.cache_clear()
    with pytest.raises(UserError, match=message):
        sets.names()
    sets.library.cache_clear()
