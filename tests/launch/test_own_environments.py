"""`environment=` names a file, a module, a server or an installed package, and the run keeps a file's digest."""

import dataclasses
import os
import shutil
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest

from veritas_rl.envs import places
from veritas_rl.envs.registry import environment_named, get_environment, make_task
from veritas_rl.errors import UserError
from veritas_rl.launch import configuration as conf
from veritas_rl.launch import next_steps, resume, rl, sft
from veritas_rl.launch.hardware import Hardware

pytestmark = pytest.mark.usefixtures("own_environments")

ROOT = Path(__file__).resolve().parents[2]
CPU = Hardware(2, 0, 0)


def test_a_file_is_trained_on_by_its_name_and_is_sent_to_all_workers(tmp_path: Path) -> None:
    shutil.copy(ROOT / "tests/quiz/quiz.py", tmp_path)
    typed = conf.with_environment(["environment=quiz.py:quiz", "trainer.nnodes=2"], tmp_path)
    run = rl.plan(typed, {}, CPU, datetime.now())
    settings = run.configuration.data.custom_cls.config
    assert settings.env == "quiz"
    assert settings.defaults.quiz == {"seed": 42, "num_tasks_per_case": 131072, "prompt": "brief"}
    command = " ".join(run.command())
    assert f"{places.VARIABLE}:" in command
    assert f"py_modules=['{tmp_path}/quiz.py']" in command.replace('"', "'")
    assert run.record.environments == places.digests()
    assert run.record.changed_environments() == []
    (tmp_path / "quiz.py").write_text("changed")
    assert run.record.changed_environments() == ["quiz"]
    run.record.write(tmp_path / "run")
    again = resume.Record.read(tmp_path / "run")
    assert again
    assert dataclasses.replace(again, number=0, folder=run.record.folder) == run.record


def test_own_modules_are_sent_too(tmp_path: Path) -> None:
    shutil.copy(ROOT / "tests/quiz/quiz.py", tmp_path)
    own = "++ray_kwargs.ray_init.runtime_env.py_modules=[helper.py]"
    typed = conf.with_environment(["environment=quiz.py:quiz", "trainer.nnodes=2", own], tmp_path)
    command = " ".join(rl.plan(typed, {}, CPU, datetime.now()).command())
    assert f"py_modules=['helper.py','{tmp_path}/quiz.py']" in command.replace('"', "'")


@pytest.mark.parametrize(("change", "code"), [("", 0), ("# another version\n", 2)])
def test_a_copy_of_the_file_is_the_same_module(change: str, code: int, tmp_path: Path) -> None:
    text = (ROOT / "tests/quiz/quiz.py").read_text()
    (tmp_path / "quiz.py").write_text(text)
    copy = tmp_path / "node/quiz.py"
    copy.parent.mkdir()
    copy.write_text(text + change)
    environment_named("quiz.py:quiz", tmp_path)
    done = in_another_process(["-c", "from veritas_rl.envs.registry import *; get_environment('quiz')"], copy.parent)
    assert ("has the name of another module" in done.stderr) == bool(code)
    assert bool(done.returncode) == bool(code)


def in_another_process(arguments: list[str], searched: Path) -> subprocess.CompletedProcess[str]:
    """Run Python with a folder of modules, such as that of `py_modules` on another node."""
    environment = os.environ | {"PYTHONPATH": str(searched)}
    return subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False)


def test_a_server_is_named_by_its_address() -> None:
    typed = conf.with_environment(["environment=http://127.0.0.1:9"], Path())
    assert typed == ["environment=other", "data.custom_cls.config.env='affinetes:http://127.0.0.1:9'"]
    defaults = [item for item in conf.overrides_for(typed, {}, CPU) if ".defaults." in item]
    node = "++data.custom_cls.config.defaults.affinetes"
    assert defaults == [f"{node}.seed=${{veritas_rl.seed}}", f"{node}.num_tasks_per_case=131072"]


