"""The speedup of judging by more workers, and the share of a core that the driver needs to distribute the work.

    python benchmarks/workers.py speed [--workers 2] [--games 40] [--rounds 3]
    python benchmarks/workers.py driver [--workers 1000] [--seconds 20]
    python benchmarks/workers.py waiting [--games 1000] [--delay 5]

- speed: games of connect four between two tree searches, alternately on one worker and on several. It prints the median
  ratio of the wall times, and the ratio by CPU time of all processes, which is the speedup on idle cores.
- driver: simulates `--workers` workers. As many sleeping tasks are in flight, and a few processes take them at the rate
  of the real workers. It prints the driver's share of a core.
- waiting: `--games` whole games at once of a player behind a server that takes `--delay` seconds for each reply. It
  also prints the driver's share.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median

import psutil

from veritas_rl import parallel
from veritas_rl.judging.finished_game import FinishedGame
from veritas_rl.judging.matches import Rules, pair, play_all
from veritas_rl.parallel import DRIVER_SECONDS, Workers
from veritas_rl.players.loading import ReplySettings, open_player

SLEEPERS = 4
"""The number of processes that run the tasks of all simulated workers."""


def speed(count: int, games: int, rounds: int) -> None:
    """Compare one worker with several."""
    bots = [open_player(name, "openspiel", ReplySettings(), Path()) for name in ("mcts:1000", "mcts:800")]
    pairings = pair(["connect_four"], games, bots[:1], bots[1:], Rules("openspiel"))
    taken: dict[int, list[tuple[float, float]]] = {1: [], count: []}
    found: dict[int, list[FinishedGame]] = {}
    with Workers(count) as several:
        list(several.map(_sleep, [0.05] * 4 * count))  # wait until Ray and its processes have started
        for _ in range(rounds):
            for number, workers in {1: Workers(1), count: several}.items():
                found[number] = []
                started, used = time.perf_counter(), cpu_seconds()
                play_all(pairings, 1, lambda _, game, __, kept=found[number]: kept.append(game), workers=workers)
                taken[number].append((time.perf_counter() - started, cpu_seconds() - used))
                wall, used = taken[number][-1]
                load = os.getloadavg()[0]
                print(f"{number} workers: {wall:.1f} s, {used:.1f} s of CPU, load {load:.1f}", flush=True)
    ratios = [one / more for (one, _), (more, _) in zip(taken[1], taken[count], strict=True)]
    work = [count * one / more for (_, one), (_, more) in zip(taken[1], taken[count], strict=True)]
    print(
        f"{len(pairings)} games on {count} workers against 1, {rounds} rounds: ratio of the times {median(ratios):.2f} "
        f"({min(ratios):.2f} to {max(ratios):.2f}), by CPU time {median(work):.2f} ({min(work):.2f} to "
        f"{max(work):.2f}); the games are {'the same' if found[1] == found[count] else 'OTHERS'}; "
        f"{parallel.available_cores()} cores"
    )


def cpu_seconds() -> float:
    """The CPU seconds of this process and all its child processes."""
    me = psutil.Process()
    times = [process.cpu_times() for process in (me, *me.children(recursive=True))]
    return sum(each.user + each.system for each in times)


def driver(count: int, seconds: float) -> None:
    """Measure the driver's share of a core at the rate of `count` workers."""
    rate = count / max(parallel.LEAST_CHUNK, count * DRIVER_SECONDS)
    items = round(rate * seconds)
    parallel.MOST_IN_A_CHUNK = 1  # each item counts as a chunk
    with cluster(), Workers(count) as workers:
        list(workers.map(_sleep, [0.05] * 4 * SLEEPERS))
        started, used = time.perf_counter(), time.process_time()
        list(workers.map(_sleep, [SLEEPERS / rate] * items))
        wall, used = time.perf_counter() - started, time.process_time() - used
    print(
        f"{count} workers ask for {rate:.0f} chunks a second: {items} chunks with {count} in flight took {wall:.1f} s, "
        f"{items / wall:.0f} a second; the driver took {used:.1f} s of a core, a share of {used / wall:.0%}, "
        f"{1e3 * used / items:.2f} ms a chunk; load {os.getloadavg()[0]:.1f}"
    )


def _sleep(seconds: float) -> None:
    time.sleep(seconds)


@contextmanager
def cluster() -> Iterator[None]:
    """A new Ray cluster, whose address is in `RAY_ADDRESS`."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", "--include-dashboard=false"]
    given = [f"--port={port}", f"--num-cpus={SLEEPERS}", "--disable-usage-stats"]
    process = subprocess.Popen([*command, *given], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    os.environ[parallel.ADDRESS] = f"127.0.0.1:{port}"
    try:
        time.sleep(20)
        yield
    finally:
        process.terminate()
        process.wait()


def waiting(games: int, delay: float) -> None:
    """Measure the driver's share of a core while whole games wait for a slow server."""
    with served(delay) as url, tempfile.TemporaryDirectory() as folder:
        settings = ReplySettings(max_tokens=16, temperature=1.0, concurrency=games)
        players = [open_player(name, "openspiel", settings, Path(folder)) for name in (url, "random")]
        pairings = pair(["tic_tac_toe"], games, players[:1], players[1:], Rules("openspiel"))
        found: list[FinishedGame] = []
        started, used = time.perf_counter(), time.process_time()
        play_all(pairings, len(pairings), lambda _, game, __: found.append(game))
        wall, used = time.perf_counter() - started, time.process_time() - used
    replies = sum(game.moves for game in found)
    print(
        f"{len(found)} games at once, {replies} replies after {delay:g} s each: {wall:.1f} s; the driver took "
        f"{used:.1f} s of a core, a share of {used / wall:.0%}, {1e3 * used / replies:.1f} ms a reply; load "
        f"{os.getloadavg()[0]:.1f}"
    )


@contextmanager
def served(delay: float) -> Iterator[str]:
    """Start a chat server in a new process; it answers a legal action after `delay` seconds. Yield its address."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(there, delay), daemon=True)
    process.start()
    yield f"http://127.0.0.1:{here.recv()}/v1"
    process.terminate()
    process.join()


def _serve(connection: Connection, delay: float) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            await answer_all(reader, writer)
        writer.close()

    async def answer_all(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readuntil(b"\r\n\r\n"):
            length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
            asked = json.loads(await reader.readexactly(int(length[1]))) if length else None
            if asked is None:
                said: dict = {"data": [{"id": "slow"}]}
            else:
                await asyncio.sleep(delay)
                prompt = asked["messages"][0]["content"]
                actions = re.findall(r"^(\d+): ", prompt[prompt.index("Legal actions") :], re.MULTILINE)
                text = f"\\boxed{{{actions[asked['seed'] % len(actions)]}}}"
                said = {"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}
            body = json.dumps(said).encode()
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
            await writer.drain()

    async def serve() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=4096)
        connection.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(serve())


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("speed", "driver", "waiting"))
    parser.add_argument("--workers", type=int)
    parser.add_argument("--games", type=int)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--delay", type=float, default=5)
    given = parser.parse_args()
    if given.what == "speed":
        speed(given.workers or 2, given.games or 40, given.rounds)
    elif given.what == "driver":
        driver(given.workers or 1000, given.seconds)
    else:
        waiting(given.games or 1000, given.delay)


if __name__ == "__main__":
    main()
