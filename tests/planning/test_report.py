"""The planning tool's report for users and for programs."""

import importlib.util
import json
import os
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from veritas_rl.errors import UserError
from veritas_rl.launch import rl
from veritas_rl.launch.hardware import Hardware
from veritas_rl.launch.model_checks import mean_prompt

TOOL = Path(__file__).resolve().parents[2] / "train/tools/plan.py"


@pytest.fixture
def tool() -> Iterator[Any]:
    """The tool. The variables that it sets, and the folder to which it changes, are restored."""
    spec: Any = importlib.util.spec_from_file_location("plan_tool", TOOL)
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    variables, folder = dict(os.environ), Path.cwd()
    yield module
    os.environ.clear()
    os.environ.update(variables)
    os.chdir(folder)


def run(tool: Any, monkeypatch: pytest.MonkeyPatch, *typed: str, **variables: str) -> int:
    monkeypatch.setattr(sys, "argv", ["plan.py", *typed])
    for name, value in {"AGENT_MODEL_REPO_ID": "", **variables}.items():
        monkeypatch.setenv(name, value)
    return tool.main()


def test_a_program_gets_one_object(tool: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    typed = (
        "--model",
        "Qwen/Qwen3-4B-Instruct-2507",
        "--hardware",
        "h200x2",
        "--json",
        "algorithm=grpo",
        "--mfu",
        "0.5",
    )
    assert run(tool, monkeypatch, *typed) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["model"]["parameters"] == 4_022_468_096
    assert made["peak"]["bytes"] == max(phase["bytes"] for phase in made["phases"])
    assert all(phase["bytes"] == sum(phase["parts"].values()) for phase in made["phases"])
    assert made["assumed"]["mfu"] == 0.5
    assert made["settings"]["gpus"] == 2
    assert made["seconds"]["step"] == pytest.approx(sum(made["seconds"].values()) / 2)


def test_a_person_gets_the_reasons_and_exit_code_1(tool: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    assert run(tool, monkeypatch, "--model", "Qwen/Qwen2.5-72B-Instruct", "--gpu", "rtx4090", "lora=off") == 1
    said = capsys.readouterr().out
    assert "does not fit" in said
    assert "table of published configurations" in said
    assert "KV cache" in said


def test_a_mistake_is_one_line(tool: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="unknown GPU 'h20': did you mean h200"):
        run(tool, monkeypatch, "--model", "Qwen/Qwen3-4B", "--gpu", "h20")


def test_variables_and_settings_are_those_of_the_trainer(
    tool: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any, tiny_model: Path
) -> None:
    variables = {"AGENT_MODEL_REPO_ID": str(tiny_model), "ENABLE_LORA": "1", "ALGORITHM": "grpo", "GAME_TYPES": "hex"}
    typed = ["data.train_batch_size=96", "trainer.total_training_steps=7"]
    assert run(tool, monkeypatch, "--hardware", "cpu", "--json", *typed, **variables) == 0
    made = json.loads(capsys.readouterr().out)
    settings = made["settings"]
    assert (settings["model"], settings["critic"], settings["actor"]["lora_rank"]) == (str(tiny_model), None, 32)
    planned = rl.plan(["hardware=cpu", *typed], variables, Hardware(2, 0, 0), datetime.now(), dry=True)
    # The launcher splits the batch, which composing alone does not.
    assert settings["actor"]["mini_batches"] == 96 // planned.configuration.actor_rollout_ref.actor.ppo_mini_batch_size
    assert "7 steps" in made["run_seconds"]
    # Prompts of this model's tokenizer and of these tasks, not an assumed mean.
    assert made["assumed"]["prompt"] == mean_prompt(planned.configuration)["prompt"] != 522


@pytest.mark.parametrize("kind", ["rl", "sft"])
def test_a_named_model_takes_precedence_over_that_of_a_recipe(
    kind: str, tool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    recipe = tmp_path / "mine"
    recipe.mkdir()
    settings = {"path": "Qwen/Qwen3-4B-Instruct-2507"}
    made = {"model": settings} if kind == "sft" else {"actor_rollout_ref": {"model": settings}}
    (recipe / "config.yaml").write_text(json.dumps(made))
    typed = ["--model", "Qwen/Qwen2.5-1.5B-Instruct", *(["--sft"] if kind == "sft" else [])]
    run(tool, monkeypatch, *typed, "--hardware", "h200x2", "--json", f"recipe={recipe}")
    assert json.loads(capsys.readouterr().out)["settings"]["model"] == "Qwen/Qwen2.5-1.5B-Instruct"


def test_a_run_that_the_trainer_refuses_is_refused(tool: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="ENABLE_LORA=maybe is not supported"):
        run(tool, monkeypatch, "--hardware", "cpu", ENABLE_LORA="maybe")
