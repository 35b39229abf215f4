"""The checkpoint from which a run resumes, and refused combinations of runs and folders."""

import dataclasses
import json
import os
import re
import shutil
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from veritas_rl.checkpoints.adapter import SETTINGS, WEIGHTS, weights_fingerprint
from veritas_rl.checkpoints.assemble import merge_checkpoint
from veritas_rl.checkpoints.layout import CheckpointInfo, LoraInfo, write_info
from veritas_rl.errors import UserError
from veritas_rl.launch import resume
from veritas_rl.launch.hardware import Hardware
from veritas_rl.launch.rl import RlRun, plan
from veritas_rl.launch.tiny_model import build_tiny_model

CPU = Hardware(cores=2, gpus=0, gpu_bytes=0)
FIRST, SECOND = datetime(2026, 1, 2, 3, 4, 5), datetime(2026, 1, 2, 4, 0, 0)


def checkpoint(folder: Path, step: int, *, whole: bool = True, critic: bool = True) -> Path:
    """A checkpoint with the files that the launcher checks."""
    made = folder / f"global_step_{step}"
    for role in ("actor", "critic") if critic else ("actor",):
        (made / role).mkdir(parents=True)
        for kind in ("model", "optim", "extra_state"):
            torch.save({}, made / role / f"{kind}_world_size_1_rank_0.pt")
    torch.save({}, made / "data.pt")
    if whole:
        write_info(made, CheckpointInfo(global_step=step, base_model="base", world_size=1))
    return made


def named(folder: Path, *typed: str, now: datetime = FIRST, **variables: str) -> RlRun:
    """A run whose checkpoint folder is named by the user."""
    return plan([f"trainer.default_local_dir={folder}", *typed], variables, CPU, now)


def test_without_checkpoints_it_begins() -> None:
    run = plan([], {}, CPU, FIRST)
    assert run.start is None
    assert run.first_step == 0
    assert run.configuration.trainer.resume_mode == "disable"
    assert run.configuration.trainer.experiment_name == "openspiel-20260102-030405-000000"


def test_two_runs_that_begin_in_one_millisecond_share_nothing() -> None:
    first, second = (plan([], {}, CPU, FIRST.replace(microsecond=part)) for part in (1, 999))
    assert first.folder != second.folder
    assert first.checkpoints != second.checkpoints


def test_the_newest_whole_checkpoint_is_gone_on_from(tmp_path: Path) -> None:
    run = named(tmp_path)
    run.record.write(tmp_path)
    checkpoint(tmp_path, 5)
    newest = checkpoint(tmp_path, 10)
    checkpoint(tmp_path, 15, whole=False)
    again = named(tmp_path, now=SECOND)
    assert again.start == newest
    assert again.configuration.trainer.resume_from_path == str(newest)
    # The logs and the Weights & Biases run are those of the interrupted run.
    assert again.folder == run.folder
    assert again.environment()["WANDB_RUN_ID"] == run.environment()["WANDB_RUN_ID"]


def test_the_run_that_was_started_last_goes_on_although_the_clock_was_set_back(tmp_path: Path) -> None:
    record = resume.Record(("hardware=cpu",), "logs", "id")
    for name in ("first", "second"):
        record.write(tmp_path / name)
    os.utime(tmp_path / "first/run.json", (2e9, 2e9))
    assert resume.interrupted(tmp_path, record.command) == tmp_path / "second"
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged/run.json").write_text("[]")
    record.write(tmp_path / "first")
    (tmp_path / "damaged/run.json").unlink()
    assert resume.interrupted(tmp_path, record.command) == tmp_path / "first"


def test_the_same_command_finds_its_interrupted_run(tmp_path: Path) -> None:
    command = ("hardware=cpu", "AGENT_MODEL_REPO_ID=")
    record = resume.Record(command, "logs", "id")
    for name, kept in {
        "ended": dataclasses.replace(record, finished=True),
        "other": dataclasses.replace(record, command=("hardware=h200x1",)),
    }.items():
        kept.write(tmp_path / name)
    assert resume.interrupted(tmp_path, command) is None
    record.write(tmp_path / "cut-off")
    assert resume.interrupted(tmp_path, command) == tmp_path / "cut-off"
    with resume.held(tmp_path / "cut-off"):
        assert resume.interrupted(tmp_path, command) is None


