"""Chooses places for debug prints and writes them into the program's text without other changes."""

import ast
import re
from collections.abc import Sequence
from random import Random

from veritas_rl.envs.trace.injection.bindings import Kind, Place, places
from veritas_rl.envs.trace.injection.values import unstable_names
from veritas_rl.envs.trace.nodes import parse, walk

MOST_PRINTS = 6
_MOST_NAMES = 3
_CHANCE = {Kind.ASSIGNMENT: 0.6, Kind.CONDITION: 0.4}
_TAG = "__DBG_"
_DEBUG_TEXT = re.compile(r"__DBG_\d+__ [^\n]*\n")
_PRINT_BESIDE_CALLS = re.compile(r"\bprint\b(?!\()|\b(?:def|class)\b[\s\\]+print\b|stdout")
_REDIRECTIONS = frozenset(("stdout", "redirect_stdout", "__stdout__"))


def inject(source: str, random: Random, opaque: frozenset[str] = frozenset(), most: int = MOST_PRINTS) -> str:
    """Put debug prints into a program.

    A print is added after each assignment with probability 0.6, and after and inside each branch with probability 0.4.
    If there are more than `most` prints, `most` of them are drawn. Each print shows one to three names that are bound
    at its place on every path.

    Args:
        source: The program.
        random: The random generator; the same state gives the same text.
        opaque: Names that must not be shown.
        most: The maximum number of prints.

    Returns:
        The program with zero to `most` prints. The program is unchanged if no place is suitable, if it is not valid
        Python, if it contains the tag of debug prints, or if it redefines `print` or redirects the standard output.
    """
    try:
        tree = parse(source)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return source
    nodes = walk(tree)
    if _TAG in source or (_may_change_print(source) and _changes_print(nodes)):
        return source
    text = _Text(source)
    hidden = unstable_names(nodes) | opaque
    chosen: dict[int, tuple[str, list[str]]] = {}
    for place in places(tree, nodes):
        line = text.line_of(place)
        names = sorted(name for name in place.names - hidden if not name.startswith("__"))
        if line is None or not names or random.random() >= _CHANCE[place.kind]:
            continue
        shown = random.sample(names, min(random.randint(1, _MOST_NAMES), len(names)))
        # The end of a branch and the end of its enclosing block may be the same line.
        chosen.setdefault(line, (text.indentation(place), shown))
    kept = sorted(random.sample(sorted(chosen), min(most, len(chosen))))
    lines = text.lines.copy()
    for number, line in reversed(list(enumerate(kept))):
        indentation, names = chosen[line]
        shown = " ".join(f"{{{name}=}}" for name in names)
        lines.insert(line, f'{indentation}print(f"{_TAG}{number}__ {shown}")')
    return "\n".join(lines)


def without_debug(output: str) -> str:
    """The output of a program without the text of its debug prints, which may begin within a line."""
    return _DEBUG_TEXT.sub("", output)


def _may_change_print(source: str) -> bool:
    """Whether a text may contain `print` outside a call: a quick test that avoids most walks of the syntax tree."""
    # Python normalizes some non-ASCII letters to similar ASCII letters.
    return not source.isascii() or _PRINT_BESIDE_CALLS.search(source) is not None


def _changes_print(nodes: Sequence[ast.AST]) -> bool:
    for node in nodes:
        match node:
            case ast.Name(id="print", ctx=ast.Store() | ast.Del()) | ast.arg(arg="print"):
                return True
            case ast.FunctionDef(name="print") | ast.AsyncFunctionDef(name="print") | ast.ClassDef(name="print"):
                return True
            case ast.alias(asname="print") | ast.ExceptHandler(name="print"):
                return True
            case ast.MatchAs(name="print") | ast.MatchStar(name="print") | ast.MatchMapping(rest="print"):
                return True
            case ast.Attribute(attr=name) | ast.Name(id=name) | ast.alias(name=name) if name in _REDIRECTIONS:
                return True
            case ast.Attribute(attr="print", ctx=ast.Store()):
                return True
            case ast.Global(names=names) | ast.Nonlocal(names=names) if "print" in names:
                return True
            case _:
                pass
    return False


class _Text:
    """The lines of a program as the parser counts them."""

    def __init__(self, source: str) -> None:
        self.lines = source.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        self._bytes = [line.encode() for line in self.lines]

    def indentation(self, place: Place) -> str:
        first = place.block[0]
        return self._bytes[_start(first)[0] - 1][: _start(first)[1]].decode()

    def line_of(self, place: Place) -> int | None:
        """The index of the line before which a print for this place is inserted; None if the text allows no print.

        No print is possible in a block that begins on the line of its header, between statements on the same line, and
        before `elif`.
        """
        line, column = _start(place.block[0])
        before = self._bytes[line - 1][:column]
        if before.strip(b" \t\f") or (
            isinstance(place.block[0], ast.If) and self._bytes[line - 1][column:].startswith(b"elif")
        ):
            return None
        if place.index == 0:
            return line - 1
        last = place.block[place.index - 1]
        assert last.end_lineno is not None
        rest = self._bytes[last.end_lineno - 1][last.end_col_offset :].strip(b" \t\f")
        return last.end_lineno if not rest or rest.startswith(b"#") else None


def _start(statement: ast.stmt) -> tuple[int, int]:
    """The line and the column of the first character of a statement or of its first decorator."""
    decorators = getattr(statement, "decorator_list", [])
    if decorators:
        return decorators[0].lineno, decorators[0].col_offset - 1
    return statement.lineno, statement.col_offset
