"""Resume an interrupted run: the same command continues from its last complete checkpoint.

Each run stores `run.json` beside its checkpoints, with the command, the folder of the logs, and whether it is finished.
The launcher locks the checkpoint folder while it lives, and the kernel ends verl with it. A locked folder therefore
belongs to a live run.
"""

import dataclasses
import fcntl
import json
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from veritas_rl.checkpoints.adapter import weights_fingerprint
from veritas_rl.checkpoints.folder import write_whole
from veritas_rl.checkpoints.layout import (
    RECORD,
    REFERENCE,
    LoraInfo,
    adapter_of,
    check_shards,
    fsdp_version,
    read_info,
    reading,
    shard_files,
    step_folders,
    step_of,
    whole_checkpoints,
)
from veritas_rl.composition import quoted
from veritas_rl.envs import places
from veritas_rl.errors import UserError
from veritas_rl.paths import in_checkout, outputs_folder
from veritas_rl.verl_plugin import algorithms

LOCK = "run.lock"

MODULES = ("target_modules", "exclude_modules", "target_parameters")
"""The settings that name what has an adapter. Those of an adapter folder apply instead, if training began from one."""

DATASET = "data.pt"
"""The file in which verl saves the state of the dataset."""

STORAGE_UNITS = "transfer_queue.backend.SimpleStorage.num_data_storage_units"


@dataclass(frozen=True)
class Record:
    """The stored record of a run.

    Attributes:
        command: The overrides of machine, environment variables and command line, which identify the run.
        folder: The folder of its logs, metrics, reports and generated models.
        wandb_run_id: The id under which Weights & Biases resumes the run.
        finished: Whether the run is complete.
        number: The record with the largest number was written last, also if a clock was set back. 0 if not recorded.
        environments: The digests of the files of environments with which the run began, by the environment's name.
    """

    command: tuple[str, ...]
    folder: str
    wandb_run_id: str
    finished: bool = False
    number: int = 0
    environments: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def changed_environments(self) -> list[str]:
        """The environments whose files have changed since the run began."""
        now = places.digests()
        return [name for name, digest in self.environments.items() if name in now and now[name] != digest]

    def write(self, checkpoints: Path) -> None:
        """Store the record beside the run's checkpoints, with a new number."""
        checkpoints.mkdir(parents=True, exist_ok=True)
        others = [_number(file) for file in checkpoints.parent.glob(f"*/{RECORD}")]
        numbered = dataclasses.replace(self, number=1 + max(others, default=0))
        write_whole(checkpoints / RECORD, json.dumps(dataclasses.asdict(numbered), indent=2) + "\n")

    @staticmethod
    def read(checkpoints: Path) -> "Record | None":
        """The record beside checkpoints; None if there is none.

        Raises:
            UserError: The record is damaged.
        """
        file = checkpoints / RECORD
        if not file.exists():
            return None
        try:
            values = json.loads(file.read_text())
            folder = str(in_checkout(Path(values["folder"])))
            return Record(**{**values, "command": tuple(values["command"]), "folder": folder})
        except (ValueError, TypeError, KeyError) as error:
            raise UserError(
                f"{file} is damaged ({error}): delete it to start a new run beside its checkpoints"
            ) from error


def record_of(
    before: Record | None, start: Path | None, checkpoints: Path, command: tuple[str, ...], name: str, now: datetime
) -> Record:
    """The record of a run that starts now: the updated record of the resumed run, or a new one.

    Args:
        before: The record beside the checkpoints.
        start: The checkpoint that the run starts from, or None.
        checkpoints: The run's checkpoint folder.
        command: As `Record.command`.
        name: The Weights & Biases id of a new run.
        now: The time that names a new run's folder.
    """
    if before is not None and start is not None and start.parent.resolve() == checkpoints.resolve():
        return dataclasses.replace(before, command=command, finished=False)
    files = places.digests()
    return Record(command, str(outputs_folder(now)), wandb_run_id=name, environments=files)