def test_runs_from_before_the_group_start_are_found(
    tmp_path: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("veritas_rl.launch.rl.EXPERIMENTS", tmp_path)
    machine, steps = ("hardware=cpu", "lora=off", "rollout=transformers"), "trainer.total_training_steps=8"
    resume.Record((*machine, steps, "AGENT_MODEL_REPO_ID="), "logs", "id").write(tmp_path / "made")
    assert plan([steps], {}, CPU, FIRST).configuration.trainer.experiment_name == "made"
    # Named models were trained with the settings of made ones. Those without a mark are pretrained now.
    model = shutil.copytree(tiny_model, tmp_path / "model")
    config = json.loads((model / "config.json").read_text())
    config.pop("made_by_veritas_rl")
    (model / "config.json").write_text(json.dumps(config))
    monkeypatch.setenv("AGENT_MODEL_REPO_ID", str(model))
    variables = {"AGENT_MODEL_REPO_ID": str(model)}
    resume.Record((*machine, steps, f"AGENT_MODEL_REPO_ID={model}"), "logs", "id").write(tmp_path / "named")
    with pytest.raises(UserError, match=r"interrupted in .*/named with .*: add start=made to resume it, or trainer\."):
        plan([steps], variables, CPU, FIRST)
    assert plan([steps, "start=made"], variables, CPU, FIRST).configuration.trainer.experiment_name == "named"
    fresh = plan([steps, "trainer.resume_mode=disable"], variables, CPU, FIRST)
    assert fresh.configuration.trainer.experiment_name not in ("made", "named")


def test_a_run_is_not_looked_for_where_another_is_named_or_a_new_one_wanted() -> None:
    assert resume.may_go_on(["hardware=cpu", "trainer.resume_mode=resume_path", "trainer.save_freq=3"])
    for typed in ("trainer.experiment_name=x", "+trainer.default_local_dir=y", "trainer.resume_mode=disable"):
        assert not resume.may_go_on(["hardware=cpu", typed])


def test_two_runs_never_write_to_one_folder(tmp_path: Path) -> None:
    with resume.held(tmp_path), pytest.raises(UserError, match="another run writes to"), resume.held(tmp_path):
        pass
    with resume.held(tmp_path):
        pass


def test_a_new_run_is_not_mixed_up_with_an_old_one(tmp_path: Path) -> None:
    checkpoint(tmp_path, 5)
    with pytest.raises(UserError, match="holds checkpoints of an earlier run"):
        named(tmp_path, "trainer.resume_mode=disable")


def test_resume_from_begins_with_the_one_that_is_named(tmp_path: Path) -> None:
    checkpoint(tmp_path / "old", 5)
    checkpoint(tmp_path / "old", 10)
    chosen = tmp_path / "old/global_step_5"
    run = named(tmp_path / "new", RESUME_FROM=str(chosen))
    assert run.start == chosen
    # The new run starts from the base model of the old run.
    assert run.configuration.actor_rollout_ref.model.path == "base"
    with pytest.raises(UserError, match="already holds step 10"):
        named(tmp_path / "old", RESUME_FROM=str(chosen))
    # After an interruption, the same command resumes from the run's own checkpoints with the same model.
    run.record.write(tmp_path / "new")
    own = checkpoint(tmp_path / "new", 8)
    again = named(tmp_path / "new", RESUME_FROM=str(chosen), now=SECOND)
    assert again.start == own
    assert again.configuration.actor_rollout_ref.model.path == "base"


def test_another_base_is_refused(tmp_path: Path) -> None:
    base, other = (build_tiny_model(tmp_path / f"model{seed}", seed) for seed in (0, 1))
    made = checkpoint(tmp_path, 5, whole=False)
    info = CheckpointInfo(5, str(base), 1, base_fingerprint=weights_fingerprint(base))
    write_info(made, info)
    resume.check_base(made, base)
    with pytest.raises(UserError, match="was trained from"):
        resume.check_base(made, other)
    write_info(made, dataclasses.replace(info, base_model=str(tmp_path / "gone")))
    with pytest.raises(UserError, match="is missing"):
        named(tmp_path)


def test_a_checkpoint_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    made = checkpoint(tmp_path, 5)
    assert named(tmp_path, "trainer.n_gpus_per_node=2").start == made
    (made / "actor/fsdp_config.json").write_text('{"FSDP_version": 1, "world_size": 1}')
    with pytest.raises(UserError, match="was written by 1 ranks, and this run has 2"):
        named(tmp_path, "trainer.n_gpus_per_node=2")
    with pytest.raises(UserError, match=r"was trained with actor_rollout_ref\.model\.lora_rank=0, and this run has 32"):
        named(tmp_path, ENABLE_LORA="1")
    write_info(made, CheckpointInfo(5, "base", 1, device="cuda"))
    with pytest.raises(UserError, match=r"was trained on trainer\.device=cuda, and this run has cpu: merge it"):
        named(tmp_path)
    write_info(made, CheckpointInfo(5, "base", 1, device="cpu"))
    assert named(tmp_path).start == made
    (made / "actor/optim_world_size_1_rank_0.pt").write_bytes(b"PK")
    with pytest.raises(UserError, match="has a truncated shard"):
        named(tmp_path)
    (made / "actor/optim_world_size_1_rank_0.pt").unlink()
    with pytest.raises(UserError, match="lacks the shard"):
        named(tmp_path)
    checkpoint(tmp_path / "grpo", 5, critic=False)
    with pytest.raises(UserError, match="has no critic"):
        named(tmp_path / "grpo")


def adapter(folder: Path, **settings: object) -> Path:
    """The files of an adapter from which training may continue."""
    folder.mkdir()
    factors = {"A": torch.ones(4, 8), "B": torch.ones(8, 4)}
    save_file({f"base_model.model.x.lora_{name}.weight": one for name, one in factors.items()}, folder / WEIGHTS)
    config = {"r": 4, "lora_alpha": 8, "target_modules": ["x"], "use_rslora": False, "base_model_name_or_path": "base"}
    (folder / SETTINGS).write_text(json.dumps(config | settings))
    return folder


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("actor_rollout_ref.model.lora_alpha=64", "lora_alpha=32, and this run has 64"),
        ("actor_rollout_ref.model.lora_rank=8", "actor_rollout_ref.model.lora_rank=32, and this run has 8"),
        ("actor_rollout_ref.model.target_modules=[v_proj,q_proj]", "set actor_rollout_ref.model.target_modules=all-l"),
        ("actor_rollout_ref.model.exclude_modules=head", "set actor_rollout_ref.model.exclude_modules=null"),
        ("critic.model.lora_alpha=64", "set critic.model.lora_alpha=32"),
        ("critic.model.lora_rank=8", "critic.model.lora_rank=32, and this run has 8: the saved weights would"),
    ],
)
def test_an_adapter_keeps_its_meaning(tmp_path: Path, typed: str, said: str) -> None:
    lora = LoraInfo(32, 32, "all-linear")
    made = checkpoint(tmp_path, 5)
    write_info(made, CheckpointInfo(5, "base", 1, lora, critic_lora=lora))
    assert named(tmp_path, ENABLE_LORA="1").start == made
    with pytest.raises(UserError, match=re.escape(said)):
        named(tmp_path, typed, ENABLE_LORA="1")


