"""Environments of other packages are found by their entry points; duplicate names are refused."""

import subprocess
import sys
from pathlib import Path

import pytest

from veritas_rl.envs.registry import get_environment, make_task, prepared

QUIZ = Path(__file__).resolve().parents[1] / "quiz"

ASK = "from veritas_rl.envs.registry import *; print(environment_names()); print(type(get_environment('{}')).__name__)"


def run(code: str, *folders: Path) -> subprocess.CompletedProcess[str]:
    """Run a program in a process with these folders on its import path."""
    code = f"import sys; sys.path[:0] = {[str(folder) for folder in folders]!r}; {code}"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def package(folder: Path, name: str, target: str) -> Path:
    """Make a package that offers one environment."""
    info = folder / f"{folder.name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {folder.name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[veritas_rl.environments]\n{name} = {target}\n")
    return folder


def test_an_environment_of_another_package_is_found(tmp_path: Path) -> None:
    done = run(ASK.format("quiz"), QUIZ, package(tmp_path / "one", "quiz", "quiz:quiz"))
    assert done.stdout.splitlines() == [
        "('openspiel', 'lgc-v2', 'trace', 'reasoning-gym', 'textarena', 'quiz')",
        "OneTurn",
    ]


def test_without_the_package_it_is_not_there_and_the_nearest_names_are_listed() -> None:
    done = run(ASK.format("traces"))
    assert "UserError: unknown environment 'traces': did you mean trace?" in done.stderr


def test_of_two_environments_of_one_name_both_are_named_and_others_work(tmp_path: Path) -> None:
    one, other = (
        package(tmp_path / "one", "quiz", "quiz:quiz"),
        package(tmp_path / "other", "quiz", "another_quiz:Quiz"),
    )
    done = run(ASK.format("quiz"), QUIZ, one, other)
    assert "two environments are named quiz: " in done.stderr
    assert "quiz:quiz" in done.stderr
    assert "another_quiz:Quiz" in done.stderr
    assert run(ASK.format("trace"), QUIZ, one, other).stdout.splitlines()[1] == "TraceEnvironment"


def test_an_environment_that_takes_a_name_of_ours_is_named(tmp_path: Path) -> None:
    done = run(ASK.format("trace"), package(tmp_path / "other", "trace", "quiz:quiz"), QUIZ)
    assert "two environments are named trace" in done.stderr


@pytest.mark.parametrize("target", ["nowhere:Quiz", "quiz:Nothing", "quiz:Question", "json:JSONDecoder"])
def test_an_environment_that_does_not_load_is_named(target: str, tmp_path: Path) -> None:
    done = run(ASK.format("broken"), package(tmp_path / "broken", "broken", target), QUIZ)
    assert f"UserError: the environment broken ({target})" in done.stderr


@pytest.mark.parametrize("count", [0, 1, 3, 4, 9])
def test_tasks_are_named_ahead_and_given_out_in_their_order(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    known: list[object] = []
    monkeypatch.setattr(type(get_environment("trace")), "prepare", lambda self, tasks: known.extend(tasks))
    tasks = [make_task("trace", "level_1", k) for k in range(count)]
    for given, task in enumerate(prepared(iter(tasks), ahead=2)):
        assert task == tasks[given]
        assert known[: min(given + 3, count)] == tasks[: min(given + 3, count)]
    assert known == tasks
