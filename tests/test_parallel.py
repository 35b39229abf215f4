"""A function over many items has the same results, errors and messages with any number of workers."""

import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import pytest
from rich.console import Console

from veritas_rl.datasets import draw
from veritas_rl.datasets.generate import generate
from veritas_rl.demonstrations import generate as demonstrating
from veritas_rl.demonstrations.questions import KeptBlocks
from veritas_rl.envs.base import Reply, Turn
from veritas_rl.envs.lint import lint
from veritas_rl.envs.openspiel.learning_signal import summary
from veritas_rl.errors import UserError
from veritas_rl.exact.answers import ANSWERS
from veritas_rl.exact.evaluation import ExactSettings, evaluate_exactly
from veritas_rl.judging import evaluation, matches
from veritas_rl.parallel import AHEAD, Workers, available_cores, read_workers
from veritas_rl.players.loading import NamedPlayer, ReplySettings, open_player
from veritas_rl.rating import tournament
from veritas_rl.seeding import generator

QUIET = Console(quiet=True)
ROOT = Path(__file__).resolve().parents[1]

# The workers import these functions by module name, but a test module in pytest's importlib mode is not importable.
WORK = """
import os, signal, time
from veritas_rl.errors import UserError
from veritas_rl.seeding import generator

class Awkward(Exception):
    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")

def drawn(item):
    return item, generator("item", item).random()

def process(item):
    time.sleep(0.02)
    return os.getpid()

def refuses_from_five(item):
    if item == 5:
        time.sleep(0.3)
    if item >= 5:
        raise UserError(f"no {item}")
    return item

def awkward(item):
    raise Awkward(item, item)

def dies(item):
    if item == 7:
        os.kill(os.getpid(), signal.SIGKILL)
    return item

def slow_first(item):
    time.sleep(0.5 if item == 0 else 0.001)
    return item

def sleeps(item):
    open(f"{os.environ['SLEEPING']}/{os.getpid()}", "w").close()
    time.sleep(600)
"""


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Callable]]:
    """The functions of `WORK` by name, from a module that workers can import."""
    folder = tmp_path_factory.mktemp("work")
    (folder / "work_of_workers.py").write_text(WORK)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        patch.setenv("PYTHONPATH", f"{folder}:{ROOT}")
        import work_of_workers  # pyright: ignore[reportMissingImports]

        yield lambda name: getattr(work_of_workers, name)


@pytest.fixture(scope="module")
def three(work: Callable[[str], Callable]) -> Iterator[Workers]:
    """Three workers of one Ray cluster."""
    with Workers(3) as workers:
        yield workers


@pytest.fixture(params=[1, 3])
def workers(request: pytest.FixtureRequest) -> Workers:
    """Workers with a count of 1 or 3."""
    return Workers(1) if request.param == 1 else request.getfixturevalue("three")


def test_the_results_are_the_same_and_in_order(workers: Workers, work: Callable[[str], Callable]) -> None:
    expected = [(item, generator("item", item).random()) for item in range(3000)]
    assert list(workers.map(work("drawn"), iter(range(3000)))) == expected
    assert list(workers.map(work("drawn"), [])) == []


def test_several_processes_share_the_work(three: Workers, work: Callable[[str], Callable]) -> None:
    used = set(three.map(work("process"), range(60)))
    assert len(used) == 3
    assert os.getpid() not in used
    assert set(three.map(work("process"), [1])) == {os.getpid()}  # a single item runs in this process
    assert set(Workers(1).map(work("process"), range(3))) == {os.getpid()}


