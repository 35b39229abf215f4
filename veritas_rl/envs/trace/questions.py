"""Computes the question of a task, a program with its output. It depends only on the task's identity, in every process.

A task draws programs until a program belongs to its split and has a truth. A program that fails, prints nothing, or
prints different outputs is replaced by the next program. A hash of the syntax tree without names decides the split, so
no program of validation is in training, for any seed and any names in the program.
"""

import itertools
import os
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

from veritas_rl.envs.task import SPLITS
from veritas_rl.envs.trace.injection import inject
from veritas_rl.envs.trace.nodes import shape
from veritas_rl.envs.trace.programs import Program, generate
from veritas_rl.envs.trace.programs.levels import LIMITS
from veritas_rl.envs.trace.truths import Truth, Truths
from veritas_rl.envs.trace.user_programs import UserPrograms
from veritas_rl.errors import UserError
from veritas_rl.permutation import Permutation
from veritas_rl.seeding import digest, generator

VALIDATION_SHARE = 0.25
"""The share of forms that is reserved for validation."""

MOST_TRIED = 200
"""The most programs that a task tries until one belongs to its split and has a truth."""

LEVELS = tuple(f"level_{level}" for level in LIMITS)
"""The cases of generated programs."""

FILE = "programs:"
"""The prefix of a case that names a file of users' programs: programs:FILE."""


@dataclass(frozen=True)
class Question:
    """A program and its output.

    Attributes:
        source: The program with its debug prints.
        stdin: The text of its standard input.
        truth: The complete output.
        form: The program's `form_of`, without debug prints.
    """

    source: str
    stdin: str
    truth: str
    form: str


@dataclass(frozen=True)
class Identity:
    """The values that determine a question; see `Task` and `TraceParameters`."""

    case: str
    k: int
    seed: int
    split: str
    debug_prints: int


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
    for program, form, source in _candidates(asked):
        truth = truths().truth_of(source, program.stdin)
        if isinstance(truth, Truth) and truth.stdout.strip():
            return Question(source, program.stdin, truth.stdout, form)
        reason = "prints nothing" if isinstance(truth, Truth) else truth.reason
        reasons[reason] = reasons.get(reason, 0) + 1
    said = ", ".join(f"{reason} ({count})" for reason, count in reasons.items()) or "none is of this split"
    raise UserError(f"{asked.case} has no program for task {asked.k} of the split {asked.split}: {said}")


def begin(asked: Iterable[Identity]) -> None:
    """Start to compute the first candidate of each task and its truth in the background."""
    truths().prefetch_made([partial(_first, one) for one in asked])


def _first(asked: Identity) -> tuple[str, str] | None:
    first = _candidates(asked).get(0)
    return None if first is None else (first[2], first[0].stdin)


class _Candidates:
    """The candidate programs of a task, all of its split, in the order in which the task tries them.

    A candidate is the program, its form, and its text with debug prints. It is made once, at its first use.
    """

    def __init__(self, asked: Identity) -> None:
        self._asked = asked
        self._rest = _drawn(asked)
        self._made: list[tuple[Program, str, str]] = []
        self._lock = threading.Lock()

    def get(self, number: int) -> tuple[Program, str, str] | None:
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

    def __iter__(self) -> Iterator[tuple[Program, str, str]]:
        for number in itertools.count():
            candidate = self.get(number)
            if candidate is None:
                return
            yield candidate


@lru_cache(maxsize=4096)
def _candidates(asked: Identity) -> _Candidates:
    return _Candidates(asked)


def _drawn(asked: Identity) -> Iterator[tuple[Program, str, str]]:
    drawn = _from_file(asked) if asked.case.startswith(FILE) else _generated(asked)
    for attempt, (program, form) in enumerate(drawn):
        random = generator("debug prints", asked.case, asked.seed, asked.split, asked.k, attempt)
        source = inject(program.source, random, program.opaque, most=asked.debug_prints)
        if asked.debug_prints and source == program.source and not asked.case.startswith(FILE):
            continue  # another generated program has a place for a print; users' programs are used without one
        yield program, form, source


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


class _UserPrograms:
    """The programs of a file in a seeded order, one for each form, read and assigned to their splits on demand."""

    def __init__(self, case: str, seed: int) -> None:
        self._programs = UserPrograms(Path(case.removeprefix(FILE)))
        self._order = Permutation(len(self._programs), "programs", case, seed)
        self._read = 0
        self._seen: set[str] = set()
        self._found: dict[str, list[tuple[Program, str]]] = {split: [] for split in SPLITS}
        self._lock = threading.Lock()

    def of_split(self, split: str, number: int) -> tuple[Program, str] | None:
        """A program of a split by number, and its form. Numbers above the last start again; None for no programs."""
        with self._lock:
            found = self._found[split]
            while len(found) <= number and self._read < len(self._programs):
                program = self._programs[self._order[self._read]]
                self._read += 1
                form = form_of(program.source)
                if form not in self._seen:
                    self._seen.add(form)
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


def level_of(case: str) -> int:
    """The level of a case of generated programs.

    Raises:
        UserError: The case is no level.
    """
    if case not in LEVELS:
        raise UserError(f"{case!r} is no case of trace; cases are {LEVELS[0]} to {LEVELS[-1]}, and {FILE}FILE")
    return int(case.partition("_")[2])


def form_of(source: str) -> str:
    """A digest of a program's `shape`: equal for programs that differ only in names, comments and layout.

    Raises:
        SyntaxError: `source` is not Python; see `parse` for other errors.
    """
    return f"{digest('program', shape(source)):016x}"


def split_of(form: str) -> str:
    """The split of a form, independent of the seed."""
    return "val" if digest("split", "trace", form) < VALIDATION_SHARE * 2**64 else "train"
