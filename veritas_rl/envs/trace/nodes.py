"""Parses programs, and walks their syntax trees faster than `ast.walk`, because operators and contexts are skipped."""

import ast
import warnings
from functools import lru_cache

MARKS = (ast.expr_context, ast.operator, ast.cmpop, ast.unaryop, ast.boolop)
"""Nodes without content: operators and contexts."""

_PLAIN = frozenset(("ctx", "op", "ops", "id", "attr", "type_comment", "kind", "conversion", "simple"))
_FIELDS: dict[type, tuple[str, ...]] = {
    kind: tuple(field for field in kind._fields if field not in _PLAIN)
    for kind in vars(ast).values()
    if isinstance(kind, type) and issubclass(kind, ast.AST)
} | {ast.Constant: ()}
"""The fields of each kind of node that may contain nodes other than `MARKS`."""


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
    """The child nodes of a node, in the order of its fields, without `MARKS`."""
    found: list[ast.AST] = []
    for field in _FIELDS[type(node)]:
        value = getattr(node, field, None)
        if type(value) is list:
            found += [part for part in value if isinstance(part, ast.AST)]
        elif isinstance(value, ast.AST):
            found.append(value)
    return found


def walk(node: ast.AST) -> list[ast.AST]:
    """A node and all its descendants in breadth-first order, without `MARKS`."""
    found = [node]
    for one in found:
        found += below(one)
    return found