def test_a_critic_whose_adapter_is_only_in_verls_record_keeps_it(tmp_path: Path) -> None:
    made, actor = checkpoint(tmp_path, 5), LoraInfo(32, 32, "all-linear")
    write_info(made, CheckpointInfo(5, "base", 1, actor))
    with pytest.raises(UserError, match=r"critic\.model\.lora_rank=0, and this run has 32"):
        named(tmp_path, ENABLE_LORA="1")
    (made / "critic/lora_train_meta.json").write_text(json.dumps({"r": 32, "lora_alpha": 32}))
    assert named(tmp_path, ENABLE_LORA="1").start == made
    with pytest.raises(UserError, match=r"critic\.model\.lora_alpha=32, and this run has 64"):
        named(tmp_path, "critic.model.lora_alpha=64", ENABLE_LORA="1")
    with pytest.raises(UserError, match=r"critic\.model\.lora_rank=32, and this run has 0"):
        named(tmp_path, "critic.model.lora_rank=0", ENABLE_LORA="1")


def test_modules_are_recorded_as_they_are_typed_in_any_order(tmp_path: Path) -> None:
    typed = "actor_rollout_ref.model.target_modules"
    made = checkpoint(tmp_path, 5)
    run = named(tmp_path / "other", f"{typed}=[v_proj,q_proj]", ENABLE_LORA="1")
    lora, critic = (
        LoraInfo.of(node) for node in (run.configuration.actor_rollout_ref.model, run.configuration.critic.model)
    )
    write_info(made, CheckpointInfo(5, "base", 1, lora, critic_lora=critic))
    assert named(tmp_path, f"{typed}=[q_proj,v_proj]", ENABLE_LORA="1").start == made
    with pytest.raises(UserError, match=re.escape(f"set {typed}=[q_proj,v_proj]")):
        named(tmp_path, ENABLE_LORA="1")


