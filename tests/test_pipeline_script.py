"""The whole pipeline from demonstrations to a merged model: a short run of the script that users type."""

import itertools
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from transformers import AutoModelForCausalLM

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs/tutorial.md").read_text(encoding="utf-8")
COMMANDS = [line for block in re.findall(r"```bash\n(.+?)```", PAGE, re.DOTALL) for line in block.splitlines() if line]
SCRIPT = "bash train/scripts/journey.sh"

SMALL = {
    "JOURNEY_DEMONSTRATIONS": "700",
    "JOURNEY_SFT_EPOCHS": "12",
    "JOURNEY_RL_STEPS": "1",
    "JOURNEY_OPPONENTS": "random,mcts:2",
    "JOURNEY_EPISODES": "12",
    "JOURNEY_GAMES_TO_SHOW": "8",
}
# One step that trains the actor. It needs a reward, so fine-tuning makes whole games without a mistake likely.
FEW = ["data.train_batch_size=32", "veritas_rl.critic_warmup=0", "actor_rollout_ref.actor.optim.lr=0.01"]

STAGES = {
    "demonstrations": "demonstrations/demonstrations.json",
    "SFT": "sft/run.json",
    "RL": "rl/run.json",
    "evaluation": "evaluation/report.html",
    "merge": "merged/merge.json",
    "evaluation of the merged model": "merged-evaluation/report.html",
    "logits of the merged model": "agreement.json",
}


def pipeline(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*SCRIPT.split(), *arguments],
        cwd=ROOT,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def commands(printed: str) -> list[str]:
    """The commands of the stages, each on the line after its heading."""
    headings = {f"==== {stage} ====" for stage in STAGES}
    return [below for line, below in itertools.pairwise(printed.splitlines()) if line in headings]


def planned() -> list[str]:
    """The commands of the stages as a dry run prints them."""
    dry = pipeline(DRY_RUN="1")
    assert dry.returncode == 0, dry.stderr
    return commands(dry.stdout)


def shape(command: str, folder: str) -> list[str]:
    """The words of a command without numbers and the settings of the short run."""
    words = [word for word in shlex.split(command.replace(folder, "FOLDER")) if word not in FEW]
    return [re.sub(r"\d+", "N", word) for word in words if not word.startswith("actor_rollout_ref.actor.optim.lr")]


def written(folder: Path) -> dict[str, int]:
    """The modification time of each file."""
    return {str(path): path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def test_the_tutorial_shows_the_commands_of_the_stages() -> None:
    assert len(COMMANDS) == 1 + len(STAGES)
    assert [SCRIPT, *planned()] == COMMANDS


def test_a_checkout_that_was_moved_finds_its_fine_tuned_model(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(dir=ROOT / "train/outputs") as logs:
        model = Path(logs, "trained-model-global_step_2")
        model.mkdir()
        for result in STAGES.values():
            (tmp_path / result).parent.mkdir(exist_ok=True)
            (tmp_path / result).touch()
        recorded = f"/elsewhere/{Path(logs).relative_to(ROOT)}"
        record = {"command": [], "folder": recorded, "wandb_run_id": "", "finished": True}
        for stage in ("SFT", "RL"):
            (tmp_path / STAGES[stage]).write_text(json.dumps(record))
        done = pipeline(JOURNEY_FOLDER=str(tmp_path))
        assert done.stdout.count(": already complete: ") == len(STAGES), done.stderr
        assert (tmp_path / "sft-model").resolve() == model


@pytest.mark.long
@pytest.mark.training
def test_from_demonstrations_to_a_merged_model_that_plays(
    tmp_path: Path, client_python: Callable[..., Path], small_parameters: int
) -> None:
    folder = tmp_path / "run"
    done = pipeline(*FEW, JOURNEY_FOLDER=str(folder), **SMALL)
    assert done.returncode == 0, done.stdout + done.stderr
    for stage, result in STAGES.items():
        assert re.search(rf"^{stage}: \d+ min \d+ s$", done.stdout, re.MULTILINE), done.stdout
        assert (folder / result).stat().st_size > 0
    assert len(json.loads((folder / "evaluation/report.json").read_text())["comparisons"]) == 2
    verdicts = done.stdout.partition("==== verdicts")[2]
    for opponent in ("random", "mcts:2"):
        assert f"RL against SFT: tic_tac_toe against {opponent}: " in verdicts
        assert f"merged against base + adapter: tic_tac_toe against {opponent}: 0 of 12 games differ" in verdicts
    assert "merged against base + adapter: the same: logits differ by" in verdicts
    assert json.loads((folder / "agreement.json").read_text())["holds"]
    # RL started from the SFT model and changed its weights.
    proof = json.loads((folder / "merged/merge.json").read_text())
    assert proof["base"] == str((folder / "sft-model").resolve())
    assert proof["weights"]["differing"]
    assert AutoModelForCausalLM.from_pretrained(folder / "merged").num_parameters() == small_parameters

    # The commands of the page are those of this short run, except for its settings.
    mine, theirs = str(folder), "train/outputs/journey"
    assert [shape(command, mine) for command in commands(done.stdout)] == [
        shape(command, theirs) for command in planned()
    ]

    # The same command makes only missing files when it is repeated.
    (folder / "agreement.json").unlink()
    before = written(folder)
    again = pipeline(*FEW, JOURNEY_FOLDER=str(folder), **SMALL)
    assert again.returncode == 0, again.stdout + again.stderr
    assert again.stdout.count(": already complete: ") == len(STAGES) - 1
    assert again.stdout.partition("==== verdicts")[2].splitlines()[1:] == verdicts.splitlines()[1:]
    after = written(folder)
    assert {path for path in after if after[path] != before.get(path)} == {str(folder / "agreement.json")}

    other = pipeline(*FEW, JOURNEY_FOLDER=str(folder), **{**SMALL, "JOURNEY_RL_STEPS": "2"})
    assert other.returncode == 2
    assert other.stderr == (
        f"error: {folder} was started with different settings (steps=2): set JOURNEY_FOLDER to another folder\n"
    )
    assert written(folder) == after

    # The merged model is served, and affinetes' own client evaluates it on a served environment.
    python = client_python("affinetes==0.2.0")
    command = [sys.executable, "train/tools/serve.py", "--model", str(folder / "merged"), "--engine", "own"]
    command += ["--env", "openspiel", "--games", "tic_tac_toe", "--config", "prompt=brief", "--opponents", "random"]
    serving = subprocess.Popen([*command, "--port", "0"], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert serving.stdout is not None
        address = serving.stdout.readline().split()[-1]
        program = f"""
import asyncio, json, affinetes
env = affinetes.load_env(mode="url", base_url="{address.removesuffix("/v1")}")
asked = {{"model": "merged", "base_url": "{address}", "max_tokens": 16, "temperature": 0.0, "case": "tic_tac_toe"}}
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
