"""Every hostile request gets a short answer without the status 500, and the server keeps working."""

import json
import random
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from veritas_rl.players.loading import ModelFiles, load_model
from veritas_rl.serving.chat import ServedModel
from veritas_rl.serving.limits import Limits
from veritas_rl.serving.offer import Offer

TEXTS = (
    "",
    "x",
    "\x00",
    "\ud800",
    "\u202e\u0007",
    "😀" * 50,
    "<script>alert(1)</script>",
    "'; DROP TABLE games; --",
    "../../../../etc/passwd",
    "{{7*7}}",
    "%s%n",
    "\\boxed{" * 300,
    "tic_tac_toe",
    "hex(board_size=5)",
    "hex(board_size=99999)",
    "goofspiel",
    "train",
    "val",
    "move",
    "episode",
    "mcts",
    "random",
    "none",
    "uci:stockfish",
    "checkpoint:/etc",
    "ids",
    "http://127.0.0.1:9/v1",
    "http://[::1",
    "gopher://x",
    "__class__",
    "system",
    "user",
    "assistant",
    "\\boxed{0}",
    "0",
)
NUMBERS = (0, 1, -1, 2, 7, 600000000, 2**31, 2**63, 2**64, 10**30, -(10**30), 0.5, 1e308, float("inf"), float("nan"))
NAMES = (
    *("task_id", "case", "k", "seed", "split", "mode", "opponent", "seat", "protocol", "action", "episode_id"),
    *("model", "base_url", "api_key", "temperature", "max_tokens", "timeout", "text", "metadata", "messages", "stop"),
    *("stream", "top_p", "n", "role", "content", "unknown", "__class__", "self", ""),
)
METHODS = ("evaluate", "reset", "step", "state", "stop", "__init__", "nothing")


class Hostile:
    """Draws random JSON values and requests."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.sessions: list[str] = []

    def value(self, depth: int = 0) -> Any:
        dice = self.dice
        kind = dice.randrange(8 if depth < 3 else 5)
        if kind < 2:
            return dice.choice(TEXTS)
        if kind == 2:
            return dice.choice(NUMBERS)
        if kind == 3:
            return dice.choice((None, True, False))
        if kind == 4:
            return dice.choice(self.sessions) if self.sessions else "x"
        if kind == 5:
            return [self.value(depth + 1) for _ in range(dice.randrange(4))]
        return self.mapping(depth + 1)

    def mapping(self, depth: int = 0) -> dict[str, Any]:
        return {self.dice.choice(NAMES): self.value(depth) for _ in range(self.dice.randrange(5))}

    def body(self, path: str) -> bytes:
        dice = self.dice
        made: Any = self.mapping()
        if path.endswith("/call") and dice.random() < 0.9:
            made = {"method": dice.choice(METHODS), "kwargs": self.plausible()}
            if dice.random() < 0.2:
                made["args"] = self.value()
        elif path.endswith("/completions") and dice.random() < 0.9:
            messages = [{"role": dice.choice(("user", "system", "x")), "content": self.value()} for _ in range(2)]
            made = {"messages": messages, "max_tokens": 2, **self.mapping()}
        elif dice.random() < 0.5:
            made = self.plausible()
        text = json.dumps(made).encode()
        if dice.random() < 0.1:
            place = dice.randrange(len(text))
            text = text[:place] + bytes([dice.randrange(256)]) + text[place + dice.randrange(3) :]
        return text

    def plausible(self) -> dict[str, Any]:
        """Arguments that are mostly valid, so that requests also get past the checks."""
        made: dict[str, Any] = {"seed": self.dice.randrange(100), "opponent": "random", "text": "\\boxed{0}"}
        made |= {"episode_id": self.dice.choice(self.sessions) if self.sessions else "x", "action": "\\boxed{1}"}
        made |= {"model": "m", "base_url": "http://127.0.0.1:9/v1", "timeout": 1}
        for name in self.dice.sample(sorted(made), 2):
            del made[name]
        return made | self.mapping()


@pytest.fixture(scope="module")
def url(serve: Callable[..., Any], tiny_model: Any) -> Any:
    offers = [Offer("openspiel", ["tic_tac_toe", "hex(board_size=5)", "goofspiel(num_cards=4)"]), Offer("lgc-v2")]
    model = load_model(ModelFiles(tiny_model), 64, 8)
    yield serve(offers, Limits(body=20_000, sessions=200, seconds=20, tries=1), models={"m": ServedModel(model)}).url
    model.engine.close()


def rounds(url: str, seed: int, count: int) -> None:
    hostile = Hostile(seed)
    paths = ("/call", "/call", "/lgc-v2/call", "/reset", "/step", "/lgc-v2/step", "/v1/chat/completions", "/mcp")
    with httpx.Client(timeout=60) as client:
        for _ in range(count):
            path = hostile.dice.choice(paths)
            body = hostile.body(path)
            answer = client.post(f"{url}{path}", content=body, headers={"Content-Type": "application/json"})
            assert answer.status_code < 500 or answer.status_code == 503, (path, body, answer.text)
            if answer.status_code >= 400:
                assert set(answer.json()) == {"detail"}, (path, body, answer.text)
                assert len(answer.text) < 7000
            elif '"episode_id"' in answer.text and path.endswith("/call"):
                hostile.sessions = [*hostile.sessions[-9:], str((answer.json()["result"] or {}).get("episode_id"))]
        assert client.get(f"{url}/health").status_code == 200
    with connect(f"{url}/ws".replace("http", "ws"), proxy=None) as socket:
        for _ in range(count // 4):
            data = hostile.plausible() if hostile.dice.random() < 0.7 else hostile.value()
            kind = hostile.dice.choice(("reset", "step", "state", "x", None, [1]))
            socket.send(json.dumps({"type": kind, "data": data}))
            try:
                answer = json.loads(socket.recv(60))
            except ConnectionClosed:  # pragma: no cover
                pytest.fail(f"the connection was lost at {kind} {data}")
            assert "its log says why" not in json.dumps(answer), (kind, data)


def test_hostile_requests_find_no_fault(url: str) -> None:
    rounds(url, seed=1, count=300)


@pytest.mark.long
def test_many_hostile_requests_find_no_fault(url: str) -> None:
    for seed in range(2, 12):
        rounds(url, seed, count=1000)
