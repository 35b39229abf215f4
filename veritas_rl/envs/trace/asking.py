"""Computes the question of a task, a program with its output. It depends only on the task's identity, in every process.

A task draws programs until a program belongs to its split and can be asked. A program that fails, prints nothing, or
prints different outputs is replaced by the next program. A user's program that fails only with its debug prints, for
example because they exceed the output limit, keeps its task and gets fewer of them.
"""

import contextlib
import itertools
import os
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

from veritas_rl.envs.base import Reply
from veritas_rl.envs.task import SPLITS
from veritas_rl.envs.trace.injection import inject
from veritas_rl.envs.trace.nodes import depth, parse
from veritas_rl.envs.trace.programs import Program, generate
from veritas_rl.envs.trace.questions import FILE, Identity, Question, form_of, level_of, split_of
from veritas_rl.envs.trace.sandbox import Limits, Status
from veritas_rl.envs.trace.scoring import judge
from veritas_rl.envs.trace.task import PROMPTS, TracePay
from veritas_rl.envs.trace.text import solution
from veritas_rl.envs.trace.truths import DIFFERS, Refused, Truth, Truths
from veritas_rl.envs.trace.user_programs import UserPrograms
from veritas_rl.errors import UserError
from veritas_rl.permutation import Permutation
from veritas_rl.seeding import digest, generator

MOST_TRIED = 200
"""The most programs that a task tries until one belongs to its split and can be asked."""

DEEPEST = 100
"""The most levels of a user's program that gets debug prints. The search for places is recursive, and the stack that is
left for it differs between processes."""

TOO_DEEP = (RecursionError, MemoryError)
"""The errors of a program that could be parsed when its file was checked, where more of the stack was left."""

_MOST_SAID = 80

SILENT = "it prints nothing"
UNWRITABLE = "its output cannot be written as an answer"


@lru_cache(maxsize=1)
def truths() -> Truths:
    """The `Truths` of this process, with a cache that all processes of the machine share."""
    return Truths()


@lru_cache(maxsize=4096)
def question_of(asked: Identity) -> Question:
    """The question of a task.

    Raises:
        UserError: The case does not exist, or none of its programs can be used.
    """
    reasons: dict[str, int] = {}
    for candidate in _candidates(asked):
        found = candidate.find(truths())
        if isinstance(found, Question):
            return found
        reasons[found] = reasons.get(found, 0) + 1
    said = ", ".join(f"{reason} ({count})" for reason, count in reasons.items()) or "none is of this split"
    raise UserError(f"{asked.case} has no program for task {asked.k} of the split {asked.split}: {said}")


def begin(asked: Iterable[Identity]) -> None:
    """Start to compute the first candidate of each task and its truth in the background."""
    truths().prefetch_made([partial(_first, one) for one in asked])


def _first(asked: Identity) -> tuple[str, str] | None:
    first = _candidates(asked).get(0)
    return None if first is None else (first.sources[0], first.program.stdin)


def why_not(result: Truth | Refused, limits: Limits) -> str:
    """Why a program cannot be asked, as a clause about it; "" if it can be asked.

    Args:
        result: The program's output, or why it has none.
        limits: The limits of its runs.
    """
    if isinstance(result, Refused):
        return _clause(result, limits)
    if not result.stdout.strip():
        return SILENT
    replies = (Reply(solution(result.stdout, prompt)) for prompt in PROMPTS)
    return "" if all(judge(reply, result.stdout, TracePay()).success for reply in replies) else UNWRITABLE


def _clause(refused: Refused, limits: Limits) -> str:
    # An exception's name may be any text.
    detail = " ".join(refused.detail.split())[:_MOST_SAID]
    match refused.reason:
        case Status.ERROR:
            return f"it ends with {detail}"
        case Status.SYNTAX:
            return f"it is not Python ({detail})"
        case Status.TIMEOUT:
            return f"it runs over {limits.wall:g} s"
        case Status.MEMORY:
            return f"it needs more than {limits.memory >> 20} MiB"
        case Status.OUTPUT:
            return f"it prints more than {limits.output} bytes"
        case Status.ENCODING:
            return "its output is not UTF-8"
        case Status.FORBIDDEN:
            return f"it tries what the sandbox forbids ({detail})"
        case _ if refused.reason == DIFFERS:
            return "it prints different outputs in different runs"
        case _:
            return f"it is ended ({detail})"


@dataclass(frozen=True)
class Candidate:
    """A program that a task tries.

    Attributes:
        program: The program.
        form: Its form.
        sources: Its text with debug prints, then the same with fewer and fewer, the last without any. A generated
            program has one text.
    """

    program: Program
    form: str
    sources: tuple[str, ...]

    def find(self, truths: Truths) -> Question | str:
        """The question with the most debug prints that can be asked, or why there is none.

        If debug prints are not the reason, only the program without any runs in addition.
        """
        full, *fewer = self.sources
        found = self._ask(full, truths)
        if isinstance(found, Question) or not fewer:
            return found
        bare = self._ask(fewer[-1], truths)
        if isinstance(bare, str) and bare != SILENT:
            return bare
        halves = (self._ask(source, truths) for source in fewer[:-1])
        return next((one for one in halves if isinstance(one, Question)), bare)

    def _ask(self, source: str, truths: Truths) -> Question | str:
        result = truths.truth_of(source, self.program.stdin)
        reason = why_not(result, truths.limits)
        if reason or isinstance(result, Refused):
            return reason
        return Question(source, self.program.stdin, result.stdout, self.form)


