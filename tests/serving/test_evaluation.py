"""evaluate(): a model at an address plays a task, and faulty models give a short error."""

import re
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from veritas_rl.players.api_keys import KEYS
from veritas_rl.serving.limits import Limits
from veritas_rl.serving.offer import Offer

BASE = {"model": "m", "task_id": 600000000, "seed": 3, "opponent": "random"}


@pytest.fixture(scope="module")
def url(serve: Callable[..., Any]) -> str:
    return serve([Offer("openspiel"), Offer("lgc-v2")], Limits(evaluations=8, tries=1)).url


@pytest.fixture(autouse=True)
def without_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)


def evaluate(url: str, base_url: str, **kwargs: Any) -> Any:
    kwargs = {**BASE, "base_url": base_url, **kwargs}
    answer = httpx.post(f"{url}/call", json={"method": "evaluate", "kwargs": kwargs}, timeout=60)
    assert answer.status_code == 200, answer.text
    return answer.json()["result"]


def last_listed(body: dict[str, Any], handler: Any) -> str:
    """The last legal answer in the prompt."""
    numbers = re.findall(r"^(\d+): ", body["messages"][-1]["content"], re.MULTILINE)
    return f"I think.\n\\boxed{{{numbers[-1]}}}"


def test_a_game_is_played_and_given_in_the_form_of_affinetes(url: str, model: Callable[..., Any]) -> None:
    served = model(last_listed)
    result = evaluate(url, served.url, temperature=0.5, collect_logprobs=True, api_key="k")
    assert set(result) == {"task_name", "score", "success", "time_taken", "extra"}
    assert result["task_name"] == "openspiel:hex"
    assert result["score"] in (0.0, 1.0)
    assert result["success"] == (result["score"] == 1.0)
    extra = result["extra"]
    assert (extra["task_id"], extra["seed"], extra["llm_player_id"], extra["opponent_type"]) == (
        "openspiel/hex(board_size=5)/episode#0?seed=3",
        3,
        1,
        "random",
    )
    mine = [action for action in extra["action_history"] if action["is_llm"]]
    assert len(mine) == len(served.asked)
    assert {action["player_id"] for action in mine} == {1}
    assert extra["usage"] == {
        "prompt_tokens": 7 * len(mine),
        "completion_tokens": 2 * len(mine),
        "total_tokens": 9 * len(mine),
    }
    assert [m["role"] for m in extra["conversation"]] == ["user", "assistant"] * len(mine)
    assert "collect_logprobs" in extra["notes"][0]
    assert extra["final_return"] == (1.0 if result["success"] else -1.0)
    assert extra["all_returns"] == [-extra["final_return"], extra["final_return"]]
    asked = served.asked[0]
    assert (asked["model"], asked["temperature"], asked["seed"], asked["stream"]) == ("m", 0.5, 3, True)
    assert set(served.keys) == {"Bearer k"}


def test_the_key_of_the_environment_is_taken(
    url: str, model: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    served = model(last_listed)
    monkeypatch.setenv("CHUTES_API_KEY", "chutes")
    evaluate(url, served.url, timeout=20)
    monkeypatch.setenv("OPENAI_API_KEY", "openai")
    result = evaluate(url, served.url, timeout=20)
    assert [served.keys[0], served.keys[-1]] == ["Bearer chutes", "Bearer openai"]
    assert "openai" not in str(result)


def test_three_mistakes_end_a_game_without_an_error(url: str, model: Callable[..., Any]) -> None:
    served = model(lambda body, handler: "<b>pass</b>")
    result = evaluate(url, served.url)
    assert (result["score"], result["success"], len(served.asked)) == (0.0, False, 3)
    assert "error" not in result
    assert result["extra"]["reason"] == "unparseable"
    assert len(result["extra"]["conversation"]) == 6, "each reply once, and each correction"


def raw(handler: Any, body: bytes, kind: str = "text/event-stream", code: int = 200) -> None:
    handler.send_response(code)
    handler.send_header("Content-Type", kind)
    handler.end_headers()
    handler.wfile.write(body)


def endless(handler: Any) -> None:
    raw(handler, b"")
    try:
        while True:
            handler.wfile.write(b'data: {"choices": [{"delta": {"content": "x"}}]}\n\n')
            time.sleep(0.01)
    except OSError:
        return


def flood(handler: Any) -> None:
    raw(handler, b"data: ")
    try:
        while True:
            handler.wfile.write(b"x" * 2**20)
    except OSError:
        return


@pytest.mark.parametrize(
    ("say", "says"),
    [
        (lambda body, h: raw(h, b"data: garbage\n\n"), "is no chat completion"),
        (lambda body, h: raw(h, b"data: [1]\n\n"), "is no chat completion"),
        (lambda body, h: raw(h, b'data: {"choices": 3}\n\n'), "is no chat completion"),
        (lambda body, h: raw(h, b'data: {"choices": [{"delta": {"content": 3}}]}\n\n'), "is no chat completion"),
        (lambda body, h: raw(h, b"data: " + b"[" * 100_000 + b"\n\n"), "is no chat completion"),
        (lambda body, h: raw(h, b"\xff\x00" * 100), "ended before"),
        (lambda body, h: raw(h, b""), "ended before"),
        (lambda body, h: raw(h, b'{"a": 1}', "application/json"), "is no chat completion"),
        (lambda body, h: raw(h, b"<html>no</html>", "text/html", 404), "refused a request (HTTP 404"),
        (lambda body, h: raw(h, b"busy", "text/plain", 503), "failed 1 times in a row (HTTP 503: busy)"),
        (lambda body, h: raw(h, b"", code=200) or h.connection.close(), "the server at"),
        (lambda body, h: flood(h), "longer than"),
        (lambda body, h: endless(h), "not over after 0.7 s"),
        (lambda body, h: time.sleep(2), "not over after 0.7 s"),
    ],
)
def test_a_model_that_gives_no_answer_is_an_error_of_one_line(
    url: str, model: Callable[..., Any], say: Callable[..., None], says: str
) -> None:
    seconds = 0.7 if "0.7" in says else 30
    result = evaluate(url, model(say).url, timeout=seconds)
    assert (result["score"], result["success"], result["error_type"]) == (0.0, False, "llm_failure")
    assert says in result["error"]
    assert "\n" not in result["error"]
    assert httpx.get(f"{url}/health").status_code == 200


def test_an_address_where_nothing_listens_is_named_without_its_password(url: str, free_port: int) -> None:
    result = evaluate(url, f"http://me:secret@127.0.0.1:{free_port}/v1")
    assert f"the server at http://127.0.0.1:{free_port}/v1 failed" in result["error"]
    assert "secret" not in str(result)


def test_a_prompt_that_does_not_fit_is_a_mistake_and_no_error(url: str, model: Callable[..., Any]) -> None:
    served = model(lambda body, h: raw(h, b'{"error": "maximum context length is 5"}', "application/json", 400))
    result = evaluate(url, served.url)
    assert "error" not in result
    assert result["extra"]["reason"] == "overlong"


def test_a_puzzle_is_asked_once_and_its_question_does_not_depend_on_the_seed(
    url: str, model: Callable[..., Any]
) -> None:
    served = model(lambda body, handler: "The answer is 42.")
    results = [evaluate(f"{url}/lgc-v2", served.url, task_id=300000005, seed=seed) for seed in (1, 2)]
    asked = [result["extra"]["conversation"][0]["content"] for result in results]
    assert asked[0] == asked[1]
    assert results[0]["extra"]["task_id"] == 300000005
    assert results[0]["task_name"].startswith("lgc-v2:")
