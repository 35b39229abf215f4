"""SFT from demonstrations to a model that plays, with the real torchrun and verl's SFT trainer, for a few steps."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from published_templates import PUBLISHED, tokenizer_of
from transformers import AutoModelForCausalLM

from veritas_rl.chat_template import prompt_ids
from veritas_rl.datasets.rows import write_parquet
from veritas_rl.envs.registry import open_catalogue
from veritas_rl.judging.held_out import judge
from veritas_rl.launch.tiny_model import build_tiny_model
from veritas_rl.players.generation import GenerationEngine
from veritas_rl.players.language_model import LanguageModelPlayer, load_language_model
from veritas_rl.players.sampling import SamplingParams

ROOT = Path(__file__).resolve().parents[1]
TRAINER = ["bash", "train/scripts/openspiel-SFT-trainer.sh"]

pytestmark = pytest.mark.training


def run(*command: str, **variables: str) -> str:
    """Run a command; return its output."""
    environment = {**os.environ, **variables}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def parquet(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The overrides with the files of demonstrations."""
    folder = tmp_path_factory.mktemp("parquet")
    few = ["--games", "tic_tac_toe", "--expert", "exact", "--prompt", "brief", "--num_demonstrations", "1500"]
    run(sys.executable, "train/tools/generate_demonstrations.py", *few, "--output", str(folder))
    return [f"data.train_files={folder}/train.parquet", f"data.val_files={folder}/val.parquet"]


def logs(checkpoints: Path) -> Path:
    """The log folder of the run whose checkpoints are in a folder."""
    return Path(json.loads((checkpoints / "run.json").read_text())["folder"])


def losses(checkpoints: Path, name: str = "train/loss") -> dict[int, float]:
    """The values of a loss, by step."""
    records = [json.loads(line) for line in (logs(checkpoints) / "metrics.jsonl").read_text().splitlines()]
    return {record["step"]: record["data"][name] for record in records if name in record["data"]}


def rates(folder: Path) -> tuple[float, float]:
    """The shares of legal and of optimal moves on held-out positions."""
    config = {"cases": ["tic_tac_toe"], "num_tasks_per_case": 250, "prompt": "brief", "reward_mode": "optimal"}
    tasks = open_catalogue({"env": "openspiel", "adapter_config": config}, "val")
    model, tokenizer = load_language_model(folder)
    engine = GenerationEngine(
        model, (tokenizer.eos_token_id,), tokenizer.pad_token_id, max_batch_size=250, max_model_len=256, seed=0
    )
    try:
        judgement = judge(LanguageModelPlayer(engine, tokenizer, SamplingParams(16)), tasks)
    finally:
        engine.close()
    return judgement.legal_rate.mean, judgement.optimal_rate.mean


def test_a_model_learns_from_demonstrations_and_goes_into_rl(
    tmp_path: Path, parquet: list[str], small_parameters: int
) -> None:
    printed = run(
        *TRAINER,
        *parquet,
        f"trainer.default_local_dir={tmp_path}",
        "trainer.total_training_steps=140",
        "trainer.save_freq=-1",
        "trainer.test_freq=70",
        "veritas_rl.evaluation.positions=60",
    )
    train, val = losses(tmp_path), losses(tmp_path, "val/loss")
    assert len(train) == 140
    assert sum(train[step] for step in range(131, 141)) < 0.3 * sum(train[step] for step in range(1, 11))
    assert val[140] < val[70]
    for row in ("uniform random legal player", "before", "after SFT"):
        assert row in printed

    folder = logs(tmp_path) / "trained-model-global_step_140"
    assert AutoModelForCausalLM.from_pretrained(folder).num_parameters() == small_parameters
    legal, optimal = rates(folder)
    legal_before, optimal_before = rates(logs(tmp_path) / "model")
    assert legal > legal_before + 0.5
    assert optimal > optimal_before + 0.3

    # The last line is the command that continues with RL.
    variable, *command = printed.splitlines()[-1].split()
    assert variable == f"AGENT_MODEL_REPO_ID={folder}"
    planned = run(*command, DRY_RUN="1", AGENT_MODEL_REPO_ID=str(folder))
    assert f"path: {folder}" in planned