class _Candidates:
    """The candidates of a task, all of its split, in the order in which the task tries them.

    A candidate is made once, at its first use.
    """

    def __init__(self, asked: Identity) -> None:
        self._asked = asked
        self._rest = _drawn(asked)
        self._made: list[Candidate] = []
        self._lock = threading.Lock()

    def get(self, number: int) -> Candidate | None:
        """The candidate with this number; None after the last candidate."""
        with self._lock:
            while len(self._made) <= number:
                try:
                    following = next(self._rest, None)
                except BaseException:
                    # An exception ends the generator. A new one lets the next caller try again.
                    self._rest = itertools.islice(_drawn(self._asked), len(self._made), None)
                    raise
                if following is None:
                    return None
                self._made.append(following)
            return self._made[number]

    def __iter__(self) -> Iterator[Candidate]:
        for number in itertools.count():
            candidate = self.get(number)
            if candidate is None:
                return
            yield candidate


@lru_cache(maxsize=4096)
def _candidates(asked: Identity) -> _Candidates:
    return _Candidates(asked)


def _drawn(asked: Identity) -> Iterator[Candidate]:
    users = asked.case.startswith(FILE)
    for attempt, (program, form) in enumerate(_from_file(asked) if users else _generated(asked)):
        seed = ("debug prints", asked.case, asked.seed, asked.split, asked.k, attempt)
        if users:
            yield Candidate(program, form, users_sources(program, asked.debug_prints, *seed))
            continue
        source = inject(program.source, generator(*seed), program.opaque, most=asked.debug_prints)
        if not asked.debug_prints or source != program.source:  # another program has a place for a print
            yield Candidate(program, form, (source,))


def users_sources(program: Program, debug_prints: int, *seed: object) -> tuple[str, ...]:
    """The `sources` of a user's program: each has at most half as many debug prints as the one before it.

    Args:
        program: The program.
        debug_prints: The most debug prints.
        seed: The seed of the prints.
    """
    most = 0
    with contextlib.suppress(*TOO_DEEP):
        most = debug_prints if depth(parse(program.source)) <= DEEPEST else 0
    counts = itertools.takewhile(lambda count: count > 0, (most >> halved for halved in itertools.count()))
    shown = [inject(program.source, generator(*seed), program.opaque, most=count) for count in counts]
    return tuple(dict.fromkeys((*shown, program.source)))


def _generated(asked: Identity) -> Iterator[tuple[Program, str]]:
    level = level_of(asked.case)
    for attempt in range(MOST_TRIED):
        program = generate(generator("trace", asked.case, asked.seed, asked.split, asked.k, attempt), level)
        form = form_of(program.source)
        if split_of(form) == asked.split:
            yield program, form


def _from_file(asked: Identity) -> Iterator[tuple[Program, str]]:
    programs = _user_programs(asked.case, asked.seed)
    for attempt in range(MOST_TRIED):
        found = programs.of_split(asked.split, asked.k + attempt)
        if found is None:
            return
        yield found


def identity_of(program: Program) -> int:
    """A digest of a user's program: programs with the same text and the same input are one."""
    return digest("user's program", program.source, program.stdin)


class _UserPrograms:
    """The different programs of a file in a seeded order, read and assigned to their splits on demand."""

    def __init__(self, case: str, seed: int) -> None:
        self._programs = UserPrograms(Path(case.removeprefix(FILE)))
        self._order = Permutation(len(self._programs), "programs", case, seed)
        self._read = 0
        self._seen: set[int] = set()
        self._found: dict[str, list[tuple[Program, str]]] = {split: [] for split in SPLITS}
        self._lock = threading.Lock()

    def of_split(self, split: str, number: int) -> tuple[Program, str] | None:
        """A program of a split by number, and its form. Numbers above the last start again; None for no programs."""
        with self._lock:
            found = self._found[split]
            while len(found) <= number and self._read < len(self._programs):
                program = self._programs[self._order[self._read]]
                self._read += 1
                if (same := identity_of(program)) in self._seen:
                    continue
                self._seen.add(same)
                with contextlib.suppress(*TOO_DEEP):
                    form = form_of(program.source)
                    self._found[split_of(form)].append((program, form))
            return found[number % len(found)] if found else None


def _user_programs(case: str, seed: int) -> _UserPrograms:
    with _opening:  # only one thread checks a file; other threads wait for its result
        return _opened(case, seed)


@lru_cache(maxsize=8)
def _opened(case: str, seed: int) -> _UserPrograms:
    return _UserPrograms(case, seed)


_opening = threading.Lock()


def _forget() -> None:
    """In a forked child, replace the locks, which threads of the parent may have locked."""
    global _opening
    _opening = threading.Lock()
    _candidates.cache_clear()
    _opened.cache_clear()


os.register_at_fork(after_in_child=_forget)
