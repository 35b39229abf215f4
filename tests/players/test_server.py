"""A model behind a real chat server gives the same replies as without one; errors of a down, slow or busy server."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from veritas_rl.envs.base import Turn
from veritas_rl.errors import UserError
from veritas_rl.players.api_keys import KEYS
from veritas_rl.players.chat_client import check_url
from veritas_rl.players.generation import GenerationEngine
from veritas_rl.players.language_model import LanguageModelPlayer, load_language_model
from veritas_rl.players.sampling import SamplingParams
from veritas_rl.players.server import ServerPlayer

Start = Callable[..., Any]


def turns(count: int, text: str = "position") -> list[Turn]:
    return [Turn(0, ({"role": "user", "content": f"{text} {index}"},), (), dice=(index,)) for index in range(count)]


@pytest.mark.parametrize(("temperature", "say_limit"), [(0.0, False), (0.0, True), (1.0, False)])
def test_replies_are_those_of_the_same_model_without_a_server(
    chat_server: Start, tiny_model: Path, temperature: float, say_limit: bool
) -> None:
    model, tokenizer = load_language_model(tiny_model)
    engine = GenerationEngine(model, (tokenizer.eos_token_id,), tokenizer.pad_token_id, max_model_len=2048)
    local = LanguageModelPlayer(engine, tokenizer, SamplingParams(6, temperature), seed=3, say_limit=say_limit)
    server = chat_server()
    remote = ServerPlayer(server.url, max_tokens=6, temperature=temperature, seed=3, say_limit=say_limit)
    asked = turns(12)
    said = remote.act(asked)
    if temperature == 0:
        expected = local.act(asked)
        assert [(r.text, r.truncated, r.prompt_tokens, r.tokens) for r in said] == [
            (r.text, r.truncated, r.prompt_tokens, r.tokens) for r in expected
        ]
        assert all(reply.prompt_tokens > 80 for reply in said) == say_limit
    else:
        assert len({reply.text for reply in said}) > 6
        # The replies depend on the seeds, not on the order of the requests or on the batch.
        assert remote.act(asked[::-1])[::-1] == said
    engine.close()


def test_equal_prompts_at_temperature_0_are_sent_once(chat_server: Start) -> None:
    server = chat_server()
    player = ServerPlayer(server.url, max_tokens=4)
    replies = player.act([*turns(2), *turns(3)])
    assert len(server.asked) == 3
    assert replies[:2] == replies[2:4]


def test_no_more_requests_run_at_once_than_are_allowed(chat_server: Start) -> None:
    server = chat_server(delay=0.03)
    ServerPlayer(server.url, max_tokens=2, concurrency=3).act(turns(12))
    assert 1 < server.most_running <= 3


def test_a_busy_server_is_asked_again_and_a_dead_one_is_given_up(chat_server: Start) -> None:
    server = chat_server(failures=2)
    assert len(ServerPlayer(server.url, max_tokens=2, tries=3, wait=0.01).act(turns(1))) == 1
    assert len(server.asked) == 3
    server.failures = 100
    with pytest.raises(UserError, match=r"failed 2 times in a row \(HTTP 503: .*busy"):
        ServerPlayer(server.url, max_tokens=2, tries=2, wait=0.01).act(turns(4))


def test_a_slow_server_is_given_up_in_time(chat_server: Start) -> None:
    server = chat_server(delay=1.0)
    player = ServerPlayer(server.url, max_tokens=2, timeout=0.1, tries=2, wait=0.01)
    started = time.monotonic()
    with pytest.raises(UserError, match=r"did not answer within 0.1 s"):
        player.act(turns(3))
    assert time.monotonic() - started < 1.0


def test_a_server_that_stops_is_an_error_of_one_line(chat_server: Start) -> None:
    server = chat_server()
    player = ServerPlayer(server.url, max_tokens=2, tries=2, wait=0.01)
    server.http.shutdown()
    server.http.server_close()
    with pytest.raises(UserError, match="failed 2 times in a row"):
        player.act(turns(2))


def test_a_prompt_that_does_not_fit_is_a_reply_and_no_error(chat_server: Start) -> None:
    server = chat_server(longest=60)
    short, long = ServerPlayer(server.url, max_tokens=4).act([*turns(1), *turns(1, "x" * 100)])
    assert short.tokens > 0
    assert (long.text, long.overlong) == ("", True)


def test_a_model_is_chosen_by_name_among_those_of_a_server(chat_server: Start, free_port: int) -> None:
    server = chat_server(names=("one", "two"))
    with pytest.raises(UserError, match=r"serves one, two; name one as .*#NAME"):
        ServerPlayer(server.url, max_tokens=2)
    assert ServerPlayer(f"{server.url}#two", max_tokens=2).model == "two"
    with pytest.raises(UserError, match=r"does not serve 'three'"):
        ServerPlayer(f"{server.url}#three", max_tokens=2)
    with pytest.raises(UserError, match=r"no server answers at http://127.0.0.1:\d+/v1"):
        ServerPlayer(f"http://127.0.0.1:{free_port}", max_tokens=2)


def test_a_server_that_wants_a_key(chat_server: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    server = chat_server(key="secret")
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UserError, match="set OPENAI_API_KEY"):
        ServerPlayer(server.url, max_tokens=2)
    for name in KEYS:
        with monkeypatch.context() as patch:
            patch.setenv(name, "secret")
            assert ServerPlayer(server.url, max_tokens=2).model == "tiny"


def test_server_addresses_are_normalized_or_refused() -> None:
    assert check_url("http://host:8000") == check_url("http://host:8000/v1/") == "http://host:8000/v1"
    assert check_url("https://host/api/v1/chat/completions") == "https://host/api/v1"
    for wrong in ("ftp://host", "http://", "host:8000"):
        with pytest.raises(UserError, match="is no address of a server"):
            check_url(wrong)
