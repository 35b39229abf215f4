"""SFT from demonstrations to a model that plays, with the real torchrun and verl's SFT trainer, for a few steps."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from peft import PeftModel
from published_templates import PUBLISHED, tokenizer_of
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from veritas_rl.chat_template import prompt_ids
from veritas_rl.datasets.rows import write_parquet
from veritas_rl.envs.registry import open_catalogue
from veritas_rl.errors import UserError
from veritas_rl.judging.held_out import judge
from veritas_rl.launch import rl, sft
from veritas_rl.launch.configuration import tasks_of
from veritas_rl.launch.hardware import Hardware
from veritas_rl.launch.tiny_model import build_tiny_model
from veritas_rl.players.generation import GenerationEngine
from veritas_rl.players.language_model import LanguageModelPlayer, load_language_model
from veritas_rl.players.sampling import SamplingParams

ROOT = Path(__file__).resolve().parents[1]
TRAINER = ["bash", "train/scripts/openspiel-SFT-trainer.sh"]
CPU = Hardware(cores=2, gpus=0, gpu_bytes=0)

pytestmark = pytest.mark.training


def run(*command: str, **variables: str) -> str:
    """Run a command; return its output."""
    environment = {**os.environ, **variables}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def next_commands(printed: str) -> list[str]:
    """The commands that a run recommends at its end."""
    return [line.strip() for line in printed.partition("\nNext:\n")[2].splitlines()[1::2]]


def variables_of(command: str) -> dict[str, str]:
    """The environment variables at the beginning of a command."""
    words = shlex.split(command)
    return dict(word.split("=", 1) for word in words[: words.index("bash")])


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
        "trainer.total_training_steps=100",
        "trainer.save_freq=-1",
        "trainer.test_freq=50",
        "veritas_rl.evaluation.positions=60",
    )
    train, val = losses(tmp_path), losses(tmp_path, "val/loss")
    assert len(train) == 100
    assert sum(train[step] for step in range(91, 101)) < 0.3 * sum(train[step] for step in range(1, 11))
    assert val[100] < val[50]
    for row in ("uniform random legal player", "before", "after SFT"):
        assert row in printed

    folder = logs(tmp_path) / "trained-model-global_step_100"
    assert AutoModelForCausalLM.from_pretrained(folder).num_parameters() == small_parameters
    legal, optimal = rates(folder)
    legal_before, optimal_before = rates(logs(tmp_path) / "model")
    assert legal > legal_before + 0.5
    assert optimal > optimal_before + 0.3

    # The last line is the command that continues with RL.
    (command,) = next_commands(printed)
    assert f"path: {folder}" in run("bash", "-c", command, DRY_RUN="1")


def test_adapters_are_trained_and_merged_and_go_into_rl(
    tmp_path: Path, parquet: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = build_tiny_model(tmp_path / "model", seed=3)
    untouched = (model / "model.safetensors").read_bytes()
    command = [
        *(*TRAINER, parquet[0], "data.val_files=null", "veritas_rl.evaluation=null", "trainer.save_freq=-1"),
        *("trainer.total_training_steps=12", f"trainer.default_local_dir={tmp_path}/run"),
    ]
    variables = {"AGENT_MODEL_REPO_ID": str(model), "ENABLE_LORA": "1"}
    printed = run(*command, **variables)
    train = losses(tmp_path / "run")
    assert train[12] < 0.8 * train[1]
    assert (model / "model.safetensors").read_bytes() == untouched

    checkpoint, merged = tmp_path / "run/global_step_12", logs(tmp_path / "run") / "trained-model-global_step_12"
    saved = torch.load(checkpoint / "model_world_size_1_rank_0.pt", weights_only=False)
    assert all("lora_" in name for name in saved)
    adapter = merged / "lora_adapter"
    assert f"adapter  {adapter}" in printed
    base = AutoModelForCausalLM.from_pretrained(model)
    ids = torch.arange(40)[None]
    with torch.no_grad():
        plain = base(ids).logits
        adapted = PeftModel.from_pretrained(base, adapter)(ids).logits
        alone = AutoModelForCausalLM.from_pretrained(merged)(ids).logits
    torch.testing.assert_close(adapted, alone, rtol=0, atol=1e-4)
    assert (adapted - plain).abs().max() > 0.1

    # Both commands at the end start a run that can be planned.
    for following, path, begun in zip(next_commands(printed), (model, merged), (str(adapter), None), strict=True):
        words, named = shlex.split(following), variables_of(following)
        for name, value in named.items():
            monkeypatch.setenv(name, value)
        made = rl.plan(words[words.index("bash") + 2 :], named, CPU, datetime.now())
        node = made.configuration.actor_rollout_ref.model
        assert (made.model, node.lora_adapter_path, node.lora_rank) == (str(path), begun, 32)
        assert {task.case for task in tasks_of(made.configuration, "train")[:9]} == {"tic_tac_toe"}

    # Weights whose meaning would change are not loaded.
    words = [*command[2:], "trainer.resume_mode=auto", "model.lora_alpha=64"]
    said = f"{checkpoint} was trained with model.lora_alpha=32, and this run has 64: "
    with pytest.raises(UserError, match=re.escape(said)):
        sft.plan(words, variables, CPU, datetime.now())


@pytest.mark.long
def test_an_adapter_of_fine_tuning_learns_from_rewards_and_is_merged(tmp_path: Path, parquet: list[str]) -> None:
    common = (parquet[0], "data.val_files=null", "veritas_rl.evaluation=null")
    # A model that makes legal moves, so that rewards differ.
    base = [f"trainer.default_local_dir={tmp_path}/base", "trainer.total_training_steps=120", "trainer.save_freq=-1"]
    run(*TRAINER, *common, *base)
    model = logs(tmp_path / "base") / "trained-model-global_step_120"
    printed = run(
        *(*TRAINER, *common, "optim.lr=0.001"),
        *("trainer.total_training_steps=40", "trainer.save_freq=20", f"trainer.default_local_dir={tmp_path}/sft"),
        *("model.lora_rank=8", "model.lora_alpha=16", "model.target_modules=[q_proj,v_proj,up_proj]"),
        AGENT_MODEL_REPO_ID=str(model),
        ENABLE_LORA="1",
    )
    # An earlier checkpoint becomes a model without more words.
    step = {"CHECKPOINT_BASE": f"{tmp_path}/sft", "GLOBAL_STEP": "20", "TARGET_DIR": f"{tmp_path}/step-20"}
    run("bash", "train/scripts/merge-ppo.sh", **step)
    assert json.loads((tmp_path / "step-20/lora_adapter/adapter_config.json").read_text())["r"] == 8

    more = "trainer.total_training_steps=3 trainer.save_freq=3 veritas_rl.evaluation=null data.train_batch_size=16"
    few = f"{more} algorithm=grpo trainer.default_local_dir={tmp_path}/rl"
    from_adapter, _ = next_commands(printed)
    printed = run("bash", "-c", f"{from_adapter} {few}")
    log = (logs(tmp_path / "rl") / "verl.log").read_text()
    assert "step 0: the rollout holds the trainer's adapter: " in log
    merge, judge, play, _ = next_commands(printed)
    run("bash", "-c", merge)
    made = logs(tmp_path / "rl") / "trained-model-global_step_3"
    settings = json.loads((made / "lora_adapter/adapter_config.json").read_text())
    assert (settings["r"], settings["lora_alpha"]) == (8, 16)
    assert sorted(settings["target_modules"]) == ["q_proj", "up_proj", "v_proj"]
    begun = load_file(Path(variables_of(from_adapter)["LORA_ADAPTER_PATH"]) / "adapter_model.safetensors")
    trained = load_file(made / "lora_adapter/adapter_model.safetensors")
    assert trained.keys() == begun.keys()
    assert any(not torch.equal(tensor, begun[name]) for name, tensor in trained.items())
    path = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    assert "against random" in run("bash", "-c", f"{judge} --num_episodes 4 --output {tmp_path}/judged", **path)
    assert "usage:" in run("bash", "-c", f"{play} --help", **path)


@pytest.mark.long
@pytest.mark.parametrize("lora", ["0", "1"])
def test_a_killed_run_on_two_ranks_goes_on_as_if_it_had_not_been(
    tmp_path: Path, parquet: list[str], small_parameters: int, lora: str
) -> None:
    variables = {"AGENT_MODEL_REPO_ID": str(build_tiny_model(tmp_path / "model", seed=3)), "ENABLE_LORA": lora}
    few = [
        *(parquet[0], "data.val_files=null", "data.train_batch_size=32", "veritas_rl.evaluation=null"),
        *("trainer.n_gpus_per_node=2", "trainer.total_training_steps=6", "trainer.save_freq=3"),
    ]
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    run(*TRAINER, *few, f"trainer.default_local_dir={whole}", **variables)

    command = [*TRAINER, *few, f"trainer.default_local_dir={cut}"]
    environment: dict[str, Any] = {**os.environ, **variables}
    with (tmp_path / "printed").open("w") as printed:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=printed, stderr=printed)
        while not (cut / "latest_checkpointed_iteration.txt").exists():
            assert process.poll() is None, (tmp_path / "printed").read_text()
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        process.wait()
    ranks = [each for each in psutil.process_iter(["cmdline"]) if str(cut) in " ".join(each.info["cmdline"] or [])]
    assert not psutil.wait_procs(ranks, 10)[1]

    again = run(*command, **variables)
    assert "resuming from step 3 of 6" in again or "resuming from step 6 of 6" in again
    assert losses(cut) == pytest.approx(losses(whole), abs=1e-6)
    assert len(list((whole / "global_step_6").glob("model_world_size_2_rank_*.pt"))) == 2
    trained = [AutoModelForCausalLM.from_pretrained(logs(run) / "trained-model-global_step_6") for run in (cut, whole)]
    assert trained[0].num_parameters() == small_parameters
    for one, other in zip(trained[0].parameters(), trained[1].parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-6)


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
