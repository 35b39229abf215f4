"""Going on with a run that was interrupted: the same command again continues from its last whole checkpoint.

Beside its checkpoints each run keeps `run.json`, which says what was typed, where its logs are and whether it ended.
The launcher holds a lock on the folder as long as it lives, and the kernel ends verl with it: what is locked is alive.
"""

import dataclasses
import fcntl
import json
import math
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from veritas_rl.checkpoints.adapter import weights_fingerprint
from veritas_rl.checkpoints.folder import write_whole
from veritas_rl.checkpoints.layout import (
    RECORD,
    check_shards,
    fsdp_version,
    read_info,
    reading,
    step_folders,
    step_of,
    whole_checkpoints,
)
from veritas_rl.errors import UserError
from veritas_rl.launch.variables import quoted
from veritas_rl.paths import outputs_folder

LOCK = "run.lock"

STORAGE_UNITS = "transfer_queue.backend.SimpleStorage.num_data_storage_units"


@dataclass(frozen=True)
class Record:
    """What is known of a run after its process is gone.

    Attributes:
        command: What decides what the run does: the overrides of the machine, of the variables and of the person.
        folder: Its logs, metrics and reports, and the model that was made for it.
        wandb_run_id: Under which Weights & Biases goes on with it.
        finished: Whether it came to its end.
    """

    command: tuple[str, ...]
    folder: str
    wandb_run_id: str
    finished: bool = False

    def write(self, checkpoints: Path) -> None:
        """Keep the record beside the run's checkpoints."""
        checkpoints.mkdir(parents=True, exist_ok=True)
        write_whole(checkpoints / RECORD, json.dumps(dataclasses.asdict(self), indent=2) + "\n")

    @staticmethod
    def read(checkpoints: Path) -> "Record | None":
        """The record that stands beside checkpoints; None if there is none.

        Raises:
            UserError: There is one, and it cannot be understood.
        """
        file = checkpoints / RECORD
        if not file.exists():
            return None
        try:
            values = json.loads(file.read_text())
            return Record(**{**values, "command": tuple(values["command"])})
        except (ValueError, TypeError, KeyError) as error:
            raise UserError(f"{file} is damaged ({error}): remove it to start again beside its checkpoints") from error


def record_of(
    before: Record | None, start: Path | None, checkpoints: Path, command: tuple[str, ...], name: str, now: datetime
) -> Record:
    """The record of a run that begins now: that of the run with which it goes on, or a new one.

    Args:
        before: What stands beside the checkpoints.
        start: The checkpoint with which it begins, or None.
        checkpoints: Where it saves its own.
        command: As `Record.command`.
        name: A new run's, for Weights & Biases.
        now: Names a new run's logs.
    """
    if before is not None and start is not None and start.parent.resolve() == checkpoints.resolve():
        return dataclasses.replace(before, command=command, finished=False)
    return Record(command, str(outputs_folder(now)), wandb_run_id=name)


def interrupted(experiments: Path, command: Sequence[str]) -> Path | None:
    """The newest run of the same command that did not end and is not alive; None if there is none.

    Args:
        experiments: A folder of folders of checkpoints.
        command: As `Record.command`.
    """
    candidates: list[tuple[float, Path]] = []
    for file in experiments.glob(f"*/{RECORD}"):
        record = Record.read(file.parent)
        if record is not None and record.command == tuple(command) and not record.finished and not _alive(file.parent):
            candidates.append((file.stat().st_mtime, file.parent))
    return max(candidates)[1] if candidates else None


