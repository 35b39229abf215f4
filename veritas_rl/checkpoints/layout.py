"""Where a checkpoint's parts are, and whether all of them are there. Imports without torch.

    <experiment>/global_step_N/actor/{model,optim,extra_state}_world_size_W_rank_R.pt    a shard for each rank
    <experiment>/global_step_N/actor/huggingface/                                        config and tokenizer
    <experiment>/global_step_N/critic/..., data.pt
    <experiment>/global_step_N/checkpoint.json                                           what this module writes

Supervised fine-tuning has one model, and no folder for its role: what is in actor/ above lies in global_step_N itself.

verl writes the first three. `checkpoint.json` is written after them, whole, so a step folder that has one is whole.

Who reads a checkpoint holds a shared lock on that file (`reading`), and who removes one holds it alone (`removing`).
The kernel lets go of both with the process, however it ends.
"""

import dataclasses
import fcntl
import json
import os
import re
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from veritas_rl.checkpoints.folder import write_whole
from veritas_rl.errors import UserError
from veritas_rl.paths import ROOT

EXPERIMENTS = ROOT / "train/artifacts/RL/checkpoints"
"""The default folder of experiments."""

INFO, RECORD = "checkpoint.json", "run.json"
"""What a step folder says of itself, and what the run says that wrote it, beside its step folders."""

STOP = "stop"
"""A file of this name in an experiment's folder asks the training that writes there to save and end."""

_STEP = re.compile(r"global_step_(\d+)")
_SHARD = re.compile(r"model_world_size_(\d+)_rank_\d+\.pt")


@dataclass(frozen=True)
class LoraInfo:
    """The adapter that was trained.

    Attributes:
        rank: Its rank.
        alpha: Its scaling is alpha / rank.
        target_modules: Which modules have one, as verl was configured: "all-linear", or names.
        adapter_path: The adapter folder that training went on from, whose settings hold then; None for a fresh one.
    """

    rank: int
    alpha: int
    target_modules: str | list[str]
    adapter_path: str | None = None


