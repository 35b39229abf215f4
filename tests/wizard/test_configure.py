"""`train/tools/configure.py` asks in a real terminal, and takes its answers from flags without one."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pexpect
import pytest
import yaml
from dotenv import dotenv_values
from rich.console import Console

from veritas_rl.errors import UserError
from veritas_rl.launch.configuration import compose_configuration, overrides_for
from veritas_rl.launch.hardware import Hardware
from veritas_rl.wizard.answers import Answers
from veritas_rl.wizard.questions import Asking, ask_all

ROOT = Path(__file__).resolve().parents[2]
CLEAN = {name: "" for name in ("AGENT_MODEL_REPO_ID", "GAME_TYPES", "ALGORITHM", "ROLLOUT_BACKEND", "WANDB_API_KEY")}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the checkout without a user's `.env`."""
    folder = tmp_path / "checkout"
    for name in ("veritas_rl", "train"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("artifacts", "outputs", "models"))
    return folder


def environment(checkout: Path, **variables: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in (*CLEAN, "WANDB_MODE")}
    return {**kept, "PYTHONPATH": str(checkout), "TERM": "dumb", **variables}


def configure(checkout: Path, *typed: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "train/tools/configure.py", *typed],
        cwd=checkout,
        env=environment(checkout, **variables),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def recipe(checkout: Path, name: str) -> dict[str, Any]:
    return yaml.safe_load((checkout / f"train/recipes/{name}/config.yaml").read_text())


def test_a_person_answers_in_a_terminal(checkout: Path) -> None:
    (checkout / ".env").write_text("# mine\nGAME_TYPES=chess\nHF_TOKEN=hf_secret\n")
    child = pexpect.spawn(
        sys.executable,
        ["train/tools/configure.py"],
        cwd=str(checkout),
        env=environment(checkout),
        encoding="utf-8",
        timeout=60,
        dimensions=(50, 160),
    )

    def answer(question: str, *given: str) -> None:
        for one in given:
            child.expect_exact(question)
            child.expect_exact(":")
            child.sendline(one)

    answer("Name of the recipe", "no name!", "poker")
    answer("Hardware", "")
    answer("Model", "none")
    answer("Environments", "openspeil")
    child.expect_exact("did you mean openspiel?")
    answer("Environments", "openspiel")
    answer("Games", "kuhn_pokr")
    child.expect_exact("error: ")
    answer("Games", "kuhn_poker")
    answer("Single moves", "episode")
    answer("Opponent", "champion")
    child.expect_exact("error: ")
    answer("Opponent", "mcts:20")
    answer("Curriculum", "none")
    answer("Algorithm", "")
    answer("LoRA", "")
    answer("Learning rate", "fast")
    child.expect_exact("error: ")
    answer("Learning rate", "1e-5")
    answer("Tasks of a step", "")
    answer("Training steps", "30")
    answer("Loggers in addition", "wandb")
    answer("Weights & Biases mode: online", "online")
    answer("Weights & Biases project", "games")
    answer("Weights & Biases key", "secret-key")
    child.expect_exact("bash train/scripts/openspiel-ppo-trainer.sh recipe=poker")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
    assert "secret-key" not in (child.before or "")
    made = recipe(checkout, "poker")
    tasks = made["data"]["custom_cls"]["config"]
    assert tasks == {"adapter_config": {"game_types": "kuhn_poker", "opponent": "mcts:20"}, "curriculum": None}
    assert made["trainer"] == {"logger": ["console", "file", "wandb"], "total_training_steps": 30}
    # What was not changed is not written.
    assert made["actor_rollout_ref"] == {"actor": {"optim": {"lr": 1e-5}}}
    assert set(made["data"]) == {"custom_cls"}
    assert not any("override /lora" in choice or "override /algorithm" in choice for choice in made["defaults"])
    assert dotenv_values(checkout / ".env") == {
        "HF_TOKEN": "hf_secret",
        "WANDB_MODE": "online",
        "WANDB_PROJECT": "games",
        "WANDB_API_KEY": "secret-key",
    }
    assert (checkout / ".env").read_text().startswith("# mine\n")
    assert (checkout / ".env").stat().st_mode & 0o077 == 0


@pytest.mark.long
def test_a_person_who_gives_up_changes_nothing(checkout: Path) -> None:
    before = sorted(path.name for path in (checkout / "train/recipes").iterdir())
    child = pexpect.spawn(
        sys.executable,
        ["train/tools/configure.py", "--model", "none"],
        cwd=str(checkout),
        env=environment(checkout),
        timeout=60,
        # If these tests run in a shell's background, their processes ignore SIGINT by default.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # pyright: ignore[reportArgumentType]
    )
    child.expect_exact("Name of the recipe")
    child.sendline("mine")
    child.expect_exact("Hardware")
    child.sendintr()
    child.expect_exact("interrupted")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 130
    assert sorted(path.name for path in (checkout / "train/recipes").iterdir()) == before
    assert not (checkout / ".env").exists()


def test_flags_answer_everything(checkout: Path) -> None:
    typed = (
        "--name two --hardware h200x2 --model Qwen/Qwen3-4B-Instruct-2507 --environments openspiel,lgc-v2 --games hex"
    )
    rest = "--play move --curriculum none --algorithm grpo --logging none"
    done = configure(checkout, *typed.split(), *rest.split())
    assert done.returncode == 0, done.stderr
    assert "Memory of one device" in done.stdout
    assert "hardware=h200x2: 1 x 2 h200" in done.stdout
    assert done.stdout.rstrip().endswith("bash train/scripts/openspiel-ppo-trainer.sh recipe=two")
    assert dotenv_values(checkout / ".env") == {"AGENT_MODEL_REPO_ID": "Qwen/Qwen3-4B-Instruct-2507"}
    parts = recipe(checkout, "two")["data"]["custom_cls"]["config"]["environments"]
    assert parts["openspiel"] == {"weight": 1, "config": {"game_types": "hex"}, "curriculum": None}