@pytest.mark.long
def test_a_killed_run_on_two_ranks_goes_on_as_if_it_had_not_been(
    tmp_path: Path, parquet: list[str], small_parameters: int
) -> None:
    model = build_tiny_model(tmp_path / "model", seed=3)
    few = [
        *(parquet[0], "data.val_files=null", "data.train_batch_size=32", "veritas_rl.evaluation=null"),
        *("trainer.n_gpus_per_node=2", "trainer.total_training_steps=6", "trainer.save_freq=3"),
    ]
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    run(*TRAINER, *few, f"trainer.default_local_dir={whole}", AGENT_MODEL_REPO_ID=str(model))

    command = [*TRAINER, *few, f"trainer.default_local_dir={cut}"]
    environment: dict[str, Any] = {**os.environ, "AGENT_MODEL_REPO_ID": str(model)}
    with (tmp_path / "printed").open("w") as printed:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=printed, stderr=printed)
        while not (cut / "latest_checkpointed_iteration.txt").exists():
            assert process.poll() is None, (tmp_path / "printed").read_text()
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        process.wait()
    ranks = [each for each in psutil.process_iter(["cmdline"]) if str(cut) in " ".join(each.info["cmdline"] or [])]
    assert not psutil.wait_procs(ranks, 10)[1]

    again = run(*command, AGENT_MODEL_REPO_ID=str(model))
    assert "resuming from step 3 of 6" in again or "resuming from step 6 of 6" in again
    assert losses(cut) == pytest.approx(losses(whole), abs=1e-6)
    assert len(list((whole / "global_step_6").glob("model_world_size_2_rank_*.pt"))) == 2
    trained = logs(cut) / "trained-model-global_step_6"
    assert AutoModelForCausalLM.from_pretrained(trained).num_parameters() == small_parameters


@pytest.mark.parametrize(
    "name",
    ["qwen3", *(pytest.param(name, marks=pytest.mark.long) for name in ("gemma2", "phi3_5", "deepseek_r1", "gpt_oss"))],
)
def test_the_loss_is_that_of_the_replies_in_the_prompts_of_their_turns(tmp_path: Path, name: str) -> None:
    tokenizer, published = tokenizer_of(name), PUBLISHED[name]
    # The words make the vocabulary as large as the format's, whose tokenizer replaces the small model's.
    model = build_tiny_model(tmp_path / "model", seed=0, words=[f"w{index}" for index in range(40)])
    (model / "chat_template.jinja").unlink()
    tokenizer.save_pretrained(model)
    chat = [
        {"role": role, "content": text}
        for role, text in zip(("user", "assistant") * 2, ("q", "b2", "r", "c3"), strict=True)
    ]
    write_parquet(tmp_path / "rows.parquet", [{"messages": chat[:2]}, {"messages": chat}] * 2)
    sequences = 4 if published.appends else 6
    run(
        *TRAINER,
        *(f"data.train_files={tmp_path}/rows.parquet", "data.val_files=null", f"data.train_batch_size={sequences}"),
        *("trainer.total_training_steps=1", "veritas_rl.evaluation=null", f"trainer.default_local_dir={tmp_path}/out"),
        AGENT_MODEL_REPO_ID=str(model),
    )
    weights = AutoModelForCausalLM.from_pretrained(model)
    found = []
    # The first question is asked in both chats.
    for place in (1, 1, 3):
        prompt = prompt_ids(tokenizer, chat[:place])
        said = published.opening[False] + chat[place]["content"] + published.end_of_turn
        ids = torch.tensor([[*prompt, *tokenizer.encode(said, add_special_tokens=False)]])
        with torch.no_grad():
            scores = weights(ids).logits[0, :-1].log_softmax(-1).gather(1, ids[0, 1:, None])
        found.append(scores[len(prompt) - 1 :, 0])
    assert losses(tmp_path / "out")[1] == pytest.approx(-torch.cat(found).mean().item(), abs=1e-5)


def test_a_failure_in_verl_is_named_with_its_log(tmp_path: Path, parquet: list[str]) -> None:
    wrong = [
        "optim.lr_scheduler_type=triangular",
        "veritas_rl.evaluation=null",
        f"trainer.default_local_dir={tmp_path}",
    ]
    done = subprocess.run([*TRAINER, *parquet, *wrong], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert line.startswith("error: verl ended with hydra.errors.InstantiationException: ")
    assert "FSDPOptimizerConfig" in line
    assert f"its log is {logs(tmp_path) / 'verl.log'}" in line
