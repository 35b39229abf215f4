"""In the first update, the policy is the one that wrote the replies: no dropout, and the reference is the start."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from on_ranks import printed
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM

from veritas_rl.launch.tiny_model import build_tiny_model

PROGRAM = Path(__file__).with_name("first_update.py")


def measured(ranks: int, checkpoints: Path, *asked: dict[str, Any]) -> list[dict[str, Any]]:
    """The program's output for each measurement."""
    return printed(PROGRAM, ranks, checkpoints, *map(json.dumps, asked))


def model_with(folder: Path, **settings: float) -> Path:
    """A model whose activations are large enough that dropout shows, with other settings in its configuration."""
    build_tiny_model(folder, seed=0, weights=0.1, embeddings=0.5)
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | settings))
    return folder


def adapter_for(model: Path, folder: Path, dropout: float = 0.0) -> Path:
    torch.manual_seed(0)
    base = AutoModelForCausalLM.from_pretrained(model)
    settings = LoraConfig(r=4, lora_alpha=8, target_modules="all-linear", lora_dropout=dropout, init_lora_weights=False)
    get_peft_model(base, settings).save_pretrained(str(folder))
    return folder


def overrides(model: Path, adapter: Path | None, *more: str) -> list[str]:
    """The overrides of a run on a CPU."""
    path = [f"actor_rollout_ref.model.lora_adapter_path={adapter}"] if adapter else []
    lora = f"lora={'on' if adapter else 'off'}"
    named = f"actor_rollout_ref.model.path={model}"
    return ["hardware=cpu", "start=made", "rollout=transformers", lora, named, *path, *more]


def test_nothing_is_dropped_in_an_update(tmp_path: Path) -> None:
    dropped = model_with(tmp_path / "dropped", attention_dropout=0.2)
    adapter = adapter_for(model_with(tmp_path / "plain"), tmp_path / "adapter", dropout=0.5)
    asked = [overrides(dropped, None), overrides(tmp_path / "plain", adapter)]
    for found in measured(1, tmp_path, *({"measure": "update", "overrides": each} for each in asked)):
        assert max(map(abs, found["ppo_kl"])) < 1e-5
        assert found["clipped"] == [0.0]
        assert found["random"] == 0
        assert found["grad_norm"][0] > 0


@pytest.mark.parametrize("ranks", [1, pytest.param(2, marks=pytest.mark.long)])
def test_the_reference_is_the_adapter_of_the_start(tmp_path: Path, ranks: int) -> None:
    model = model_with(tmp_path / "model")
    adapter = adapter_for(model, tmp_path / "adapter")
    strategies = ["fsdp2"] if ranks == 1 else ["fsdp2", "fsdp"]
    more = [f"trainer.n_gpus_per_node={ranks}", "actor_rollout_ref.actor.optim.lr=0.01"]
    asked = [overrides(model, adapter, *more, f"actor_rollout_ref.actor.strategy={name}") for name in strategies]
    asked += [[*asked[0], "actor_rollout_ref.actor.fsdp_config.reshard_after_forward=true"]]
    for found in measured(ranks, tmp_path, *({"measure": "reference", "overrides": each} for each in asked)):
        assert found["first"] < 1e-6
        assert found["moved"] > 1e-2
        assert found["after"] < 1e-6
        assert found["again"] == 0
        assert found["adapters"] == ["default"]
        assert found["resumed"] < 1e-6
        assert found["resumed_reference"] < 1e-6
        assert found["digest"]
        assert found["start"] == plain(model, adapter, [len(row) for row in found["start"]])


def plain(model: Path, adapter: Path, replies: list[int]) -> Any:
    """The same log-probabilities from transformers and PEFT alone."""
    from veritas_rl.verl_plugin.alone import random_rows

    adapted: Any = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(model), str(adapter)).eval()
    found = []
    rows: Any = random_rows([(12, 6), (30, 8), (5, 3), (17, 8)])["input_ids"]
    for ids in rows.unbind():
        with torch.no_grad():
            logits = adapted(ids[None]).logits[0].log_softmax(dim=-1)
        said = ids[-replies[len(found)] :]
        found.append(logits[-len(said) - 1 : -1].gather(1, said[:, None])[:, 0].tolist())
    return [pytest.approx(row, abs=1e-4) for row in found]
