"""Parses programs, walks their syntax trees, and writes them without names.

The walk is faster than `ast.walk`, because it skips operators and contexts.
"""

import ast
import warnings
from functools import lru_cache

_PLAIN = frozenset(("ctx", "op", "ops", "id", "attr", "type_comment", "kind", "conversion", "simple"))
_FIELDS: dict[type, tuple[str, ...]] = {
    kind: tuple(field for field in kind._fields if field not in _PLAIN)
    for kind in vars(ast).values()
    if isinstance(kind, type) and issubclass(kind, ast.AST)
} | {ast.Constant: ()}
"""The fields of each kind of node that may contain nodes other than operators and contexts."""


@lru_cache(maxsize=16)
def parse(source: str) -> ast.Module:
    """The syntax tree of a program. Callers must not change the tree, because the cache shares it between them.

    Raises:
        SyntaxError: `source` is not Python.
        ValueError: `source` contains a null byte.
        RecursionError: `source` nests too deeply.
        MemoryError: `source` nests too deeply, in some cases.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(source)


def below(node: ast.AST) -> list[ast.AST]:
    """The child nodes of a node, in the order of its fields, without operators and contexts."""
    found: list[ast.AST] = []
    for field in _FIELDS[type(node)]:
        value = getattr(node, field, None)
        if type(value) is list:
            found += [part for part in value if isinstance(part, ast.AST)]
        elif isinstance(value, ast.AST):
            found.append(value)
    return found


def walk(node: ast.AST) -> list[ast.AST]:
    """A node and all its descendants in breadth-first order, without operators and contexts."""
    found = [node]
    for one in found:
        found += below(one)
    return found


def depth(node: ast.AST) -> int:
    """The number of levels of a tree."""
    level, count = [node], 0
    while level:
        level, count = [child for one in level for child in below(one)], count + 1
    return count


def shape(source: str) -> str:
    """The syntax tree of a program as a text without names, positions, comments and layout.

    Programs that differ only in names have the same text, and so may programs that use other names in some places, such
    as `min` instead of `max`. Constants are kept.

    Raises:
        As `parse`. No depth of the tree is an error of its own.
    """
    pieces: list[str] = []
    waiting: list[object] = [parse(source)]
    while waiting:
        value = waiting.pop()
        if isinstance(value, ast.Constant):
            # The decimal digits of a very large number are an error.
            pieces.append(hex(value.value) if type(value.value) is int else repr(value.value))
        elif isinstance(value, ast.AST):
            pieces.append(type(value).__name__)
            for field in value._fields:
                part = getattr(value, field, None)
                # `asname` is skipped, because an import without it binds a name too. Empty fields are skipped, because
                # newer versions of Python add fields that are empty in programs of older versions.
                if part is not None and part != [] and field != "asname":
                    pieces.append(field)
                    waiting.append(part)
        elif isinstance(value, list):
            pieces.append(str(len(value)))
            waiting += value
        else:
            pieces.append("name" if isinstance(value, str) else repr(value))
    return "\n".join(pieces)
