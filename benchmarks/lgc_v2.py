"""The cost of the puzzles of lgc-v2: puzzles generated and answers verified per second, by type.

    python benchmarks/lgc_v2.py [--rounds 5] [--seconds 0.5] [--levels 1,2,3,4,5] [--types sudoku,dyck_language]

- Generated: new puzzles with the text of their questions, cycling through the levels.
- Slowest: the 99th percentile and the maximum of the time of one puzzle, over all rounds.
- Verified: whole replies, parsed and scored; right answers and near misses alternate.

Each type is compared with reasoning-gym's nearest tasks with default settings, where it is installed (`bash
train/scripts/setup.sh bench`): items of its data set, and its `extract_answer` and `score_answer` on whole replies that
alternate between the right answer and another item's answer. reasoning-gym has no task about brackets; its nearest
tasks complete or rewrite sequences. Most of its tasks compare the text between two tags with the right answer. lgc-v2
finds the answer in every accepted form, rejects a reply with two different answers, and verifies the answer itself.

All rows alternate within each round, in one thread of this process. The script prints medians over the rounds, per
second of wall time, and medians of the ratios within a round, so run it on an idle machine.
"""

import argparse
import importlib.util
import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from veritas_rl.configs import split_list
from veritas_rl.envs.base import Reply
from veritas_rl.envs.lgc_v2.env import Question, judge
from veritas_rl.envs.lgc_v2.kinds import KINDS
from veritas_rl.envs.lgc_v2.puzzle import LEVELS, PuzzleKind
from veritas_rl.envs.lgc_v2.task_ids import kind_of, puzzle_of
from veritas_rl.errors import UserError
from veritas_rl.seeding import generator

NEAREST: Mapping[str, tuple[str, ...]] = {
    "dyck_language": ("palindrome_generation", "string_manipulation"),
    "game_of_24": ("puzzle24", "countdown"),
    "operation": ("basic_arithmetic", "complex_arithmetic"),
    "cryptarithm": ("cryptarithm",),
    "dyck_language2": ("palindrome_generation", "string_manipulation"),
    "dyck_language2_long": ("palindrome_generation", "string_manipulation"),
    "boolean_expressions": ("circuit_logic", "propositional_logic"),
    "sudoku": ("sudoku",),
    "dyck_language_reasoning_errors": ("string_manipulation", "ab"),
}
"""The most similar tasks of reasoning-gym for each type."""

ITEMS = 100
"""The number of puzzles of each type whose answers are verified."""


@dataclass
class Row:
    """One type of puzzle, of lgc-v2 or of reasoning-gym.

    Attributes:
        generate: Makes the puzzle of a given number.
        verify: Scores the answer of a given number.
        generated: Puzzles per second, one value per round.
        verified: Answers per second, one value per round.
        took: Seconds of each single puzzle.
        numbers: Gives each puzzle a new number, so that no puzzle repeats.
    """

    generate: Callable[[int], object]
    verify: Callable[[int], object]
    generated: list[float] = field(default_factory=list)
    verified: list[float] = field(default_factory=list)
    took: list[float] = field(default_factory=list)
    numbers: itertools.count = field(default_factory=itertools.count)

    def run(self, seconds: float, keep: bool) -> None:
        """Generate for a number of seconds and then verify for as long; record the result if `keep`."""
        took: list[float] = []
        started = now = time.perf_counter()
        while now - started < seconds:
            self.generate(next(self.numbers))
            last, now = now, time.perf_counter()
            took.append(now - last)
        generated = len(took) / (now - started)
        started, done = time.perf_counter(), 0
        while (elapsed := time.perf_counter() - started) < seconds:
            for number in range(20):
                self.verify(done + number)
            done += 20
        if keep:
            self.generated.append(generated)
            self.verified.append(done / elapsed)
            self.took += took


