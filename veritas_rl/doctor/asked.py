"""The requested run, read from the command line without composing a configuration."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from veritas_rl.launch.recipes import Recipe, recipe_of
from veritas_rl.paths import RAY_FOLDER, ROOT, ray_folder

CHECKOUT = "this checkout"
"""What a user must move, so that the logs of runs go to another folder."""


@dataclass(frozen=True)
class Gpu:
    """One GPU, as nvidia-smi describes it; memory in bytes."""

    name: str
    driver: str
    total: int
    free: int


class Limits(NamedTuple):
    """The most seconds until nvidia-smi answers, and until a server does, with the search for its address."""

    nvidia_smi: float
    connection: float


PATIENT = Limits(nvidia_smi=10.0, connection=5.0)


@dataclass(frozen=True)
class Asked:
    """The requested run.

    Attributes:
        overrides: The Hydra overrides for the trainer script.
        environment: The process environment with `.env`.
        sft: Whether the run is supervised fine-tuning, which has no rollout and no Ray.
        limits: How long answers may take.
    """

    overrides: Sequence[str]
    environment: Mapping[str, str]
    sft: bool = False
    limits: Limits = PATIENT

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
    def _listed(self) -> list[Gpu] | None:
        return find_gpus(self.limits.nvidia_smi)

    @property
    def gpus(self) -> list[Gpu]:
        """The NVIDIA GPUs of this machine, including those hidden by CUDA_VISIBLE_DEVICES."""
        return self._listed or []

    @property
    def gpus_unknown(self) -> bool:
        """Whether nvidia-smi did not answer in time."""
        return self._listed is None

    @property
    def cpu(self) -> bool:
        """Whether the run uses no GPU."""
        hardware = self.named("hardware")
        return hardware == "cpu" if hardware else self._listed == []

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
        """The folders that the run writes to, by what moves them: checkpoints, logs, and Ray's files."""
        return {
            "trainer.default_local_dir": ROOT / (self.named("trainer.default_local_dir") or "train/artifacts"),
            CHECKOUT: ROOT / "train/outputs",
            RAY_FOLDER: ray_folder(self.environment),
        }


def find_gpus(seconds: float) -> list[Gpu] | None:
    """The GPUs that nvidia-smi lists; empty if the program is missing or fails, None if it takes longer."""
    program = shutil.which("nvidia-smi", path=os.environ.get("PATH"))
    if program is None:
        return []
    query = ["--query-gpu=name,driver_version,memory.total,memory.free", "--format=csv,noheader,nounits"]
    try:
        process = subprocess.Popen([program, *query], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    except OSError:
        return []
    try:
        out, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        # Its end is not awaited, because no signal ends a process that waits for the driver.
        process.kill()
        return None
    if process.returncode:
        return []
    rows = [[part.strip() for part in line.split(",")] for line in out.splitlines()]
    # nvidia-smi prints [N/A] as the size of unified memory.
    return [Gpu(row[0], row[1], *map(_bytes, row[2:])) for row in rows if len(row) == 4]


def _bytes(mebibytes: str) -> int:
    return int(mebibytes) << 20 if mebibytes.isdigit() else 0