def interrupted(experiments: Path, command: Sequence[str]) -> Path | None:
    """The unfinished run of the same command that was started last and is not alive; None if there is none.

    Args:
        experiments: A folder of checkpoint folders.
        command: As `Record.command`.
    """
    candidates: list[tuple[int, float, Path]] = []
    for file in experiments.glob(f"*/{RECORD}"):
        record = Record.read(file.parent)
        if record is not None and record.command == tuple(command) and not record.finished and not _alive(file.parent):
            candidates.append((record.number, file.stat().st_mtime, file.parent))
    return max(candidates)[-1] if candidates else None


def check_not_made(experiments: Path, command: Sequence[str]) -> None:
    """Check that no interrupted run goes on with a command only under `start=made`.

    Args:
        experiments: A folder of checkpoint folders.
        command: As `Record.command`, with `start=made`.

    Raises:
        UserError: There is one. A run of an unmarked model had these settings before the group `start` existed.
    """
    if (run := interrupted(experiments, command)) is not None:
        raise UserError(
            f"this command was interrupted in {run} with the settings of start=made, and its model now has "
            "start=pretrained: add start=made to resume it, or trainer.resume_mode=disable to start a new run"
        )


def _number(record: Path) -> int:
    try:
        return int(json.loads(record.read_text()).get("number", 0))
    except (OSError, ValueError, TypeError, AttributeError):
        return 0  # a damaged record, which `Record.read` reports