def test_a_run_from_an_adapter_goes_on_with_that_adapter(tmp_path: Path) -> None:
    begun, stronger, moved = (tmp_path / name for name in ("begun", "stronger", "moved"))
    adapter(begun)
    adapter(stronger, use_rslora=True)
    shutil.copytree(begun, moved)
    off = ["algorithm=grpo", "actor_rollout_ref.model.path=base"]

    def resumed(begun: Path) -> RlRun:
        return named(tmp_path / "run", *off, ENABLE_LORA="1", LORA_ADAPTER_PATH=str(begun))

    run = resumed(begun)
    info = CheckpointInfo(5, "base", 1, LoraInfo.of(run.configuration.actor_rollout_ref.model))
    made = checkpoint(tmp_path / "run", 5)
    write_info(made, info)
    for same in (begun, moved):
        assert resumed(same).start == made
    with pytest.raises(UserError, match=f"whose weights or settings differ from those in {stronger}"):
        resumed(stronger)
    same = [*off, "actor_rollout_ref.model.lora_rank=4", "actor_rollout_ref.model.lora_alpha=8"]
    with pytest.raises(UserError, match=f"and this run from LORA_ADAPTER_PATH=: set LORA_ADAPTER_PATH={begun}"):
        named(tmp_path / "run", *same, ENABLE_LORA="1")
    write_info(made, dataclasses.replace(info, lora=LoraInfo(4, 8, "all-linear")))
    with pytest.raises(UserError, match=r"was trained from LORA_ADAPTER_PATH=, .*: leave it out"):
        resumed(begun)


def test_settings_that_an_adapter_fixes_cannot_be_typed(tmp_path: Path) -> None:
    begun = adapter(tmp_path / "begun")
    typed = ("actor_rollout_ref.model.path=base", "actor_rollout_ref.model.lora_alpha=64")
    with pytest.raises(UserError, match=r"has lora_alpha=8, so actor_rollout_ref\.model\.lora_alpha=64 has no effect"):
        named(tmp_path / "run", *typed, ENABLE_LORA="1", LORA_ADAPTER_PATH=str(begun))


def test_an_averaged_reference_needs_its_average(tmp_path: Path) -> None:
    words = ("actor_rollout_ref.actor.use_kl_loss=true", "veritas_rl.reference=average")
    step = checkpoint(tmp_path, 5)
    with pytest.raises(UserError, match=r"global_step_5 was trained without veritas_rl\.reference=average"):
        named(tmp_path, *words)
    average = step / "actor/reference_world_size_1_rank_0.pt"
    average.write_bytes(b"cut")
    with pytest.raises(UserError, match="truncated shard"):
        named(tmp_path, *words)
    torch.save({}, average)
    assert named(tmp_path, *words).start == step


@pytest.mark.parametrize("damage", [Path.unlink, lambda file: file.write_bytes(b"")], ids=["missing", "empty"])
def test_a_checkpoint_without_the_state_of_its_dataset_is_refused(
    tmp_path: Path, damage: Callable[[Path], Any]
) -> None:
    damage(checkpoint(tmp_path, 5) / "data.pt")
    with pytest.raises(UserError, match=r"global_step_5/data\.pt is missing or empty"):
        named(tmp_path)


def test_a_damaged_record_is_named(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(UserError, match="is damaged"):
        named(tmp_path)


def test_metrics_end_where_the_checkpoint_is(tmp_path: Path) -> None:
    metrics = tmp_path / "metrics.jsonl"
    resume.trim(metrics, 3)
    assert not metrics.exists()
    lines = [json.dumps({"step": step, "data": {}}) for step in range(1, 7)]
    metrics.write_text("\n".join(lines) + '\n{"step": 7, "da')
    resume.trim(metrics, 4)
    assert metrics.read_text().splitlines() == lines[:4]


def test_a_checkout_that_was_moved_goes_on_with_the_folders_of_its_runs(
    tiny_model: Path,
    save_checkpoint: Callable[[Path, Path, int, float], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before, here = tmp_path / "before", tmp_path / "here"
    logs = before / "train/outputs/2026-01-02/03-04-05"
    shutil.copytree(tiny_model, logs / "model")
    monkeypatch.setattr("veritas_rl.paths.ROOT", before)
    start = save_checkpoint(before / "train/artifacts/RL/checkpoints/mine", logs / "model", 2, 2.0)
    resume.Record(("hardware=cpu",), str(logs), "id").write(start.parent)
    before.rename(here)
    monkeypatch.setattr("veritas_rl.paths.ROOT", here)
    checkpoints = here / start.parent.relative_to(before)
    record = resume.Record.read(checkpoints)
    assert record is not None
    assert Path(record.folder) == here / logs.relative_to(before)
    proof = merge_checkpoint(checkpoints / start.name, tmp_path / "merged")
    assert proof.weights is not None
    assert proof.weights.differing
