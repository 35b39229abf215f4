"""A user's program is asked whenever it can be: debug prints never take it away, and its task keeps it."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from veritas_rl.envs.base import Reply
from veritas_rl.envs.registry import get_environment, open_catalogue
from veritas_rl.envs.task import Task
from veritas_rl.envs.trace import asking
from veritas_rl.envs.trace.asking import UNWRITABLE, Candidate, question_of, users_sources, why_not
from veritas_rl.envs.trace.programs import Program
from veritas_rl.envs.trace.questions import Question, form_of, split_of
from veritas_rl.envs.trace.sandbox import Limits, Status
from veritas_rl.envs.trace.truths import DIFFERS, Refused, Truth, Truths

ENV = get_environment("trace")

SIEVE = """
limit = 4000
flags = [True] * (limit + 1)
flags[0] = flags[1] = False
for n in range(2, limit + 1):
    if flags[n]:
        for multiple in range(n * n, limit + 1, n):
            flags[multiple] = False
primes = [n for n in range(limit + 1) if flags[n]]
print(len(primes), primes[-1])
"""
MATRIX = """
size = 24
a = [[(i * j + 1) % 7 for j in range(size)] for i in range(size)]
b = [[(i + j) % 5 for j in range(size)] for i in range(size)]
c = [[0] * size for _ in range(size)]
for i in range(size):
    row = a[i]
    for j in range(size):
        total = 0
        for k in range(size):
            total = total + row[k] * b[k][j]
        c[i][j] = total
print(sum(c[i][i] for i in range(size)))
"""
FIBONACCI = """
a, b = 0, 1
for step in range(30000):
    a, b = b, a + b
last = a % 10**9
print(last)
"""
POWERS = """
value = 1
for n in range(200):
    value = value * 10**60
    tail = value % 97
print(tail)
"""
COLLATZ = """
n, steps, seen = 97, 0, []
while n != 1:
    n = n // 2 if n % 2 == 0 else 3 * n + 1
    steps = steps + 1
    seen = seen + [n] * 8
print(steps, max(seen))
"""
STRINGS = """
text = ""
for n in range(3000):
    text = text + str(n)
    size = len(text)
print(size)
"""
CYCLE = """
class Node:
    def __init__(self, value):
        self.value = value
        self.next = None
    def __repr__(self):
        return f"{self.value}->{self.next!r}"
first = Node(1)
second = Node(2)
first.next = second
second.next = first
node = first
for n in range(5):
    node = node.next
print(node.value)
"""
ADDRESSES = """
class Cell:
    def __init__(self, value):
        self.value = value
    def __repr__(self):
        return f"<cell at {id(self)}>"
cells = [Cell(n) for n in range(5)]
total = sum(cell.value for cell in cells)
print(total)
"""
BUBBLE = """
items = [(n * 37) % 101 for n in range(90)]
for i in range(len(items)):
    for j in range(len(items) - 1 - i):
        if items[j] > items[j + 1]:
            items[j], items[j + 1] = items[j + 1], items[j]
print(items[:5], items[-1])
"""
EXIT = """
total = 0
for n in range(100):
    total = total + n
    if total > 50:
        print(total)
        exit()
