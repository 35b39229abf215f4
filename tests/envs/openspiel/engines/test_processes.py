"""Real engines as processes: started once per process, restarted after a crash, and ended with their owner."""

import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Collection

import psutil
import pytest

from veritas_rl.envs.openspiel.cases import load
from veritas_rl.envs.openspiel.engines import EngineSpec, engine_values
from veritas_rl.envs.openspiel.engines.process import EnginePool

Installed = Callable[[str], EngineSpec]

ENGINES = [("uci:stockfish:nodes=200", "chess"), ("gtp:gnugo:level=0", "go(board_size=5)"), ("gnubg", "backgammon")]

HEAD = """
import os, signal, sys, psutil
from veritas_rl.envs.openspiel.cases import load
from veritas_rl.envs.openspiel.engines import engine_values
def values(name, case):
    game = load(case)
    state = game.spiel.new_initial_state()
    while state.is_chance_node():
        state.apply_action(state.legal_actions()[0])
    return engine_values(game, state, state.current_player(), name)
def running():
    return [child.pid for child in psutil.Process().children() if child.name() != "python"]
name, case = sys.argv[1:]
"""


def run(program: str, name: str, case: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a separate process."""
    return subprocess.run(
        [sys.executable, "-c", HEAD + textwrap.dedent(program), name, case],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def all_end(pids: list[int]) -> bool:
    """Whether processes end within some seconds."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if not any(psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE for pid in pids):
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize(("name", "case"), ENGINES)
@pytest.mark.parametrize("ending", ["", "raise SystemExit(3)", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_an_engine_ends_with_its_process(ending: str, name: str, case: str, installed: Installed) -> None:
    installed(name)
    done = run(f"values(name, case)\nprint(*running(), flush=True)\n{ending}", name, case)
    pids = [int(word) for word in done.stdout.split()]
    assert len(pids) == 1, done.stderr
    assert all_end(pids)


@pytest.mark.parametrize(("name", "case"), ENGINES)
def test_a_fork_has_engines_of_its_own(name: str, case: str, installed: Installed) -> None:
    installed(name)
    program = """
    before, (mine,) = values(name, case), running()
    child = os.fork()
    if not child:
        same = values(name, case) == before
        (own,) = running()
        print("child", same, own, flush=True)
        sys.exit(0)
    _, status = os.waitpid(child, 0)
    print("parent", values(name, case) == before, mine, *running(), status, flush=True)
    """
    done = run(program, name, case)
    lines = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
    assert lines.keys() == {"child", "parent"}, done.stderr
    same, own = lines["child"].split()
    unharmed, mine, still, status = lines["parent"].split()
    assert (same, unharmed, status) == ("True", "True", "0")
    assert mine == still != own
    assert all_end([int(mine), int(own)])


def engines_running(others: Collection[psutil.Process] = ()) -> list[psutil.Process]:
    """The engines of this process, except for `others`.

    Python processes are skipped, because other tests may have left helpers of multiprocessing. Zombies are skipped,
    because a killed chess engine is a zombie until a thread of python-chess has waited for it.
    """
    return [
        child
        for child in psutil.Process().children()
        if child not in others and not child.name().startswith("python") and child.status() != psutil.STATUS_ZOMBIE
    ]


@pytest.mark.parametrize(("name", "case"), ENGINES)
def test_a_killed_engine_is_started_again(name: str, case: str, installed: Installed, pool: EnginePool) -> None:
    installed(name)
    game = load(case)
    state = game.spiel.new_initial_state()
    while state.is_chance_node():
        state.apply_action(state.legal_actions()[0])
    others = engines_running()  # started by other tests
    before = engine_values(game, state, state.current_player(), name)
    first = engines_running(others)
    assert len(first) == 1, "one process for each engine"
    assert engine_values(game, state, state.current_player(), name) == before
    assert engines_running(others) == first, "started once"
    first[0].kill()
    assert engine_values(game, state, state.current_player(), name) == before
    assert engines_running(others) != first
