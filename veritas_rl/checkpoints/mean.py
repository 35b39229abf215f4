"""The mean of several models' weights.

The policies of a run's last checkpoints differ by the noise of their last updates. In self-play they also circle around
an equilibrium. The mean of their weights is often better than each of them (Izmailov et al. 2018, "Averaging Weights
Leads to Wider Optima and Better Generalization").
"""

import json
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from veritas_rl.checkpoints.adapter import headers
from veritas_rl.checkpoints.folder import whole_folder
from veritas_rl.checkpoints.models import copy_own_files, saved_dtype
from veritas_rl.errors import UserError

SOURCES = "mean.json"
"""The file that lists the folders of the averaged models."""


def write_mean(folders: Sequence[Path], target: Path) -> None:
    """Write a model whose weights are the mean of those of other models.

    The mean is computed in float32, one tensor at a time, and saved in the models' dtype. All other files are those of
    the last model.

    Args:
        folders: Hugging Face folders of models with the same tensors; at least one.
        target: The new folder, which must be missing or empty. It is written atomically.

    Raises:
        UserError: A model has no weights, the models' tensors differ, or `target` cannot be written.
    """
    files = [headers(folder) for folder in folders]
    for folder, found in zip(folders, files, strict=True):
        if {name: header.shape for name, header in found.items()} != {
            name: header.shape for name, header in files[-1].items()
        }:
            raise UserError(f"the tensors in {folder} differ from those in {folders[-1]}: they have no mean")
    try:
        with whole_folder(target) as beside:
            state = {name: _mean([found[name].file for found in files], name) for name in sorted(files[-1])}
            save_file(state, beside / "model.safetensors", metadata={"format": "pt"})
            copy_own_files(folders[-1], beside, saved_dtype(folders[-1]))
            (beside / SOURCES).write_text(json.dumps([str(folder) for folder in folders], indent=2) + "\n")
    except (OSError, SafetensorError) as error:
        raise UserError(f"{target} cannot be written ({error}): choose another folder, or free some space") from error


def _mean(files: Sequence[Path], name: str) -> torch.Tensor:
    total: torch.Tensor | None = None
    dtype = torch.float32
    for file in files:
        with safe_open(file, framework="pt") as opened:
            tensor = opened.get_tensor(name)
        dtype = tensor.dtype
        total = tensor.float() if total is None else total + tensor.float()
    assert total is not None
    return (total / len(files)).to(dtype)
