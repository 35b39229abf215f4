"""Run a program of this folder on several ranks of a CPU.

The ranks are forks of one process for each process of tests, which has imported verl: an import for each rank takes
longer than most programs. Their variables are those of torchrun.
"""

import json
import os
import runpy
import socket
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any


def printed(program: Path, ranks: int, *words: str | Path, **variables: str) -> list[dict[str, Any]]:
    """The JSON objects that a program prints, one for each line, on all ranks together."""
    with socket.socket() as probe, tempfile.NamedTemporaryFile("r+", encoding="utf-8") as output:
        probe.bind(("127.0.0.1", 0))
        world = {"WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1"}
        variables = {**world, "MASTER_PORT": str(probe.getsockname()[1]), **variables}
        probe.close()
        asked = {"argv": [*map(str, (program, *words))], "variables": variables, "ranks": ranks, "output": output.name}
        parent = _parent()
        parent.stdin.write(json.dumps(asked) + "\n")
        parent.stdin.flush()
        ended = parent.stdout.readline()
        said = output.read()
    assert ended == "0\n", said
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
    )


def _rank(asked: dict[str, Any], rank: int) -> int:
    """Start a rank; return its process id."""
    if number := os.fork():
        return number
    with Path(asked["output"]).open("a", encoding="utf-8") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    os.environ.update(asked["variables"], RANK=str(rank), LOCAL_RANK=str(rank))
    sys.argv = asked["argv"]
    code = 1
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
        code = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        os._exit(code)


def main() -> None:
    """Run the programs that are asked for, one on each line, and print how each ended: 0, or the failed status."""
    import update_actor  # noqa: F401

    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        asked = json.loads(line)
        running = {_rank(asked, rank) for rank in range(asked["ranks"])}
        status = 0
        while running:
            number, status = os.wait()
            running.discard(number)
            if status:
                break
        for number in running:  # which would wait for the one that failed
            os.kill(number, 9)
            os.waitpid(number, 0)
        print(status, file=answers, flush=True)


if __name__ == "__main__":
    main()
