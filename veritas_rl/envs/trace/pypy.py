"""Runs generated programs under PyPy, an implementation of Python that shares no code with CPython's interpreter.

    python -m veritas_rl.envs.trace.pypy --programs 10000

compares the outputs of generated programs of all levels under both, and ends with exit code 1 if any differ. PyPy runs
without a sandbox, so this module runs only programs of `programs.generate`, never users' programs.
"""

import argparse
import itertools
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from veritas_rl.envs.trace.asking import begin, question_of
from veritas_rl.envs.trace.questions import LEVELS, Identity, Question

INSTALL = "apt-get install pypy3"
MANY = 250
"""The number of programs that one process runs."""
LIMIT_SECONDS = 300

_RUNNER = """
import builtins, contextlib, io, json, resource, sys
for kind, most in ((resource.RLIMIT_CPU, 240), (resource.RLIMIT_AS, 4 << 30), (resource.RLIMIT_FSIZE, 0)):
    resource.setrlimit(kind, (most, most))
programs, answers = json.load(sys.stdin), []
for source, given in programs:
    out, failed = io.StringIO(), ""
    sys.stdin = io.StringIO(given)
    with contextlib.redirect_stdout(out):
        try:
            exec(compile(source, "<program>", "exec"), {"__name__": "__main__", "__builtins__": builtins})
        except BaseException as error:
            failed = type(error).__name__
    answers.append((out.getvalue(), failed))
json.dump(answers, sys.stdout)
"""


@dataclass(frozen=True)
class Ran:
    """The result of a program.

    Attributes:
        stdout: The output.
        error: The name of the exception that ended the program; "" for none.
    """

    stdout: str
    error: str


def found() -> str:
    """The path of PyPy's interpreter; "" if it is not installed."""
    return shutil.which("pypy3") or ""


def run_all(programs: Sequence[tuple[str, str]]) -> list[Ran]:
    """Run generated programs.

    Args:
        programs: The text and the standard input of each program.

    Returns:
        The result of each program, in their order.

    Raises:
        RuntimeError: PyPy is not installed, or it ended before it had run all programs.
        TimeoutExpired: A batch of programs took more than `LIMIT_SECONDS`.
    """
    interpreter = found()
    if not interpreter:
        raise RuntimeError(f"pypy3 is not installed ({INSTALL})")
    results: list[Ran] = []
    for start in range(0, len(programs), MANY):
        done = subprocess.run(
            [interpreter, "-I", "-S", "-B", "-c", _RUNNER],
            input=json.dumps(programs[start : start + MANY]),
            capture_output=True,
            encoding="utf-8",
            env={"PYTHONIOENCODING": "utf-8", "LC_ALL": "C.UTF-8"},
            cwd="/",
            timeout=LIMIT_SECONDS,
            check=False,
        )
        if done.returncode:
            last = done.stderr.strip().splitlines()[-1:]
            raise RuntimeError(f"pypy3 ended with exit code {done.returncode}: {' '.join(last)}")
        results += [Ran(*answer) for answer in json.loads(done.stdout)]
    return results


def difference(asked: Question, ran: Ran) -> str:
    """The difference between PyPy's output of a question's program and the truth; "" if there is none."""
    if ran.error:
        return f"it ends with {ran.error}"
    pairs = itertools.zip_longest(asked.truth.split("\n"), ran.stdout.split("\n"))
    return next((f"{there!r} instead of {here!r}" for here, there in pairs if here != there), "")


def _generated(count: int, seed: int) -> Iterator[tuple[Identity, Question]]:
    """Questions that cycle through all levels."""
    asked = [Identity(LEVELS[number % len(LEVELS)], number // len(LEVELS), seed, "train", 6) for number in range(count)]
    for start in range(0, count, MANY):
        begin(asked[start : start + MANY])
        for identity in asked[start : start + MANY]:
            yield identity, question_of(identity)


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="Compare generated programs under CPython and PyPy.")
    programs = "number of programs, from all levels in turn; default: 10000"
    parser.add_argument("--programs", type=int, default=10_000, help=programs)
    parser.add_argument("--seed", type=int, default=42, help="seed of the programs; default: 42")
    given = parser.parse_args()
    started, compared, differing = time.monotonic(), 0, 0
    questions = _generated(given.programs, given.seed)
    while batch := list(itertools.islice(questions, MANY)):
        for (identity, asked), ran in zip(batch, run_all([(one.source, one.stdin) for _, one in batch]), strict=True):
            if differs := difference(asked, ran):
                differing += 1
                print(f"{identity}: {differs}\n{asked.source}", flush=True)
        compared += len(batch)
        print(f"{compared} programs, {differing} differ, {time.monotonic() - started:.0f} s", flush=True)
    return int(differing > 0)


if __name__ == "__main__":
    sys.exit(main())