def ours(kind: PuzzleKind, levels: Sequence[int]) -> Row:
    """The row of a type of lgc-v2."""

    def generate(number: int) -> object:
        number, place = divmod(number, len(levels))
        level = levels[place]
        return kind.make(level, number, generator("benchmark", kind.name, level, number)).question("en")

    replies: list[tuple[Question, Reply]] = []
    for number in range(ITEMS):
        seed = number // len(levels) * len(LEVELS) + levels[number % len(levels)] - 1
        asked = Question(kind, seed, puzzle_of(kind.name, seed))
        replies.append((asked, Reply(asked.puzzle.final("en"))))
        replies.append((asked, Reply(f"```\n{next(asked.puzzle.near_misses())[1]}\n```")))
    assert [judge(reply, asked, kind.asked_in).value for asked, reply in replies] == [1.0, 0.0] * ITEMS

    def verify(number: int) -> object:
        asked, reply = replies[number % len(replies)]
        return judge(reply, asked, kind.asked_in)

    return Row(generate, verify)


def theirs(name: str) -> Row:
    """The row of a task of reasoning-gym."""
    import reasoning_gym  # pyright: ignore[reportMissingImports]
    from reasoning_gym.utils import extract_answer  # pyright: ignore[reportMissingImports]

    items: Any = reasoning_gym.create_dataset(name, seed=1, size=1_000_000_000)
    made = [items[number] for number in range(ITEMS)]
    # propositional_logic gives an example instead of the answer.
    right = [item["answer"] if item["answer"] is not None else item["metadata"]["example_answer"] for item in made]
    replies = [
        (f"I see.\n<answer>{answer}</answer>", item)
        for number, item in enumerate(made)
        for answer in (right[number], right[number - 1])
    ]

    def verify(number: int) -> object:
        reply, item = replies[number % len(replies)]
        return items.score_answer(answer=extract_answer(reply), entry=item)

    return Row(lambda number: items[ITEMS + number], verify)


def ratio(one: Sequence[float], other: Sequence[float]) -> str:
    """The median over the rounds of `one` divided by `other`."""
    return f"{median(mine / beside for mine, beside in zip(one, other, strict=True)):.2f}"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    seconds = "seconds in each round for generating, and again for verifying, in each row; default: 0.5"
    parser.add_argument("--seconds", type=float, default=0.5, help=seconds)
    parser.add_argument("--levels", default="1,2,3,4,5")
    parser.add_argument("--types", default=",".join(KINDS))
    given = parser.parse_args()
    levels = [int(level) for level in split_list(given.levels, "levels")]
    if not levels or not set(levels) <= set(LEVELS):
        raise UserError(f"levels are {LEVELS[0]} to {LEVELS[-1]}, {given.levels} was given")
    rows = {name: ours(kind_of(name), levels) for name in split_list(given.types, "types")}
    there = importlib.util.find_spec("reasoning_gym") is not None
    nearest = dict.fromkeys(near for name in rows for near in NEAREST.get(name, ())) if there else {}
    beside = {name: theirs(name) for name in nearest}
    for number in range(given.rounds + 1):
        for row in (*rows.values(), *beside.values()):
            row.run(given.seconds if number else given.seconds / 4, keep=number > 0)  # the first round warms up
    table = Table("type", "generated a second", "99 % within", "slowest", "verified a second")
    for column in ("nearest in reasoning-gym", "generated", "ratio", "verified", "ratio"):
        table.add_column(column)
    for name, row in rows.items():
        took = sorted(row.took)
        slowest = f"{1000 * took[len(took) * 99 // 100]:.1f} ms", f"{1000 * took[-1]:.1f} ms"
        own = (name, f"{median(row.generated):,.0f}", *slowest, f"{median(row.verified):,.0f}")
        for near in [near for near in NEAREST.get(name, ()) if near in beside] or [""]:
            if near:
                other = beside[near]
                of_generated = f"{median(other.generated):,.0f}", ratio(row.generated, other.generated)
                of_verified = f"{median(other.verified):,.0f}", ratio(row.verified, other.verified)
                table.add_row(*own, near, *of_generated, *of_verified)
            else:
                table.add_row(*own)
            own = ("",) * len(own)
    console = Console()
    console.print(table)
    if not there:
        console.print(
            "reasoning-gym is not installed, so its tasks are left out; install it: bash train/scripts/setup.sh bench"
        )


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        raise SystemExit(str(error)) from None
