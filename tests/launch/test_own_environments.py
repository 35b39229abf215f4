"""`environment=` names a file, a module, a server or an installed package, and the run keeps a file's digest."""

import dataclasses
import shutil
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest

from veritas_rl.envs import places
from veritas_rl.errors import UserError
from veritas_rl.launch import configuration as conf
from veritas_rl.launch import resume, rl
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


def test_a_server_is_named_by_its_address() -> None:
    typed = conf.with_environment(["environment=http://127.0.0.1:9"], Path())
    assert typed == ["environment=other", "data.custom_cls.config.env='affinetes:http://127.0.0.1:9'"]


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
        ("My Quiz", 2, "is no name of a module"),
    ):
        done = subprocess.run([*tool, name, "--output", tmp_path], capture_output=True, text=True, check=False)
        assert done.returncode == code
        assert said in done.stdout + done.stderr
    test = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", tmp_path / "riddles"]
    done = subprocess.run(test, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "1 passed" in done.stdout, done.stdout


def test_the_quiz_of_the_tests_is_a_new_package(tmp_path: Path) -> None:
    tool = [sys.executable, ROOT / "train/tools/new_environment.py", "quiz", "--output", tmp_path]
    subprocess.run(tool, check=True, capture_output=True)
    for file in (tmp_path / "quiz").iterdir():
        assert file.read_text() == (ROOT / "tests/quiz" / file.name).read_text()
