"""What a recipe stands on: which changes of files and tasks change its digests, and which do not."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import yaml

from veritas_rl.basis import Basis
from veritas_rl.composition import settings_digest
from veritas_rl.errors import UserError
from veritas_rl.launch import configuration as conf
from veritas_rl.launch import recipe_run, rl, sft
from veritas_rl.launch.hardware import Hardware
from veritas_rl.launch.recipe_basis import composed_on, described
from veritas_rl.launch.recipe_run import RecipeRun
from veritas_rl.launch.recipes import FOLDER
from veritas_rl.paths import ROOT
from veritas_rl.records.description import read_description

TRAINERS = {trainer.kind: trainer for trainer in (rl.TRAINER, sft.TRAINER)}


def basis_of(folder: Path) -> Basis:
    description = described(folder, TRAINERS)
    assert description is not None
    assert description.basis is not None
    return description.basis


def elsewhere(folder: Path, **variables: str) -> Basis:
    """The basis that another process finds."""
    code = (
        "import dataclasses, json, sys; from pathlib import Path; from veritas_rl.launch import rl, sft;"
        "from veritas_rl.launch.recipe_basis import described;"
        "found = described(Path(sys.argv[1]), {one.kind: one for one in (rl.TRAINER, sft.TRAINER)});"
        "print(json.dumps(dataclasses.asdict(found.basis)))"
    )
    command = [sys.executable, "-c", code, str(folder)]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **variables}, capture_output=True, check=True)
    return Basis(**json.loads(done.stdout))


def copied(name: str, place: Path) -> Path:
    """A copy of a recipe in another folder."""
    place.mkdir(parents=True, exist_ok=True)
    shutil.copytree(FOLDER / name, place / name, ignore=shutil.ignore_patterns("results", "*.png"))
    return place / name


def rewrite(file: Path, before: str, after: str) -> None:
    text = file.read_text()
    assert text.count(before) == 1
    file.write_text(text.replace(before, after))


def test_settings_moved_to_a_base_file_count_where_they_are(tmp_path: Path) -> None:
    folder = copied("kuhn_self_play", tmp_path)
    tree = yaml.safe_load((folder / "config.yaml").read_text())
    base = tmp_path / "self_play/base.yaml"
    base.parent.mkdir()
    moved = {"actor_rollout_ref": tree.pop("actor_rollout_ref"), "trainer": tree.pop("trainer")}
    base.write_text(yaml.safe_dump(moved))
    tree["defaults"].append({"/self_play@_global_": "base"})
    (folder / "config.yaml").write_text(f"# Another comment.\n{yaml.safe_dump(tree, sort_keys=True)}")
    whole = basis_of(FOLDER / "kuhn_self_play")
    assert basis_of(folder) == whole
    moved["trainer"]["total_training_steps"] += 1
    base.write_text(yaml.safe_dump(moved))
    changed = basis_of(folder)
    assert changed.settings != whole.settings
    assert changed.tasks == whole.tasks


def test_a_changed_default_of_the_hardware_counts_and_a_comment_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    present = {name: basis_of(FOLDER / name) for name in ("tic_tac_toe_moves", "lgc-v2-sft")}
    monkeypatch.setattr(conf, "CONFIG_DIR", shutil.copytree(conf.CONFIG_DIR, tmp_path / "config"))
    cpu = tmp_path / "config/start/made.yaml"
    cpu.write_text(cpu.read_text().replace("  # No", "  # Still no") + "\n# The end.\n")
    assert {name: basis_of(FOLDER / name) for name in present} == present
    rewrite(cpu, "    ppo_epochs: 2\n", "    ppo_epochs: 3\n")
    changed = basis_of(FOLDER / "tic_tac_toe_moves")
    assert changed == replace(present["tic_tac_toe_moves"], settings=changed.settings)
    assert changed.settings != present["tic_tac_toe_moves"].settings
    assert basis_of(FOLDER / "lgc-v2-sft") == present["lgc-v2-sft"]
    rewrite(tmp_path / "config/sft_start/made.yaml", "  lr: 2.0e-3\n", "  lr: 3.0e-3\n")
    assert basis_of(FOLDER / "lgc-v2-sft").settings != present["lgc-v2-sft"].settings


def test_the_settings_of_the_fine_tuning_before_a_training_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    present = basis_of(FOLDER / "tic_tac_toe")
    monkeypatch.setattr(conf, "CONFIG_DIR", shutil.copytree(conf.CONFIG_DIR, tmp_path / "config"))
    rewrite(tmp_path / "config/sft_start/made.yaml", "  lr: 2.0e-3\n", "  lr: 3.0e-3\n")
    changed = basis_of(FOLDER / "tic_tac_toe")
    assert changed.settings != present.settings
    assert changed.tasks == present.tasks


def test_names_folders_threads_and_bands_do_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    present = basis_of(FOLDER / "kuhn_self_play")
    folder = copied("kuhn_self_play", tmp_path / "elsewhere")
    tree = yaml.safe_load((folder / "config.yaml").read_text())
    tree["veritas_rl"]["small_model"] = {"threads": 7}
    tree["veritas_rl"]["recipe"] |= {"expected": {}, "curve": ["task/legal"], "short": {}}
    tree["trainer"] |= {
        "project_name": "mine",
        "default_local_dir": str(tmp_path / "checkpoints"),
        "logger": ["console"],
    }
    tree["ray_kwargs"] = {"ray_init": {"num_cpus": 3}}
    tree["actor_rollout_ref"]["actor"]["use_prefix_grouper"] = True
    tree["skip"] = {"rollout": {"dump_dir": "/somewhere/else/rollout_dump"}}
    (folder / "config.yaml").write_text(yaml.safe_dump(tree))
    monkeypatch.setenv("WANDB_PROJECT", "another")
    monkeypatch.setenv("AGENT_MODEL_REPO_ID", "/some/model")
    assert basis_of(folder) == present
    assert os.environ["AGENT_MODEL_REPO_ID"] == "/some/model"
    tree["veritas_rl"]["recipe"]["judge"] = {"exact": {"every_step": False}}
    (folder / "config.yaml").write_text(yaml.safe_dump(tree))
    assert basis_of(folder).settings != present.settings


def test_another_question_under_the_same_settings_changes_the_tasks_alone(tmp_path: Path) -> None:
    programs = tmp_path / "programs.jsonl"
    lines = [json.dumps({"program": f"print({number} + {number})"}) for number in range(20)]
    programs.write_text("\n".join(lines))
    folder = copied("trace", tmp_path)
    tree = yaml.safe_load((folder / "config.yaml").read_text())
    tree["data"] = {"custom_cls": {"config": {"adapter_config": {"levels": f"programs:{programs}"}}}}
    (folder / "config.yaml").write_text(yaml.safe_dump(tree))
    first = elsewhere(folder)
    programs.write_text("\n".join([lines[0].replace("+", "*"), *lines[1:]]))
    changed = elsewhere(folder)
    assert changed == replace(first, tasks=changed.tasks)
    assert changed.tasks != first.tasks


@pytest.mark.parametrize("name", ["mixture", "hex_5", "hex_sizes"])
def test_another_process_finds_the_same_basis(name: str, tmp_path: Path) -> None:
    others = {"PYTHONHASHSEED": "7", "XDG_CACHE_HOME": str(tmp_path), "TZ": "Asia/Tokyo", "OMP_NUM_THREADS": "1"}
    assert elsewhere(FOLDER / name, **others) == basis_of(FOLDER / name)


def test_a_run_stands_on_its_recipe_whatever_its_seed_and_its_departures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recipe_run, "RUNS", tmp_path)
    machine = Hardware(cores=2, gpus=0, gpu_bytes=0)
    typed = ["recipe=tic_tac_toe_moves", "veritas_rl.seed=9", "trainer.total_training_steps=3"]
    run = RecipeRun.plan(rl.TRAINER, sft.TRAINER, typed, machine)
    assert run.description.basis == basis_of(FOLDER / "tic_tac_toe_moves")


def test_recipes_are_what_they_were_before_they_stood_on_bases() -> None:
    """The digests were written down when each recipe was one whole file. A recipe that changes gets new ones here."""
    made: dict[str, dict[str, str]] = {}
    for folder in sorted(FOLDER.glob("*/config.yaml")):
        description = read_description(folder.parent)
        assert description is not None
        configuration = composed_on(TRAINERS[description.trainer], [f"recipe={folder.parent}"], description.hardware)
        tree = asdict(description)
        if tree["continued_sft"] is None:  # recipes were written down before there was one
            del tree["continued_sft"]
        text = json.dumps(tree, sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        made[folder.parent.name] = {"settings": settings_digest(configuration), "description": digest}
    assert made == json.loads(Path(__file__).with_name("recipe_trees.json").read_text())


def test_recipes_are_short() -> None:
    files = [*FOLDER.glob("*/config.yaml"), *(conf.CONFIG_DIR / "base").glob("*.yaml")]
    lines = {
        f"{file.parent.name}/{file.stem}": [
            line for line in file.read_text().splitlines() if line.partition("#")[0].strip()
        ]
        for file in files
    }
    for whole in ("pipeline/config", "base/single_answers"):  # the stages of a whole script
        assert len(lines.pop(whole)) < 70
    assert sum(map(len, lines.values())) < 15.5 * len(lines)


def test_a_reference_to_nothing_is_named(tmp_path: Path) -> None:
    folder = copied("hex_5", tmp_path)
    rewrite(folder / "config.yaml", "epochs: 12", "rounds: 12")
    with pytest.raises(
        UserError, match=r"recipe refers to what neither .*'veritas_rl\.recipe\.values\.epochs' not found"
    ):
        described(folder, TRAINERS)


def test_a_base_that_does_not_exist_is_named(tmp_path: Path) -> None:
    folder = copied("leduc_self_play", tmp_path)
    rewrite(folder / "config.yaml", "self_play]", "none]")
    with pytest.raises(UserError, match=r"base/none\.yaml cannot be read: .*No such file"):
        described(folder, TRAINERS)