def test_auto_begins_in_this_process_and_goes_on_elsewhere(
    three: Workers, work: Callable[[str], Callable], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("veritas_rl.parallel.PATIENCE", 0.1)
    assert len(list(three.map(work("drawn"), range(3)))) == 3  # starts Ray, also if no test has used it yet
    auto = Workers(None)
    assert auto.several == (available_cores() > 1)
    monkeypatch.setattr(auto, "_count", 3)
    monkeypatch.setattr(auto, "_start", lambda: monkeypatch.setattr(auto, "_remote", three._remote))
    used = list(auto.map(work("process"), range(40)))
    assert set(used[:4]) == {os.getpid()}
    assert os.getpid() not in used[10:]


def test_a_slow_item_holds_up_nobody_and_nothing_is_read_far_ahead(
    three: Workers, work: Callable[[str], Callable]
) -> None:
    read: list[int] = []
    results = three.map(work("slow_first"), (read.append(item) or item for item in range(10**6)))
    assert next(results) == 0
    assert 10 < len(read) < 10_000
    results.close()
    assert len(list(three.map(work("drawn"), range(3 * AHEAD)))) == 3 * AHEAD


def keep(kept: list[int], results: Iterator[int]) -> None:
    """Append results one by one, as a ledger does."""
    for result in results:
        kept.append(result)


def test_the_first_error_in_order_is_raised_with_its_item(workers: Workers, work: Callable[[str], Callable]) -> None:
    before: list[int] = []
    with pytest.raises(UserError, match="no 5") as caught:
        keep(before, workers.map(work("refuses_from_five"), range(20)))
    assert "at item 5: 5" in caught.value.__notes__
    assert before == list(range(5))


def test_an_error_that_cannot_be_sent_is_named(three: Workers, work: Callable[[str], Callable]) -> None:
    with pytest.raises(RuntimeError, match="Awkward: 0 and 0") as caught:
        list(three.map(work("awkward"), range(4)))
    assert "at item 0: 0" in caught.value.__notes__


def test_a_death_names_its_item_after_all_before_it(three: Workers, work: Callable[[str], Callable]) -> None:
    before: list[int] = []
    with pytest.raises(RuntimeError, match="a worker died at item 7: 7"):
        keep(before, three.map(work("dies"), range(200)))
    assert before == list(range(7))


def test_workers_are_counted_from_one() -> None:
    with pytest.raises(ValueError, match="at least 1, not 0"):
        Workers(0)
    for text in ("0", "-1", "many", ""):
        with pytest.raises(UserError, match="--workers must be auto or a number of at least 1"):
            read_workers(text)
    assert not read_workers("1").several
    assert read_workers("2").several


def test_an_address_without_ray_ends_with_one_line(
    tmp_path: Path, free_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "cluster")
    with pytest.raises(UserError, match="RAY_ADDRESS=cluster is not the address of a Ray cluster"), Workers(2):
        pass
    with Workers(1) as one:
        assert list(one.map(str, range(2))) == ["0", "1"]
    monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{free_port}")
    command = ["train/tools/generate_dataset.py", "--env", "lgc-v2", "--num-samples", "5", "--out-dir", str(tmp_path)]
    done = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"error: no Ray cluster answers at RAY_ADDRESS=127.0.0.1:{free_port} ")
    assert not list(tmp_path.iterdir())


