"""A 4-bit base under LoRA: its codes, the training on them, and a complete run."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from on_ranks import printed
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file
from torch import nn
from transformers import AutoModelForCausalLM

from veritas_rl.launch.tiny_model import build_tiny_model

# bitsandbytes is optional in the tests, because it slows every import of peft by a second.
pytest.importorskip("bitsandbytes", reason="bash train/scripts/setup.sh nf4 installs bitsandbytes")

from veritas_rl.verl_plugin.nf4 import BLOCK, FourBitLinear, quantize

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(__file__).with_name("update_actor.py")
MIXED = "{param_dtype: bf16, reduce_dtype: fp32, buffer_dtype: fp32}"
"""verl's mixed precision on a GPU: FSDP2 casts gathered parameters to bf16."""

LEVELS = torch.tensor(
    [
        *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453),
        *(-0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0),
        *(0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224),
        *(0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0),
    ]
)
"""The values of the codes, from QLoRA (arXiv:2305.14314), appendix E."""


def updated(ranks: int, *runs: list[str]) -> list[dict[str, list[float]]]:
    """The loss and gradient norm of two updates through the worker, for each list of overrides."""
    common = ["hardware=cpu", "start=made", "rollout=transformers", "lora=on", f"trainer.n_gpus_per_node={ranks}"]
    return printed(PROGRAM, ranks, json.dumps([[*common, *run] for run in runs]))


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A model, the same model with dequantized 4-bit weights, and an adapter that is not zero."""
    folder = tmp_path_factory.mktemp("models")
    made = {name: folder / name for name in ("model", "meant", "adapter")}
    model: Any = AutoModelForCausalLM.from_pretrained(build_tiny_model(made["model"], seed=0))
    adapted = get_peft_model(model, LoraConfig(r=4, target_modules="all-linear", init_lora_weights=False))
    adapted.save_pretrained(str(made["adapter"]))
    meant: Any = AutoModelForCausalLM.from_pretrained(build_tiny_model(made["meant"], seed=0))
    quantize(meant, torch.float32)
    layers = {name: module for name, module in meant.named_modules() if isinstance(module, FourBitLinear)}
    for name, layer in layers.items():
        plain = nn.Linear(layer.in_features, layer.out_features, bias=False)
        plain.weight.data = layer.weights()
        meant.set_submodule(name, plain)
    meant.save_pretrained(made["meant"])
    return made


def on(folders: dict[str, Path], model: str, *overrides: str) -> list[str]:
    """The overrides for a model with the adapter."""
    paths = (f"path={folders[model]}", f"lora_adapter_path={folders['adapter']}")
    return [*(f"actor_rollout_ref.model.{path}" for path in paths), *overrides]


@pytest.mark.parametrize("storage", [torch.float32, torch.bfloat16])
def test_a_weight_is_the_nearest_level_of_its_block(storage: torch.dtype) -> None:
    torch.manual_seed(0)
    plain = nn.Linear(3 * BLOCK, 32)
    layer = FourBitLinear(plain, storage)
    blocks = plain.weight.detach().view(-1, BLOCK)
    largest = blocks.abs().amax(dim=1, keepdim=True)
    nearest = LEVELS[(blocks / largest).unsqueeze(-1).sub(LEVELS).abs().argmin(dim=-1)] * largest
    torch.testing.assert_close(layer.weights().view(-1, BLOCK), nearest)
    assert layer.weight.nbytes + layer.scales.nbytes == plain.weight.numel() * 9 / 16
    assert not any(parameter.requires_grad for parameter in layer.parameters())

    inputs = torch.randn(8, plain.in_features, requires_grad=True)
    outputs = layer(inputs)
    torch.testing.assert_close(outputs, inputs @ layer.weights().T + plain.bias)
    (gradient,) = torch.autograd.grad(outputs.square().sum(), inputs)
    torch.testing.assert_close(gradient, 2 * outputs @ layer.weights())


def test_a_head_and_embeddings_stay_as_they_are(folders: dict[str, Path]) -> None:
    model, meant = (load_file(folders[name] / "model.safetensors") for name in ("model", "meant"))
    same = {name for name, weight in model.items() if torch.equal(weight, meant[name])}
    assert same == {name for name in model if not name.endswith("proj.weight")}


def test_codes_train_as_the_weights_that_they_mean(folders: dict[str, Path]) -> None:
    mixed = f"actor_rollout_ref.actor.fsdp_config.mixed_precision={MIXED}"
    four_bit = "veritas_rl.quantization=nf4"
    fp32, fp32_meant, bf16, bf16_meant, whole = updated(
        1,
        on(folders, "model", four_bit),
        on(folders, "meant"),
        on(folders, "model", four_bit, mixed),
        on(folders, "meant", mixed),
        on(folders, "model"),
    )
    for name, tolerance in (("loss", 1e-5), ("grad_norm", 1e-4)):
        assert fp32[name] == pytest.approx(fp32_meant[name], rel=tolerance, abs=1e-6)
        # In bf16 both round the same weights, but multiply in different orders.
        assert bf16[name] == pytest.approx(bf16_meant[name], rel=0.02, abs=1e-3)
    # Rounding to 4 bit changes the loss noticeably, so the codes were used.
    assert whole["loss"] != pytest.approx(fp32["loss"], rel=1e-3)


@pytest.mark.long
def test_two_ranks_train_on_codes_as_one_does(folders: dict[str, Path]) -> None:
    # The second rank makes its codes on the meta device and gets the values of the first rank.
    run = on(folders, "model", "veritas_rl.quantization=nf4")
    (one,), (two,) = updated(1, run), updated(2, run)
    assert two["loss"] == pytest.approx(one["loss"], rel=1e-4, abs=1e-6)
    assert two["grad_norm"] == pytest.approx(one["grad_norm"], rel=1e-4)


def trained_in_4_bit(checkpoints: Path, **variables: str) -> tuple[Path, list[dict[str, float]]]:
    """Train three steps with adapters of actor and critic; return the log folder and the metrics of each step."""
    command = [
        *(sys.executable, "-m", "veritas_rl.launch.main", "hardware=cpu", "lora=on", "veritas_rl.quantization=nf4"),
        *(f"trainer.default_local_dir={checkpoints}", "trainer.total_training_steps=3", "trainer.save_freq=1"),
        *("veritas_rl.warm_up.steps=40", "veritas_rl.evaluation=null", "veritas_rl.critic_warmup=0"),
        *("data.train_batch_size=32", "data.max_response_length=8", "actor_rollout_ref.actor.optim.lr=3e-3"),
    ]
    environment = {**os.environ, "GAME_TYPES": "tic_tac_toe", **variables}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    logs = Path(json.loads((checkpoints / "run.json").read_text())["folder"])
    return logs, [json.loads(line)["data"] for line in (logs / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.long
@pytest.mark.training
def test_a_run_in_4_bit_is_gone_on_with_and_merged_into_the_whole_base(tmp_path: Path) -> None:
    """The rollout uses the base without quantization."""
    checkpoints, merged = tmp_path / "checkpoints", tmp_path / "merged"
    logs, steps = trained_in_4_bit(checkpoints)
    assert len(steps) == 3
    for step in steps:
        # The rollout's base is not quantized. Without quantization, both would agree to 1e-4 in fp32.
        assert 1e-3 < step["training/rollout_probs_diff_mean"] < 0.05
        assert step["rollout_corr/rollout_is_mean"] == pytest.approx(1, abs=0.1)
        assert step["rollout_corr/rollout_is_max"] <= 2
        assert step["actor/grad_norm"] > 0
        assert step["critic/grad_norm"] > 0
    for role in ("actor", "critic"):
        saved = torch.load(checkpoints / f"global_step_3/{role}/model_world_size_1_rank_0.pt", weights_only=False)
        assert all("lora_" in name for name in saved)

    start = {"RESUME_FROM": str(checkpoints / "global_step_2"), "AGENT_MODEL_REPO_ID": str(logs / "warmed-up-model")}
    _, (again,) = trained_in_4_bit(tmp_path / "again", **start)
    assert again["training/global_step"] == 3
    assert again["training/rollout_probs_diff_mean"] < 0.05
    before, after = (
        torch.load(folder / "actor/model_world_size_1_rank_0.pt", weights_only=False)
        for folder in (checkpoints / "global_step_2", tmp_path / "again/global_step_3")
    )
    learned = {name: value for name, value in before.items() if "lora_B" in name}
    # Adapters start at zero. One step after the checkpoint they are closer to the checkpoint than to zero.
    assert sum((after[name] - value).square().sum() for name, value in learned.items()) < sum(
        value.square().sum() for value in learned.values()
    )

    done = subprocess.run(
        [sys.executable, "-m", "veritas_rl.checkpoints.merge"],
        cwd=ROOT,
        env={**os.environ, "CHECKPOINT_BASE": str(checkpoints), "GLOBAL_STEP": "3", "TARGET_DIR": str(merged)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    proof = json.loads((merged / "merge.json").read_text())
    assert proof["origin"]["recipe"]["veritas_rl.quantization"] == "nf4"
    assert proof["logits"]["largest"] <= proof["logits"]["tolerance"] < 0.01 * proof["logits"]["adapter"]
    base, model = load_file(logs / "warmed-up-model/model.safetensors"), load_file(merged / "model.safetensors")
    assert all(torch.equal(base[name], model[name]) for name in base if not name.endswith("proj.weight"))
