"""A model as a player: its prompts, its replies, and the errors if a folder has no usable model."""

import json
import shutil
from pathlib import Path

import pytest
import torch

from veritas_rl.chat_template import prompt_ids
from veritas_rl.envs.base import Turn
from veritas_rl.errors import UserError
from veritas_rl.launch.tiny_model import build_tiny_model
from veritas_rl.players.generation import GenerationEngine
from veritas_rl.players.language_model import LanguageModelPlayer, load_language_model
from veritas_rl.players.sampling import SamplingParams


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_model(tmp_path_factory.mktemp("models") / "tiny", seed=0)


def turn(text: str) -> Turn:
    return Turn(seat=0, messages=({"role": "user", "content": text},), answers=())


def test_replies_are_the_models_in_order(folder: Path) -> None:
    model, tokenizer = load_language_model(folder)
    params = SamplingParams(6, temperature=0.0)
    engine = GenerationEngine(model, [], tokenizer.pad_token_id, max_model_len=200)
    turns = [turn("one"), turn("another position"), turn("one"), turn("x" * 300)]
    replies = LanguageModelPlayer(engine, tokenizer, params).act(turns)
    expected = engine.generate([(prompt_ids(tokenizer, turn.messages), params) for turn in turns])
    engine.close()
    assert [reply.text for reply in replies] == [tokenizer.decode(completion.token_ids) for completion in expected]
    assert replies[0] == replies[2]
    assert [(reply.truncated, reply.overlong) for reply in replies] == [(True, False)] * 3 + [(False, True)]
    assert replies[3].text == ""


def test_a_reply_that_ends_is_not_truncated_and_hides_its_end(folder: Path) -> None:
    model, tokenizer = load_language_model(folder)
    with torch.no_grad():
        # The end token is always the likeliest: each hidden state has a component along its row of the head.
        model.model.embed_tokens.weight.zero_()
        model.model.embed_tokens.weight[:, 0] = 1.0
        model.lm_head.weight.zero_()
        model.lm_head.weight[tokenizer.eos_token_id, 0] = 5.0
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
    engine = GenerationEngine(model, [tokenizer.eos_token_id], tokenizer.pad_token_id, max_model_len=200)
    reply = LanguageModelPlayer(engine, tokenizer, SamplingParams(6, temperature=0.0)).act([turn("hello")])[0]
    engine.close()
    assert (reply.text, reply.truncated) == ("", False)


def test_the_type_and_mode_of_a_loaded_model(folder: Path) -> None:
    assert load_language_model(folder)[0].dtype == torch.float32
    model, _ = load_language_model(folder, device="cpu", dtype=torch.bfloat16)
    assert model.dtype == torch.bfloat16
    assert not model.training


@pytest.mark.parametrize(
    ("lost", "named"),
    [("config.json", "config.json"), ("tokenizer.json", "tokenizer")],
)
def test_a_folder_that_lacks_something_is_refused_in_one_line(
    folder: Path, tmp_path: Path, lost: str, named: str
) -> None:
    copy = shutil.copytree(folder, tmp_path / "model")
    (copy / lost).unlink()
    with pytest.raises(UserError, match=rf"no model at .*lacks .*{named}"):
        load_language_model(copy)


def test_damaged_and_absent_models_are_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no such folder"):
        load_language_model(tmp_path / "nowhere")
    copy = shutil.copytree(folder, tmp_path / "model")
    (copy / "model.safetensors").write_bytes(b"not weights at all")
    with pytest.raises(UserError, match=r"model\.safetensors is not a complete safetensors file"):
        load_language_model(copy)
    bare = shutil.copytree(folder, tmp_path / "bare")
    (bare / "chat_template.jinja").unlink()
    config = json.loads((bare / "tokenizer_config.json").read_text())
    assert "chat_template" not in config
    with pytest.raises(UserError, match="no chat template"):
        load_language_model(bare)
