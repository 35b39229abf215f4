"""The server over HTTP: affinetes' protocol, limits, and refused requests."""

import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from veritas_rl.envs.openspiel.session import OpenSpielSession
from veritas_rl.serving.limits import Limits
from veritas_rl.serving.offer import Offer

ROOT = Path(__file__).resolve().parents[2]
TOKEN = "a-token-of-some-length"
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def url(serve: Callable[..., Any]) -> str:
    offers = [Offer("openspiel", ["tic_tac_toe", "hex(board_size=5)"]), Offer("lgc-v2"), Offer("trace")]
    return serve(offers, Limits(body=20_000, sessions=1500)).url


def call(url: str, method: str, **kwargs: Any) -> Any:
    answer = httpx.post(f"{url}/call", json={"method": method, "args": [], "kwargs": kwargs})
    body = answer.json()
    assert answer.status_code == 200, body
    assert (body["status"], body["error"]) == ("success", None)
    return body["result"]


def test_a_game_is_played_to_its_end(url: str) -> None:
    shown = call(url, "reset", case="tic_tac_toe", seed=1, opponent="random")
    assert (shown["done"], shown["reward"], shown["info"]["seat"]) == (False, 0.0, 1)
    assert "Legal actions" in shown["observation"]
    name = shown["episode_id"]
    steps = 0
    while not shown["done"]:
        assert call(url, "state", episode_id=name)["observation"] == shown["observation"]
        free = shown["observation"].split("Legal actions (number: name):\n")[1].split(":")[0]
        shown = call(url, "step", action=f"\\boxed{{{free}}}", episode_id=name)
        steps += 1
    assert shown["info"]["step_count"] == steps
    assert shown["reward"] == shown["info"]["scores"]["1"]["value"]
    assert call(url, "stop", episode_id=name)["stopped"]
    assert not call(url, "stop", episode_id=name)["stopped"]


def test_the_session_by_hand_in_the_page_is_answered(url: str) -> None:
    page = (ROOT / "docs/serving.md").read_text(encoding="utf-8")
    reset, step = re.findall(r"-d '(\{.+\})'$", page, re.MULTILINE)
    shown = httpx.post(f"{url}/call", content=reset, headers=JSON).json()["result"]
    answer = step.replace("EPISODE", shown["episode_id"])
    after = httpx.post(f"{url}/call", content=answer, headers=JSON).json()["result"]
    assert set(after) == {"observation", "reward", "done", "truncated", "info", "episode_id"}
    assert (shown["info"]["seat"], after["info"]["step_count"], after["done"]) == (0, 1, False)
    assert "rejected" not in after["info"] or not after["info"]["rejected"]


def test_a_mistake_may_be_made_good_twice(url: str) -> None:
    shown = call(url, "reset", case="tic_tac_toe", seed=0)
    for _ in range(2):
        shown = call(url, "step", action="<script>alert(1)</script>", episode_id=shown["episode_id"])
        assert (shown["done"], shown["info"]["rejected"]) == (False, "unparseable")
    shown = call(url, "step", action="nothing", episode_id=shown["episode_id"])
    assert (shown["done"], shown["reward"]) == (True, 0.0)


def test_the_same_seed_meets_the_same_game(url: str) -> None:
    first, second = (call(url, "reset", case="hex", seed=7, opponent="mcts") for _ in range(2))
    assert first["observation"] == second["observation"]
    assert first["episode_id"] != second["episode_id"]


def test_other_environments_stand_under_their_names(url: str) -> None:
    shown = call(f"{url}/lgc-v2", "reset", task_id=300000017)
    assert call(f"{url}/lgc-v2", "step", action="no idea", episode_id=shown["episode_id"])["done"]
    assert "python" in call(f"{url}/trace", "reset", task_id=1)["observation"].lower()
    served = httpx.get(f"{url}/").json()
    assert list(served["environments"]) == ["openspiel", "lgc-v2", "trace"]
    assert served["environments"]["openspiel"]["cases"] == ["tic_tac_toe", "hex(board_size=5)"]


def test_methods_are_listed_and_nothing_else_can_be_called(url: str) -> None:
    listed = {method["name"] for method in httpx.get(f"{url}/methods").json()["methods"]}
    assert listed == {"evaluate", "reset", "step", "state", "stop"}
    for name in ("__class__", "__init__", "call", "known", "_room", "reset.__globals__", ""):
        answer = httpx.post(f"{url}/call", json={"method": name})
        assert answer.status_code == 404
        assert answer.json()["detail"].startswith("Method not found: ")


