"""The files of a checkpoint, and checks that it is complete. Imports without torch.

    <experiment>/global_step_N/actor/{model,optim,extra_state}_world_size_W_rank_R.pt    a shard for each rank
    <experiment>/global_step_N/actor/reference_world_size_W_rank_R.pt                    of an averaged reference
    <experiment>/global_step_N/actor/huggingface/                                        config and tokenizer
    <experiment>/global_step_N/actor/lora_train_meta.json                                an adapter's rank and alpha
    <experiment>/global_step_N/critic/..., data.pt
    <experiment>/global_step_N/checkpoint.json                                           what this module writes

Supervised fine-tuning has one model and no role folder: the files of actor/ are in global_step_N itself.

verl writes all but the reference and `checkpoint.json`. This file is written last and atomically, so a step folder with
it is complete.

A reader locks `checkpoint.json` for sharing (`reading`), and a remover locks it exclusively (`removing`). The kernel
releases both when the process ends.
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

from veritas_rl.checkpoints.adapter import start_fingerprint
from veritas_rl.checkpoints.folder import write_whole
from veritas_rl.errors import UserError
from veritas_rl.paths import ROOT

EXPERIMENTS = ROOT / "train/artifacts/RL/checkpoints"
"""The default folder of experiments."""

INFO, RECORD = "checkpoint.json", "run.json"
"""The record in a step folder, and the record of the run beside its step folders."""

ADAPTER = "lora_adapter"
"""The folder of the adapter in the folder of a merged model."""

MERGE_REPORT = "merge.json"
"""The proof of the merge in the folder of a merged model."""

META = "lora_train_meta.json"
"""verl's record of an adapter in the folder of a role."""

REFERENCE = "reference"
"""The kind of the actor's shards of the averaged reference of the KL term, see `veritas_rl.reference`."""

STOP = "stop"
"""A file with this name in an experiment's folder asks the training to save and end."""

_STEP = re.compile(r"global_step_(\d+)")
_SHARD = re.compile(r"model_world_size_(\d+)_rank_\d+\.pt")


@dataclass(frozen=True)
class LoraInfo:
    """The trained adapter.

    Attributes:
        rank: Its rank.
        alpha: Its alpha. The scaling is alpha / rank.
        target_modules: verl's setting of the adapted modules: "all-linear", or names; None if not recorded.
        adapter_path: The adapter folder from which training continued, whose settings apply; None for a new adapter.
        exclude_modules: verl's setting of the modules that are left out.
        target_parameters: verl's setting of adapted parameters that are no modules.
        start: `adapter.start_fingerprint` of the adapter folder; None for a new adapter, or if not recorded.
    """

    rank: int
    alpha: int
    target_modules: str | list[str] | None
    adapter_path: str | None = None
    exclude_modules: str | list[str] | None = None
    target_parameters: list[str] | None = None
    start: str | None = None

    @classmethod
    def of(cls, model: Any) -> "LoraInfo | None":
        """The adapter that verl trains; None if it trains every parameter.

        Args:
            model: verl's node of a model, such as `critic.model`, resolved.

        Raises:
            UserError: The adapter folder from which training continues cannot be read.
        """
        if model.lora_rank < 1:
            return None
        path = model.get("lora_adapter_path")
        return cls(
            rank=model.lora_rank,
            alpha=model.lora_alpha,
            target_modules=_plain(model.target_modules),
            adapter_path=path,
            exclude_modules=_plain(model.get("exclude_modules")),
            target_parameters=_plain(model.get("target_parameters")),
            start=None if path is None else start_fingerprint(Path(path)),
        )