print("never")
"""
SYS_EXIT = """
import sys
values = list(range(12))
print(sum(values))
sys.exit(0)
"""
PASCAL = """
row = [1]
for n in range(60):
    row = [1] + [row[i] + row[i + 1] for i in range(n)] + [1]
    middle = row[len(row) // 2]
print(middle)
"""
LOOPS = [
    SIEVE, MATRIX, FIBONACCI, POWERS, COLLATZ, STRINGS, CYCLE, ADDRESSES, BUBBLE, EXIT, SYS_EXIT, PASCAL
]  # fmt: skip


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are named by their relative paths, because a file's path is part of the seeds."""
    monkeypatch.chdir(tmp_path)
    for cache in (question_of, asking._candidates, asking._opened):
        cache.cache_clear()


def tasks(path: Path, split: str, **config: Any) -> list[Task]:
    config = {"cases": f"programs:{path.name}", "num_tasks_per_case": 36, **config}
    return list(open_catalogue({"env": "trace", "adapter_config": config}, split))


def written(path: Path, programs: list[str]) -> Path:
    path.write_text("".join(json.dumps({"program": program}) + "\n" for program in programs))
    return path


def without_prints(source: str) -> str:
    return re.sub(r'^[ \t]*print\(f"__DBG_\d+__ .*\n', "", source, flags=re.MULTILINE)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Each program of a file of 24 ends well without debug prints, and several do not with them."""
    twice = [program.replace("range(", "range(0 + ") for program in LOOPS]
    return written(tmp_path / "loops.jsonl", [*LOOPS, *twice])


@pytest.mark.parametrize("split", ["train", "val"])
def test_debug_prints_take_no_program_away(path: Path, split: str) -> None:
    plain = [ENV.start(task).turns()[0].view for task in tasks(path, split, debug_prints=0)]
    shown = [ENV.start(task).turns()[0].view for task in tasks(path, split, debug_prints=6)]
    assert [without_prints(question.source) for question in shown] == [question.source for question in plain]
    assert len({question.source for question in plain}) >= 4


def test_all_programs_of_the_file_are_asked(path: Path) -> None:
    asked = {
        without_prints(ENV.start(task).turns()[0].view.source)
        for split in ("train", "val")
        for task in tasks(path, split)
    }
    assert asked == {json.loads(line)["program"] for line in path.read_text().splitlines()}


def test_the_same_program_with_other_inputs_is_asked_again_and_an_equal_row_is_not(tmp_path: Path) -> None:
    program, path = "print('read', input())", tmp_path / "inputs.jsonl"
    path.write_text("".join(json.dumps({"program": program, "inputs": f"{n % 5}"}) + "\n" for n in range(10)))
    split = split_of(form_of(program))
    truths = [ENV.start(task).turns()[0].view.truth for task in tasks(path, split, num_tasks_per_case=5)]
    assert sorted(truths) == [f"read {n}\n" for n in range(5)]


@pytest.mark.parametrize("source", LOOPS)
def test_a_program_keeps_as_many_debug_prints_as_it_can(tmp_path: Path, source: str) -> None:
    with Truths(folder=tmp_path, threads=1) as truths:
        for seed in range(3):
            sources = users_sources(Program(source), 6, seed)
            found = Candidate(Program(source), form_of(source), sources).find(truths)
            assert isinstance(found, Question)
            for text in sources[: sources.index(found.source)]:
                assert why_not(truths.truth_of(text), truths.limits)


def test_some_programs_keep_all_debug_prints_some_fewer_and_some_none(path: Path) -> None:
    counts = {ENV.start(task).turns()[0].view.source.count("__DBG_") for task in tasks(path, "train")}
    assert {0, 1, 2, 3} <= counts


def test_a_task_with_fewer_debug_prints_is_the_same_at_each_start(path: Path) -> None:
    before = [ENV.start(task).turns()[0].messages for task in tasks(path, "val")]
    question_of.cache_clear()
    assert [ENV.start(task).turns()[0].messages for task in tasks(path, "val")] == before


class Counted(Truths):
    """Truths that count the texts that are run."""

    def __init__(self, folder: Path) -> None:
        super().__init__(Limits(cpu=1, wall=1.5, output=20_000), threads=1, folder=folder)
        self.asked: list[str] = []

    def truth_of(self, source: str, stdin: str = "") -> Truth | Refused:
        self.asked.append(source)
        return super().truth_of(source, stdin)


def test_a_program_that_fails_itself_is_run_once_more_and_not_with_fewer_prints(tmp_path: Path) -> None:
    source = "".join(f"x = {n}\n" for n in range(30)) + "print(x / 0)\n"
    program = Program(source)
    sources = users_sources(program, 6, "seed")
    assert [text.count("__DBG_") for text in sources] == [6, 3, 1, 0]
    with Counted(tmp_path) as truths:
        assert Candidate(program, form_of(source), sources).find(truths) == "it ends with ZeroDivisionError"
        assert truths.asked == [sources[0], source]


def test_a_program_that_fits_is_run_with_its_prints_alone(tmp_path: Path) -> None:
    program = Program("x = 1\nprint(x)\n")
    sources = users_sources(program, 6, "seed")
    with Counted(tmp_path) as truths:
        found = Candidate(program, form_of(program.source), sources).find(truths)
        assert isinstance(found, Question)
        assert truths.asked == [sources[0]]


def test_a_deeply_nested_program_is_asked_without_prints(tmp_path: Path) -> None:
    deep = "x = 1\ny = " + " + ".join(["x"] * 700) + "\nprint(y)\n"
    branches = "x = 1\nif x == 0:\n    y = 0\n" + "".join(f"elif x == {n + 2}:\n    y = {n}\n" for n in range(400))
    path = written(tmp_path / "deep.jsonl", [deep, branches + "else:\n    y = -1\nprint(y)\n"])
    found = {ENV.start(task).turns()[0].view.truth for split in ("train", "val") for task in _some(path, split)}
    assert found == {"700\n", "-1\n"}


def _some(path: Path, split: str) -> list[Task]:
    """The tasks of a split, none if no program belongs to it."""
    programs = [json.loads(line)["program"] for line in path.read_text().splitlines()]
    belongs = any(split_of(form_of(program)) == split for program in programs)
    return tasks(path, split, num_tasks_per_case=4) if belongs else []


@pytest.mark.parametrize(
    ("result", "why"),
    [
        (Refused(Status.ERROR, "NameError"), "it ends with NameError"),
        (Refused(Status.ERROR, "exit status 3"), "it ends with exit status 3"),
        (Refused(Status.ERROR, "a\nb" + "c" * 900), "it ends with a b" + "c" * 77),
        (Refused(Status.TIMEOUT, "10 s of CPU time"), "it runs over 10 s"),
        (Refused(Status.OUTPUT, ""), "it prints more than 65536 bytes"),
        (Refused(Status.MEMORY, "MemoryError"), "it needs more than 512 MiB"),
        (Refused(DIFFERS, "line 1"), "it prints different outputs in different runs"),
        (Truth(" \n"), "it prints nothing"),
        (Truth("x" * 200_000), UNWRITABLE),
        (Truth("1\n"), ""),
        (Truth("```\n````\n"), ""),
    ],
)
def test_why_a_program_is_not_asked(result: Truth | Refused, why: str) -> None:
    assert why_not(result, Limits()) == why


@pytest.mark.parametrize(
    "text", ["</think>", "<think>", "\\boxed{1}", "````", "a\rb", "the answer is 3", "\t1\n \n", "`1`"]
)
@pytest.mark.parametrize("prompt", ["full", "brief"])
def test_each_task_pays_its_own_solution(tmp_path: Path, text: str, prompt: str) -> None:
    """A program whose output cannot be written is not asked; here another program is always left."""
    programs = [f"print({text!r}, {number})" for number in range(3)] + [f"print({n})" for n in range(8)]
    path = written(tmp_path / "own.jsonl", programs)
    for task in tasks(path, "train", num_tasks_per_case=8, prompt=prompt):
        session = ENV.start(task)
        session.step({0: Reply(session.turns()[0].solution)})
        assert session.scores()[0].success