@pytest.mark.parametrize(
    ("body", "code", "says"),
    [
        (b"", 422, "Field required"),
        (b"{", 422, "JSON"),
        (b"[" * 10_000, 400, "body"),
        (b'"\\ud800"', 422, "dictionary"),
        (b"\xff\xfe", 422, "JSON"),
        (b"{}", 422, "method"),
        (b'{"method": "reset", "kwargs": {"task_id": "3"}}', 422, "task_id"),
        (b'{"method": "reset", "kwargs": {"task_id": -1}}', 422, "task_id"),
        (b'{"method": "reset", "kwargs": {"task_id": 1e3}}', 422, "task_id"),
        (b'{"method": "reset", "kwargs": {"seed": 99999999999999999999999}}', 422, "seed"),
        (b'{"method": "reset", "args": [1, 2, 3, 4]}', 422, "4 arguments"),
        (b'{"method": "reset", "args": [1], "kwargs": {"task_id": 1}}', 422, "twice"),
        (b'{"method": "reset", "kwargs": {"case": "\\ud800"}}', 422, "case"),
        (b'{"method": "step", "kwargs": {"action": 3, "episode_id": "x"}}', 422, "action"),
        (b'{"method": "step", "kwargs": {"action": "3", "episode_id": "x"}}', 404, "no such session"),
        (b'{"method": "state", "kwargs": {}}', 422, "episode_id"),
        (b'{"method": "evaluate", "kwargs": {"model": "m", "base_url": "file:///etc/passwd"}}', 400, "no address"),
        (b'{"method": "evaluate", "kwargs": {"model": "m", "base_url": "http://["}}', 400, "no address"),
        (b'{"method": "evaluate", "kwargs": {"model": "m", "base_url": "http://x", "timeout": NaN}}', 422, "timeout"),
        (b'{"method": "evaluate", "kwargs": {"model": "m", "base_url": "http://x", "timeout": -1}}', 422, "timeout"),
        (b'{"method": "reset", "kwargs": {"case": "chess"}}', 400, "unknown case"),
        (b'{"method": "\\u0000\\n\\ud800"}', 422, "method"),
    ],
)
def test_a_wrong_call_is_one_short_error(url: str, body: bytes, code: int, says: str) -> None:
    answer = httpx.post(f"{url}/call", content=body, headers=JSON)
    detail = answer.json()["detail"]
    assert (answer.status_code, list(answer.json())) == (code, ["detail"]), detail
    assert says in detail
    assert "\n" not in detail
    assert len(detail) <= 1000


def test_large_slow_and_foreign_requests_are_refused(url: str, serve: Callable[..., Any]) -> None:
    huge = httpx.post(f"{url}/call", content=b" " * 10_000_000, headers=JSON)
    assert (huge.status_code, huge.json()["detail"]) == (413, "a request may have 20000 bytes at most")
    chunks = httpx.post(f"{url}/call", content=(b" " * 1000 for _ in range(100)), headers=JSON)
    assert chunks.status_code == 413
    assert httpx.post(f"{url}/call", content="{}", headers={"Content-Type": "text/plain"}).status_code == 415
    assert httpx.get(f"{url}/", headers={"Host": "evil.example:8000"}).status_code == 421
    assert httpx.get(f"{url}/nothing").json() == {"detail": "Not Found"}
    assert httpx.get(f"{url}/call").status_code == 405
    slow = serve([Offer("openspiel", ["tic_tac_toe"])], Limits(arrival=0.2))
    with socket.create_connection(("127.0.0.1", int(slow.url.rpartition(":")[2]))) as open_:
        open_.sendall(b"POST /call HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n")
        open_.sendall(b"Content-Length: 100\r\n\r\n{")
        assert b" 408 " in open_.recv(1000)


