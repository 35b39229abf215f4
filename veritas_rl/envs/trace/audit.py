"""The facts of the trace environment for the linter, and its own checks.

The checks compare the truth of a question with the output of other runs: in other sandboxes, without debug prints,
under `python -O`, and under PyPy. These runs use neither the cache of truths nor the session.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import ClassVar

from veritas_rl.envs.audit import NotApplicable
from veritas_rl.envs.base import Reply, Session
from veritas_rl.envs.single import SingleAnswerAudit
from veritas_rl.envs.task import Task
from veritas_rl.envs.trace import pypy
from veritas_rl.envs.trace.injection import without_debug
from veritas_rl.envs.trace.questions import FILE, LEVELS, Question, form_of
from veritas_rl.envs.trace.sandbox import Outcome, Sandbox, Status
from veritas_rl.envs.trace.scoring import lines_of
from veritas_rl.envs.trace.task import COMPARISONS, PROMPTS, TracePay
from veritas_rl.envs.trace.text import fenced
from veritas_rl.envs.trace.truths import CAREFUL_RUNS

VARIANTS = tuple(range(CAREFUL_RUNS, CAREFUL_RUNS + 4))
"""The numbers of sandbox variants that are not used for truths; see `sandbox.inside.variant`."""

_DEBUG_LINE = re.compile(r'^[ \t]*print\(f"__DBG_\d+__ .*(?:\n|\Z)', re.MULTILINE)

Note = Callable[[str, str], None]


class TraceAudit(SingleAnswerAudit):
    """Facts and checks from runs of the programs.

    Args:
        start: Starts a session of a task.
    """

    selection: ClassVar = ("cases", (LEVELS[0], LEVELS[2]))
    settings: ClassVar = {
        "num_tasks_per_case": (3, 5),
        "seed": (41, 43),
        "debug_prints": (1, 4),
        "prompt": PROMPTS,
        "reward": TracePay.rewards,
        "compare": COMPARISONS,
        "legal_share": (0.0, 0.5),
    }

    def __init__(self, start: Callable[[Task], Session]) -> None:
        super().__init__(start)
        self.checks = {
            "a second way to the truth": self.second_way,
            "other hash seeds": self.other_worlds,
            "without asserts": self.without_asserts,
            "debug prints add alone": self.debug_prints_add_alone,
            "near misses refused": self.near_misses_refused,
            "splits share no program": self.splits_share_no_program,
        }

    def second_way(self, tasks: Sequence[Task], note: Note) -> str:
        """PyPy prints the same output."""
        if tasks[0].case.startswith(FILE):
            raise NotApplicable("users' programs run only in the sandbox")
        if not pypy.found():
            raise NotApplicable(f"pypy3 is not installed ({pypy.INSTALL})")
        asked = list(self._questions(tasks))
        for (task, question), ran in zip(asked, pypy.run_all([(q.source, q.stdin) for _, q in asked]), strict=True):
            if differs := pypy.difference(question, ran):
                note(task.id, f"under PyPy {differs}")
        return f"{len(asked)} programs under PyPy"

    def other_worlds(self, tasks: Sequence[Task], note: Note) -> str:
        """The program prints the same output with other hash seeds, addresses, clocks and process ids."""
        sandboxes = [Sandbox(variant=variant) for variant in VARIANTS]
        count = 0
        try:
            for task, asked in self._questions(tasks):
                count += 1
                for sandbox in sandboxes:
                    if differs := _difference(asked.truth, sandbox.run(asked.source, asked.stdin)):
                        note(task.id, f"in world {sandbox.variant} {differs}")
                        break
        finally:
            for sandbox in sandboxes:
                sandbox.close()
        return f"{count} programs, each in {len(VARIANTS)} worlds"

    def without_asserts(self, tasks: Sequence[Task], note: Note) -> str:
        """A program that uses no assertions prints the same output under `python -O`."""
        count = 0
        with Sandbox(optimize=True) as sandbox:
            for task, asked in self._questions(tasks):
                if "assert" in asked.source or "__debug__" in asked.source:
                    continue
                count += 1
                if differs := _difference(asked.truth, sandbox.run(asked.source, asked.stdin)):
                    note(task.id, f"under -O {differs}")
        if not count:
            raise NotApplicable("every program asserts something")
        return f"{count} programs under -O"

    def debug_prints_add_alone(self, tasks: Sequence[Task], note: Note) -> str:
        """Debug prints only add their own text: a program without them prints the rest of the output."""
        count = shown = 0
        with Sandbox(variant=VARIANTS[0]) as sandbox:
            for task, asked in self._questions(tasks):
                bare, removed = _DEBUG_LINE.subn("", asked.source)
                if not removed:
                    continue
                count += 1
                shown += removed
                plain, whole = sandbox.run(bare, asked.stdin), sandbox.run(asked.source, asked.stdin)
                if whole.status is not Status.OK:
                    note(task.id, f"with debug prints it ends with {whole.detail or whole.status}")
                elif plain.status is not Status.OK:
                    note(task.id, f"without debug prints it ends with {plain.detail or plain.status}")
                elif without_debug(whole.stdout) != plain.stdout:
                    note(task.id, "without debug prints it prints something else")
        if not count:
            raise NotApplicable("no program has debug prints")
        return f"{shown} debug prints of {count} programs"

    def near_misses_refused(self, tasks: Sequence[Task], note: Note) -> str:
        """An output that is almost right is no success and has a lower value."""
        count = 0
        for task, asked in self._questions(tasks):
            if not asked.truth.strip():
                note(task.id, "the truth is empty")
            for reward in TracePay.rewards:
                paid = task.replace(compare="exact", reward=reward, legal_share=0.0)
                for kind, wrong in near_misses(asked.truth):
                    count += 1
                    session = self._start(paid)
                    session.step({0: Reply(fenced(wrong))})
                    score = session.scores()[0]
                    if score.success or score.value >= 1:
                        note(task.id, f"{kind} was paid {score.value:.3g} with reward={reward}")
        return f"{count} near misses"

    def splits_share_no_program(self, tasks: Sequence[Task], note: Note) -> str:
        """No program of validation is in training, not even with other names."""
        seeds = (tasks[0].seed, tasks[0].seed + 1)
        forms: dict[str, dict[str, str]] = {"train": {}, "val": {}}
        for split, found in forms.items():
            each = [task.replace(split=split, seed=seed) for seed in seeds for task in tasks]
            for task, asked in self._questions(each):
                form = form_of(_DEBUG_LINE.sub("", asked.source))
                found.setdefault(form, task.id)
                if form != asked.form:
                    note(task.id, "its program has another form than the one by which it was put into its split")
        for form in forms["train"].keys() & forms["val"].keys():
            note(forms["train"][form], f"the same program, up to its names, is {forms['val'][form]} of validation")
        return f"{len(forms['train'])} programs of training and {len(forms['val'])} of validation"

    def _questions(self, tasks: Iterable[Task]) -> Iterator[tuple[Task, Question]]:
        return ((task, turn.view) for task, turn in self.asked(tasks))


def near_misses(truth: str) -> Iterator[tuple[str, str]]:
    """Outputs that differ slightly from the truth, as pairs of the difference's name and the output."""
    lines = truth.rstrip().split("\n")
    digits = [place for place, letter in enumerate(truth) if letter.isascii() and letter.isdigit()]
    yield "an empty code block", ""
    changed = {
        "another line": "\n".join([*lines, lines[-1]]),
        "a missing line": "\n".join(lines[:-1]),
        "a missing first line": "\n".join(lines[1:]),
        "changed case": truth.swapcase(),
        "joined words": truth.replace(" ", ""),
        "joined lines": " ".join(lines),
        "a wider gap": truth.replace(" ", "  ", 1),
    }
    for name, places in (("a wrong digit", digits[:1]), ("a wrong last digit", digits[-1:])):
        for place in places:
            changed[name] = f"{truth[:place]}{(int(truth[place]) + 1) % 10}{truth[place + 1 :]}"
    if len(lines) > 1:
        changed["swapped lines"] = "\n".join([lines[1], lines[0], *lines[2:]])
    for name, wrong in changed.items():
        if lines_of(wrong, "exact") != lines_of(truth, "exact"):
            yield name, wrong


def _difference(truth: str, outcome: Outcome) -> str:
    """The difference between a run and the truth; "" if there is none."""
    if outcome.status is not Status.OK:
        return f"it ends with {outcome.detail or outcome.status}"
    return "" if outcome.stdout == truth else "it prints something else"
