"""Sessions and evaluations per second of the server, alternating with its peers.

    python benchmarks/serving.py [--sessions 300] [--at_once 16] [--rounds 5] [--peer http://127.0.0.1:9001]

- Sessions: games of tic-tac-toe against a random player over OpenEnv's WebSocket, one connection per game, `--at_once`
  games at a time. The CPU time of the server's process is measured separately, because the client needs CPU time too.
  --peer is the address of OpenEnv's own openspiel environment, which the user starts first:
  OPENSPIEL_GAME=tic_tac_toe MAX_CONCURRENT_ENVS=64 uvicorn server.app:app --port 9001
- Evaluations: `evaluate` of games of tic-tac-toe by a model that answers immediately, called through the server and in
  this process, `--at_once` at a time. Both ways use the same model, which has its own address.

The script prints the medians of the rounds and the ratios. Each server is a separate process.
"""

import argparse
import asyncio
import json
import re
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from statistics import median
from typing import Any
from urllib.parse import urlsplit

import httpx
import psutil
from websockets.asyncio.client import connect

from veritas_rl.players.chat_client import Asked
from veritas_rl.serving.episodes import Episodes
from veritas_rl.serving.evaluation import evaluate
from veritas_rl.serving.limits import Limits
from veritas_rl.serving.offer import Offer, Start
from veritas_rl.serving.room import Room, Workers

MODEL = """
import asyncio, json, re, uvicorn
async def app(scope, receive, send):
    if scope["type"] != "http":
        return
    body = b""
    while True:
        event = await receive()
        body += event.get("body", b"")
        if not event.get("more_body"):
            break
    text = json.loads(body)["messages"][-1]["content"]
    said = "\\\\boxed{" + re.findall(r"^(\\d+): ", text, re.MULTILINE)[0] + "}"
    answer = json.dumps({"choices": [{"message": {"content": said}, "finish_reason": "stop"}], "usage": {}}).encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
    await send({"type": "http.response.body", "body": answer})
uvicorn.run(app, port=PORT, log_level="error")
"""


async def together(count: int, at_once: int, one: Callable[[int], Awaitable[Any]]) -> float:
    """The calls per second of `count` calls of `one`, `at_once` at a time."""
    free = asyncio.Semaphore(at_once)

    async def bounded(index: int) -> None:
        async with free:
            await one(index)

    started = time.perf_counter()
    await asyncio.gather(*(bounded(index) for index in range(count)))
    return count / (time.perf_counter() - started)


async def session(url: str, seed: int, theirs: bool) -> None:
    """Play one game over a new connection."""
    async with connect(f"{url}/ws".replace("http", "ws"), proxy=None) as socket:

        async def ask(kind: str, data: dict[str, Any]) -> dict[str, Any]:
            await socket.send(json.dumps({"type": kind, "data": data}))
            answer = json.loads(await socket.recv())
            assert answer["type"] == "observation", answer
            return answer["data"]

        shown = await ask("reset", {} if theirs else {"case": "tic_tac_toe", "seed": 2 * seed, "opponent": "random"})
        while not shown["done"]:
            seen = shown["observation"]
            action = (
                {"action_id": seen["legal_actions"][0], "game_name": "tic_tac_toe"}
                if theirs
                else {"text": seen["answers"][0]}
            )
            shown = await ask("step", action)


def computed(url: str) -> float:
    """The CPU seconds used so far by the process that listens at an address of this machine."""
    port = urlsplit(url).port
    for found in psutil.net_connections("tcp"):
        if found.status == psutil.CONN_LISTEN and getattr(found.laddr, "port", None) == port and found.pid:
            times = psutil.Process(found.pid).cpu_times()
            return times.user + times.system
    raise SystemExit(f"no server listens at {url}")


def wait_for(url: str) -> None:
    """Wait until a server answers."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            httpx.get(url, timeout=5, trust_env=False)
            return
        except httpx.TransportError:
            time.sleep(0.1)
    raise SystemExit(f"no server answers at {url}")


async def measure(given: argparse.Namespace, url: str, model: str) -> None:
    """Measure sessions and evaluations in rounds, and print the results."""
    rates: dict[str, list[float]] = {}

    def note(name: str, rate: float) -> None:
        rates.setdefault(name, []).append(rate)

    limits = Limits()
    workers = Workers(limits)
    async with workers.client, httpx.AsyncClient(timeout=None, trust_env=False) as caller:
        room = Room(Offer("openspiel", ["tic_tac_toe"]), Episodes(limits.sessions, limits.idle), workers)

        async def here(seed: int) -> None:
            start = Start(case="tic_tac_toe", k=0, seed=seed, opponent="random")
            found = await room.evaluate(evaluate, start, Asked(model, "m"), None, [])
            assert "error" not in found, found["error"]

        async def there(seed: int) -> None:
            kwargs = {
                "case": "tic_tac_toe",
                "k": 0,
                "seed": seed,
                "opponent": "random",
                "model": "m",
                "base_url": model,
            }
            answer = await caller.post(f"{url}/call", json={"method": "evaluate", "kwargs": kwargs})
            assert "error" not in answer.json()["result"], answer.text

        for _ in range(given.rounds):
            for name, address in (("sessions", url), ("sessions of the peer", given.peer)):
                if address:
                    before = computed(address)
                    other = address == given.peer
                    rate = await together(given.sessions, given.at_once, lambda k, a=address, o=other: session(a, k, o))
                    note(name, rate)
                    note(f"of computing: {name}", given.sessions / (computed(address) - before))
            note("evaluations", await together(given.sessions, given.at_once, there))
            note("evaluations in process", await together(given.sessions, given.at_once, here))
    for name, found in rates.items():
        print(f"{name}: {median(found):.0f} a second ({', '.join(f'{rate:.0f}' for rate in found)})")
    computing = "of computing: sessions"
    for name, other in (
        ("sessions", "sessions of the peer"),
        (computing, f"{computing} of the peer"),
        ("evaluations", "evaluations in process"),
    ):
        if other in rates:
            print(f"{name} / {other}: {median(rates[name]) / median(rates[other]):.2f}")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=300)
    parser.add_argument("--at_once", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--peer", default="")
    parser.add_argument("--model_port", type=int, default=9002)
    given = parser.parse_args()
    model = f"http://127.0.0.1:{given.model_port}/v1"
    command = [sys.executable, "train/tools/serve.py", "--games", "tic_tac_toe", "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    stub = subprocess.Popen([sys.executable, "-c", MODEL.replace("PORT", str(given.model_port))])
    try:
        assert server.stdout is not None
        found = re.search(r"http://\S+", server.stdout.readline())
        assert found is not None
        wait_for(found[0])
        time.sleep(2)  # the model's server does not answer a GET
        asyncio.run(measure(given, found[0], model))
    finally:
        for process in (server, stub):
            process.kill()
            process.wait()


if __name__ == "__main__":
    main()
