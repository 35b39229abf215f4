"""Type 7, sudoku: fill a grid so that each row, column and box has the digits 1 to 9. The solution is unique."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import ClassVar

from veritas_rl.envs.lgc_v2.puzzle import Puzzle, PuzzleKind
from veritas_rl.envs.lgc_v2.sudoku_solver import COLUMNS, ROWS, SIZE, random_grid, thinned
from veritas_rl.envs.lgc_v2.sudoku_steps import solving_steps

DIGITS = "123456789"
TRIES = 50
"""The most full grids to try. About one grid in 1,000 needs more givens than the hardest level allows."""

_BETWEEN = str.maketrans("", "", " \t,;|│┃║[]\"'")
_RULES = str.maketrans("", "", "-+=_:" + "".join(map(chr, range(0x2500, 0x2580))))


@dataclass(frozen=True)
class SudokuConfig:
    """The number of givens in a level's puzzles.

    Attributes:
        fewest: The smallest number of givens; no puzzle with one solution has fewer than 17.
        most: The largest number of givens.
    """

    fewest: int
    most: int

    def __post_init__(self) -> None:
        if not 17 <= self.fewest <= self.most <= 80:
            raise ValueError(f"the numbers of givens must be 17 to 80, the smaller first: {self}")


@dataclass(frozen=True)
class SudokuPuzzle(Puzzle):
    """A grid with empty cells and one solution.

    Attributes:
        givens: 81 characters, row by row, "." for an empty cell.
        solution: The 81 digits of the unique solution.
    """

    givens: str
    solution: str

    def question(self, language: str) -> str:
        if language == "zh":
            asked = (
                "下面是一个9×9的数独,空格用点号表示。"
                "请填满所有空格,使每行、每列和每个3×3的宫里1到9各出现一次,并且不改动已给的数字。它只有一个解。"
            )
            format_ = "请把填满的网格写在一个代码块里:9行,每行9个数字,行内不加任何符号。"
        else:
            asked = (
                "Here is a 9x9 sudoku; dots are empty cells. Fill every empty cell so that each row, each column and "
                "each 3x3 box holds the digits 1 to 9 once, and leave the given digits as they are. It has exactly one "
                "solution."
            )
            format_ = "Write the filled grid in a code block: 9 lines of 9 digits, with nothing between the digits."
        return f"{asked}\n\n{in_lines(self.givens)}\n\n{format_}"

    @property
    def brief(self) -> str:
        return in_lines(self.givens)

    @property
    def answer(self) -> str:
        return in_lines(self.solution)

    def steps(self, language: str) -> str:
        return solving_steps(self.givens, self.solution, language)

    def final(self, language: str) -> str:
        return f"```\n{self.answer}\n```"

    @property
    def form(self) -> str:
        # The form is the cycle lengths of the mappings between the digits of parallel lines in a band. It is invariant
        # if digits are renamed, lines within a band or bands are permuted, or the grid is mirrored. Different puzzles
        # with the same form, such as two with the same solution, are only assigned to the same split.
        return "/".join(sorted((_bands(self.solution, ROWS), _bands(self.solution, COLUMNS))))

    def read(self, said: str) -> str | None:
        if (grid := said.strip()).startswith("[[") and "\n" not in grid:
            said = grid.replace("],", "\n")
        lines: list[str] = []
        for line in said.split("\n"):
            row = line if (plain := _is_row(line)) else line.strip().translate(_BETWEEN)
            if plain or _is_row(row):
                lines.append(row)
            elif row.translate(_RULES):
                return None
            # All other lines are empty or separators between rows.
        return "".join(lines) if len(lines) == SIZE else None

    def is_right(self, said: str) -> bool:
        # The generator ensures that only this grid obeys the rules and keeps the givens.
        return said == self.solution

    def near_misses(self) -> Iterator[tuple[str, str]]:
        empty = self.givens.index(".")
        right = self.solution
        other = next(digit for digit in DIGITS if digit != right[empty])
        yield "one wrong digit", in_lines(right[:empty] + other + right[empty + 1 :])
        first, second = right[0:9], right[9:18]
        yield "two swapped digits", in_lines(right[1] + right[0] + right[2:])
        yield "two swapped rows", in_lines(second + first + right[18:])
        yield "another full grid", in_lines(right.translate(str.maketrans("12", "21")))
        yield "zeros for what is not given", in_lines(self.givens.replace(".", "0"))
        yield "dots for what is not given", in_lines(self.givens)
        yield "a missing line", in_lines(right[:72])
        yield "a line too many", in_lines(right + right[:9])
        yield "a missing digit", self.answer[:-1]


class Sudoku(PuzzleKind):
    """Sudokus with unique solutions. Single candidates fill nearly all cells of the two easiest levels."""

    name = "sudoku"
    type_id = 7
    asked_in = "block"
    levels: ClassVar[Mapping[int, SudokuConfig]] = {
        1: SudokuConfig(76, 78),
        2: SudokuConfig(55, 65),
        3: SudokuConfig(40, 45),
        4: SudokuConfig(30, 36),
        5: SudokuConfig(22, 28),
    }

    def make(self, level: int, number: int, random: Random) -> SudokuPuzzle:
        config = self.levels[level]
        target = random.randint(config.fewest, config.most)
        for _ in range(TRIES):
            solution = random_grid(random)
            givens = thinned(solution, target, random)
            if sum(map(givens.count, DIGITS)) <= config.most:
                return SudokuPuzzle(givens, solution)
        raise RuntimeError(f"no sudoku of at most {config.most} givens among {TRIES} grids")


def in_lines(grid: str) -> str:
    """The nine lines of a grid."""
    return "\n".join(grid[row : row + 9] for row in range(0, len(grid), 9))


def _is_row(line: str) -> bool:
    return len(line) == SIZE and not line.strip(DIGITS)


def _bands(grid: str, lines: tuple[tuple[int, ...], ...]) -> str:
    """For each band of three parallel lines, the cycle lengths of the mappings between the digits of its lines."""
    words = ["".join([grid[cell] for cell in line]) for line in lines]
    bands = [sorted(_cycles(words[top + one], words[top + two]) for one, two in _PAIRS) for top in (0, 3, 6)]
    return ";".join(sorted(map(",".join, bands)))


_PAIRS = ((0, 1), (0, 2), (1, 2))


def _cycles(one: str, two: str) -> str:
    """The cycle lengths of the mapping from the digits of one line to the digits of another at the same positions."""
    image = dict(zip(one, two, strict=True))
    lengths: list[int] = []
    while image:
        digit, after = image.popitem()
        length = 1
        while after != digit:
            after = image.pop(after)
            length += 1
        lengths.append(length)
    return "".join(map(str, sorted(lengths)))
