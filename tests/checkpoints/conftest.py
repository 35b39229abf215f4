"""Real checkpoints of small models: sharded by FSDP over one or two processes, and written by verl."""

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoTokenizer, Qwen3ForCausalLM

from veritas_rl.checkpoints.folder import save_model_folder
from veritas_rl.launch.tiny_model import build_tiny_model

LORA = {"r": 4, "lora_alpha": 8, "target_modules": "all-linear"}
MODEL_ONLY = {"save_contents": ["model"]}
ADAPTER_ONLY = {"save_contents": ["model"], "save_lora_only": True}
HUGGING_FACE_TOO = {"save_contents": ["model", "hf_model"]}

CHECKPOINTS: dict[str, dict[str, Any]] = {
    "full-1": {"ranks": 1, "checkpoint": HUGGING_FACE_TOO},
    "full-2": {"ranks": 2, "checkpoint": HUGGING_FACE_TOO},
    "full-fsdp1-2": {"ranks": 2, "strategy": "fsdp"},
    "full-replicas-2": {"ranks": 2, "fsdp_size": 1},
    "full-tied-2": {"ranks": 2, "base": "tied"},
    "full-still-2": {"ranks": 2, "scale": 0.0},
    "lora-1": {"ranks": 1, "lora": LORA, "checkpoint": ADAPTER_ONLY},
    # A LoRA rank of 3 is not sharded evenly.
    "lora-2": {"ranks": 2, "lora": {**LORA, "r": 3}, "checkpoint": ADAPTER_ONLY},
    "lora-fsdp1-2": {"ranks": 2, "lora": LORA, "strategy": "fsdp", "checkpoint": ADAPTER_ONLY},
    "lora-whole-2": {"ranks": 2, "lora": LORA, "checkpoint": HUGGING_FACE_TOO},
    "lora-some-2": {"ranks": 2, "lora": {**LORA, "target_modules": ["layers.1.mlp.up_proj", "q_proj"]}},
    "lora-tied-2": {"ranks": 2, "base": "tied", "lora": LORA, "dtype": "bfloat16", "checkpoint": ADAPTER_ONLY},
    "lora-zero-2": {"ranks": 2, "lora": LORA, "scale": 0.0, "checkpoint": ADAPTER_ONLY},
    "lora-faint-2": {"ranks": 2, "base": "tied", "lora": LORA, "scale": 3e-5, "checkpoint": ADAPTER_ONLY},
}
"""Changes by name to a standard checkpoint: all parameters, slightly moved, sharded by FSDP2 in float32."""


@pytest.fixture(scope="session")
def bases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Base models by name: one in float32, and one with tied embeddings in bfloat16."""
    folder = tmp_path_factory.mktemp("bases")
    plain = build_tiny_model(folder / "plain", seed=0)
    config = AutoConfig.from_pretrained(plain)
    config.tie_word_embeddings = True
    torch.manual_seed(1)
    tied = Qwen3ForCausalLM(config).to(torch.bfloat16)  # type: ignore[reportArgumentType]
    save_model_folder(tied, AutoTokenizer.from_pretrained(plain), folder / "tied")
    return {"plain": plain, "tied": folder / "tied"}


@pytest.fixture(scope="session")
def checkpoints(bases: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Step folders by the names in `CHECKPOINTS`. Tests share them: copy a folder before changing it."""
    folder = tmp_path_factory.mktemp("checkpoints")
    common = {"lora": None, "scale": 0.02, "strategy": "fsdp2", "dtype": "float32", "checkpoint": MODEL_ONLY}
    jobs = [
        {
            **common,
            **changes,
            "base": str(bases[changes.get("base", "plain")]),
            "actor": str(folder / name / "global_step_7/actor"),
        }
        for name, changes in CHECKPOINTS.items()
    ]
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("save_checkpoints.py")), json.dumps(jobs)],
        env={**os.environ, "VERL_PLATFORM": "cpu", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {name: folder / name / "global_step_7" for name in CHECKPOINTS}


@pytest.fixture
def hub() -> Iterator[Any]:
    """A local Hugging Face hub, see `hub.py`."""
    spec: Any = importlib.util.spec_from_file_location("hub", Path(__file__).with_name("hub.py"))
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with module.running() as made:
        yield made