@dataclass(frozen=True)
class CheckpointInfo:
    """The contents of `checkpoint.json`.

    Attributes:
        global_step: The training step after which the checkpoint was written.
        base_model: The start model: a folder or a hub id.
        world_size: The number of ranks, each of which wrote a shard.
        lora: The adapter; None if every parameter was trained.
        base_fingerprint: `adapter.weights_fingerprint` of the base; None if not recorded.
        device: verl's `trainer.device`, which its shards name; None if not recorded.
        critic_lora: The critic's adapter; None if it has none, or if not recorded.
        custom_reward: `CustomReward.identity`; None if the rewards were those of the environments.
    """

    global_step: int
    base_model: str
    world_size: int
    lora: LoraInfo | None = None
    base_fingerprint: str | None = None
    device: str | None = None
    critic_lora: LoraInfo | None = None
    custom_reward: str | None = None

    def to_json(self) -> str:
        """The contents of the file."""
        return json.dumps(dataclasses.asdict(self), indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "CheckpointInfo":
        """The inverse of `to_json`. Unknown keys are ignored.

        Raises:
            ValueError: The text is not a JSON object, or lacks a key.
        """
        values = json.loads(text)
        try:
            found = {name: values.get(name) for name in ("lora", "critic_lora")}
            adapters = {name: lora and LoraInfo(**_known(LoraInfo, lora)) for name, lora in found.items()}
            return cls(**_known(cls, {**values, **adapters}))
        except (AttributeError, TypeError) as error:
            raise ValueError(str(error)) from error


def step_of(folder: Path) -> int:
    """The N of `.../global_step_N`.

    Raises:
        UserError: The folder has another name.
    """
    named = _STEP.fullmatch(folder.name)
    if named is None:
        raise UserError(f"{folder} is not a checkpoint: name a folder global_step_N")
    return int(named.group(1))


def step_folder(experiment_folder: Path, step: int) -> Path:
    """The folder of an experiment's checkpoint of a step, which may not exist."""
    return experiment_folder / f"global_step_{step}"


def step_folders(experiment_folder: Path) -> list[Path]:
    """Every `global_step_N` of an experiment, complete or not, by ascending N; empty if the experiment does not
    exist."""
    if not experiment_folder.is_dir():
        return []
    return sorted((path for path in experiment_folder.iterdir() if _STEP.fullmatch(path.name)), key=step_of)


def whole_checkpoints(experiment_folder: Path) -> list[Path]:
    """The complete step folders, by ascending step."""
    return [folder for folder in step_folders(experiment_folder) if (folder / INFO).is_file()]


def find_checkpoint(experiment: str, step: str) -> Path:
    """Find the checkpoint that the user names.

    Args:
        experiment: CHECKPOINT_BASE; empty for the experiment with the newest complete checkpoint.
        step: GLOBAL_STEP; empty for the newest complete checkpoint. Checkpoints of plain verl, which are never marked
            as complete, count only if there are no other checkpoints.

    Raises:
        UserError: The checkpoint does not exist. The message lists the existing checkpoints.
    """
    if experiment:
        folder = Path(experiment).expanduser().resolve()
    else:
        whole = [path for folder in EXPERIMENTS.glob("*") for path in whole_checkpoints(folder)]
        if not whole:
            raise UserError(f"{EXPERIMENTS} has no complete checkpoint: train first, or set CHECKPOINT_BASE")
        folder = max(whole, key=lambda path: (path / INFO).stat().st_mtime).parent
    there = step_folders(folder)
    if not there:
        below = sorted({path.parent.name for path in folder.glob("*/global_step_*")})
        hint = f"; set it to one of its experiments: {', '.join(below)}" if below else ""
        raise UserError(f"CHECKPOINT_BASE={folder} has no folder global_step_N{hint}")
    if not step:
        return (whole_checkpoints(folder) or there)[-1]
    if not step.isdecimal() or step_folder(folder, int(step)) not in there:
        known = ", ".join(str(step_of(path)) for path in there)
        raise UserError(f"GLOBAL_STEP={step} is not in {folder}: use one of {known}")
    return step_folder(folder, int(step))


def write_info(checkpoint: Path, info: CheckpointInfo) -> None:
    """Mark a checkpoint as complete. Call this last. The file is written atomically."""
    write_whole(checkpoint / INFO, info.to_json())


def remove_info(checkpoint: Path) -> None:
    """Mark a checkpoint as incomplete, before it is overwritten or removed. It may not exist."""
    (checkpoint / INFO).unlink(missing_ok=True)


def read_info(checkpoint: Path) -> CheckpointInfo | None:
    """A checkpoint's record; None for incomplete checkpoints and those of plain verl.

    Raises:
        UserError: The record is damaged.
    """
    path = checkpoint / INFO
    try:
        return CheckpointInfo.from_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is damaged ({error}): use another step") from error


def adapter_of(checkpoint: Path, role: str = "actor") -> LoraInfo | None:
    """The adapter that a role was trained with, from `checkpoint.json`, or else from verl's record; None if every
    parameter was trained.

    Args:
        checkpoint: `.../global_step_N`.
        role: `actor` or `critic`.

    Raises:
        UserError: A record is damaged.
    """
    info, record = read_info(checkpoint), role_folder(checkpoint, role) / META
    if info is not None and (found := info.critic_lora if role == "critic" else info.lora) is not None:
        return found
    try:
        values = json.loads(record.read_text(encoding="utf-8"))
        return LoraInfo(int(values["r"]), int(values["lora_alpha"]), None)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{record} is damaged ({error}): use another step") from error


@contextmanager
def reading(checkpoint: Path) -> Iterator[None]:
    """Protect a checkpoint from removal while it is read. Several processes may read it.

    Raises:
        UserError: The checkpoint does not exist, or is being removed.
    """
    with _locked(checkpoint, fcntl.LOCK_SH) as free:
        if not free:
            raise UserError(f"{checkpoint} is being removed: use another step")
        yield


@contextmanager
def removing(checkpoint: Path) -> Iterator[bool]:
    """Lock a checkpoint for removal. Yields False if it is in use and must stay."""
    with _locked(checkpoint, fcntl.LOCK_EX) as free:
        yield free


@contextmanager
def _locked(checkpoint: Path, kind: int) -> Iterator[bool]:
    file = checkpoint / INFO
    try:
        # Over NFS, an exclusive lock requires a file that is open for writing.
        descriptor = os.open(file, os.O_RDONLY if kind == fcntl.LOCK_SH else os.O_RDWR)
    except FileNotFoundError:
        # Checkpoints of plain verl have no such file, but can be read.
        try:
            descriptor = os.open(checkpoint, os.O_RDONLY)
        except FileNotFoundError:
            raise UserError(f"{checkpoint} does not exist") from None
    except PermissionError as error:
        raise UserError(f"{checkpoint} is not accessible ({error})") from error
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
    """The folder of a role's files: the checkpoint itself after supervised fine-tuning."""
    return checkpoint if (checkpoint / "fsdp_config.json").is_file() else checkpoint / role


def shard_name(kind: str, rank: int, ranks: int) -> str:
    """The name of a rank's shard, as verl names it.

    Args:
        kind: As for `shard_files`.
        rank: The rank.
        ranks: The number of ranks.
    """
    return f"{kind}_world_size_{ranks}_rank_{rank}.pt"


def shard_files(checkpoint: Path, role: str = "actor", kind: str = "model") -> list[Path]:
    """The paths of a checkpoint's shards by rank. The files may be missing.

    Args:
        checkpoint: `.../global_step_N`.
        role: `actor` or `critic`.
        kind: `model`, `optim`, `extra_state` or `REFERENCE`.

    Raises:
        UserError: The number of ranks is unknown.
    """
    folder = role_folder(checkpoint, role)
    size = _world_size(checkpoint, folder)
    return [folder / shard_name(kind, rank, size) for rank in range(size)]


def check_shards(checkpoint: Path, role: str = "actor", kinds: Sequence[str] = ("model",)) -> None:
    """Refuse a checkpoint with a missing or truncated shard.

    torch writes zip files, whose directory is at the end, so a truncated file is not a valid zip file.

    Args:
        checkpoint: `.../global_step_N`.
        role: `actor` or `critic`.
        kinds: Which of `model`, `optim`, `extra_state` and `REFERENCE` are needed: `model` to merge, the first three to
            resume, and `REFERENCE` too if the reference is an average.

    Raises:
        UserError: A shard is missing or damaged. The message names the first such shard.
    """
    for kind in kinds:
        for path in shard_files(checkpoint, role, kind):
            if not path.is_file():
                raise UserError(f"{checkpoint.name} lacks the shard {path}: use another step")
            if not zipfile.is_zipfile(path):
                raise UserError(f"{checkpoint.name} has a truncated shard, {path}: use another step")


def fsdp_version(checkpoint: Path, role: str = "actor") -> int | None:
    """The FSDP version (1 or 2) that wrote a checkpoint's shards; None if unknown."""
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
        raise UserError(f"{folder} is not a checkpoint of verl's FSDP: it has no model_world_size_W_rank_R.pt")
    return sizes.pop()


def _plain(names: Any) -> Any:
    """Names of a configuration, which may be a list of OmegaConf, in an order of their own."""
    return names if names is None or isinstance(names, str) else sorted(names)


def _known(cls: type[Any], values: dict[str, Any]) -> dict[str, Any]:
    names = {field.name for field in dataclasses.fields(cls)}
    return {name: value for name, value in values.items() if name in names}
