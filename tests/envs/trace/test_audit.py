"""Trace's own checks find nothing in the real environment, and each planted defect is found by its check."""

import dataclasses
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from veritas_rl.envs.audit import NotApplicable
from veritas_rl.envs.base import Reason, Reply, Score, Session
from veritas_rl.envs.lint import Verdict, lint
from veritas_rl.envs.registry import open_catalogue
from veritas_rl.envs.single import SingleAnswerSession
from veritas_rl.envs.task import Task
from veritas_rl.envs.trace import pypy
from veritas_rl.envs.trace.audit import TraceAudit, near_misses
from veritas_rl.envs.trace.env import TraceEnvironment
from veritas_rl.envs.trace.questions import Question
from veritas_rl.envs.trace.sandbox import Sandbox
from veritas_rl.envs.trace.scoring import judge, read_output
from veritas_rl.envs.trace.task import TracePay

needs_pypy = pytest.mark.skipif(not pypy.found(), reason=f"pypy3 is not installed ({pypy.INSTALL})")


def tasks(count: int = 2, **config: Any) -> Sequence[Task]:
    settings = {"cases": "level_3", "num_tasks_per_case": count, **config}
    return list(open_catalogue({"env": "trace", "adapter_config": settings}, "train"))


@cache
def output_of(source: str) -> str:
    """The output of a program in one run."""
    with Sandbox() as sandbox:
        return sandbox.run(source).stdout


class Broken(TraceEnvironment):
    """The real environment with a changed question or judge."""

    def changed(self, task: Task, asked: Question) -> Question:
        """The question that replaces `asked`."""
        return asked

    def score(self, reply: Reply, asked: Question, pay: TracePay) -> Score:
        """The score that replaces the real one."""
        return judge(reply, asked.truth, pay)

    def start(self, task: Task) -> Session:
        (turn,) = super().start(task).turns()
        pay = task.pay
        assert isinstance(pay, TracePay)
        asked = self.changed(task, turn.view)
        return SingleAnswerSession(
            task, dataclasses.replace(turn, view=asked), lambda reply: self.score(reply, asked, pay)
        )


class Program(Broken):
    """Asks about `source`, with its output in one run as the truth unless `truth` is set."""

    source = "print(1)\n"
    truth = ""

    def changed(self, task: Task, asked: Question) -> Question:
        return dataclasses.replace(asked, source=self.source, truth=self.truth or output_of(self.source))


class BranchOnlyName(Program):
    """A debug print fails on a name that only one branch binds; the truth is the output before the error."""

    source = (
        'x = 3\nprint(f"__DBG_0__ {x=}")\nprint(x)\n'
        'if x > 5:\n    late = 1\nprint(f"__DBG_1__ {late=}")\nprint(x + 1)\n'
    )
    truth = "__DBG_0__ x=3\n3\n"


class SetOrder(Program):
    source = 'for word in {"ant", "bee", "cat", "dog", "elk"}:\n    print(word)\n'


class Address(Program):
    source = "x = []\nprint(id(x))\n"


class Clock(Program):
    source = "import time\nprint(time.strftime('%Y-%m-%d'))\n"


class Optimized(Program):
    source = "import sys\nprint(sys.flags.optimize)\n"


class Implementation(Program):
    source = "import sys\nprint(sys.implementation.name)\n"


class DebugChanges(Program):
    """A debug print that advances an iterator."""

    source = 'xs = iter([1, 2, 3])\nprint(f"__DBG_0__ {next(xs)=}")\nprint(next(xs))\n'


class LooseComparison(Broken):
    """The comparison ignores case and white space."""

    def score(self, reply: Reply, asked: Question, pay: TracePay) -> Score:
        said = read_output(reply)
        right = "".join(said.lower().split()) == "".join(asked.truth.lower().split())
        return Score(float(right), right, Reason.CORRECT if right else Reason.WRONG)


class EmptyTruth(Program):
    """A program that prints nothing, and an empty code block that matches it."""

    source = "x = 1\n"

    def changed(self, task: Task, asked: Question) -> Question:
        return dataclasses.replace(asked, source=self.source, truth="")

    def score(self, reply: Reply, asked: Question, pay: TracePay) -> Score:
        right = reply.text.replace("`", "").strip() == asked.truth.strip()
        return Score(float(right), right, Reason.CORRECT if right else Reason.WRONG)


class FullShare(Broken):
    """Partial credit is rounded up to 1."""

    def score(self, reply: Reply, asked: Question, pay: TracePay) -> Score:
        score = super().score(reply, asked, pay)
        return dataclasses.replace(score, value=1.0) if score.value else score