@contextmanager
def held(checkpoints: Path, start: Path | None = None) -> Iterator[None]:
    """Hold a folder of checkpoints: no other run may write there.

    Args:
        checkpoints: The folder.
        start: The checkpoint with which the run begins. In another folder nobody may remove it meanwhile; among its own
            it is the newest, which the run itself removes in its time.

    Raises:
        UserError: A run that is alive has the folder, or `start` is being removed.
    """
    checkpoints.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(checkpoints / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(
                f"a run that is alive writes to {checkpoints}: wait for it, end it, or set trainer.experiment_name to "
                "another name"
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
    """Whether an interrupted run may be looked for: nobody named the experiment, or asked for a new one."""
    named = re.compile(r"\+*trainer\.(experiment_name=|default_local_dir=|resume_mode=disable)")
    return not any(named.match(item) for item in overrides)


def checkpoint_to_go_on_from(configuration: DictConfig, checkpoints: Path, *, again: bool) -> Path | None:
    """The checkpoint with which a run begins, as `trainer.resume_mode` says; None for none.

    Args:
        configuration: The resolved configuration. `auto`: the newest whole checkpoint in its own folder;
            `resume_path`: the one that `trainer.resume_from_path` names; `disable`: none.
        checkpoints: The run's own folder of checkpoints.
        again: Whether the same command was typed before, so that its own checkpoints are newer than the one it names.

    Raises:
        UserError: The checkpoint is not there, lacks a shard, or does not fit the configuration; or a new run would
            be mixed up with the checkpoints of an older one.
    """
    trainer, own = configuration.trainer, whole_checkpoints(checkpoints)
    if trainer.resume_mode == "disable":
        if own:
            raise UserError(
                f"{checkpoints} holds checkpoints of an earlier run: set trainer.experiment_name to another name, or "
                "trainer.resume_mode=auto to go on with it"
            )
        return None
    if trainer.resume_mode not in ("auto", "resume_path"):
        raise UserError(f"trainer.resume_mode={trainer.resume_mode} is not understood: auto, disable or resume_path")
    if trainer.resume_mode == "resume_path" and not (again and own):
        chosen = named(trainer.resume_from_path)
        if own and chosen.parent.resolve() == checkpoints.resolve() and step_of(chosen) < step_of(own[-1]):
            raise UserError(
                f"{checkpoints} holds step {step_of(own[-1])} already, which would be mixed up with what comes after "
                f"step {step_of(chosen)}: set trainer.experiment_name to another name"
            )
    elif own:
        chosen = own[-1]
    else:
        return None
    _check_fit(configuration, chosen)
    return chosen


def overrides(configuration: DictConfig, start: Path | None, folder: Path) -> list[str]:
    """The overrides by which verl begins with a checkpoint.

    Args:
        configuration: The resolved configuration.
        start: The checkpoint, or None.
        folder: The run's folder of logs, where the model is that was made for it.

    Raises:
        UserError: The model from which the checkpoint began was made for a run, and is gone.
    """
    if start is None:
        return ["trainer.resume_mode=disable"]
    made = ["trainer.resume_mode=resume_path", f"trainer.resume_from_path={quoted(str(start))}"]
    info = read_info(start)
    if configuration.actor_rollout_ref.model.path is None and info is not None and not (folder / "model").exists():
        if Path(info.base_model).is_absolute() and not Path(info.base_model).is_dir():
            raise UserError(
                f"the model from which {start} began is gone, {info.base_model}: set trainer.resume_mode=disable and "
                "trainer.experiment_name to another name"
            )
        made.append(f"actor_rollout_ref.model.path={quoted(info.base_model)}")
    return made


def check_base(start: Path, model: Path) -> None:
    """Refuse to go on with another model than a checkpoint began from.

    Raises:
        UserError: The weights are not those.
    """
    info = read_info(start)
    if info is not None and info.base_fingerprint not in (None, weights_fingerprint(model)):
        raise UserError(f"{start} began from {info.base_model}, and not from {model}: set AGENT_MODEL_REPO_ID to that")


def trim(metrics: Path, last_step: int) -> None:
    """Forget the metrics of steps after a checkpoint: they will be trained again."""
    if metrics.exists():
        kept = [line for line in metrics.read_text().splitlines() if _step(line) <= last_step]
        write_whole(metrics, "".join(f"{line}\n" for line in kept))


def _step(line: str) -> float:
    try:
        return json.loads(line)["step"]
    except ValueError:  # half a line, where the process was killed
        return math.inf


def named(typed: str | None) -> Path:
    """The checkpoint that a person names.

    Raises:
        UserError: There is none; the message lists those beside it.
    """
    folder = Path(typed or "").expanduser().absolute()
    if typed and folder.is_dir():
        step_of(folder)
        return folder
    there = ", ".join(path.name for path in step_folders(folder.parent)) or "none"
    raise UserError(f"there is no checkpoint {typed}: RESUME_FROM=<experiment>/global_step_N; in its folder: {there}")


def ranks_of(configuration: DictConfig) -> int:
    """How many ranks train."""
    return configuration.trainer.n_gpus_per_node * configuration.trainer.nnodes


def divide(configuration: DictConfig, start: Path) -> None:
    """Make a checkpoint readable for as many ranks as the run has.

    Raises:
        UserError: It is damaged, or the disk is full.
    """
    roles = {"actor": configuration.actor_rollout_ref.actor.fsdp_config.fsdp_size}
    if configuration.algorithm.adv_estimator == "gae":
        roles["critic"] = configuration.critic.fsdp.fsdp_size
    # It imports torch, which a dry run does not pay for.
    from veritas_rl.checkpoints.reshard import reshard

    reshard(start, ranks_of(configuration), roles)


def _check_fit(configuration: DictConfig, start: Path) -> None:
    """Refuse a checkpoint that lacks a shard, or that another kind of run wrote.

    Raises:
        UserError: It says what differs.
    """
    kinds = ("model", "optim", "extra_state")
    check_shards(start, "actor", kinds)
    if configuration.algorithm.adv_estimator == "gae":
        if not (start / "critic").is_dir():
            raise UserError(f"{start} has no critic: it was trained with ALGORITHM=grpo")
        check_shards(start, "critic", kinds)
    info = read_info(start)
    if info is None:
        return
    ranks = ranks_of(configuration)
    fsdp1 = configuration.actor_rollout_ref.actor.strategy == "fsdp" or fsdp_version(start) == 1
    if info.world_size != ranks and fsdp1:
        raise UserError(
            f"{start} was written by {info.world_size} ranks and {ranks} are to read it: use as many, because what "
            "FSDP_STRATEGY=fsdp writes cannot be divided otherwise"
        )
    if info.device not in (None, device := configuration.trainer.device):
        raise UserError(
            f"{start} was trained on trainer.device={info.device}, and the run has {device}: merge it "
            "(bash train/scripts/merge-ppo.sh), and begin with the merged model"
        )
    queue = start / "transfer_queue/simple_storage/storage_unit_info.json"
    if configuration.trainer.v1.trainer_mode == "game_async" and queue.exists():
        kept, units = len(json.loads(queue.read_text())), OmegaConf.select(configuration, STORAGE_UNITS)
        if kept != units:
            raise UserError(
                f"{start} keeps its games in {kept} storage units, and the run has {units}: set {STORAGE_UNITS}"
            )
    rank, written = configuration.actor_rollout_ref.model.lora_rank, info.lora.rank if info.lora else 0
    if rank != written:
        raise UserError(f"{start} was trained with LoRA rank {written} (0: none), and the run has {rank}: use the same")
