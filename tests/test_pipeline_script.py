"""The whole pipeline from demonstrations to a merged model: its script, and a run of its recipe's short form."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from transformers import AutoModelForCausalLM

from veritas_rl.records.result import read_result

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = ["bash", "train/scripts/journey.sh"]


def run(command: list[str], **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=ROOT, env={**os.environ, **variables}, capture_output=True, text=True, check=False
    )


def test_the_script_plans_the_recipe_with_the_settings_that_are_typed() -> None:
    typed = ["veritas_rl.recipe.values.games=6", "veritas_rl.recipe.values.epochs=2", "trainer.experiment_name=mine"]
    done = run([*SCRIPT, *typed], DRY_RUN="1", GAME_TYPES="hex(board_size=2)")
    assert done.returncode == 0, done.stderr
    assert "veritas_rl.recipe.values.games is 400 in the recipe and 6 here" in done.stderr
    stages = [line for line in done.stderr.splitlines() if line.startswith("note: ")]
    assert re.search(r"SFT-trainer\.sh .*cases=.*hex\(board_size=2\).* trainer\.total_epochs=2$", stages[1])
    assert [re.split(r"note: | follows", stage)[1] for stage in stages[2:]] == [
        "trained",
        "merge",
        "merged",
        "logits of merged",
    ]
    assert all("--games 'hex(board_size=2)' --opponent random,mcts:50 --num_episodes 6 " in stages[n] for n in (2, 4))
    assert f"--compare {ROOT}/train/outputs/recipes/mine/merged-model/lora_adapter " in stages[4]


def test_a_variable_of_the_earlier_script_is_refused() -> None:
    done = run(SCRIPT, DRY_RUN="1", JOURNEY_EPISODES="12")
    assert done.returncode == 2
    assert done.stderr == (
        "error: JOURNEY_EPISODES has no effect: docs/tutorial.md lists the settings that replace it\n"
    )


def test_the_tutorial_lists_the_settings_of_the_stages() -> None:
    page = (ROOT / "docs/tutorial.md").read_text(encoding="utf-8")
    names = re.findall(r"`veritas_rl\.recipe\.values\.(\w+)`", page)
    assert names
    done = run([*SCRIPT, *(f"veritas_rl.recipe.values.{name}=7" for name in names)], DRY_RUN="1")
    assert done.returncode == 0, done.stderr
    for name in names:
        assert re.search(rf"veritas_rl\.recipe\.values\.{name} is \S+ in the recipe and 7 here", done.stderr)


@pytest.mark.long
@pytest.mark.training
def test_from_demonstrations_to_a_merged_model_that_plays(
    client_python: Callable[..., Path], small_parameters: int
) -> None:
    done = run([sys.executable, "train/tools/recipes.py", "check", "pipeline", "--short", "--seed", "5"])
    assert "result: " in done.stdout, done.stdout + done.stderr
    folder = Path(done.stdout.rpartition("result: ")[2].strip()).parent
    result = read_result(folder)
    assert result.minutes.keys() == {"SFT", "RL", "trained", "merge", "merged", "logits of merged"}
    for opponent in ("random", "mcts:2"):
        assert f"trained/tic_tac_toe/{opponent}/gain: " in done.stdout
        assert result.figures[f"merged/tic_tac_toe/{opponent}/differing"]["mean"] == 0
    assert "merged against base + adapter: the same: logits differ by" in done.stdout
    assert result.figures["merged/same tokens"]["mean"] == 1
    assert 0 < result.figures["merged/logits"]["mean"] <= 1
    # RL started from the SFT model and changed its weights.
    merged = folder / "merged-model"
    proof = json.loads((merged / "merge.json").read_text())
    assert Path(proof["base"]).name.startswith("trained-model-")
    assert proof["weights"]["differing"]
    assert AutoModelForCausalLM.from_pretrained(merged).num_parameters() == small_parameters

    # The merged model is served, and affinetes' own client evaluates it on a served environment.
    python = client_python("affinetes")
    command = [sys.executable, "train/tools/serve.py", "--model", str(merged), "--engine", "own"]
    command += ["--env", "openspiel", "--games", "tic_tac_toe", "--config", "prompt=brief", "--opponents", "random"]
    serving = subprocess.Popen([*command, "--port", "0"], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert serving.stdout is not None
        address = serving.stdout.readline().split()[-1]
        program = f"""
import asyncio, json, affinetes
env = affinetes.load_env(mode="url", base_url="{address.removesuffix("/v1")}")
asked = {{"model": "merged-model", "base_url": "{address}", "max_tokens": 16, "temperature": 0.0}}
asked["case"] = "tic_tac_toe"
async def main():
    return await asyncio.gather(*(env.evaluate(seed=seed, **asked) for seed in range(10)))
print("RESULT " + json.dumps(asyncio.get_event_loop().run_until_complete(main())))
"""
        plain = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        asked = subprocess.run([str(python), "-c", program], capture_output=True, text=True, check=False, env=plain)
        assert "RESULT " in asked.stdout, asked.stderr
        results = json.loads(asked.stdout.partition("RESULT ")[2])
    finally:
        serving.kill()
        serving.wait()
    assert not any("error" in result for result in results)
    assert {result["task_name"] for result in results} == {"openspiel:tic_tac_toe"}
    assert all(result["extra"]["usage"]["completion_tokens"] for result in results)
