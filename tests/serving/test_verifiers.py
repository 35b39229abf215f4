"""verifiers 0.4 with the verifiers package of this repository: rollouts by its own command with a stub model."""

import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from veritas_rl.serving.offer import Offer

ROOT = Path(__file__).resolve().parents[2]
PLAIN = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def python(client_python: Callable[..., Path]) -> Path:
    return client_python("verifiers", install=ROOT / "integrations/verifiers")


def first_listed(body: dict[str, Any], handler: Any) -> str:
    """The first legal answer in the last prompt."""
    content = body["messages"][-1]["content"]
    text = content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
    numbers = re.findall(r"^(\d+): ", text, re.MULTILINE)
    return f"\\boxed{{{numbers[0]}}}" if numbers else "no idea"


def evaluate(python: Path, folder: Path, model_url: str, *arguments: str) -> list[dict[str, Any]]:
    """The traces of an evaluation by verifiers' own command."""
    command = [str(python.with_name("vf-eval")), *arguments, "-m", "m", "--no-push", "--no-rich"]
    command += ["--client.base-url", model_url, "--client.api-key-var", "STUB_KEY"]
    command += ["--output-dir", str(folder), "--run.dir", "run"]
    environment = {**PLAIN, "STUB_KEY": "k", "PATH": f"{python.parent}{os.pathsep}{PLAIN['PATH']}"}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=environment, timeout=300, cwd=folder
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    lines = (folder / "run/traces.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_single_moves_are_rolled_out_and_paid(
    serve: Callable[..., Any], model: Callable[..., Any], python: Path, tmp_path: Path
) -> None:
    url = serve([Offer("openspiel", ["tic_tac_toe"])]).url
    rows = evaluate(
        python,
        tmp_path,
        model(first_listed).url,
        "veritas-moves",
        "--env.taskset.url",
        url,
        "--env.taskset.case",
        "tic_tac_toe",
        "--env.taskset.num-tasks",
        "6",
    )
    assert len(rows) == 6, rows
    rewards = [trace["rewards"]["reward"]["score"] for row in rows for trace in row["traces"]]
    assert all(0 <= reward <= 1 for reward in rewards)
    assert len(set(rewards)) > 1


def test_both_seats_of_whole_games_are_rolled_out(
    serve: Callable[..., Any], model: Callable[..., Any], python: Path, tmp_path: Path
) -> None:
    url = serve([Offer("openspiel", ["tic_tac_toe", "kuhn_poker"])]).url
    rows = evaluate(
        python,
        tmp_path,
        model(first_listed).url,
        "veritas-games",
        "--env.taskset.url",
        url,
        "--env.taskset.case",
        "tic_tac_toe",
        "--env.taskset.num-tasks",
        "1",
    )
    assert len(rows) == 1, rows
    for row in rows:
        paid = {trace["agent"]["name"]: trace["rewards"]["result"]["score"] for trace in row["traces"]}
        assert paid == {"player0": 1.0, "player1": 0.0}, "who always takes the first free cell wins as the first player"
