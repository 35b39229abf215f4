"""The sets of reasoning-gym: each one is asked, answered and judged."""

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

import pytest

from veritas_rl.envs.abilities import KnowsWords
from veritas_rl.envs.base import Reason, Reply, Score
from veritas_rl.envs.libraries.reasoning_gym import sets
from veritas_rl.envs.libraries.reasoning_gym.scoring import Question, paid_answer
from veritas_rl.envs.registry import get_environment, make_task, open_catalogue
from veritas_rl.envs.task import Task
from veritas_rl.errors import UserError

WITHOUT_TRUTH = {"boxnet", "graph_color", "propositional_logic", "rubiks_cube", "rush_hour"}
"""Sets that have a rule for right answers and no answer."""

ASKED = """
import json, random, sys
from veritas_rl.envs.libraries.reasoning_gym import sets
random.seed(int(sys.argv[1]))
asked = {case: [sets.asked(case, index) for index in (7, 11, 2**30)] for case in sets.names()}
print(json.dumps({case: [(one.text, one.truth) for one in some] for case, some in asked.items()}))
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
    assert len({task.case for task in tasks}) == len(sets.names()) == 98
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
    whole, part = (tasks_of(cases="number_format", reward=reward)[0] for reward in ("outcome", "partial"))
    truth = question_of(whole).truth
    assert truth is not None
    near = f"<answer>{float(truth) * 1.0000001}</answer>"
    assert judged(whole, near).value in (0, 1)
    assert 0 <= judged(part, near).value <= 1
    spelled = tasks_of(cases="spell_backward", reward="partial")[0]
    word = question_of(spelled).truth
    assert word is not None
    score = judged(spelled, f"<answer>{word[:-1] + chr(ord(word[-1]) ^ 1)}</answer>")
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
        "((((x**9)**9)**9)**9)",
        "exec('1')",
        "().__class__",
        "[x for x in iter(int, 1)]",
        "1" * 4000 + "**2",
        "(" * 3000,
        "lambda: 0",
        "factorial(10**9)",
    ],
)
@pytest.mark.parametrize(
    "case", ["countdown", "simple_integration", "intermediate_integration", "string_insertion", "n_queens"]
)
def test_an_answer_is_never_run(case: str, answer: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    started = time.perf_counter()
    assert judged(tasks_of(cases=case)[0], f"<answer>{answer}</answer>").value == 0
    assert not list(tmp_path.iterdir())
    assert time.perf_counter() - started < 20


def test_a_score_that_raises_or_is_no_number_pays_nothing() -> None:
    def fails(answer: str) -> float:
        raise ValueError(answer)

    for score, value in ((fails, 0), (lambda answer: float("nan"), 0), (lambda answer: -1.0, 0), (lambda answer: 7, 1)):
        assert paid_answer("gcd", Question("?", "4", score), "4") == value


def test_the_global_generator_keeps_its_state() -> None:
    state = random.getstate()
    for case in sets.DRAWN_GLOBALLY:
        sets.asked(case, 3)
    assert random.getstate() == state


def test_slow_sets_are_prepared_in_the_background() -> None:
    environment = get_environment("reasoning-gym")
    tasks = tasks_of(cases="futoshiki", num_tasks_per_case=30)
    for task in tasks[:3]:
        environment.start(task)  # one of them is slow, so that the set is known to be
    environment.prepare(tasks[3:13])
    asked = [question_of(task).text for task in tasks[3:13]]
    assert len(set(asked)) == 10


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"cases": "word_ladder"}, "depend on PYTHONHASHSEED"),
        ({"cases": "puzzle24"}, "any four numbers"),
        ({"cases": "jugs_level_2"}, "cannot be used"),
        ({"cases": "caesar_cipher_level_3"}, "its own settings are refused"),
        ({"cases": "chain_sum_level_99"}, "levels, level 99 was given"),
        ({"cases": "chain_sums"}, "did you mean chain_sum"),
        ({"levels": 0}, "levels must be a whole number of at least 1"),
        ({"cases": "chain_sum", "levels": 80}, "no set has a level"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_line(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        tasks_of(**settings)


def test_a_set_without_two_splits_says_so() -> None:
    task = make_task("reasoning-gym", "game_of_life_halting_level_4", 0, split="val")
    with pytest.raises(UserError, match="too few different ones"):
        get_environment("reasoning-gym").start(task)


@pytest.mark.parametrize(("found", "message"), [(None, "is not installed"), ("0.1.9", "its sets differ")])
def test_a_missing_or_other_library_is_named(found: str | None, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib.metadata import PackageNotFoundError

    def version(name: str) -> str:
        if found is None:
            raise PackageNotFoundError(name)
        return found

    monkeypatch.setattr(sets, "version", version)
    sets.library.cache_clear()
    with pytest.raises(UserError, match=message):
        sets.names()
    sets.library.cache_clear()