@dataclass(frozen=True)
class CheckpointInfo:
    """What `checkpoint.json` says.

    Attributes:
        global_step: The training step after which the checkpoint was written.
        base_model: What training began from: a folder or a hub id.
        world_size: How many ranks wrote a shard each.
        lora: The adapter; None if every parameter was trained.
        base_fingerprint: `adapter.weights_fingerprint` of the base; None if nobody took it.
        device: verl's `trainer.device`, which its shards name; None if nobody wrote it down.
    """

    global_step: int
    base_model: str
    world_size: int
    lora: LoraInfo | None = None
    base_fingerprint: str | None = None
    device: str | None = None

    def to_json(self) -> str:
        """As it stands in the file."""
        return json.dumps(dataclasses.asdict(self), indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "CheckpointInfo":
        """The opposite of `to_json`. Keys that this version does not know are left out.

        Raises:
            ValueError: It is no JSON object, or lacks a key.
        """
        values = json.loads(text)
        try:
            lora = values.get("lora")
            return cls(**_known(cls, {**values, "lora": None if lora is None else LoraInfo(**_known(LoraInfo, lora))}))
        except (AttributeError, TypeError) as error:
            raise ValueError(str(error)) from error


def step_of(folder: Path) -> int:
    """The N of `.../global_step_N`.

    Raises:
        UserError: The folder has another name.
    """
    named = _STEP.fullmatch(folder.name)
    if named is None:
        raise UserError(f"{folder} is no checkpoint: a checkpoint is a folder global_step_N")
    return int(named.group(1))


def step_folder(experiment_folder: Path, step: int) -> Path:
    """Where an experiment's checkpoint of a step is, or would be."""
    return experiment_folder / f"global_step_{step}"


def step_folders(experiment_folder: Path) -> list[Path]:
    """Every `global_step_N` of an experiment, whole or not, by ascending N; empty if there is no such experiment."""
    if not experiment_folder.is_dir():
        return []
    return sorted((path for path in experiment_folder.iterdir() if _STEP.fullmatch(path.name)), key=step_of)


def whole_checkpoints(experiment_folder: Path) -> list[Path]:
    """The step folders that were written to the end, by ascending step."""
    return [folder for folder in step_folders(experiment_folder) if (folder / INFO).is_file()]


def find_checkpoint(experiment: str, step: str) -> Path:
    """The checkpoint that is meant.

    Args:
        experiment: CHECKPOINT_BASE; empty for the experiment with the newest whole checkpoint.
        step: GLOBAL_STEP; empty for the newest whole one. One of plain verl, which never says that it is whole, counts
            where no other does.

    Raises:
        UserError: There is none; the message lists those that there are.
    """
    if experiment:
        folder = Path(experiment).expanduser().resolve()
    else:
        whole = [path for folder in EXPERIMENTS.glob("*") for path in whole_checkpoints(folder)]
        if not whole:
            raise UserError(f"no whole checkpoint is under {EXPERIMENTS}: train first, or set CHECKPOINT_BASE")
        folder = max(whole, key=lambda path: (path / INFO).stat().st_mtime).parent
    there = step_folders(folder)
    if not there:
        below = sorted({path.parent.name for path in folder.glob("*/global_step_*")})
        hint = f"; it holds the experiments {', '.join(below)}" if below else ""
        raise UserError(f"CHECKPOINT_BASE={folder} holds no checkpoints, no global_step_N{hint}")
    if not step:
        return (whole_checkpoints(folder) or there)[-1]
    if not step.isdecimal() or step_folder(folder, int(step)) not in there:
        known = ", ".join(str(step_of(path)) for path in there)
        raise UserError(f"GLOBAL_STEP={step} is not in {folder}: the steps there are {known}")
    return step_folder(folder, int(step))


def write_info(checkpoint: Path, info: CheckpointInfo) -> None:
    """Say that a checkpoint is whole. Call it last; the file appears whole."""
    write_whole(checkpoint / INFO, info.to_json())


def remove_info(checkpoint: Path) -> None:
    """Say that a checkpoint is no longer whole: before it is overwritten or removed. There may be none."""
    (checkpoint / INFO).unlink(missing_ok=True)


def read_info(checkpoint: Path) -> CheckpointInfo | None:
    """What a checkpoint says of itself; None if it says nothing, as one of plain verl or one that was cut off.

    Raises:
        UserError: The file is there and cannot be understood.
    """
    path = checkpoint / INFO
    try:
        return CheckpointInfo.from_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is damaged ({error}): use another step") from error


@contextmanager
def reading(checkpoint: Path) -> Iterator[None]:
    """Keep a checkpoint from being removed while it is read. Several may read it at once.

    Raises:
        UserError: It is not there, or is being removed.
    """
    with _locked(checkpoint, fcntl.LOCK_SH) as free:
        if not free:
            raise UserError(f"{checkpoint} is being removed: use another step")
        yield


@contextmanager
def removing(checkpoint: Path) -> Iterator[bool]:
    """Keep a checkpoint from being read while it is removed; False if somebody reads it now, and it must stay."""
    with _locked(checkpoint, fcntl.LOCK_EX) as free:
        yield free


@contextmanager
def _locked(checkpoint: Path, kind: int) -> Iterator[bool]:
    file = checkpoint / INFO
    try:
        # Over NFS, only what is open for writing can be locked alone.
        descriptor = os.open(file, os.O_RDONLY if kind == fcntl.LOCK_SH else os.O_RDWR)
    except FileNotFoundError:
        # One that does not say that it is whole can be read too, as one of plain verl.
        try:
            descriptor = os.open(checkpoint, os.O_RDONLY)
        except FileNotFoundError:
            raise UserError(f"there is no {checkpoint}") from None
    except PermissionError as error:
        raise UserError(f"{checkpoint} belongs to somebody else ({error})") from error
    try:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except OSError:
            yield False
            return
        yield True
    finally:
        os.close(descriptor)


def role_folder(checkpoint: Path, role: str = "actor") -> Path:
    """Where the parts of a role are: the checkpoint itself where supervised fine-tuning wrote it."""
    return checkpoint if (checkpoint / "fsdp_config.json").is_file() else checkpoint / role


def shard_files(checkpoint: Path, role: str = "actor", kind: str = "model") -> list[Path]:
    """The files of a checkpoint's shards in the order of their ranks, whether they are there or not.

    Args:
        checkpoint: `.../global_step_N`.
        role: `actor` or `critic`.
        kind: `model`, `optim` or `extra_state`.

    Raises:
        UserError: Nothing says how many ranks there were.
    """
    folder = role_folder(checkpoint, role)
    size = _world_size(checkpoint, folder)
    return [folder / f"{kind}_world_size_{size}_rank_{rank}.pt" for rank in range(size)]


def check_shards(checkpoint: Path, role: str = "actor", kinds: Sequence[str] = ("model",)) -> None:
    """Refuse a checkpoint that lacks a shard, or has one that was cut off.

    torch writes a zip file, whose directory comes last: a file that was cut off is no zip file.

    Args:
        checkpoint: `.../global_step_N`.
        role: `actor` or `critic`.
        kinds: Which of `model`, `optim` and `extra_state` are needed: `model` to merge, all of them to resume.

    Raises:
        UserError: It names the first shard that is missing or damaged.
    """
    for kind in kinds:
        for path in shard_files(checkpoint, role, kind):
            if not path.is_file():
                raise UserError(f"{checkpoint.name} lacks a shard: there is no {path}; use another step")
            if not zipfile.is_zipfile(path):
                raise UserError(f"{checkpoint.name} has a damaged shard: {path} was cut off; use another step")


def fsdp_version(checkpoint: Path, role: str = "actor") -> int | None:
    """1 or 2: which FSDP wrote a checkpoint's shards; None if nothing says it."""
    try:
        return int(json.loads((role_folder(checkpoint, role) / "fsdp_config.json").read_text())["FSDP_version"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _world_size(checkpoint: Path, folder: Path) -> int:
    info = read_info(checkpoint)
    if info is not None:
        return info.world_size
    try:
        return int(json.loads((folder / "fsdp_config.json").read_text())["world_size"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    sizes = {int(named.group(1)) for path in folder.glob("*.pt") if (named := _SHARD.fullmatch(path.name))}
    if len(sizes) != 1:
        raise UserError(f"{folder} holds no checkpoint of verl's FSDP: it has no model_world_size_W_rank_R.pt")
    return sizes.pop()


def _known(cls: type[Any], values: dict[str, Any]) -> dict[str, Any]:
    names = {field.name for field in dataclasses.fields(cls)}
    return {name: value for name, value in values.items() if name in names}
