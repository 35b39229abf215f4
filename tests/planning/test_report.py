"""The planning tool's report for users and for programs."""

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from veritas_rl.errors import UserError

TOOL = Path(__file__).resolve().parents[2] / "train/tools/plan.py"


@pytest.fixture
def tool() -> Any:
    spec: Any = importlib.util.spec_from_file_location("plan_tool", TOOL)
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(tool: Any, monkeypatch: pytest.MonkeyPatch, *typed: str) -> int:
    monkeypatch.setattr(sys, "argv", ["plan.py", *typed])
    monkeypatch.delenv("AGENT_MODEL_REPO_ID", raising=False)
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
