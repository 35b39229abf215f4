"""The small model is a standard Hugging Face folder, is determined by the seed, and has a lossless tokenizer."""

from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from veritas_rl.errors import UserError
from veritas_rl.launch.tiny_model import build_tiny_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_model(tmp_path_factory.mktemp("models") / "tiny", seed=1)


def test_the_small_model_loads_with_transformers(folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model: Any = AutoModelForCausalLM.from_pretrained(folder)
    assert model.config.model_type == "qwen3"
    assert 700_000 < model.num_parameters() < 1_000_000
    assert model.dtype == torch.float32
    assert model.config.vocab_size == len(tokenizer)
    assert tokenizer.decode([tokenizer.eos_token_id, tokenizer.pad_token_id]) == "<|im_end|><|endoftext|>"
    assert model.generation_config.eos_token_id == model.config.eos_token_id == tokenizer.eos_token_id
    assert model.generation_config.pad_token_id == model.config.pad_token_id == tokenizer.pad_token_id
    assert not model.config.tie_word_embeddings
    assert (folder / "model.safetensors").is_file()
    assert [path.name for path in folder.parent.iterdir()] == ["tiny"]


def test_the_seed_alone_decides_the_weights(folder: Path, tmp_path: Path) -> None:
    torch.manual_seed(123)
    state = torch.get_rng_state()
    again = build_tiny_model(tmp_path / "again", seed=1)
    assert torch.equal(torch.get_rng_state(), state)
    other = build_tiny_model(tmp_path / "other", seed=2)
    weights = [(path / "model.safetensors").read_bytes() for path in (folder, again, other)]
    assert weights[0] == weights[1]
    assert weights[0] != weights[2]


def test_first_weights_have_the_spread_that_was_asked_for(tmp_path: Path) -> None:
    folder = build_tiny_model(tmp_path / "model", seed=1, words=("12", " 12"), weights=0.08, embeddings=0.5)
    model: Any = AutoModelForCausalLM.from_pretrained(folder)
    assert model.get_input_embeddings().weight.std().item() == pytest.approx(0.5, rel=0.05)
    assert model.get_output_embeddings().weight.std().item() == pytest.approx(0.08, rel=0.05)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert [len(tokenizer.encode(text)) for text in ("12", " 12", "1", "x 12")] == [1, 1, 1, 2]
    assert tokenizer.decode(tokenizer.encode("x 12 112")) == "x 12 112"


def test_text_comes_back_byte_for_byte(folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    random = Random(0)
    texts = [
        "",
        " ",
        "  two  spaces , and . signs 's n't\r\n\ttabs\x00",
        "\\boxed{a1} the user's assistant systematically \\boxed",
        "e\u0301 \u00e9 \ufb01 \u212b \U0001d538 \U0001f469\u200d\U0001f52c 漢字 \u200f",
        bytes(random.randrange(256) for _ in range(1500)).decode("latin-1"),
        "".join(
            chr(random.choice([random.randrange(1, 0xD800), random.randrange(0xE000, 0x110000)])) for _ in range(400)
        ),
    ]
    for text in texts:
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_a_prompt_is_framed_as_qwen_frames_it_in_few_tokens(folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    messages = [{"role": "user", "content": "hi"}]
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert text == "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    assert len(ids) == len("hi") + 8
    assert len(tokenizer.encode("\\boxed{a1}")) == 4
    longer = [{"role": "system", "content": "s"}, *messages, {"role": "assistant", "content": "a"}, *messages]
    assert tokenizer.apply_chat_template(longer, tokenize=False) == (
        "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n"
        "<|im_start|>assistant\na<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n"
    )


def test_nothing_is_overwritten_and_nothing_half_made_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match="is not empty"):
        build_tiny_model(tmp_path / "taken", seed=0)
    assert (tmp_path / "taken" / "notes.txt").read_text() == "mine"
    monkeypatch.setattr("transformers.PreTrainedTokenizerFast.save_pretrained", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        build_tiny_model(tmp_path / "broken", seed=0)
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]
