"""The client of OpenAI-compatible servers: what odd replies and errors of real vendors count as."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from veritas_rl.envs.base import Missing, Reply
from veritas_rl.errors import UserError
from veritas_rl.players.api_keys import KEYS, bearer
from veritas_rl.players.chat_client import Asked, ChatClient, ServerFailure, check_url
from veritas_rl.players.cost import Price, Prices, Purse, describe
from veritas_rl.players.server import ServerPlayer

ROOT = Path(__file__).resolve().parents[2]
CHAT = [{"role": "user", "content": "Which cell?"}]
Scripted = Callable[..., Any]


@pytest.fixture(autouse=True)
def without_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)


def answer(handler: Any, body: Any, code: int = 200, kind: str = "application/json", **headers: str) -> None:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    handler.send_response(code)
    # The server closes the connection behind the answer: a request that the client sends on it meanwhile would be lost.
    own = {"Content-Type": kind, "Content-Length": str(len(content)), "Connection": "close"}
    for name, value in {**own, **headers}.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(content)


def choice(message: dict[str, Any], reason: Any = "stop", **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "message": message, "finish_reason": reason}], **more}


def streamed(body: dict[str, Any]) -> bytes:
    """A whole completion as a stream of two pieces, the second without content."""
    (one,) = body["choices"]
    pieces = [
        {"choices": [{"delta": one["message"]}]},
        {"choices": [{"delta": {}, "finish_reason": one["finish_reason"]}]},
    ]
    return b"".join(b"data: %s\n\n" % json.dumps(piece).encode() for piece in pieces) + b"data: [DONE]\n\n"


def ask(url: str, *, key: str = "", stream: bool = False, tries: int = 1, **settings: Any) -> Reply:
    async def once() -> Reply:
        async with ChatClient(1, 5.0, stream=stream, tries=tries, wait=0.01) as client:
            return await client.ask(Asked(check_url(url), "m", key, **settings), CHAT)

    return asyncio.run(once())


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("message", "reason", "expected"),
    [
        ({"content": "a1"}, "stop", Reply("a1")),
        ({"content": "a1", "reasoning_content": "so"}, None, Reply("a1")),
        ({"content": "a1", "refusal": None, "tool_calls": []}, "stop", Reply("a1")),
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "1"}]}, "stop", Reply("a1")),
        ({"content": [{"type": "thinking", "thinking": "b2"}, {"type": "text", "text": "a1"}]}, "stop", Reply("a1")),
        ({"content": ["a", "1"]}, "stop", Reply("a1")),
        ({"content": "a"}, "length", Reply("a", truncated=True)),
        ({"content": "a"}, "MAX_TOKENS", Reply("a", truncated=True)),
        ({"content": None, "reasoning_content": "so"}, "length", Reply("", truncated=True)),
        ({"content": None}, "stop", Reply("", missing=Missing.NOTHING)),
        ({}, "stop", Reply("", missing=Missing.NOTHING)),
        ({"content": []}, "stop", Reply("", missing=Missing.NOTHING)),
        ({"content": " \n"}, "stop", Reply(" \n", missing=Missing.NOTHING)),
        ({"content": "", "reasoning": "so"}, "stop", Reply("", missing=Missing.THOUGHT)),
        ({"content": None, "refusal": "I cannot"}, "stop", Reply("", missing=Missing.REFUSED)),
        ({"content": None, "tool_calls": [{"id": "1"}]}, "tool_calls", Reply("", missing=Missing.TOOL_CALL)),
        ({"content": "a1"}, "content_filter", Reply("a1", missing=Missing.WITHHELD)),
        ({"content": None}, "SAFETY", Reply("", missing=Missing.WITHHELD)),
        ({"content": "a\ud83d"}, "stop", Reply("a\ufffd")),
        ({"content": "\ud83d\ude00"}, "stop", Reply("\U0001f600")),
    ],
)
def test_what_a_reply_counts_as(
    model: Scripted, message: dict[str, Any], reason: Any, expected: Reply, stream: bool
) -> None:
    body = choice(message, reason)
    kind = "text/event-stream" if stream else "application/json"
    served = model(lambda _, handler: answer(handler, streamed(body) if stream else body, kind=kind))
    assert ask(served.url, stream=stream) == expected


def test_half_characters_of_two_pieces_are_one(model: Scripted) -> None:
    deltas = [{"content": half} for half in ("\ud83d", "\ude00")]
    pieces = [{"choices": [{"delta": delta, "finish_reason": None}]} for delta in deltas]
    lines = "".join(f"data: {json.dumps(piece)}\r\n\r\n: ping\r\n" for piece in pieces) + "data: [DONE]\r\n"
    served = model(lambda _, handler: answer(handler, lines.encode(), kind="text/plain"))
    assert ask(served.url, stream=True).text == "\U0001f600"


@pytest.mark.parametrize("usage", [None, {}, [], "7", {"prompt_tokens": "7", "completion_tokens": float("nan")}])
def test_counts_that_are_no_numbers_are_no_counts(model: Scripted, usage: Any) -> None:
    served = model(lambda _, handler: answer(handler, choice({"content": "a1"}, usage=usage)))
    reply = ask(served.url)
    assert (reply.text, reply.prompt_tokens, reply.tokens) == ("a1", 0, 0)


@pytest.mark.parametrize(
    ("code", "body", "expected"),
    [
        (400, {"error": {"message": "maximum context length is 5"}}, Reply("", overlong=True)),
        (413, {"detail": "the prompt is too long"}, Reply("", overlong=True)),
        (400, {"error": {"code": "content_filter", "message": "x"}}, Reply("", missing=Missing.WITHHELD)),
        (400, {"error": {"code": "data_inspection_failed"}}, Reply("", missing=Missing.WITHHELD)),
        (200, {"error": {"code": 400, "message": "maximum context length is 5"}}, Reply("", overlong=True)),
    ],
)
def test_prompts_that_get_no_reply(model: Scripted, code: int, body: Any, expected: Reply) -> None:
    served = model(lambda _, handler: answer(handler, body, code))
    assert ask(served.url, tries=3) == expected
    assert len(served.asked) == 1


GOOD = choice({"content": "a1"})
BUSY: list[tuple[int, Any]] = [
    (503, {"error": "busy"}),
    (529, {"error": {"type": "overloaded_error"}}),
    (429, {"error": {"message": "slow down"}}),
    (200, {"error": {"message": "upstream failed"}}),
    (200, {"error": {"code": 502, "message": "bad gateway"}}),
    (200, {"error": "upstream failed", "choices": []}),
    (200, {"choices": [{"error": {"code": 502}, "message": {"content": ""}, "finish_reason": "error"}]}),
    (200, choice({"content": "a"}, "abort")),
    (200, choice({"content": ""}, "insufficient_system_resource")),
]


@pytest.mark.parametrize(("code", "body"), BUSY)
def test_passing_failures_are_asked_again_and_said(
    model: Scripted, code: int, body: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    said: list[int] = []

    def say(_: Any, handler: Any) -> None:
        said.append(1)
        answer(handler, GOOD if len(said) > 2 else body, 200 if len(said) > 2 else code)

    assert ask(model(say).url, tries=3).text == "a1"
    notes = capsys.readouterr().err.splitlines()
    assert len(notes) == 1, "equal notes are printed once"
    assert "is asked again (" in notes[0]
    said.clear()
    with pytest.raises(ServerFailure, match=r"failed 2 times in a row \("):
        ask(model(say).url, tries=2)


@pytest.mark.parametrize(
    ("code", "body"),
    [
        (401, {"error": {"message": "no key"}}),
        (404, {"error": {"message": "no such model"}}),
        (429, {"error": {"code": "insufficient_quota", "message": "You exceeded your current quota"}}),
        (400, {"error": {"message": "max_tokens is too large: 8. This model supports at most 4"}}),
        (400, {"error": {"message": "temperature must be at most 2"}}),
        (422, {"detail": "temperature 3.0 is not allowed, it must be between 0 and 2"}),
        (308, b""),
        (200, {"error": {"code": 401, "message": "no key"}}),
    ],
)
def test_refused_requests_are_not_repeated(model: Scripted, code: int, body: Any) -> None:
    served = model(lambda _, handler: answer(handler, body, code))
    with pytest.raises(ServerFailure, match=rf"refused a request \(HTTP {code if code != 200 else 401}"):
        ask(served.url, tries=3, max_tokens=8, temperature=3.0)
    assert len(served.asked) == 1


@pytest.mark.parametrize("body", [b"<html>sign in</html>", b"", b"[1]", b'{"a": 1}', b'{"choices": []}', b"\xff\xfe"])
def test_what_is_no_completion_is_said_in_one_line(model: Scripted, body: bytes) -> None:
    served = model(lambda _, handler: answer(handler, body))
    with pytest.raises(ServerFailure, match="is no chat completion") as error:
        ask(served.url)
    assert "\n" not in str(error.value)


REFUSALS = {
    "max_tokens": {
        "message": "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens'.",
        "code": "unsupported_parameter",
    },
    "temperature": {"message": "Unsupported value: 'temperature' does not support 0 with this model. Only 1 is."},
    "seed": {"message": 'Invalid JSON payload received. Unknown name "seed": Cannot find field.'},
    "top_p": {
        "detail": [{"type": "extra_forbidden", "loc": ["body", "top_p"], "msg": "Extra inputs are not permitted"}]
    },
}


def test_parameters_that_a_server_does_not_take_are_found_out_once(
    model: Scripted, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def say(body: dict[str, Any], handler: Any) -> None:
        wrong = [name for name in REFUSALS if name in body]
        answer(handler, {"error": REFUSALS[wrong[0]]} if wrong else GOOD, 400 if wrong else 200)

    served, purse = model(say), Purse(tmp_path, Prices(others=Price(1.0, 1.0)))
    player = ServerPlayer(f"{served.url}#m", max_tokens=8, concurrency=4, purse=purse)
    turns = [turn(index) for index in range(12)]
    assert {reply.text for reply in player.act(turns)} == {"a1"}
    assert set(served.asked[-1]) == {"model", "messages", "max_completion_tokens"}
    assert len(served.asked) <= 12 + 4 * len(REFUSALS)
    notes = capsys.readouterr().err.splitlines()
    assert len(notes) == len(REFUSALS)
    assert sum("max_tokens; max_completion_tokens is sent instead" in note for note in notes) == 1
    assert purse.spent[0].requests == 12, "what a server refuses costs nothing"
    before = len(served.asked)
    player.act(turns)
    assert len(served.asked) == before + 12


def turn(index: int) -> Any:
    from veritas_rl.envs.base import Turn

    return Turn(0, ({"role": "user", "content": f"position {index}"},), (), dice=(index,))


def test_a_server_that_takes_nothing_is_given_up(model: Scripted) -> None:
    served = model(lambda _, handler: answer(handler, {"error": {"message": "unknown: seed"}}, 400))
    with pytest.raises(ServerFailure, match="refused a request"):
        ask(served.url, seed=3)
    assert [("seed" in body) for body in served.asked] == [True, False]


def test_parameters_are_added_and_left_out(model: Scripted) -> None:
    served = model(lambda _, handler: answer(handler, GOOD))
    ask(served.url, max_tokens=8, seed=3, more={"seed": None, "reasoning_effort": "low"})
    assert served.asked[0].keys() == {"model", "messages", "max_tokens", "reasoning_effort"}


def test_replies_without_text_are_counted_by_their_cause(model: Scripted, tmp_path: Path) -> None:
    def say(body: dict[str, Any], handler: Any) -> None:
        number = int(body["messages"][0]["content"].split()[-1])
        odd: list[dict[str, Any]] = [
            {"refusal": "no"},
            {"refusal": "no"},
            {"reasoning_content": "so"},
            {"content": "a1"},
        ]
        answer(handler, choice(odd[number], usage={"prompt_tokens": 3, "completion_tokens": 1}))

    purse = Purse(tmp_path)
    ServerPlayer(f"{model(say).url}#m", max_tokens=8, purse=purse).act([turn(index) for index in range(4)])
    (row,) = Purse(tmp_path).values()
    assert row["missing"] == {"refused": 2, "only thinking": 1}
    assert "replies without text: 1 only thinking, 2 refused" in describe(row)


def test_a_budget_covers_the_limit_that_is_sent(model: Scripted, tmp_path: Path) -> None:
    served = model(lambda _, handler: answer(handler, GOOD))
    purse = Purse(tmp_path, Prices(others=Price(0.0, 1.0)), budget=9e-4)
    more = {"max_completion_tokens": 1000}
    with pytest.raises(UserError, match=r"the budget of 0\.0009 USD is spent"):
        ServerPlayer(f"{served.url}#m", max_tokens=8, request=more, purse=purse).act([turn(0)])
    with pytest.raises(UserError, match="--budget needs a limit of tokens"):
        ServerPlayer(f"{served.url}#m", max_tokens=8, request={"max_tokens": None}, purse=purse)
    assert not served.asked


def test_games_with_a_withheld_reply_are_left_out_of_all_figures(model: Scripted, tmp_path: Path) -> None:
    def say(body: dict[str, Any], handler: Any) -> None:
        answer(handler, choice({"content": ""}, "stop" if body["seed"] % 4 else "content_filter"))

    address = f"{model(say).url}#m"
    command = [
        *(sys.executable, "train/tools/evaluate.py", "--checkpoint", address, "--games", "tic_tac_toe"),
        *("--num_episodes", "24", "--opening", "2", "--prompt", "brief", "--output", str(tmp_path)),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    kept = [json.loads(line) for line in (tmp_path / "games.jsonl").read_text().splitlines()]
    withheld = sum(game["reason"] == "withheld" for game in kept)
    assert 0 < withheld < len(kept) == 24
    assert report["rows"][0]["games"] == 24 - withheld
    assert any(note.startswith(f"{withheld} of 24 games are left out") for note in report["notes"])


@pytest.mark.parametrize("shown", ["sk-a b", "sk-\u00e9\u00e8", "sk-\x00\x01x", "sk-line\nline"])
def test_a_key_that_no_header_can_hold_is_refused_and_not_shown(shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if "\x00" in shown:
        with pytest.raises(UserError, match="the API key is no API key") as error:
            bearer(shown)
    else:
        monkeypatch.setenv("OPENAI_API_KEY", shown)
        with pytest.raises(UserError, match="OPENAI_API_KEY is no API key") as error:
            bearer()
    assert shown not in str(error.value)


def test_blanks_around_a_key_are_not_sent(model: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    served = model(lambda _, handler: answer(handler, GOOD))
    monkeypatch.setenv("OPENAI_API_KEY", " sk-1234\r\n")
    ask(served.url)
    assert served.keys == ["Bearer sk-1234"]


ODD_KEYS = ("sk-plain1234", 'sk-"quoted"1', "sk-\\back\\slash1", "sk-<a>&amp;b'1", "sk-%41+b/c=1", "sk-{x}$(y)`z`1")


@pytest.mark.parametrize("key", [ODD_KEYS[1], *(pytest.param(key, marks=pytest.mark.long) for key in ODD_KEYS[2:])])
def test_a_key_stands_in_nothing_that_a_run_writes(model: Scripted, key: str, tmp_path: Path) -> None:
    """The server repeats the key in its errors, and refuses it in the end."""
    count: list[int] = []

    def say(_: Any, handler: Any) -> None:
        count.append(1)
        message = f"Incorrect API key provided: {key} or {handler.headers['Authorization']}"
        if len(count) % 3 == 0:
            answer(handler, choice({"content": "\\boxed{0}"}))
        elif len(count) < 40:
            answer(handler, {"error": {"message": message}}, 503, Retry_After="0")
        else:
            answer(handler, message.encode(), 401, "text/plain")

    address = f"{model(say).url}#m"
    command = [
        *(sys.executable, "train/tools/evaluate.py", "--checkpoint", address, "--games", "tic_tac_toe"),
        *("--num_episodes", "8", "--prompt", "brief", "--concurrency", "2", "--output", str(tmp_path / "out")),
    ]
    environment = {**os.environ, "OPENAI_API_KEY": f"{key}\n"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    written = [path.read_text(errors="replace") for path in tmp_path.rglob("*") if path.is_file()]
    assert "***" in done.stderr
    for text in (done.stdout, done.stderr, *written):
        assert key not in text
        assert json.dumps(key)[1:-1] not in text


def test_hosts_of_this_machine_have_no_proxy(model: Scripted, monkeypatch: pytest.MonkeyPatch, free_port: int) -> None:
    served = model(lambda _, handler: answer(handler, GOOD))
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port}")
    assert ask(served.url).text == "a1"
    with pytest.raises(ServerFailure, match="failed 1 times in a row"):
        ask("http://server.invalid/v1")
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:1")
    monkeypatch.setenv("all_proxy", "socks5://127.0.0.1:1")
    with pytest.raises(UserError, match="the proxy of HTTP_PROXY, HTTPS_PROXY or ALL_PROXY cannot be used"):
        ask(served.url)


def test_a_gateway_without_a_list_of_models_is_asked_by_name(model: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    served = model(lambda _, handler: answer(handler, GOOD))
    with pytest.raises(UserError, match=r"does not list its models \(HTTP 404\); name one as .*/v1#NAME"):
        ServerPlayer(served.url, max_tokens=8)
    assert ServerPlayer(f"{served.url}#some/model", max_tokens=8).act([turn(0)])[0].text == "a1"
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted")
    served.list_models = lambda handler: answer(handler, {"error": {"message": "no key sk-planted"}}, 400)
    with pytest.raises(UserError, match=r"\(HTTP 400: .*no key \*\*\*.*\); name one as"):
        ServerPlayer(served.url, max_tokens=8)


def test_an_address_with_a_password_is_refused(model: Scripted) -> None:
    with pytest.raises(UserError, match="a password would stand in every report") as error:
        ServerPlayer("http://me:secret@127.0.0.1:9/v1#m", max_tokens=8)
    assert "secret" not in str(error.value)
    with pytest.raises(UserError, match="is no address of a server"):
        check_url("https://host/v1?api-version=2")
