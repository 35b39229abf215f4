"""Measures the difficulty of a program: its length, its executed lines, its output and its live names.

    python -m veritas_rl.envs.trace.programs.measures --programs 300

prints the means of each level as a table. The numbers are the same on any machine.

The program is executed in this process, so it must be a program of `generate`.
"""

import argparse
import dataclasses
import sys
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from statistics import mean
from types import CodeType, FrameType
from typing import Any

from veritas_rl.envs.trace.programs.generate import generate
from veritas_rl.envs.trace.programs.levels import LIMITS
from veritas_rl.envs.trace.programs.program import Program
from veritas_rl.seeding import generator

_FILE = "<measured>"


@dataclass(frozen=True)
class Measures:
    """The difficulty of a program.

    Attributes:
        lines: The number of lines of the source that are not blank.
        characters: The number of characters of the source.
        steps: The number of executed lines, with repetitions.
        output_lines: The number of printed lines.
        output_characters: The number of printed characters.
        live_names: The largest number of names that were bound at the same time in the module and the running function.
    """

    lines: int
    characters: int
    steps: int
    output_lines: int
    output_characters: int
    live_names: int


def measure(program: Program) -> Measures:
    """Run a generated program and measure it.

    Args:
        program: A program of `generate`. Other programs must not be run without a sandbox.
    """
    code = compile(program.source, _FILE, "exec")
    counter = _Counter(code)
    output = StringIO()
    before = sys.gettrace()
    sys.settrace(counter.called)
    try:
        with redirect_stdout(output):
            exec(code, counter.module)
    finally:
        sys.settrace(before)
    printed = output.getvalue()
    return Measures(
        lines=sum(bool(line.strip()) for line in program.source.splitlines()),
        characters=len(program.source),
        steps=counter.steps,
        output_lines=printed.count("\n"),
        output_characters=len(printed),
        live_names=counter.live_names,
    )


class _Counter:
    """Counts the executed lines of a program and the names that are bound at each."""

    def __init__(self, code: CodeType) -> None:
        self.module: dict[str, Any] = {"__name__": "__main__", "__builtins__": __builtins__}
        self.steps = 0
        self.live_names = 0
        self._hidden = len(self.module)
        self._code = code

    def called(self, frame: FrameType, event: str, _: Any) -> Any:
        """The global trace function: trace only frames of the program."""
        return self._line if frame.f_code.co_filename == self._code.co_filename else None

    def _line(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            self.steps += 1
            local = 0 if frame.f_locals is frame.f_globals else len(frame.f_locals)
            self.live_names = max(self.live_names, len(self.module) - self._hidden + local)
        return self._line


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="Measure generated programs, level by level.")
    parser.add_argument("--programs", type=int, default=300, help="number of programs of each level; default: 300")
    count = parser.parse_args().programs
    names = [field.name for field in dataclasses.fields(Measures)]
    print(f"| level | {' | '.join(name.replace('_', ' ') for name in names)} |")
    print("| --- |" + " --- |" * len(names))
    for level in LIMITS:
        found = [measure(generate(generator("measures", level, number), level)) for number in range(count)]
        means = [mean(getattr(measures, name) for measures in found) for name in names]
        print(f"| {level} | {' | '.join(f'{value:.1f}' for value in means)} |")


if __name__ == "__main__":
    main()
