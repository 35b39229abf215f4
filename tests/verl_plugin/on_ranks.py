"""Run a program of this folder on several ranks of a CPU.

The ranks are forks of one process for each process of tests, which has imported verl: an import for each rank takes
longer than most programs. They have the variables of torchrun that torch reads.
"""

import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from functools import cache
from pathlib import Path
from typing import Any

from veritas_rl.launch.process import die_with_parent

STREAMS = ("stdout", "stderr")
"""The names of files with what the ranks print."""


def printed(program: Path, ranks: int, *words: str | Path, **variables: str) -> list[dict[str, Any]]:
    """The JSON objects that a program prints, one for each line, on all ranks together."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    world = {"WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1"}
    asked = {"argv": [*map(str, (program, *words))], "ranks": ranks}
    asked["variables"] = {**world, "MASTER_PORT": str(port), **variables}
    parent = _parent()
    if parent.poll() is not None:
        _parent.cache_clear()
        parent = _parent()
    with tempfile.TemporaryDirectory() as folder:
        parent.stdin.write(json.dumps(asked | {"folder": folder}) + "\n")
        parent.stdin.flush()
        ended = parent.stdout.readline()
        said, errors = (Path(folder, name).read_text() for name in STREAMS)
    assert ended == "0\n", errors
    return [json.loads(line) for line in said.splitlines() if line.startswith("{")]


@cache
def _parent() -> Any:
    """The process whose forks are the ranks. It ends when its input does, with this process."""
    return subprocess.Popen(
        [sys.executable, __file__],
        env={**os.environ, "VERL_PLATFORM": "cpu", "OMP_NUM_THREADS": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=die_with_parent,
    )


def _rank(asked: dict[str, Any], rank: int) -> int:
    """Start a rank; return its process id."""
    if number := os.fork():
        return number
    die_with_parent()
    # Nothing of it keeps the pipes to the tests open.
    os.closerange(3, 64)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for stream, name in enumerate(STREAMS, start=1):
        os.dup2(os.open(Path(asked["folder"], name), os.O_WRONLY | os.O_APPEND), stream)
    os.environ.update(asked["variables"], RANK=str(rank), LOCAL_RANK=str(rank))
    sys.argv = asked["argv"]
    code = 1
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def main() -> None:
    """Run the programs that are asked for, one on each line, and print how each ended: 0, or the failed status."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    import update_actor  # noqa: F401

    for line in sys.stdin:
        asked = json.loads(line)
        for name in STREAMS:
            Path(asked["folder"], name).touch()
        running = {_rank(asked, rank) for rank in range(asked["ranks"])}
        status = 0
        while running and not status:
            number, status = os.wait()
            running.discard(number)
        # The others would wait for a rank that failed.
        for number in running:
            os.kill(number, signal.SIGKILL)
            os.waitpid(number, 0)
        print(status, file=answers, flush=True)


if __name__ == "__main__":
    main()