def test_a_client_that_leaves_harms_nobody(url: str) -> None:
    port = int(url.rpartition(":")[2])
    body = json.dumps({"method": "reset", "kwargs": {"case": "hex", "opponent": "mcts", "seed": 1}}).encode()
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", port)) as open_:
            open_.sendall(b"POST /call HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n")
            open_.sendall(f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
    assert httpx.get(f"{url}/health").status_code == 200


def test_a_server_with_a_token_answers_nobody_without_it(serve: Callable[..., Any]) -> None:
    url = serve([Offer("openspiel", ["tic_tac_toe"])], token=TOKEN).url
    reset = {"method": "reset", "kwargs": {}}
    assert httpx.get(f"{url}/health").status_code == 200
    for wrong in (
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": "\xe9"},
    ):
        answer = httpx.post(f"{url}/call", json=reset, headers=httpx.Headers(wrong, encoding="latin-1"))
        assert answer.status_code == 401
        assert TOKEN not in answer.text
    assert httpx.post(f"{url}/call", json=reset, headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
    assert httpx.post(f"{url}/call".replace("//", f"//any:{TOKEN}@"), json=reset).status_code == 200


def test_a_thousand_sessions_are_open_at_once_and_no_more_than_allowed(serve: Callable[..., Any]) -> None:
    url = serve([Offer("openspiel", ["tic_tac_toe"])], Limits(sessions=1000)).url
    with httpx.Client(limits=httpx.Limits(max_connections=32)) as client, ThreadPoolExecutor(32) as pool:

        def reset(seed: int) -> Any:
            kwargs = {"seed": seed, "opponent": "random"}
            return client.post(f"{url}/call", json={"method": "reset", "kwargs": kwargs})

        answers = list(pool.map(reset, range(1010)))
        opened = [answer.json()["result"]["episode_id"] for answer in answers if answer.status_code == 200]
        refused = [answer for answer in answers if answer.status_code != 200]
        assert (len(set(opened)), len(refused)) == (1000, 10)
        assert {answer.status_code for answer in refused} == {503}
        assert "1000 sessions are open" in refused[0].json()["detail"]

        def step(name: str) -> Any:
            kwargs = {"action": "\\boxed{4}", "episode_id": name}
            return client.post(f"{url}/call", json={"method": "step", "kwargs": kwargs}).json()["result"]

        assert {shown["info"]["step_count"] for shown in pool.map(step, opened)} == {1}


def test_the_command_line_serves_and_ends(tmp_path: Path) -> None:
    command = [sys.executable, "train/tools/serve.py", "--games", "tic_tac_toe", "--port", "0"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("serving openspiel at http://127.0.0.1:")
        url = line.split()[-1]
        assert httpx.get(f"{url}/health").json() == {"status": "healthy"}
        port = url.rpartition(":")[2]
        taken = subprocess.run([*command[:-1], port], cwd=ROOT, capture_output=True, text=True, check=False)
        assert taken.returncode == 2
        assert taken.stderr.startswith(f"error: cannot listen at 127.0.0.1, port {port}")
        process.send_signal(2)
        assert process.wait(10) in (0, 130)
    finally:
        process.kill()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--host", "0.0.0.0"], "add --token_file"),
        (["--token_file", "missing"], "cannot be read"),
        (["--env", "all", "--games", "hex"], "need one environment"),
        (["--sessions", "0"], "above 0"),
        (["--env", "opnspiel"], "unknown environment"),
    ],
)
def test_a_wrong_option_is_one_line(arguments: list[str], says: str) -> None:
    done = subprocess.run(
        [sys.executable, "train/tools/serve.py", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_idle_session_is_gone(serve: Callable[..., Any]) -> None:
    url = serve([Offer("openspiel", ["tic_tac_toe"])], Limits(idle=0.05)).url
    name = call(url, "reset")["episode_id"]
    time.sleep(0.1)
    answer = httpx.post(f"{url}/call", json={"method": "state", "kwargs": {"episode_id": name}})
    assert answer.status_code == 404
    assert "nobody used it for 0.05 s" in answer.json()["detail"]


def test_a_step_that_takes_too_long_is_given_up(serve: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    url = serve([Offer("openspiel", ["tic_tac_toe"], opponents=["mcts:1"])], Limits(seconds=0.3)).url
    name = call(url, "reset", seed=0)["episode_id"]
    step = OpenSpielSession.step

    def slow(session: OpenSpielSession, replies: Any) -> None:
        time.sleep(1)
        step(session, replies)

    monkeypatch.setattr(OpenSpielSession, "step", slow)
    body = {"method": "step", "kwargs": {"action": "\\boxed{4}", "episode_id": name}}
    answer = httpx.post(f"{url}/call", json=body)
    assert (answer.status_code, answer.json()["detail"]) == (504, "the request took more than 0.3 s")
    assert "another step" in httpx.post(f"{url}/call", json=body).json()["detail"]
    assert httpx.get(f"{url}/health").status_code == 200
