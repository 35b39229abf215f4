"""Trace as an environment: reproducible tasks, splits without common programs, and users' own programs."""

import json
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from veritas_rl.envs.base import Reply
from veritas_rl.envs.registry import get_environment, open_catalogue
from veritas_rl.envs.task import Task
from veritas_rl.envs.trace import asking
from veritas_rl.envs.trace.asking import _candidates, question_of
from veritas_rl.envs.trace.questions import LEVELS
from veritas_rl.errors import UserError

ENV = get_environment("trace")


def tasks(split: str = "train", **config: Any) -> list[Task]:
    return list(open_catalogue({"env": "trace", "adapter_config": config}, split))


def classes(split: str, **config: Any) -> set[str]:
    return {ENV.equivalence_class(task) for task in tasks(split, **config)}


def test_without_settings_there_are_all_levels() -> None:
    found = tasks(num_tasks_per_case=2)
    assert [task.case for task in found[::2]] == list(LEVELS)
    assert found[0].id == "trace/level_1/move#0"
    assert ENV.group(found[0]) == "level_1"


@pytest.mark.parametrize("level", ["level_1", "level_4", "level_8"])
@pytest.mark.parametrize("prompt", ["full", "brief"])
def test_every_task_shows_a_program_and_its_solution_solves_it(level: str, prompt: str) -> None:
    for task in tasks(levels=level, num_tasks_per_case=4, prompt=prompt):
        session = ENV.start(task)
        (turn,) = session.turns()
        (message,) = turn.messages
        assert "print(" in message["content"]
        assert ("exactly" in message["content"]) == (prompt == "full")
        session.step({0: Reply(turn.solution)})
        assert session.scores()[0].success
        assert not session.turns()


def test_debug_prints_are_at_most_so_many_and_part_of_the_identity() -> None:
    for most in (0, 2, 6):
        for task in tasks(cases="level_5", num_tasks_per_case=4, debug_prints=most):
            source = ENV.start(task).turns()[0].view.source
            assert source.count("__DBG_") <= most
            assert (f"debug_prints={most}" in task.id) == (most != 6)


def test_a_level_shares_no_program_between_the_splits_whatever_the_seed() -> None:
    """Level 1 has so few programs that 300 draws per split would otherwise share some."""
    config = {"cases": "level_1", "num_tasks_per_case": 150}
    train = classes("train", **config) | classes("train", seed=7, **config)
    val = classes("val", **config) | classes("val", seed=7, **config)
    assert not train & val
    assert len(train) > 250
    assert all(ENV.held_out(task, ENV.start(task).turns()[0]) for task in tasks("val", **config)[:20])
    assert not any(ENV.held_out(task, ENV.start(task).turns()[0]) for task in tasks("train", **config)[:20])


def test_a_task_is_the_same_in_any_process() -> None:
    code = (
        "from veritas_rl.envs.registry import *\n"
        "for task in open_catalogue({'env': 'trace', 'adapter_config': {'num_tasks_per_case': 1}}, 'val'):\n"
        "    (turn,) = get_environment('trace').start(task).turns()\n"
        "    print(repr((task.id, turn.messages, turn.solution)))\n"
    )
    printed = set()
    for seed in ("0", "1"):
        env = {**os.environ, "PYTHONHASHSEED": seed}
        printed.add(subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, check=True).stdout)
    assert len(printed) == 1
    assert printed.pop().count(b"\n") == 10


def test_a_task_that_failed_to_be_made_once_is_made_by_the_next_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    (task,) = tasks(cases="level_3", num_tasks_per_case=1)
    wanted = ENV.start(task).turns()[0].messages
    question_of.cache_clear()
    _candidates.cache_clear()

    def broken(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(asking, "generate", broken)
        with pytest.raises(MemoryError):
            ENV.start(task)
    assert ENV.start(task).turns()[0].messages == wanted


def test_tasks_named_ahead_are_the_same_and_a_fork_meanwhile_does_no_harm() -> None:
    """A forked process lacks the threads that make programs and may inherit their locks."""
    wanted = {task.id: ENV.start(task).turns()[0].messages for task in tasks(cases="level_9", num_tasks_per_case=12)}
    question_of.cache_clear()
    _candidates.cache_clear()
    named = tasks(cases="level_9", num_tasks_per_case=12)
    ENV.prepare(named)
    with multiprocessing.get_context("fork").Pool(1) as pool:
        child = pool.apply_async(_started, (named[-1],))
        assert {task.id: ENV.start(task).turns()[0].messages for task in named} == wanted
        assert child.get(timeout=60) == wanted[named[-1].id]


def _started(task: Task) -> Any:
    return ENV.start(task).turns()[0].messages


def write(path: Path, programs: list[Any]) -> str:
    path.write_text("\n".join(json.dumps(row) if not isinstance(row, str) else row for row in programs))
    return f"programs:{path}"


def test_users_programs_are_asked_and_bad_ones_replaced(tmp_path: Path) -> None:
    own = "x = {}\nfor i in range(x % 3):\n    x += i\nprint(x, input())"
    good = [{"program": own.format(n), "inputs": "a"} for n in range(40)]
    bad = [
        {"program": "while True: pass"},
        {"program": "import os\nos.fork()\nprint(1)"},
        {"program": "print(open('/etc/passwd').read())"},
        {"program": "import socket\nprint(socket.create_connection(('127.0.0.1', 1)))"},
        {"program": "while True: print('x' * 10**6)"},
        {"program": "x = bytearray(100 * 2**30)\nprint(1)"},
        {"program": "import not_there\nprint(1)"},
        {"program": "print({'a', 'b', 'c'})"},
        {"program": "print(object())"},
        {"program": "pass"},
        {"program": "this is not Python"},
        {"programme": "print(1)"},
        "no JSON",
    ]
    case = write(tmp_path / "own.jsonl", [*bad, *good])
    for split in ("train", "val"):
        for task in tasks(split, cases=case, num_tasks_per_case=6):
            (turn,) = ENV.start(task).turns()
            assert "input()" in turn.view.source
            assert "It reads this" in turn.messages[0]["content"]
            assert turn.view.truth.endswith(" a\n")
            assert ENV.group(task) == "programs"
    assert not classes("train", cases=case, num_tasks_per_case=40) & classes("val", cases=case, num_tasks_per_case=40)


def test_a_file_of_bad_programs_alone_is_one_clear_line(tmp_path: Path) -> None:
    case = write(tmp_path / "bad.jsonl", [{"program": f"print({n} / 0)"} for n in range(12)])
    task = tasks(cases=case, num_tasks_per_case=1)[0]
    with pytest.raises(
        UserError, match=r"has no program for task 0 of the split train: it ends with ZeroDivisionError \(\d+\)"
    ):
        ENV.start(task)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"cases": "level_11"}, "did you mean level_1"),
        ({"cases": "programs:nowhere.jsonl"}, "nowhere.jsonl does not exist"),
        ({"debug_prints": 7}, "debug_prints must lie between 0 and 6"),
        ({"reward": "legal"}, "unknown reward 'legal'"),
        ({"prompt": "unlisted"}, "unknown prompt 'unlisted'"),
        ({"compare": "loose"}, "unknown compare 'loose'"),
        ({"num_tasks_per_case": 0}, "at least 1"),
        ({"level": 3}, "did you mean levels"),
    ],
)
def test_a_mistake_is_one_clear_line(config: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        tasks(**config)