@pytest.mark.long
def test_a_recipe_that_is_there_stays_unless_it_is_meant(checkout: Path) -> None:
    typed = "--hardware cpu --model none --games tic_tac_toe"
    assert configure(checkout, *typed.split()).returncode == 0
    before = recipe(checkout, "mine")
    again = configure(checkout, *typed.split(), "--algorithm", "grpo")
    assert (again.returncode, again.stderr.count("\n"), "--force" in again.stderr) == (2, 1, True)
    assert recipe(checkout, "mine") == before
    assert configure(checkout, *typed.split(), "--algorithm", "grpo", "--force").returncode == 0
    assert {"override /algorithm": "grpo"} in recipe(checkout, "mine")["defaults"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"name": "../up"}, "the recipe name"),
        ({"hardware": "h300"}, "unknown hardware 'h300': did you mean"),
        ({"model": "/no/such/folder"}, "is neither a folder nor a hub id"),
        ({"games": "hexx"}, "did you mean hex"),
        ({"environments": "trace", "games": "hex"}, "--games=hex has no effect with the other answers: leave it out"),
        ({"play": "episode", "opponent": "champion"}, "unknown player 'champion'"),
        ({"algorithm": "dpo"}, "unknown algorithm 'dpo'"),
        ({"steps": "1.5"}, "'1.5' is no integer of 1 or more"),
    ],
)
def test_a_mistake_is_one_line(given: dict[str, str], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_MODEL_REPO_ID", "")

    def answer() -> None:
        asking = Asking({})
        ask_all(asking, {"hardware": "cpu", "model": "none", **given}, Console(quiet=True), terminal=False)
        asking.try_out()

    with pytest.raises(UserError) as caught:
        answer()
    assert said in str(caught.value)


@pytest.mark.long
def test_a_variable_that_wins_is_named_and_a_large_model_says_that_it_does_not_fit(checkout: Path) -> None:
    typed = "--hardware rtx16g --model Qwen/Qwen2.5-72B-Instruct"
    done = configure(checkout, *typed.split(), GAME_TYPES="chess")
    assert done.returncode == 1, done.stderr
    assert "does not fit" in done.stdout
    assert "note: GAME_TYPES=chess is set in this shell and overrides" in done.stdout


@pytest.mark.long
def test_a_folder_that_cannot_be_written_is_named(checkout: Path) -> None:
    # A file has the folder's name, so not even root can make the folder.
    (checkout / "train/recipes/taken").write_text("")
    done = configure(checkout, "--name", "taken", "--force")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "train/recipes/taken is not writable (" in done.stderr


def test_variables_are_proposed_and_numbers_are_composed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_MODEL_REPO_ID", "")
    asking = Asking({"GAME_TYPES": "hex", "ENABLE_LORA": "1", "ALGORITHM": "grpo"})
    given = {"hardware": "cpu", "model": "none", "learning_rate": "0.0005", "prompts": "64"}
    ask_all(asking, given, Console(quiet=True), terminal=False)
    answers = asking.answers
    assert (answers.games, answers.algorithm, answers.lora) == ("hex", "grpo", "on")
    # 5e-4 is the default, and 64 is not.
    assert (answers.learning_rate, answers.prompts, answers.steps) == ("", "64", "")
    made = asking.try_out().configuration
    assert made.data.train_batch_size == 64
    assert made.actor_rollout_ref.actor.optim.lr == 5e-4
    assert made.actor_rollout_ref.model.lora_rank > 0
    assert made.algorithm.adv_estimator == "grpo"
    assert made.data.custom_cls.config.adapter_config.game_types == "hex"


@pytest.mark.parametrize(
    "answers",
    [
        Answers("a", "cpu"),
        Answers("b", "h200x8", "Qwen/Qwen3-8B", "lgc-v2", curriculum="default", algorithm="grpo"),
        Answers("c", "cpu", games="hex,go", play="episode", opponent="self", algorithm="rae"),
        Answers("d", "rtx24g", environments="openspiel,lgc-v2,trace", play="episode", curriculum="default"),
    ],
    ids=lambda answers: answers.name,
)
def test_a_recipe_composes_to_what_was_answered(answers: Answers, tmp_path: Path) -> None:
    file = answers.write_recipe(tmp_path / answers.name)
    machine = Hardware(cores=2, gpus=0 if answers.hardware == "cpu" else 8, gpu_bytes=141 << 30)
    made = compose_configuration(overrides_for([f"recipe={file.parent}"], {}, machine))
    device = "cpu" if answers.hardware == "cpu" else "cuda"
    estimator = answers.algorithm or "gae"
    assert (made.trainer.device, made.algorithm.adv_estimator) == (device, estimator)
    assert made.veritas_rl.play == answers.play
    tasks = made.data.custom_cls.config
    stages = {} if answers.curriculum == "default" else None
    if len(answers.envs) > 1:
        assert list(tasks.environments) == answers.envs
        assert {part.curriculum for part in tasks.environments.values() if part.curriculum is None} == (
            {None} if stages is None else set()
        )
    else:
        assert (tasks.env, tasks.curriculum) == (answers.environments, stages)
    assert answers.command in file.read_text()
