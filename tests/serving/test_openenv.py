"""OpenEnv's protocol over a WebSocket and over HTTP."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from veritas_rl.serving.limits import Limits
from veritas_rl.serving.offer import Offer


@pytest.fixture(scope="module")
def url(serve: Callable[..., Any]) -> str:
    offers = [Offer("openspiel", ["tic_tac_toe", "goofspiel(num_cards=4)"]), Offer("lgc-v2")]
    return serve(offers, Limits(body=20_000, sessions=3)).url


@pytest.fixture
def socket(url: str) -> Iterator[ClientConnection]:
    with connect(f"{url}/ws".replace("http", "ws"), proxy=None) as opened:
        yield opened


def send(socket: ClientConnection, kind: str, **data: Any) -> dict[str, Any]:
    socket.send(json.dumps({"type": kind, "data": data}))
    return json.loads(socket.recv(20))


def test_both_seats_are_played_where_no_opponent_is_asked_for(socket: ClientConnection) -> None:
    shown = send(socket, "reset", case="tic_tac_toe", seed=3, opponent="none")
    assert shown["type"] == "observation"
    seats = []
    while not shown["data"]["done"]:
        observation = shown["data"]["observation"]
        seats.append(observation["seat"])
        assert observation["messages"][-1]["content"] in observation["text"]
        shown = send(socket, "step", text=observation["answers"][0])
        assert send(socket, "state")["data"]["step_count"] == len(seats)
    assert seats == [0, 1, 0, 1, 0, 1, 0]
    assert shown["data"]["reward"] == 1.0
    assert shown["data"]["metadata"]["rewards"] == {"0": 1.0, "1": 0.0}
    assert send(socket, "step", text="\\boxed{1}")["data"]["code"] == "SESSION_ERROR"


def test_an_opponent_takes_the_other_seat_and_a_connection_plays_one_game_after_the_other(
    socket: ClientConnection,
) -> None:
    for seed in range(6):
        shown = send(socket, "reset", case="tic_tac_toe", seed=seed, opponent="random")
        seats = set()
        while not shown["data"]["done"]:
            seats.add(shown["data"]["observation"]["seat"])
            shown = send(socket, "step", text=shown["data"]["observation"]["answers"][-1])
        assert seats == {seed % 2}


def test_a_bad_message_is_an_error_and_the_connection_stays_open(socket: ClientConnection) -> None:
    socket.send("{")
    assert json.loads(socket.recv(20))["data"]["code"] == "INVALID_JSON"
    socket.send("[" * 5000)
    assert json.loads(socket.recv(20))["data"]["code"] == "INVALID_JSON"
    for message in ("[]", '{"type": "reset", "data": 3}', '{"type": "step", "data": {}}'):
        socket.send(message)
        assert json.loads(socket.recv(20))["data"]["code"] == "VALIDATION_ERROR"
    socket.send('{"type": ["x"]}')
    assert json.loads(socket.recv(20))["data"]["code"] == "UNKNOWN_TYPE"
    socket.send('{"type": "\\ud800"}')
    assert json.loads(socket.recv(20))["data"]["code"] == "UNKNOWN_TYPE"
    for data, code in (
        ({"seed": "x"}, "VALIDATION_ERROR"),
        ({"case": "chess"}, "EXECUTION_ERROR"),
        ({"opponent": "uci:/bin/sh"}, "EXECUTION_ERROR"),
    ):
        assert send(socket, "reset", **data)["data"]["code"] == code
    assert send(socket, "step", text="x")["data"]["code"] == "SESSION_ERROR"
    assert send(socket, "step", text=3)["data"]["code"] == "VALIDATION_ERROR"
    assert send(socket, "reset", case="tic_tac_toe", render=True)["data"]["metadata"]["notes"] == [
        "ignored: render, which reset does not know"
    ]


def test_no_more_sessions_than_allowed_and_a_closed_connection_gives_its_place_back(url: str) -> None:
    address = f"{url}/ws".replace("http", "ws")
    opened = [connect(address, proxy=None, legacy=True) for _ in range(4)]
    codes = [send(one, "reset", case="tic_tac_toe")["data"].get("code") for one in opened]
    assert codes == [None, None, None, "CAPACITY_REACHED"]
    opened[0].close()
    for _ in range(100):
        if send(opened[3], "reset", case="tic_tac_toe")["type"] == "observation":
            break
    else:
        pytest.fail("the place of the closed connection is not free")
    for one in opened:
        one.close()


def test_large_messages_and_foreign_pages_are_refused(url: str) -> None:
    address = f"{url}/ws".replace("http", "ws")
    with pytest.raises(InvalidStatus) as foreign:
        connect(address, proxy=None, origin="http://evil.example")  # type: ignore[arg-type]
    assert foreign.value.response.status_code == 403
    with connect(address, proxy=None) as opened:
        opened.send("x" * 30_000_000)
        with pytest.raises(ConnectionClosed):
            opened.recv(20)
    assert httpx.get(f"{url}/health").json() == {"status": "healthy"}


def test_http_keeps_no_session(url: str) -> None:
    shown = httpx.post(f"{url}/reset", json={"case": "tic_tac_toe", "seed": 2, "opponent": "none"}).json()
    assert shown["observation"]["seat"] == 0
    assert shown["reward"] is None
    assert httpx.post(f"{url}/reset").status_code == 200
    answered = httpx.post(f"{url}/lgc-v2/step", json={"task_id": 300000005, "action": {"text": "no idea"}}).json()
    assert (answered["done"], answered["reward"]) == (True, 0.0)
    assert httpx.get(f"{url}/").json()["sessions"]["open"] == 0
    assert httpx.get(f"{url}/state").json()["step_count"] == 0
    assert set(httpx.get(f"{url}/schema").json()) >= {"action", "observation", "state"}
    assert httpx.post(f"{url}/step", json={"action": {}}).status_code == 422
