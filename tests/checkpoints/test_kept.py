"""Kept models: their weights in bfloat16, their digest, and what a card says against a repeated judgement."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from veritas_rl.checkpoints.kept import Card, digest_of, keep_weights, read_card, write_card
from veritas_rl.checkpoints.origin import Origin, asked_in_training
from veritas_rl.errors import UserError
from veritas_rl.players.loading import ReplySettings, open_player

FIGURES = {"exact": {"mean": 0.25}, "drawn": {"mean": 0.5, "low": 0.4, "high": 0.6}}
RECIPE = {
    "environments": ["openspiel"],
    "openspiel.game_types": "hex(board_size=5)",
    "openspiel.prompt": "brief",
    "data.max_response_length": 8,
}


@pytest.fixture
def kept(tiny_model: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "kept"
    keep_weights(tiny_model, folder, Origin(recipe=RECIPE))
    judge = ("--games", "hex(board_size=5)", "--num_episodes", "4")
    card = Card("bash train.sh", "2026-11-30", judge, ("--num_episodes", "2"), digest_of(folder), FIGURES)
    write_card(folder, card, "It plays hex.", vllm=False)
    return folder


def test_a_kept_model_is_half_as_large_and_loads_in_float32(tiny_model: Path, kept: Path) -> None:
    before, after = load_file(tiny_model / "model.safetensors"), load_file(kept / "model.safetensors")
    assert {name: tensor.bfloat16() for name, tensor in before.items()}.keys() == after.keys()
    assert all(torch.equal(before[name].bfloat16(), tensor) for name, tensor in after.items())
    loaded: Any = AutoModelForCausalLM.from_pretrained(kept, dtype="auto")
    assert loaded.dtype == torch.float32
    assert torch.equal(loaded.lm_head.weight, after["lm_head.weight"].float())


def test_a_card_is_read_as_it_was_written(kept: Path) -> None:
    card = read_card(kept)
    assert card is not None
    assert card.figures == FIGURES
    assert card.judge == ("--games", "hex(board_size=5)", "--num_episodes", "4")
    text = (kept / "README.md").read_text()
    assert "--checkpoint models/kept --games 'hex(board_size=5)' --num_episodes 4\n" in text
    assert "| drawn | 0.5 [0.4, 0.6] |" in text
    asked = asked_in_training(kept, "openspiel")
    assert asked is not None
    assert (asked.cases, asked.prompt, asked.max_tokens) == (("hex(board_size=5)",), "brief", 8)
    assert asked_in_training(kept, "trace") is None


def test_a_model_without_such_a_card_is_any_model(tiny_model: Path, tmp_path: Path) -> None:
    other = shutil.copytree(tiny_model, tmp_path / "other")
    assert read_card(other) is None
    (other / "README.md").write_text("---\nlicense: mit\n---\n# A model of the hub\n")
    assert read_card(other) is None


def test_other_weights_and_a_damaged_card_are_refused_when_the_model_is_opened(kept: Path) -> None:
    open_player(str(kept), "openspiel", ReplySettings(max_tokens=8), kept.parent).close()
    weights = kept / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    with pytest.raises(UserError, match="is not the file of its card"):
        open_player(str(kept), "openspiel", ReplySettings(), kept.parent)
    text = (kept / "README.md").read_text()
    (kept / "README.md").write_text(text.replace("  sha256:", "  sha:"))
    with pytest.raises(UserError, match=r"README\.md is damaged"):
        open_player(str(kept), "openspiel", ReplySettings(), kept.parent)


@pytest.mark.parametrize(
    ("found", "failures"),
    [
        ({"exact": {"mean": 0.2505}, "drawn": {"mean": 0.7, "low": 0.58, "high": 0.8}}, []),
        (
            {"exact": {"mean": 0.26}, "drawn": {"mean": 0.7, "low": 0.61, "high": 0.8}},
            ["exact is 0.26, and the card says 0.25", "drawn is 0.7, and the card says 0.5"],
        ),
        ({"exact": {"mean": 0.25}}, ["drawn was not judged"]),
    ],
)
def test_a_repeated_judgement_is_compared_by_intervals(found: Any, failures: list[str], kept: Path) -> None:
    card = read_card(kept)
    assert card is not None
    assert card.failures(found) == failures


def test_the_record_of_a_kept_model_names_no_folder(kept: Path) -> None:
    assert json.loads((kept / "merge.json").read_text())["origin"]["recipe"] == RECIPE
    assert str(kept.parent) not in "".join(path.read_text() for path in kept.glob("*.json"))