@pytest.mark.parametrize(
    ("typed", "made"),
    [
        (["+environment=quiz.py:quiz"], ["environment=other", "data.custom_cls.config.env='quiz'"]),
        (["data.custom_cls.config.env=quiz.py:quiz"], ["data.custom_cls.config.env='quiz'"]),
        (["veritas_rl.demonstrations.env=quiz.py:quiz"], ["veritas_rl.demonstrations.env='quiz'"]),
    ],
)
def test_each_key_of_an_environment_takes_a_file(typed: list[str], made: list[str], tmp_path: Path) -> None:
    shutil.copy(ROOT / "tests/quiz/quiz.py", tmp_path)
    assert conf.with_environment(typed, tmp_path) == made


def test_the_group_of_others_needs_a_name() -> None:
    with pytest.raises(UserError, match="environment=other names no environment"):
        conf.overrides_for(["environment=other"], {}, CPU)


def test_fine_tuning_names_its_own_key() -> None:
    with pytest.raises(UserError, match=r"environment= works only with RL: set veritas_rl\.demonstrations\.env"):
        sft.overrides_for(["environment=trace"], {}, CPU)


def test_the_next_commands_name_the_file(tmp_path: Path) -> None:
    shutil.copy(ROOT / "tests/quiz/quiz.py", tmp_path)
    environment = get_environment(environment_named("quiz.py:quiz", tmp_path))
    (_, command) = next_steps.next_run(environment, ("sums",))
    assert f"environment={tmp_path}/quiz.py:quiz " in command
    ((_, command),) = next_steps.trials(environment, make_task("quiz", "sums", 0), "model")
    assert f"--env {tmp_path}/quiz.py:quiz " in command


def test_groups_stay_and_unknown_names_list_the_known_ones() -> None:
    assert conf.with_environment(["environment=trace"], Path()) == ["environment=trace"]
    typed = conf.with_environment(["environment=trase"], Path())
    with pytest.raises(UserError, match="unknown environment 'trase': did you mean trace"):
        conf.overrides_for(typed, {}, CPU)


def test_a_new_package_passes_its_own_test(tmp_path: Path) -> None:
    tool = [sys.executable, ROOT / "train/tools/new_environment.py"]
    for name, code, said in (
        ("riddles", 0, "wrote "),
        ("riddles", 2, "exists already"),
        ("trace", 2, "is an environment of this repository"),
        ("mixture", 2, "is an environment of this repository"),
        ("lambda", 2, "is a word of Python, or a module"),
        ("json", 2, "is a word of Python, or a module"),
        ("My Quiz", 2, "is no name of a module"),
    ):
        done = subprocess.run([*tool, name, "--output", tmp_path], capture_output=True, text=True, check=False)
        assert done.returncode == code
        assert said in done.stdout + done.stderr
    test = ["-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path / "riddles")]
    done = in_another_process(test, tmp_path)
    assert "1 passed" in done.stdout, done.stdout
    # As pip installs it.
    installed = tmp_path / "site/veritas_riddles-1.0.dist-info"
    installed.mkdir(parents=True)
    shutil.copy(tmp_path / "riddles/riddles.py", installed.parent)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: veritas-riddles\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text("[veritas_rl.environments]\nriddles = riddles:riddles\n")
    done = in_another_process(test, installed.parent)
    assert "1 passed" in done.stdout, done.stdout
    file = tmp_path / "file"
    file.touch()
    done = in_another_process([str(tool[1]), "songs", "--output", str(file)], tmp_path)
    assert (done.returncode, "cannot be written: Not a directory" in done.stderr) == (2, True)


def test_the_quiz_of_the_tests_is_a_new_package(tmp_path: Path) -> None:
    tool = [sys.executable, ROOT / "train/tools/new_environment.py", "quiz", "--output", tmp_path]
    subprocess.run(tool, check=True, capture_output=True)
    for file in (tmp_path / "quiz").iterdir():
        assert file.read_text() == (ROOT / "tests/quiz" / file.name).read_text()
