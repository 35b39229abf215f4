"""A model served as OpenAI's chat completions by the generation engine gives the same replies as without a server."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

from veritas_rl.envs.base import Turn
from veritas_rl.players.language_model import LanguageModelPlayer
from veritas_rl.players.loading import LoadedModel, ModelFiles, load_model
from veritas_rl.players.sampling import SamplingParams
from veritas_rl.players.server import ServerPlayer
from veritas_rl.serving.chat import ServedModel
from veritas_rl.serving.offer import Offer

ROOT = Path(__file__).resolve().parents[2]
ASKED = [{"role": "user", "content": "Where do you play?"}]


@pytest.fixture(scope="module")
def adapter(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("adapter")
    config = LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False, task_type="CAUSAL_LM")
    get_peft_model(AutoModelForCausalLM.from_pretrained(tiny_model), config).save_pretrained(str(folder))
    return folder


@pytest.fixture(scope="module")
def loaded(tiny_model: Path, adapter: Path) -> Iterator[dict[str, LoadedModel]]:
    models = {
        "tiny": load_model(ModelFiles(tiny_model), 64, 8),
        "trained": load_model(ModelFiles(tiny_model, adapter), 64, 8),
    }
    yield models
    for model in models.values():
        model.engine.close()


@pytest.fixture(scope="module")
def url(serve: Callable[..., Any], loaded: dict[str, LoadedModel]) -> str:
    models = {name: ServedModel(model) for name, model in loaded.items()}
    return serve([Offer("openspiel", ["tic_tac_toe"])], models=models).url


def post(url: str, **body: Any) -> httpx.Response:
    return httpx.post(f"{url}/v1/chat/completions", json={"messages": ASKED, **body}, timeout=60)


def streamed(url: str, **body: Any) -> tuple[list[str], list[dict[str, Any]]]:
    """The pieces of text in a stream, and all events of the stream."""
    lines = post(url, stream=True, **body).text.split("\n\n")
    assert lines[-2:] == ["data: [DONE]", ""]
    events = [json.loads(line.removeprefix("data: ")) for line in lines[:-2]]
    pieces = [event["choices"][0]["delta"].get("content", "") for event in events if event["choices"]]
    return [piece for piece in pieces if piece], events


@pytest.mark.parametrize("name", ["tiny", "trained"])
def test_replies_are_those_of_the_same_model_without_a_server(
    url: str, loaded: dict[str, LoadedModel], name: str
) -> None:
    turns = [Turn(0, ({"role": "user", "content": f"position {index}"},), (), dice=(index,)) for index in range(8)]
    model = loaded[name]
    local = LanguageModelPlayer(model.engine, model.tokenizer, SamplingParams(6, 0.0))
    remote = ServerPlayer(f"{url}/v1#{name}", max_tokens=6)
    assert [(r.text, r.truncated, r.prompt_tokens, r.tokens) for r in remote.act(turns)] == [
        (r.text, r.truncated, r.prompt_tokens, r.tokens) for r in local.act(turns)
    ]


def test_adapters_answer_by_their_names(url: str) -> None:
    listed = httpx.get(f"{url}/v1/models").json()["data"]
    assert [model["id"] for model in listed] == ["tiny", "trained"]
    said = [
        post(url, model=name, max_tokens=12, temperature=0).json()["choices"][0]["message"]["content"]
        for name in ("", "tiny", "trained")
    ]
    assert said[0] == said[1] != said[2]


def test_a_stream_says_the_same_piece_by_piece(url: str) -> None:
    body = {"max_tokens": 240, "temperature": 1, "seed": 5}
    whole = post(url, **body).json()
    pieces, events = streamed(url, stream_options={"include_usage": True}, **body)
    assert "".join(pieces) == whole["choices"][0]["message"]["content"]
    assert len(pieces) > 4  # on a busy machine one piece has many tokens
    assert events[-1]["usage"] == whole["usage"]
    assert whole["usage"]["completion_tokens"] <= 240
    assert events[-2]["choices"][0]["finish_reason"] == whole["choices"][0]["finish_reason"]
    assert post(url, **{**body, "seed": 6}).json()["choices"] != whole["choices"]


def test_a_stop_ends_the_reply_and_is_no_part_of_it(url: str) -> None:
    body = {"max_tokens": 24, "temperature": 0}
    text = post(url, **body).json()["choices"][0]["message"]["content"]
    stop = text[len(text) // 2 : len(text) // 2 + 2]
    stopped = post(url, stop=[stop, "never"], **body).json()
    assert stopped["choices"][0]["message"]["content"] == text[: text.index(stop)]
    assert stopped["choices"][0]["finish_reason"] == "stop"
    assert stopped["usage"]["completion_tokens"] < 24
    assert "".join(streamed(url, stop=stop, **body)[0]) == text[: text.index(stop)]


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_ends_its_request(url: str, loaded: dict[str, LoadedModel], stream: bool) -> None:
    body = {"messages": ASKED, "max_tokens": 1900, "temperature": 1, "stream": stream}
    try:
        with httpx.stream("POST", f"{url}/v1/chat/completions", json=body, timeout=0.3) as answer:
            for _ in answer.iter_bytes():
                break
    except httpx.TimeoutException:
        assert not stream
    until = time.monotonic() + 5
    engine = loaded["tiny"].engine
    while engine._rows and time.monotonic() < until:
        time.sleep(0.02)
    assert not engine._rows


@pytest.mark.parametrize(
    ("body", "code", "says"),
    [
        ({"model": "other"}, 404, "the model other is not served; served are tiny, trained"),
        ({"max_tokens": 10**6}, 400, "This model's maximum context length is"),
        ({"messages": []}, 422, "messages"),
        ({"messages": [{"role": "robot", "content": "x"}]}, 422, "role"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, 422, "content"),
        ({"max_tokens": 0}, 422, "max_tokens"),
        ({"temperature": -1}, 422, "temperature"),
        ({"top_p": 0}, 422, "top_p"),
        ({"n": 2}, 422, "n"),
        ({"stop": ["x"] * 100}, 422, "stop"),
    ],
)
def test_a_wrong_request_is_one_line(url: str, body: dict[str, Any], code: int, says: str) -> None:
    answer = post(url, **body)
    assert answer.status_code == code
    assert says in answer.json()["detail"]


def test_a_served_model_is_evaluated_by_the_same_server(url: str) -> None:
    kwargs = {"model": "tiny", "base_url": f"{url}/v1", "case": "tic_tac_toe", "seed": 0, "max_tokens": 8}
    answer = httpx.post(f"{url}/call", json={"method": "evaluate", "kwargs": kwargs}, timeout=60).json()["result"]
    assert "error" not in answer
    assert answer["extra"]["usage"]["completion_tokens"] > 0
    assert [message["role"] for message in answer["extra"]["conversation"][:2]] == ["user", "assistant"]


def tool(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "train/tools/serve.py", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_command_of_vllm_is_printed(tiny_model: Path, adapter: Path) -> None:
    done = tool("--model", str(tiny_model), "--adapter", f"trained={adapter}", "--print", "--port", "9000")
    assert done.returncode == 0, done.stderr
    assert done.stdout == (
        f"vllm serve {tiny_model} --served-model-name tiny --host 127.0.0.1 --port 9000 --enable-lora --max-loras 1 "
        f"--max-lora-rank 8 --lora-modules trained={adapter}\n"
    )


@pytest.mark.long
def test_the_command_line_serves_a_model_alone(tiny_model: Path) -> None:
    command = [sys.executable, "train/tools/serve.py", "--model", str(tiny_model), "--engine", "own", "--port", "0"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("serving the model tiny at http://127.0.0.1:")
        url = line.split()[-1].removesuffix("/v1")
        assert post(url, max_tokens=3).json()["usage"]["completion_tokens"] <= 3
        assert httpx.get(f"{url}/").json()["protocols"] == {"OpenAI": ["/v1/models", "/v1/chat/completions"]}
        assert httpx.get(f"{url}/methods").status_code == 404
    finally:
        process.kill()
        process.wait()


def test_wrong_options_are_one_line(tiny_model: Path, tmp_path: Path) -> None:
    for arguments, says in (
        (["--model", str(tmp_path)], "is no checkpoint"),
        (["--adapter", "a=b"], "need --model"),
        (["--model", str(tiny_model), "--adapter", "a"], "NAME=FOLDER"),
        (["--model", str(tiny_model), "--games", "hex"], "need one environment"),
    ):
        done = tool(*arguments)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
        assert says in done.stderr
