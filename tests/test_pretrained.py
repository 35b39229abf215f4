"""Pretrained models on a CPU, from end to end with the real verl, Ray and FSDP."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import psutil
import pytest
import torch

from veritas_rl.checkpoints.layout import ADAPTER, MERGE_REPORT
from veritas_rl.launch.tiny_model import build_tiny_model
from veritas_rl.records.result import read_result
from veritas_rl.viewing.games_page import read_games

ROOT = Path(__file__).resolve().parents[1]

pytestmark = pytest.mark.training

TRAINER = ["bash", "train/scripts/openspiel-ppo-trainer.sh"]
LENGTHS = """
def compute_score(data_source, solution_str, ground_truth, extra_info, **_):
    return len(solution_str) / 100
"""


def run(command: list[Any], **variables: str) -> str:
    done = subprocess.run(
        [*map(str, command)], cwd=ROOT, env={**os.environ, **variables}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def steps_of(folder: Path) -> list[dict[str, float]]:
    logs = Path(json.loads((folder / "run.json").read_text())["folder"])
    return [json.loads(line)["data"] for line in (logs / "metrics.jsonl").read_text().splitlines()]


def tensors(value: Any) -> list[torch.Tensor]:
    """The tensors in a saved state, of a sharded one this rank's parts."""
    if isinstance(value, torch.Tensor):
        return [value.to_local() if hasattr(value, "to_local") else value]  # pyright: ignore
    values = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return [tensor for item in values for tensor in tensors(item)]


@pytest.mark.long
def test_adapters_of_a_bf16_base_are_trained_in_fp32_on_two_ranks(tmp_path: Path) -> None:
    """Every reply is a sample of its own, although both steps ask the same tasks of almost the same model."""
    model = build_tiny_model(tmp_path / "model", seed=0)
    (tmp_path / "lengths.py").write_text(LENGTHS)
    output = run(
        [
            *(*TRAINER, "start=pretrained", f"trainer.default_local_dir={tmp_path / 'run'}"),
            *("trainer.n_gpus_per_node=2", "trainer.total_training_steps=2", "trainer.save_freq=2"),
            *("veritas_rl.precision=bfloat16", "veritas_rl.evaluation=null"),
            *("data.train_batch_size=4", "data.train_max_samples=4", "actor_rollout_ref.rollout.agent.num_workers=2"),
            f"+trainer.rollout_data_dir={tmp_path / 'rollouts'}",
            f"reward.custom_reward_function.path={tmp_path / 'lengths.py'}",
        ],
        AGENT_MODEL_REPO_ID=str(model),
    )
    assert f"start=pretrained: {model}, LoRA of rank 32, GRPO, bfloat16" in output
    steps = steps_of(tmp_path / "run")
    assert all(0 < step["training/rollout_probs_diff_max"] < 0.1 for step in steps)
    lines = [(tmp_path / f"rollouts/{step}.jsonl").read_text().splitlines() for step in (1, 2)]
    first, second = ([json.loads(line) for line in of_step] for of_step in lines)
    assert len({reply["gts"] for reply in first}) == 4
    assert {reply["gts"] for reply in first} == {reply["gts"] for reply in second}
    assert len(first) == len(second) == 4 * 8
    # The beginnings, because the update of step 1 would also change what the same random numbers give later.
    assert len({reply["output"][:12] for reply in (*first, *second)}) == 64
    for kind in ("model", "optim"):
        for rank in range(2):
            file = tmp_path / f"run/global_step_2/actor/{kind}_world_size_2_rank_{rank}.pt"
            saved = tensors(torch.load(file, weights_only=False))
            # Adam counts its steps in fp32 too.
            assert saved
            assert {tensor.dtype for tensor in saved} == {torch.float32}
            assert any(tensor.abs().sum() > 0 for tensor in saved)


def test_a_published_model_is_trained_with_an_adapter_and_merged(tmp_path: Path) -> None:
    """The short form of the way that `recipe=smollm2_tic_tac_toe` goes. The untouched model gives no right answer, so
    that a reward of its own lets it learn."""
    (tmp_path / "lengths.py").write_text(LENGTHS)
    folder, merged = tmp_path / "run", tmp_path / "merged"
    output = run(
        [
            *(*TRAINER, f"trainer.default_local_dir={folder}", "trainer.total_training_steps=2", "trainer.save_freq=2"),
            *("veritas_rl.evaluation=null", "veritas_rl.say_limit=false", "data.train_batch_size=4"),
            *("data.custom_cls.config.adapter_config.prompt=brief", "data.max_prompt_length=64"),
            *("data.max_response_length=12", f"reward.custom_reward_function.path={tmp_path / 'lengths.py'}"),
        ],
        AGENT_MODEL_REPO_ID="smollm2-135m",
    )
    assert re.search(r"start=pretrained: \S*smollm2-135m, LoRA of rank 32, GRPO", output)
    assert all(step["actor/grad_norm"] > 0 for step in steps_of(folder))
    run(["bash", "train/scripts/merge-ppo.sh"], CHECKPOINT_BASE=str(folder), TARGET_DIR=str(merged))
    proof = json.loads((merged / MERGE_REPORT).read_text())
    assert proof["base"].endswith("smollm2-135m")
    assert (proof["weights"]["differing"], proof["weights"]["compared"]) == (210, 272)
    assert 0 < proof["logits"]["largest"] <= proof["logits"]["tolerance"]
    assert proof["logits"]["adapter"] > 0


