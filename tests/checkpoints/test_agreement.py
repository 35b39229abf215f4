"""The comparison of a merged model with its base plus adapter, on the prompts of recorded games."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from peft import LoraConfig, get_peft_model
from rich.console import Console
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from veritas_rl.checkpoints.agreement import compare_on
from veritas_rl.checkpoints.assemble import merge_adapter
from veritas_rl.checkpoints.compare import AGREEMENT
from veritas_rl.errors import UserError
from veritas_rl.judging.evaluation import Settings, evaluate
from veritas_rl.players.loading import ReplySettings
from veritas_rl.viewing.games_page import asked_in, read_games

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def merged(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A merged model with an adapter that changes the replies."""
    folder = tmp_path_factory.mktemp("agreement")
    torch.manual_seed(0)
    model = get_peft_model(AutoModelForCausalLM.from_pretrained(tiny_model), LoraConfig(target_modules="all-linear"))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter += 0.02 * torch.randn(parameter.shape)
    model.save_pretrained(str(folder / "adapter"))
    merge_adapter(str(tiny_model), folder / "adapter", folder / "merged")
    return folder / "merged"


@pytest.fixture(scope="module")
def games(merged: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recorded games of the merged model, and of its base plus adapter."""
    folder = tmp_path_factory.mktemp("games")
    replies = ReplySettings(max_tokens=8)
    adapter = str(merged / "lora_adapter")
    settings = Settings(str(merged), compare=adapter, games=8, cases="tic_tac_toe", prompt="brief", replies=replies)
    found = evaluate(settings, folder, Console(quiet=True), games_to_show=8)
    assert found.versus[0].games == 8
    return folder / "shown.jsonl"


def test_a_merge_answers_as_base_and_adapter(merged: Path, games: Path, tmp_path: Path) -> None:
    command = [sys.executable, "train/tools/compare_merged.py", "--merged", str(merged), "--games", str(games)]
    file = tmp_path / "agreement.json"
    done = subprocess.run(
        [*command, "--output", str(file)], cwd=ROOT, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "base + adapter: the same: logits differ by" in done.stdout
    found = json.loads(file.read_text())
    asked = asked_in(read_games(games))
    assert (found["prompts"], found["holds"], found["agreeing"]) == (len(asked), True, found["places"])
    assert 0 < found["largest"] <= found["tolerance"]


def test_another_model_is_distinguished(merged: Path, games: Path, tiny_model: Path, tmp_path: Path) -> None:
    other = shutil.copytree(merged, tmp_path / "other")
    shutil.copyfile(tiny_model / "model.safetensors", other / "model.safetensors")
    asked = asked_in(read_games(games))
    found = compare_on(other, asked)
    assert not found.holds
    assert found.largest > found.tolerance
    assert found.agreeing < AGREEMENT * found.places
    assert sum(prompt.places for prompt in found.disagreeing) == found.places - found.agreeing

    # A small error in one weight exceeds the tolerance of the logits, although nearly all likeliest tokens are equal.
    weights = load_file(merged / "model.safetensors")
    weights["model.norm.weight"][0] += 0.05
    save_file(weights, other / "model.safetensors", metadata={"format": "pt"})
    found = compare_on(other, asked)
    assert found.largest > found.tolerance
    assert not found.holds


def test_models_without_adapter_or_prompts_are_not_compared(merged: Path, tiny_model: Path, games: Path) -> None:
    with pytest.raises(UserError, match="has no lora_adapter"):
        compare_on(tiny_model, asked_in(read_games(games)))
    with pytest.raises(UserError, match="have no prompt of a model"):
        compare_on(merged, [])