@contextmanager
def held(checkpoints: Path, start: Path | None = None) -> Iterator[None]:
    """Lock a checkpoint folder, so that no other run writes there.

    Args:
        checkpoints: The folder.
        start: The checkpoint that the run starts from. If it is in another folder, it is protected from removal.

    Raises:
        UserError: A live run has locked the folder, or `start` is being removed.
    """
    checkpoints.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(checkpoints / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(
                f"another run writes to {checkpoints}: wait for it, end it, or set trainer.experiment_name to another "
                "name"
            ) from None
        with nullcontext() if start is None or start.parent.resolve() == checkpoints.resolve() else reading(start):
            yield
    finally:
        os.close(descriptor)


def _alive(checkpoints: Path) -> bool:
    try:
        with held(checkpoints):
            return False
    except UserError:
        return True


def may_go_on(overrides: Sequence[str]) -> bool:
    """Whether to search for an interrupted run: the overrides name no experiment and do not request a new run."""
    named = re.compile(r"\+*trainer\.(experiment_name=|default_local_dir=|resume_mode=disable)")
    return not any(named.match(item) for item in overrides)


def checkpoint_to_go_on_from(configuration: DictConfig, checkpoints: Path, *, again: bool) -> Path | None:
    """The checkpoint that a run starts from, according to `trainer.resume_mode`; None to start without a checkpoint.

    Args:
        configuration: The resolved configuration. `auto` is the newest complete checkpoint in the run's folder,
            `resume_path` is `trainer.resume_from_path`, and `disable` is none.
        checkpoints: The run's checkpoint folder.
        again: Whether the same command was typed before. The run's own checkpoints are then newer than the
            named checkpoint.

    Raises:
        UserError: The checkpoint is missing, lacks a shard, or does not fit the configuration; or the checkpoint folder
            already contains checkpoints of another run.
    """
    trainer, own = configuration.trainer, whole_checkpoints(checkpoints)
    if trainer.resume_mode == "disable":
        if own:
            raise UserError(
                f"{checkpoints} holds checkpoints of an earlier run: set trainer.experiment_name to another name, or "
                "trainer.resume_mode=auto to resume that run"
            )
        return None
    if trainer.resume_mode not in ("auto", "resume_path"):
        raise UserError(
            f"trainer.resume_mode={trainer.resume_mode} is not supported: set it to auto, disable or resume_path"
        )
    if trainer.resume_mode == "resume_path" and not (again and own):
        chosen = named(trainer.resume_from_path)
        if own and chosen.parent.resolve() == checkpoints.resolve() and step_of(chosen) < step_of(own[-1]):
            raise UserError(
                f"{checkpoints} already holds step {step_of(own[-1])}, and the run would start from step "
                f"{step_of(chosen)}: set trainer.experiment_name to another name"
            )
    elif own:
        chosen = own[-1]
    else:
        return None
    _check_fit(configuration, chosen)
    return chosen


def overrides(configuration: DictConfig, start: Path | None, folder: Path) -> list[str]:
    """The overrides with which verl starts from a checkpoint.

    Args:
        configuration: The resolved configuration.
        start: The checkpoint, or None.
        folder: The run's folder of logs and generated models.

    Raises:
        UserError: The checkpoint's base model was generated for a run, and is missing.
    """
    if start is None:
        return ["trainer.resume_mode=disable"]
    made = ["trainer.resume_mode=resume_path", f"trainer.resume_from_path={quoted(str(start))}"]
    info = read_info(start)
    if configuration.actor_rollout_ref.model.path is None and info is not None and not (folder / "model").exists():
        if Path(info.base_model).is_absolute() and not Path(info.base_model).is_dir():
            raise UserError(
                f"the base model {info.base_model} of {start} is missing: set trainer.resume_mode=disable and "
                "trainer.experiment_name to another name"
            )
        made.append(f"actor_rollout_ref.model.path={quoted(info.base_model)}")
    return made


def check_base(start: Path, model: Path) -> None:
    """Check that a checkpoint was trained from this model.

    Raises:
        UserError: The weights differ.
    """
    info = read_info(start)
    if info is not None and info.base_fingerprint not in (None, weights_fingerprint(model)):
        raise UserError(
            f"{start} was trained from {info.base_model}, not from {model}: set AGENT_MODEL_REPO_ID to "
            f"{info.base_model}"
        )


def trim(metrics: Path, last_step: int) -> None:
    """Remove the metrics of steps after a checkpoint, because the run repeats these steps."""
    if metrics.exists():
        kept = [line for line in metrics.read_text().splitlines() if _step(line) <= last_step]
        write_whole(metrics, "".join(f"{line}\n" for line in kept))


def _step(line: str) -> float:
    try:
        return json.loads(line)["step"]
    except ValueError:  # a partial line of a killed process
        return math.inf


def named(typed: str | None) -> Path:
    """The checkpoint that the user names.

    Raises:
        UserError: The checkpoint does not exist. The message lists the checkpoints beside it.
    """
    folder = Path(typed or "").expanduser().absolute()
    if typed and folder.is_dir():
        step_of(folder)
        return folder
    there = ", ".join(path.name for path in step_folders(folder.parent)) or "none"
    raise UserError(
        f"the checkpoint {typed} does not exist: set RESUME_FROM=<experiment>/global_step_N; its folder holds: {there}"
    )


def ranks_of(configuration: DictConfig) -> int:
    """The number of training ranks."""
    return configuration.trainer.n_gpus_per_node * configuration.trainer.nnodes


def divide(configuration: DictConfig, start: Path) -> None:
    """Reshard a checkpoint for the run's number of ranks.

    Raises:
        UserError: The checkpoint is damaged, or the disk is full.
    """
    roles = {"actor": configuration.actor_rollout_ref.actor.fsdp_config.fsdp_size}
    if algorithms.has_critic(configuration):
        roles["critic"] = configuration.critic.fsdp.fsdp_size
    # This imports torch, which a dry run does not need.
    from veritas_rl.checkpoints.reshard import reshard

    reshard(start, ranks_of(configuration), roles)


def _check_fit(configuration: DictConfig, start: Path) -> None:
    kinds = ("model", "optim", "extra_state")
    check_shards(start, "actor", kinds)
    if not (dataset := start / DATASET).is_file() or dataset.stat().st_size == 0:
        raise UserError(
            f"{dataset} is missing or empty, so the run would draw the same tasks again: set RESUME_FROM to another "
            "checkpoint"
        )
    if configuration.veritas_rl.reference == "average":
        if not any(file.exists() for file in shard_files(start, "actor", REFERENCE)):
            raise UserError(
                f"{start} was trained without veritas_rl.reference=average: set veritas_rl.reference=start or "
                "checkpoint, or start a new run with trainer.resume_mode=disable"
            )
        check_shards(start, "actor", (REFERENCE,))
    if algorithms.has_critic(configuration):
        if not (start / "critic").is_dir():
            raise UserError(f"{start} has no critic, because it was trained with ALGORITHM=grpo: set ALGORITHM=grpo")
        check_shards(start, "critic", kinds)
    info = read_info(start)
    if info is None:
        return
    ranks = ranks_of(configuration)
    fsdp1 = configuration.actor_rollout_ref.actor.strategy == "fsdp" or fsdp_version(start) == 1
    if info.world_size != ranks and fsdp1:
        raise UserError(
            f"{start} was written by {info.world_size} ranks, and this run has {ranks}: use {info.world_size} ranks, "
            "because checkpoints of FSDP_STRATEGY=fsdp cannot be resharded"
        )
    if info.device not in (None, device := configuration.trainer.device):
        raise UserError(
            f"{start} was trained on trainer.device={info.device}, and this run has {device}: merge it with bash "
            "train/scripts/merge-ppo.sh, and set AGENT_MODEL_REPO_ID to the result"
        )
    queue = start / "transfer_queue/simple_storage/storage_unit_info.json"
    if configuration.trainer.v1.trainer_mode == "game_async" and queue.exists():
        kept, units = len(json.loads(queue.read_text())), OmegaConf.select(configuration, STORAGE_UNITS)
        if kept != units:
            raise UserError(
                f"{start} stores its games in {kept} storage units, and this run has {units}: set "
                f"{STORAGE_UNITS}={kept}"
            )
    check_saved_adapter(start, "actor", "actor_rollout_ref.model", configuration.actor_rollout_ref.model)
    if algorithms.has_critic(configuration):
        check_saved_adapter(start, "critic", "critic.model", configuration.critic.model)


def check_saved_adapter(start: Path, role: str, key: str, model: DictConfig) -> None:
    """Check that a run's adapter is the one whose weights a checkpoint has.

    Args:
        start: The checkpoint.
        role: `actor` or `critic`.
        key: The key of verl's node of the model.
        model: This node, resolved.

    Raises:
        UserError: The checkpoint has another adapter, or its weights would mean something else.
    """
    written, now = adapter_of(start, role), LoraInfo.of(model)
    fields = {"lora_rank": "rank"}
    if written is not None and now is not None:
        if (written.adapter_path is None) != (now.adapter_path is None):
            fitting = f"set LORA_ADAPTER_PATH={written.adapter_path}" if written.adapter_path else "leave it out"
            raise UserError(
                f"{start} was trained from LORA_ADAPTER_PATH={written.adapter_path or ''}, and this run from "
                f"LORA_ADAPTER_PATH={now.adapter_path or ''}: {fitting}"
            )
        if written.start is not None and written.start != now.start:
            raise UserError(
                f"{start} was trained from the adapter {written.adapter_path}, whose weights or settings differ from "
                f"those in {now.adapter_path}: set LORA_ADAPTER_PATH to the same adapter"
            )
        fields["lora_alpha"] = "alpha"
        if not now.adapter_path and written.target_modules is not None:
            fields |= {name: name for name in MODULES}
    for name, field in fields.items():
        had, has = (getattr(adapter, field) if adapter else 0 for adapter in (written, now))
        if had != has:
            raise UserError(
                f"{start} was trained with {key}.{name}={_typed(had)}, and this run has {_typed(has)}: the saved "
                f"weights would mean something else; set {key}.{name}={_typed(had)}"
            )


def _typed(value: object) -> str:
    """A setting as it is typed."""
    return "null" if value is None else f"[{','.join(map(str, value))}]" if isinstance(value, list) else str(value)
