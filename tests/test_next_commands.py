"""The commands that are printed for the user to type next work as printed, in the folder where they are printed."""

import dataclasses
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest
import yaml

from veritas_rl.launch import rl
from veritas_rl.launch.hardware import Hardware
from veritas_rl.paths import to_type

ROOT = Path(__file__).resolve().parents[1]
CPU = Hardware(cores=2, gpus=0, gpu_bytes=0)
VENV = Path(sys.executable).parent
NO_VENV = os.pathsep.join(part for part in os.environ["PATH"].split(os.pathsep) if Path(part) != VENV)


def typed(command: str, folder: Path, *more: str, **variables: str) -> str:
    """What a command prints, with more words, in a shell that has no virtual environment."""
    environment = {**os.environ, "PATH": NO_VENV, **variables}
    line = f"{command} {shlex.join(more)}"
    done = subprocess.run(
        ["bash", "-c", line], cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.mark.parametrize("active", [True, False], ids=["active", "not active"])
def test_a_command_is_for_the_folder_and_the_python_of_the_shell(
    active: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{VENV}{os.pathsep}{NO_VENV}" if active else NO_VENV)
    interpreter = Path(sys.executable)
    inside = interpreter.is_relative_to(ROOT)
    python = "python" if active else str(interpreter.relative_to(ROOT) if inside else interpreter)
    command = "python a.py && python b.py --say 'python c'"
    monkeypatch.setenv("PWD", str(ROOT))
    assert to_type(command) == f"{python} a.py && {python} b.py --say 'python c'"
    (tmp_path / "link").symlink_to(ROOT)
    monkeypatch.setenv("PWD", str(tmp_path / "link"))
    assert to_type("bash x.sh") == "bash x.sh"
    monkeypatch.setenv("PWD", str(tmp_path))
    assert to_type("A=b bash x.sh") == f"cd {ROOT} && A=b bash x.sh"


@pytest.mark.parametrize(
    "env", ["openspiel", *(pytest.param(env, marks=pytest.mark.long) for env in ("trace", "lgc-v2"))]
)
def test_after_training(
    env: str,
    tiny_model: Path,
    save_checkpoint: Callable[[Path, Path, int, float], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    checkpoints = tmp_path / "my checkpoints"
    settings = [f"environment={env}", f"trainer.default_local_dir='{checkpoints}'", "veritas_rl.evaluation=null"]
    run = dataclasses.replace(rl.plan(settings, {}, CPU, datetime.now()), folder=tmp_path / "logs")
    save_checkpoint(checkpoints, tiny_model, 3, 2.0)
    monkeypatch.setenv("PATH", NO_VENV)
    monkeypatch.setenv("PWD", str(tmp_path))
    merge, *tried, following = [to_type(command) for _, command in run.next_steps(None)]
    typed(merge, tmp_path)
    assert (tmp_path / "logs/trained-model-global_step_3/config.json").is_file()
    for command in tried:
        if "evaluate.py" in command:
            few = ["--num_episodes", "2", "--max_tokens", "4", "--output", str(tmp_path / "report")]
            assert "report.html" in typed(command, tmp_path, *few)
        else:
            assert "Your moves as x" in typed(command, tmp_path, "--terminal", "--output", str(tmp_path / "games"))
    assert "verl.trainer.main_ppo" in typed(following, tmp_path, DRY_RUN="1")


def test_after_the_questions_of_the_wizard(tmp_path: Path) -> None:
    checkout, elsewhere = tmp_path / "my checkout", tmp_path / "elsewhere"
    for name in ("veritas_rl", "train"):
        ignored = shutil.ignore_patterns("artifacts", "outputs", "models", "__pycache__")
        shutil.copytree(ROOT / name, checkout / name, ignore=ignored)
    elsewhere.mkdir()
    variables = {"PYTHONPATH": str(checkout)}
    asked = "--name mine --hardware cpu --model none --games kuhn_poker --steps 3"
    command = shlex.join([sys.executable, str(checkout / "train/tools/configure.py"), *asked.split()])
    *_, check, start = typed(command, elsewhere, **variables).splitlines()
    assert "openspiel" in typed(check.partition(": ")[2].strip(), elsewhere, **variables).lower()
    # The script would first install this copy.
    script, module = "bash train/scripts/openspiel-ppo-trainer.sh ", f"{sys.executable} -m veritas_rl.launch.main "
    assert script in start
    printed = typed(start.partition(": ")[2].strip().replace(script, module), elsewhere, DRY_RUN="1", **variables)
    assert "total_training_steps: 3" in printed


@pytest.mark.long
def test_the_stages_that_a_dry_run_of_a_recipe_names(
    tiny_model: Path, save_checkpoint: Callable[[Path, Path, int, float], Path], tmp_path: Path
) -> None:
    recipe = yaml.safe_load((ROOT / "train/recipes/tic_tac_toe/config.yaml").read_text())
    few = {"games": "tic_tac_toe", "opponent": "random", "num_episodes": 2, "max_tokens": 4, "prompt": "brief"}
    recipe["veritas_rl"]["recipe"] |= {"judge": {"games": {**few, "compare": "start"}}, "short": None}
    folder = tmp_path / "my_recipe"
    folder.mkdir()
    (folder / "config.yaml").write_text(yaml.safe_dump(recipe))
    made, checkpoints = ROOT / "train/outputs/recipes", tmp_path / "checkpoints"
    command = f"{sys.executable} -m veritas_rl.launch.main recipe={folder} trainer.default_local_dir={checkpoints} 2>&1"
    printed = typed(command, tmp_path, DRY_RUN="1")
    tuning, judging = re.findall(r"^note: (?:the first stage is|games follows.*?:) (.+)", printed, re.M)
    assert "total_epochs: 25" in typed(tuning, tmp_path, DRY_RUN="1")
    save_checkpoint(checkpoints, tiny_model, 1, 2.0)
    judging = re.sub(rf"{made}/\S+", str(tmp_path / "report"), judging.replace("START", str(tiny_model)))
    assert "report.html" in typed(judging, tmp_path)


def test_the_script_that_a_recipe_needs(tmp_path: Path) -> None:
    folder = tmp_path / "my_recipe"
    shutil.copytree(ROOT / "train/recipes/lgc-v2-sft", folder)
    said = typed(f"{sys.executable} -m veritas_rl.launch.main recipe=./my_recipe 2>&1 || true", tmp_path)
    start = said.strip().partition("recipe=my_recipe needs another script: type ")[2]
    assert "verl.trainer.sft_trainer" in typed(start, tmp_path, DRY_RUN="1")
