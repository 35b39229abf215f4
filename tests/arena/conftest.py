"""Checkpoints to play with and to judge."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from veritas_rl.checkpoints.layout import CheckpointInfo, write_info

Save = Callable[[Path, Path, int, float], Path]


@pytest.fixture(scope="session")
def save_checkpoint() -> Save:
    """Writes a whole checkpoint of one rank, as a trainer does: the base with its head scaled."""

    def save(run: Path, base: Path, number: int, scale: float) -> Path:
        model: Any = AutoModelForCausalLM.from_pretrained(base)
        with torch.no_grad():
            model.lm_head.weight.mul_(scale)
        folder = run / f"global_step_{number}"
        (folder / "actor").mkdir(parents=True)
        torch.save(model.state_dict(), folder / "actor/model_world_size_1_rank_0.pt")
        own = shutil.copytree(base, folder / "actor/huggingface")
        (own / "model.safetensors").unlink()
        write_info(folder, CheckpointInfo(number, str(base), 1))
        return folder

    return save
