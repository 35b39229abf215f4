"""Only a model that differs from its base is published, with a card that has its origin but no local folders."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

from veritas_rl.checkpoints.assemble import merge_adapter
from veritas_rl.checkpoints.layout import CheckpointInfo, write_info
from veritas_rl.checkpoints.publish import Publication, cell, check_repo_id, prepare, read_results
from veritas_rl.errors import UserError
from veritas_rl.launch.tiny_model import build_tiny_model
from veritas_rl.paths import ROOT


@pytest.fixture(scope="module")
def adapter(bases: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("adapter")
    plain: Any = AutoModelForCausalLM.from_pretrained(bases["plain"])
    model: Any = get_peft_model(plain, LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj"]))
    noise = torch.Generator().manual_seed(0)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            parameter.data.normal_(std=0.05, generator=noise)
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def merged(bases: dict[str, Path], adapter: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("merged") / "model"
    merge_adapter(str(bases["plain"]), adapter, folder)
    return folder


@pytest.fixture
def model(merged: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(merged, tmp_path / "model"))


def change(model: Path, **values: Any) -> None:
    """Change values in merge.json."""
    file = model / "merge.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **values}))


def metadata(made: Publication) -> dict[str, Any]:
    return yaml.safe_load(made.card.split("---\n")[1])


def estimate(mean: float) -> dict[str, float]:
    return {"mean": mean, "low": mean - 0.05, "high": mean + 0.05, "count": 100, "classes": 70}


def test_everything_is_sent_but_what_is_hidden(model: Path) -> None:
    (model / ".env").write_text("HF_TOKEN=hf_mine")
    (model / ".cache").mkdir()
    (model / ".cache/notes.json").write_text("{}")
    before = sorted(model.rglob("*"))
    made = prepare(model, "me/tiny")
    names = [path.relative_to(model).as_posix() for path in made.files]
    there = [path.relative_to(model).as_posix() for path in model.rglob("*") if path.is_file()]
    assert names == sorted(name for name in there if not name.startswith("."))
    assert {"model.safetensors", "config.json", "tokenizer.json", "lora_adapter/adapter_model.safetensors"} <= {*names}
    assert sorted(model.rglob("*")) == before


def test_the_card_of_a_model_on_a_local_base(model: Path, tmp_path: Path) -> None:
    made = prepare(model, "me/tiny")
    assert str(tmp_path) not in made.card
    assert "/tmp" not in made.card
    assert "base_model" not in metadata(made)
    assert metadata(made)["library_name"] == "transformers"
    assert "LoRA, rank 4, alpha 8, on q_proj" in made.card
    assert "4 of 47 tensors differ" in made.card
    assert 'from_pretrained("me/tiny", dtype="auto")' in made.card
    assert f"- torch {torch.__version__}" in made.card
    assert "No evaluation is known of it." in made.card
    # For other files, `naming_folders` lists those that contain folders.
    assert "merge.json" in made.naming_folders()


def test_the_card_of_a_model_of_the_hub(model: Path, bases: dict[str, Path]) -> None:
    origin = {
        "step": 50,
        "lora": None,
        "on_hub": True,
        "licence": {"license": "other", "license_name": "qwen", "license_link": "https://example.org/licence"},
        "recipe": {"veritas_rl.algorithm": "GRPO", "veritas_rl.seed": 7, "adapter_config.cases": ["hex", "go"]},
        "versions": {"verl": "0.9.1"},
    }
    source = "/home/somebody/checkpoints/openspiel-7/global_step_50"
    change(model, base="Qwen/Qwen3-4B", source=source, origin=origin)
    made = prepare(model, "me/tiny", base_name=str(bases["plain"]))
    found = metadata(made)
    assert (found["base_model"], found["license"], found["license_name"]) == ("Qwen/Qwen3-4B", "other", "qwen")
    assert "[Qwen/Qwen3-4B](https://huggingface.co/Qwen/Qwen3-4B)" in made.card
    assert "trained with veritas-rl by GRPO." in made.card
    assert "| checkpoint | openspiel-7, step 50 |" in made.card
    assert "| seed | 7 |" in made.card
    assert "| `adapter_config.cases` | hex, go |" in made.card
    assert "somebody" not in made.card


def test_the_report_of_a_run_and_of_an_evaluation(model: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    report.write_text(
        json.dumps({"after RL": {"legal": estimate(0.9), "optimal": estimate(0.7)}, "gain": estimate(0.1)})
    )
    assert read_results(report).columns == ["model", "legal", "optimal", "gain"]
    assert "| after RL | 0.900 [0.850, 0.950] | 0.700 [0.650, 0.750] |  |" in prepare(model, "me/tiny", report).card
    rows = [
        {"player": "/home/me/model|x", "case": "hex(board_size=5)", "seat": seat, "games": 30, "wins": estimate(0.5)}
        for seat in ("all", "0")
    ]
    report.write_text(json.dumps({"rows": rows, "notes": ["only 26 games of /home/me/model differ"]}))
    found = read_results(report)
    assert found.columns == ["player", "case", "wins"]
    assert found.rows == [["model\\|x", "hex(board_size=5)", "0.500 [0.450, 0.550]"]]
    assert found.notes == ["only 26 games of model differ"]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"rows": []}', '{"rows": [3]}', '{"a": {"legal": 0.5}}'])
def test_a_file_that_is_no_report_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "report.json").write_text(text)
    with pytest.raises(UserError, match=r"report\.json (cannot be read|has no mean)"):
        read_results(tmp_path / "report.json")


def test_a_cell_breaks_no_table_and_names_no_folder() -> None:
    assert cell("a|b\nc <b>") == "a\\|b c &lt;b>"
    assert cell("/home/me/models/x against ~/y/z") == "x against z"
    assert cell("hub/name, https://example.org/a/b, 1/2") == "hub/name, https://example.org/a/b, 1/2"


def test_a_card_that_a_person_wrote_is_kept(model: Path, tmp_path: Path) -> None:
    (model / "README.md").write_text("# mine\n")
    made = prepare(model, "me/tiny")
    assert (made.own_card, made.card) == (True, "# mine\n")
    report = tmp_path / "report.json"
    report.write_text(json.dumps({"after RL": {"legal": estimate(0.9)}}))
    with pytest.raises(UserError, match=r"README\.md already exists"):
        prepare(model, "me/tiny", report)


def test_a_raw_checkpoint_is_refused(model: Path, tmp_path: Path) -> None:
    step = tmp_path / "run/global_step_5"
    (step / "actor").mkdir(parents=True)
    for folder in (step, step.parent):
        with pytest.raises(UserError, match="is a raw checkpoint: merge it"):
            prepare(folder, "me/tiny")
    write_info(model, CheckpointInfo(5, "base", 1))
    with pytest.raises(UserError, match="is a raw checkpoint: merge it"):
        prepare(model, "me/tiny")


def test_a_folder_that_is_no_model_is_refused(model: Path, adapter: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="contains only an adapter: merge it"):
        prepare(adapter, "me/tiny")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"is not a model: it has no config\.json"):
        prepare(tmp_path / "empty", "me/tiny")
    with pytest.raises(UserError, match="does not exist"):
        prepare(tmp_path / "nothing", "me/tiny")
    (model / "model.safetensors").unlink()
    with pytest.raises(UserError, match="has no weights"):
        prepare(model, "me/tiny")


def test_a_model_that_is_its_base_is_refused(model: Path, bases: dict[str, Path]) -> None:
    # merge.json still describes the original merge.
    shutil.copyfile(bases["plain"] / "model.safetensors", model / "model.safetensors")
    with pytest.raises(UserError, match="equals its base: all 47 tensors are those of"):
        prepare(model, "me/tiny")


def test_a_base_must_be_known_and_be_the_one(model: Path, bases: dict[str, Path], tmp_path: Path) -> None:
    other = build_tiny_model(tmp_path / "other", seed=9)
    with pytest.raises(UserError, match="differ from those of"):
        prepare(model, "me/tiny", base_name=str(other))
    change(model, base="/gone/base")
    with pytest.raises(UserError, match="set --base_model to its current folder"):
        prepare(model, "me/tiny")
    (model / "merge.json").unlink()
    with pytest.raises(UserError, match="set --base_model"):
        prepare(model, "me/tiny")
    assert "settings of its training are not known" in prepare(model, "me/tiny", base_name=str(bases["plain"])).card


@pytest.mark.parametrize("text", ["[", "[]", '{"origin": 3}', '{"origin": {"lora": 3}}', '{"origin": {"foo": 3}}'])
def test_a_damaged_merge_report_is_named(model: Path, text: str) -> None:
    (model / "merge.json").write_text(text)
    with pytest.raises(UserError, match=r"merge\.json is damaged"):
        prepare(model, "me/tiny")


@pytest.mark.parametrize("repo_id", ["tiny", "a/b/c", "me/", "me/../x", "me/a b"])
def test_a_repo_id_needs_user_and_name(repo_id: str) -> None:
    with pytest.raises(UserError, match="user/name"):
        check_repo_id(repo_id)


def tool(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "train/tools/push_to_hub.py", *arguments]
    environment = {**os.environ, "HF_TOKEN": "", **variables}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_without_a_token_nothing_is_sent(model: Path) -> None:
    done = tool("--folder", str(model), "--repo_id", "me/tiny", "--yes")
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith("error: HF_TOKEN is not set")


def test_a_dry_run_shows_all_and_sends_nothing(model: Path, hub: Any) -> None:
    online = {"HF_TOKEN": hub.token, "HF_ENDPOINT": hub.address, "HF_HUB_OFFLINE": "0"}
    done = tool("--folder", str(model), "--repo_id", "me/tiny", **online)
    assert done.returncode == 0, done.stderr
    assert not hub.private
    for shown in (
        "model.safetensors",
        f"{(model / 'model.safetensors').stat().st_size:,}",
        "# tiny",
        "nothing was sent",
    ):
        assert shown in done.stdout
    assert hub.token not in done.stdout + done.stderr
    assert not (model / "README.md").exists()


def test_the_files_of_the_folder_are_sent(model: Path, hub: Any) -> None:
    typed = ["--folder", str(model), "--repo_id", "me/tiny", "--private", "--yes"]
    online = {"HF_TOKEN": hub.token, "HF_ENDPOINT": hub.address, "HF_HUB_OFFLINE": "0"}
    done = tool(*typed, **online)
    assert done.returncode == 0, done.stderr
    assert hub.token not in done.stdout + done.stderr
    assert hub.private == {"me/tiny": True}
    sent = hub.files["me/tiny"]
    assert sent == {
        path.relative_to(model).as_posix(): path.read_bytes() for path in model.rglob("*") if path.is_file()
    }
    assert b"# tiny" in sent["README.md"]
    assert not any(hub.token.encode() in content for content in sent.values())

    hub.private["me/tiny"] = False
    hub.files.clear()
    done = tool(*typed, **online)
    assert done.returncode == 2
    assert "me/tiny already exists and is public" in done.stderr
    assert not hub.files


def test_a_refusal_of_the_hub_is_one_line_without_the_token(model: Path, hub: Any) -> None:
    typed = ["--folder", str(model), "--repo_id", "me/tiny", "--yes"]
    done = tool(*typed, HF_TOKEN="hf_another", HF_ENDPOINT=hub.address, HF_HUB_OFFLINE="0")
    assert done.returncode == 2
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith("error: me/tiny was not published (HfHubHTTPError: ")
    # The hub's error quotes the token, which is masked.
    assert "Invalid token Bearer ***" in line
    assert "hf_another" not in done.stdout + done.stderr
    assert not hub.files
    done = tool(*typed, HF_TOKEN=hub.token, HF_ENDPOINT=hub.address, HF_HUB_OFFLINE="1")
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert not hub.private
