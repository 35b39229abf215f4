"""The requested run, read from the command line without composing a configuration."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from veritas_rl.launch.recipes import Recipe, recipe_of
from veritas_rl.paths import ROOT

RAY_FOLDER = "RAY_TMPDIR"
SMI_SECONDS = 10


@dataclass(frozen=True)
class Gpu:
    """One GPU, as nvidia-smi describes it; memory in bytes."""

    name: str
    driver: str
    total: int
    free: int


@dataclass(frozen=True)
class Asked:
    """The requested run.

    Attributes:
        overrides: The Hydra overrides for the trainer script.
        environment: The process environment with `.env`.
        sft: Whether the run is supervised fine-tuning, which has no rollout and no Ray.
    """

    overrides: Sequence[str]
    environment: Mapping[str, str]
    sft: bool = False

    def named(self, key: str) -> str | None:
        """The value of a key or group: the last override, or else the recipe's value."""
        values = [item.partition("=")[2] for item in self.overrides if item.lstrip("+").startswith(f"{key}=")]
        return values[-1].strip("'\"") if values else self._of_recipe(key)

    @cached_property
    def recipe(self) -> Recipe | None:
        """The recipe.

        Raises:
            UserError: The recipe does not exist.
        """
        return recipe_of(self.overrides, ())[0]

    def _of_recipe(self, key: str) -> str | None:
        if self.recipe is None:
            return None
        value: Any = self.recipe.settings()
        for part in key.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        return self.recipe.choices().get(key) or (None if value is None else str(value))

    @cached_property
    def gpus(self) -> list[Gpu]:
        """The NVIDIA GPUs of this machine, including those hidden by CUDA_VISIBLE_DEVICES."""
        return find_gpus()

    @property
    def cpu(self) -> bool:
        """Whether the run uses no GPU."""
        hardware = self.named("hardware")
        return hardware == "cpu" if hardware else not self.gpus

    @property
    def backend(self) -> str:
        """The rollout backend; "" without a rollout."""
        if self.sft:
            return ""
        variable = self.environment.get("ROLLOUT_BACKEND", "").strip().lower()
        return self.named("rollout") or variable or ("transformers" if self.cpu else "vllm")

    @property
    def ray_address(self) -> str:
        """The Ray cluster of the run: "local" for its own Ray, "auto" for a running Ray, or an address."""
        if self.sft:
            return "local"
        given = self.named("ray_kwargs.ray_init.address") or (
            "auto" if self.named("hardware") == "multinode" else "local"
        )
        # Ray reads the variable if no address is given.
        return self.environment.get("RAY_ADDRESS", "").strip() or "auto" if given in ("auto", "null") else given

    @property
    def folders(self) -> dict[str, Path]:
        """The folders that the run writes to, by setting: checkpoints, logs, and Ray's files."""
        return {
            "trainer.default_local_dir": ROOT / (self.named("trainer.default_local_dir") or "train/artifacts"),
            "hydra.run.dir": ROOT / "train/outputs",
            RAY_FOLDER: Path(self.environment.get(RAY_FOLDER) or self.environment.get("TMPDIR") or "/tmp"),
        }


def find_gpus() -> list[Gpu]:
    """The GPUs that nvidia-smi lists; empty if the program is missing or fails."""
    program = shutil.which("nvidia-smi", path=os.environ.get("PATH"))
    if program is None:
        return []
    query = ["--query-gpu=name,driver_version,memory.total,memory.free", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run([program, *query], capture_output=True, text=True, check=True, timeout=SMI_SECONDS)
    except (OSError, subprocess.SubprocessError):
        return []
    rows = [[part.strip() for part in line.split(",")] for line in done.stdout.splitlines()]
    # nvidia-smi prints [N/A] as the size of unified memory.
    return [Gpu(row[0], row[1], *map(_bytes, row[2:])) for row in rows if len(row) == 4]


def _bytes(mebibytes: str) -> int:
    return int(mebibytes) << 20 if mebibytes.isdigit() else 0