def test_an_interrupt_ends_all_workers(tmp_path: Path, work: Callable[[str], Callable]) -> None:
    script = tmp_path / "main.py"
    script.write_text(
        "from veritas_rl.errors import exit_on_user_error\nfrom veritas_rl.parallel import Workers\n"
        "from work_of_workers import sleeps\n"
        "def main():\n    with Workers(2) as workers:\n        list(workers.map(sleeps, range(4)))\n"
        "exit_on_user_error(main)\n"
    )
    marks = tmp_path / "sleeping"
    marks.mkdir()
    main = subprocess.Popen(
        [sys.executable, str(script)],
        env={**os.environ, "SLEEPING": str(marks)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        # If these tests run in a shell's background, their processes ignore SIGINT by default.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        deadline = time.monotonic() + 90
        while len(asleep := list(marks.iterdir())) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        started = [child.pid for child in psutil.Process(main.pid).children(recursive=True)]
        os.killpg(main.pid, signal.SIGINT)  # as a terminal does on Ctrl-C
        printed, _ = main.communicate(timeout=30)
    finally:
        main.kill()
    assert (main.returncode, printed.decode()) == (130, "interrupted\n")
    assert {int(mark.name) for mark in asleep} <= set(started)
    _, alive = psutil.wait_procs([psutil.Process(pid) for pid in started if psutil.pid_exists(pid)], timeout=10)
    assert not alive


ignoring_description = pytest.mark.filterwarnings("ignore:.*has no description of its own")


def bytes_of(folder: Path) -> dict[str, bytes]:
    """The content of every file in a folder."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}


@ignoring_description
def test_the_linter_finds_the_same(three: Workers) -> None:
    cases = ["kuhn_poker", "tic_tac_toe", "blackjack", "hex(board_size=3)"]
    one, shared = (lint("openspiel", cases, 1, workers=each) for each in (None, three))
    assert shared == one
    assert {row.case for row in one} == {*cases, "all"}


@ignoring_description
@pytest.mark.parametrize(
    ("tool", "cases", "options"),
    [
        ("lint_env.py", "kuhn_poker,tic_tac_toe,blackjack,leduc_poker,hex(board_size=4)", ("--tasks", "1")),
        ("learning_signal.py", "kuhn_poker,tic_tac_toe,hex(board_size=4),hex(board_size=5)", ("--tasks", "40")),
    ],
)
def test_a_killed_tool_goes_on_with_the_cases_that_are_left(
    tool: str, cases: str, options: Sequence[str], tmp_path: Path
) -> None:
    def command(file: str) -> list[str]:
        named = ["--cases", cases, "--workers", "1", "--json", str(tmp_path / file)]
        return [sys.executable, str(ROOT / "train/tools" / tool), *named, *options]

    wide = {**os.environ, "COLUMNS": "400"}

    def written(file: str) -> dict[str, Any]:
        found = json.loads((tmp_path / file).read_text())
        for of_case in found.get("cases", ()):
            for part in (of_case, *filter(None, of_case["thirds"])):
                for measured in ("seconds", "worst"):
                    part.pop(measured, None)
        return found

    running = subprocess.Popen(command("killed.json"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not (tmp_path / "killed.json").exists():
        assert running.poll() is None
        time.sleep(0.02)
    running.kill()
    running.wait()
    before = written("killed.json")
    done = subprocess.run(command("killed.json"), env=wide, capture_output=True, text=True, check=True)
    assert re.search(r"^\d (of \d )?cases are already in .*killed\.json$", done.stderr, re.MULTILINE)
    subprocess.run(command("whole.json"), capture_output=True, check=True)
    after = written("killed.json")
    assert before != after == written("whole.json"), done.stderr
    # Other settings are refused.
    other = subprocess.run([*command("killed.json")[:-1], "2"], capture_output=True, text=True, check=False)
    assert other.returncode == 2
    assert re.fullmatch(rf"error: .*killed\.json was written with tasks={options[1]}, not 2; .*\n", other.stderr)


def test_the_signal_is_the_same_but_for_the_times(three: Workers) -> None:
    jobs = summary.jobs_of(summary.Settings(tasks=8, playouts=32), ["blackjack", "kuhn_poker"])

    def measured(workers: Workers) -> list[summary.CaseSignal]:
        rows = summary.measure(jobs, workers)
        whole = [dataclasses.replace(row.whole, seconds=0.0, worst=0.0) for row in rows]
        return [summary.CaseSignal(case, part, ()) for case, part in zip(jobs, whole, strict=True)]

    assert measured(three) == measured(Workers(1))


def test_a_data_set_has_the_same_bytes(three: Workers, tmp_path: Path) -> None:
    settings = draw.Settings("lgc-v2", 120)
    for name, workers in {"one": Workers(1), "three": three}.items():
        generate(tmp_path / name, settings, workers, QUIET)
    assert bytes_of(tmp_path / "three") == bytes_of(tmp_path / "one")


JUDGED = evaluation.Settings(
    "mcts:8", compare="random", opponents=("random", "exact"), games=8, cases="tic_tac_toe,hex(board_size=3)"
)


@ignoring_description
def test_an_evaluation_has_the_same_bytes_also_after_an_interruption(
    three: Workers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def judge(name: str, workers: Workers) -> evaluation.Evaluation:
        found = evaluation.evaluate(JUDGED, tmp_path / name, QUIET, 6, workers=workers)
        return dataclasses.replace(found, seconds=0.0, played=0)

    one = judge("one", Workers(1))
    assert judge("three", three) == one
    add, left = matches.Ledger.add, iter(range(25))

    def interrupted(ledger: matches.Ledger, game: matches.FinishedGame) -> None:
        if next(left, None) is None:
            raise KeyboardInterrupt
        add(ledger, game)

    with monkeypatch.context() as patched:
        patched.setattr(matches.Ledger, "add", interrupted)
        with pytest.raises(KeyboardInterrupt):
            judge("cut", three)
    assert len((tmp_path / "cut" / matches.LEDGER).read_text().splitlines()) == 25
    assert judge("cut", three) == one
    assert set(bytes_of(tmp_path / "one")) == {matches.LEDGER, "shown.html", "shown.jsonl"}
    assert bytes_of(tmp_path / "one") == bytes_of(tmp_path / "three") == bytes_of(tmp_path / "cut")


class First:
    """A player, as a model, that gives the first legal answer."""

    def act(self, turns: Sequence[Turn]) -> list[Reply]:
        return [Reply(turn.answers[0], tokens=2) for turn in turns]


def test_workers_think_for_the_bots_that_meet_a_model(three: Workers, tmp_path: Path) -> None:
    model = NamedPlayer("first", "first", First(), is_model=True)
    bots = [open_player(name, "openspiel", ReplySettings(), tmp_path) for name in ("mcts:20", "random")]
    pairings = matches.pair(["connect_four"], 6, [model], bots, matches.Rules("openspiel"))

    def played(workers: Workers) -> list[matches.FinishedGame]:
        found: list[matches.FinishedGame] = []
        matches.play_all(pairings, 100, lambda _, game, __: found.append(game), workers=workers)
        return found

    assert played(three) == played(Workers(1))


def test_a_tournament_has_the_same_bytes(three: Workers, tmp_path: Path) -> None:
    settings = tournament.Settings(("random", "exact", "mcts:4"), games=6, cases="tic_tac_toe")
    tables = [
        tournament.hold(settings, tmp_path / name, QUIET, workers=workers).tables
        for name, workers in {"one": Workers(1), "three": three}.items()
    ]
    assert tables[0] == tables[1]
    assert bytes_of(tmp_path / "three") == bytes_of(tmp_path / "one")


@ignoring_description
@pytest.mark.parametrize(
    "changes",
    [
        {"games": "tic_tac_toe,hex(board_size=3)", "expert": "exact", "number": 20_000},
        {"games": "tic_tac_toe,hex(board_size=3)", "expert": "mcts:4", "number": 30, "min_value": 0.5},
        {"games": "connect_four", "expert": "mcts:4", "opponent": "random", "mode": "episode", "number": 60},
    ],
)
def test_demonstrations_are_the_same(three: Workers, changes: dict) -> None:
    settings = demonstrating.Settings(**changes, prompt="brief")
    assert demonstrating.generate(settings, workers=three) == demonstrating.generate(settings)


@ignoring_description
def test_demonstrations_go_on_after_an_interruption(three: Workers, tmp_path: Path) -> None:
    settings = demonstrating.Settings("tic_tac_toe,hex(board_size=3)", "mcts:4", 60, prompt="brief")

    made: list[int] = []

    def interrupted(more: int) -> None:
        made.append(more)
        if sum(made) > 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        demonstrating.generate(settings, interrupted, three, tmp_path)
    with closing(KeptBlocks(tmp_path, settings.values())) as kept:
        assert sum(len(questions) for _, questions in kept.blocks) > 20
    assert demonstrating.generate(settings, workers=three, folder=tmp_path) == demonstrating.generate(settings)
    other = dataclasses.replace(settings, seed=1)
    with closing(KeptBlocks(tmp_path, other.values())) as kept:
        assert not kept.blocks


def test_a_policy_is_the_same_and_no_state_is_asked_twice(
    three: Workers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = ExactSettings("mcts:4", cases="kuhn_poker,leduc_poker", samples=2)

    def judged(name: str, workers: Workers) -> Any:
        return evaluate_exactly(settings, tmp_path / name, QUIET, workers=workers).reports

    one = judged("one", Workers(1))
    (tmp_path / "three").mkdir()
    lines = (tmp_path / "one" / ANSWERS).read_bytes().splitlines(keepends=True)
    (tmp_path / "three" / ANSWERS).write_bytes(b"".join(lines[:2]) + lines[2][:50])
    assert judged("three", three) == one
    assert bytes_of(tmp_path / "three") == bytes_of(tmp_path / "one")
    monkeypatch.setattr("veritas_rl.exact.policies._sampled", None)
    assert judged("three", three) == one


def test_a_mistake_that_a_worker_meets_is_the_persons(three: Workers) -> None:
    settings = demonstrating.Settings("tic_tac_toe", "solution", 30)
    with pytest.raises(UserError, match="the player solution cannot play here"):
        demonstrating.generate(settings, workers=three)