@pytest.mark.long
def test_ppo_with_a_critic_trains_a_pretrained_model(tmp_path: Path) -> None:
    """The critic learns first that one game pays more."""
    (tmp_path / "games.py").write_text(f'{LENGTHS.rstrip()} + ("kuhn_poker" in ground_truth)\n')
    folder, merged = tmp_path / "run", tmp_path / "merged"
    run(
        [
            *(*TRAINER, f"trainer.default_local_dir={folder}", "trainer.total_training_steps=6", "trainer.save_freq=6"),
            *("veritas_rl.evaluation=null", "veritas_rl.say_limit=false"),
            *("data.custom_cls.config.adapter_config.prompt=brief", "data.max_prompt_length=64"),
            *("data.max_response_length=12", f"reward.custom_reward_function.path={tmp_path / 'games.py'}"),
        ],
        AGENT_MODEL_REPO_ID="smollm2-135m",
        ALGORITHM="ppo",
        GAME_TYPES="tic_tac_toe,kuhn_poker,hex(board_size=3)",
    )
    steps = steps_of(folder)
    assert len(steps) == 6
    explained = [step["critic/vf_explained_var"] for step in steps]
    print(explained)
    assert fmean(explained[-3:]) > 0
    assert explained[-1] > 0
    assert all(step["actor/grad_norm"] > 0 for step in steps)
    output = run(["bash", "train/scripts/merge-ppo.sh"], CHECKPOINT_BASE=str(folder), TARGET_DIR=str(merged))
    assert "tensors" in output
    assert (merged / "lora_adapter").is_dir()
    assert {path.name for path in (folder / "global_step_6/critic").glob("model_*")}


def killed_when(command: list[str], environment: dict[str, str], folder: Path, reached: Callable[[], bool]) -> None:
    """Start a run, kill its launcher when `reached` is true, and wait for the processes that name `folder`."""
    process = subprocess.Popen(command, cwd=ROOT, env=environment)
    while not reached():
        assert process.poll() is None
        time.sleep(0.2)
    process.send_signal(signal.SIGKILL)
    process.wait()
    # Ray's own agents end later, and use nothing of the run.
    named = [one for one in psutil.process_iter(["cmdline"]) if str(folder) in " ".join(one.info["cmdline"] or [])]
    assert not psutil.wait_procs(named, 60)[1]


@pytest.mark.long
def test_the_whole_way_of_a_published_model(tmp_path: Path) -> None:
    """Judged, fine-tuned, trained by RL that is killed and resumed, merged, served, asked over HTTP, and shown."""
    name = f"smollm2_way_{time.time_ns()}"  # a finished run of an earlier test would be found by its name
    values = (
        f"veritas_rl.recipe.values.{value}" for value in ("demonstrations=400", "continued_epochs=1", "judged=40")
    )
    command = [
        *(*TRAINER, "recipe=smollm2_tic_tac_toe", f"trainer.experiment_name={name}", *values),
        *("trainer.total_training_steps=3", "trainer.save_freq=1", "data.train_batch_size=8"),
    ]
    checkpoints, folder = ROOT / f"train/artifacts/RL/checkpoints/{name}", ROOT / f"train/outputs/recipes/{name}"
    environment = {key: value for key, value in os.environ.items() if key != "AGENT_MODEL_REPO_ID"}
    saved = checkpoints / "global_step_1/checkpoint.json"
    killed_when(command, environment, checkpoints, saved.exists)
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"resuming from step [12] of 3", done.stdout)
    result = read_result(folder)
    assert {"SFT", "RL", "merge", "continued SFT", "untouched", "sampled", "greedy", "instead"} <= result.minutes.keys()
    assert result.figures["untouched/tic_tac_toe/legal"]["mean"] < 0.1
    assert result.figures["sampled/tic_tac_toe/start/legal"]["mean"] > 0.3
    assert "merged-model less trained-model" in (folder / "sampled/report.html").read_text()

    merged = folder / "merged-model"
    words = ["--mode", "move", "--games", "tic_tac_toe", "--num_episodes", "20", "--prompt", "brief"]
    words += ["--max_tokens", "12", "--temperature", "0"]
    evaluate = [sys.executable, "train/tools/evaluate.py", *words, "--checkpoint", merged]
    printed = run([*evaluate, "--compare", merged / ADAPTER, "--output", tmp_path / "here"])
    assert "0 of 20 tasks differ" in printed
    served = [sys.executable, "train/tools/serve.py", "--model", merged, "--engine", "own", "--port", "0"]
    with subprocess.Popen([*map(str, served)], cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().split()[-1]
            evaluate[-1] = url
            run([*evaluate, "--output", tmp_path / "there"])
            here, there = (
                json.loads((tmp_path / side / "report.json").read_text())["rows"] for side in ("here", "there")
            )
            assert {**here[0], "player": ""} == {**there[0], "player": ""}
            play = [sys.executable, "train/tools/play.py", "--game", "tic_tac_toe", "--opponent", url, "--terminal"]
            play += ["--prompt", "brief", "--max_tokens", "12", "--output", str(tmp_path / "play")]
            # A cell that is taken is asked for again.
            typed = "".join(f"{cell}\n" for cell in ("b2", "a1", "a2", "a3", "b1", "b3", "c1", "c2", "c3", "quit"))
            done = subprocess.run(play, cwd=ROOT, input=typed, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout + done.stderr
            assert "x: b2\n" in done.stdout
        finally:
            process.kill()
    (game,) = read_games(tmp_path / "play/games.jsonl")
    assert game.turns[1].player == url