class RenamedInTraining(Broken):
    """Training asks the programs of validation with renamed identifiers."""

    def changed(self, task: Task, asked: Question) -> Question:
        if task.split == "val":
            return asked
        (turn,) = TraceEnvironment().start(task.replace(split="val")).turns()
        assigned = set(re.findall(r"^(\w+) =", turn.view.source, re.MULTILINE))
        source = turn.view.source
        for name in assigned:
            source = re.sub(rf"(?<![\w.\"']){name}\b(?!\")", f"{name}_2", source)
        return dataclasses.replace(asked, source=source)


ORDER, ALONE, MISSES = "other hash seeds", "debug prints add alone", "near misses refused"
SECOND, SPLITS = "a second way to the truth", "splits share no program"


@pytest.mark.parametrize(
    ("environment", "check", "text"),
    [
        (BranchOnlyName, ALONE, "ends with NameError"),
        (BranchOnlyName, ORDER, "ends with NameError"),
        pytest.param(BranchOnlyName, SECOND, "ends with NameError", marks=needs_pypy),
        (SetOrder, ORDER, "prints something else"),
        (Address, ORDER, "prints something else"),
        pytest.param(Address, SECOND, " instead of ", marks=needs_pypy),
        (Clock, ORDER, "prints something else"),
        (Optimized, "without asserts", "under -O it prints something else"),
        pytest.param(Implementation, SECOND, "'pypy' instead of 'cpython'", marks=needs_pypy),
        (DebugChanges, ALONE, "prints something else"),
        (LooseComparison, MISSES, "changed case was paid 1"),
        (LooseComparison, MISSES, "joined lines was paid 1"),
        (EmptyTruth, MISSES, "the truth is empty"),
        (EmptyTruth, MISSES, "an empty code block was paid 1"),
        (FullShare, MISSES, "a wrong digit was paid 1 with reward=partial"),
        (RenamedInTraining, SPLITS, "the same program, up to its names"),
    ],
)
def test_a_planted_defect_is_found(environment: type[Broken], check: str, text: str) -> None:
    found: list[tuple[str, str]] = []
    checked = tasks(4 if environment is RenamedInTraining else 2)
    environment().audit().checks[check](checked, lambda task, what: found.append((task, what)))
    assert any(text in what for _, what in found), found
    assert {task for task, _ in found} <= {task.replace(seed=seed).id for task in checked for seed in (42, 43)}


def test_the_real_environment_is_clean() -> None:
    rows = lint("trace", ["level_1", "level_6"], 3)
    assert not [(row.case, row.check, row.findings) for row in rows if row.verdict is Verdict.FINDING]
    applied = {(row.case, row.check) for row in rows if row.verdict is Verdict.OK}
    own = set(TraceEnvironment().audit().checks) - {SECOND}
    assert applied >= {(case, check) for case in ("level_1", "level_6") for check in own}
    assert (("level_6", SECOND) in applied) == bool(pypy.found())
    assert ("level_6", "legal answers taken") in applied


def test_users_programs_never_leave_the_sandbox(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    path.write_text("\n".join(f'{{"program": "print({number})"}}' for number in range(20)))
    with pytest.raises(NotApplicable, match="only in the sandbox"):
        TraceEnvironment().audit().checks[SECOND](tasks(cases=f"programs:{path}"), lambda task, what: None)


def test_without_pypy_the_second_way_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(NotApplicable, match="apt-get install pypy3"):
        TraceEnvironment().audit().checks[SECOND](tasks(), lambda task, what: None)


@needs_pypy
def test_pypy_runs_each_program_in_globals_of_its_own() -> None:
    ran = pypy.run_all([("x = input()\nprint(x)", "7"), ("print(x)", ""), ("print('ä')\nraise SystemExit(1)", "")])
    assert ran == [pypy.Ran("7\n", ""), pypy.Ran("", "NameError"), pypy.Ran("ä\n", "SystemExit")]


def test_near_misses_are_no_truths() -> None:
    missed = dict(near_misses("Total 19\nnext 2\n"))
    assert missed["a wrong digit"] == "Total 29\nnext 2\n"
    assert missed["a wrong last digit"] == "Total 19\nnext 3\n"
    assert missed["swapped lines"] == "next 2\nTotal 19"
    assert missed["changed case"] == "tOTAL 19\nNEXT 2\n"
    assert missed["joined words"] == "Total19\nnext2\n"
    assert dict(near_misses("=\n"))["another line"] == "=\n="
    assert dict(near_misses("=\n"))["an empty code block"] == ""
    assert "changed case" not in dict(near_misses("=\n"))


def test_the_audit_says_who_acts_and_that_nothing_is_hidden() -> None:
    (turn,) = TraceEnvironment().start(tasks()[0]).turns()
    facts = TraceAudit(TraceEnvironment().start).facts(turn)
    assert (facts.to_act, facts.legal, facts.hidden) == ((0,), (), False)
