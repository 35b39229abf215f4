"""The forecast against the resident memory of verl's workers on this CPU, by part."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from veritas_rl.launch.configuration import compose_configuration
from veritas_rl.launch.tiny_model import build_tiny_model
from veritas_rl.planning.compose import plan_of
from veritas_rl.planning.forecast import ERROR

PROGRAM = Path(__file__).with_name("measure_update.py")

PACKED = "actor_rollout_ref.model.use_remove_padding=true"
RECOMPUTED = "actor_rollout_ref.model.enable_gradient_checkpointing=true"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Path]:
    """Makes a Qwen3 model with random weights and about the given number of million parameters."""
    made: dict[int, Path] = {}
    layers = {107: (768, 12), 226: (1024, 16), 268: (1280, 12)}

    def make(millions: int) -> Path:
        if millions not in made:
            hidden, number = layers[millions]
            folder = build_tiny_model(tmp_path_factory.mktemp("models") / str(millions), seed=0)
            config = AutoConfig.from_pretrained(folder)
            config.update(
                {
                    "hidden_size": hidden,
                    "intermediate_size": 3 * hidden,
                    "num_hidden_layers": number,
                    "num_attention_heads": hidden // 64,
                    "num_key_value_heads": hidden // 256,
                    "head_dim": 64,
                    "vocab_size": 16_384,
                    "layer_types": ["full_attention"] * number,
                }
            )
            with torch.random.fork_rng():
                AutoModelForCausalLM.from_config(config, dtype=torch.float32).save_pretrained(folder)
            made[millions] = folder
        return made[millions]

    return make


def check(model: Path, free_port: int, role: str, tokens: int, *overrides: str) -> None:
    """Measure one worker over two micro-batches of `tokens` tokens, and compare each part with its forecast."""
    prompt, reply = 96, 32
    limit = "critic" if role == "critic" else "actor_rollout_ref.actor"
    typed = [
        *("hardware=cpu", "start=made", "rollout=transformers", f"actor_rollout_ref.model.path={model}"),
        *(f"data.max_prompt_length={prompt}", f"data.max_response_length={reply}"),
        *(f"{limit}.ppo_max_token_len_per_gpu={tokens}", *overrides),
    ]
    plan = plan_of(compose_configuration(typed), "cpu")
    engine = plan.critic if role == "critic" else plan.actor
    assert engine is not None
    update, inference = engine.update_parts(), engine.inference_parts(entropy=role == "actor")
    fixed = ("weights", "optimizer")
    forecast = {
        "weights": engine.weights,
        "optimizer": engine.optimizer,
        "inference": sum(size for part, size in inference.items() if part not in fixed),
        "update": sum(size for part, size in update.items() if part not in fixed),
    }
    assert sum(update.values()) > 10**9
    asked = {"role": role, "rows": 2 * tokens // (prompt + reply), "prompt": prompt, "reply": reply, "overrides": typed}
    ranks = {
        "RANK": "0",
        "WORLD_SIZE": "1",
        "LOCAL_RANK": "0",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port),
    }
    done = subprocess.run(
        [sys.executable, PROGRAM, json.dumps(asked)],
        env={**os.environ, **ranks, "VERL_PLATFORM": "cpu", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    measured = json.loads(done.stdout.splitlines()[-1])
    print(model.name, role, tokens, overrides, "forecast", forecast, "measured", measured)
    assert measured["weights"] + measured["optimizer"] == pytest.approx(
        forecast["weights"] + forecast["optimizer"], rel=ERROR
    )
    peak = {phase: forecast[phase] + forecast["weights"] for phase in ("inference", "update")}
    for phase, size in peak.items():
        assert measured[phase] + measured["weights"] == pytest.approx(size, rel=ERROR), phase
    assert measured["update"] == pytest.approx(forecast["update"], rel=ERROR)


def test_a_fully_trained_actor(models: Callable[[int], Path], free_port: int) -> None:
    check(models(107), free_port, "actor", 512, "lora=off")


@pytest.mark.long
@pytest.mark.parametrize(
    ("millions", "role", "tokens", "overrides"),
    [
        pytest.param(268, "actor", 1536, ("lora=off",), id="full"),
        pytest.param(226, "actor", 1536, ("lora=off", PACKED, "actor_rollout_ref.actor.entropy_coeff=0"), id="packed"),
        pytest.param(107, "actor", 2048, ("lora=on", RECOMPUTED, PACKED), id="lora"),
        pytest.param(107, "actor", 2048, ("lora=off", RECOMPUTED), id="recomputed"),
        pytest.param(226, "critic", 1536, ("lora=off",), id="critic"),
    ],
)
def test_other_settings_and_sizes(
    models: Callable[[int], Path], free_port: int, millions: int, role: str, tokens: int, overrides: tuple[str, ...]
) -> None:
    check(models(millions), free_port, role, tokens, *overrides)
