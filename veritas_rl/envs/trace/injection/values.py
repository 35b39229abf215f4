"""Finds names that debug prints must not show, because their values print differently from run to run.

The analysis is static and can be wrong in both directions. A wrongly accepted name is detected when the outputs of
several runs are compared. A wrongly refused name only leaves fewer names to show.
"""

import ast
from collections.abc import Iterable, Iterator, Sequence

from veritas_rl.envs.trace.nodes import below, walk

_UNSTABLE_CALLS = frozenset(
    [
        "iter",
        "map",
        "filter",
        "zip",
        "enumerate",
        "reversed",
        "set",
        "frozenset",
        "open",
        "object",
        "super",
        "type",
        "vars",
        "globals",
        "locals",
        "id",
        "hash",
        "dir",
        "memoryview",
        "property",
        "staticmethod",
        "classmethod",
        "aiter",
        "anext",
    ]
)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_SET_METHODS = frozenset(["union", "intersection", "difference", "symmetric_difference"])


def unstable_names(nodes: Sequence[ast.AST]) -> frozenset[str]:
    """Names that are bound, anywhere in the program, to a value without a stable printed form.

    Such values are functions, classes, modules, iterators, generators, sets, objects of classes without `__repr__`, and
    values made of them. The first parameters of methods are included, because their objects may be incomplete.

    Args:
        nodes: All nodes of the program.
    """
    classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
    names = {"_", *(node.name for node in classes if not _prints_itself(node))}
    silent = set(names)
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.alias):
            names.add((node.asname or node.name).partition(".")[0])
    for node in classes:
        for method in node.body:
            if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef):
                parameters = [*method.args.posonlyargs, *method.args.args]
                names.update(parameter.arg for parameter in parameters[:1])
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    yields = any(isinstance(node, ast.Yield | ast.YieldFrom) for node in nodes)
    for node in functions:
        if isinstance(node, ast.AsyncFunctionDef) or (yields and _makes_generators(node)):
            silent.add(node.name)
    # A name that is bound to an unstable value is unstable too, so the loop repeats until no name is added.
    waiting, added = list(_bindings(nodes)), True
    while added:
        added, stable = False, []
        for target, value in waiting:
            if _unstable(value, names, silent):
                names.update(_names(target))
                added = True
            else:
                stable.append((target, value))
        waiting = stable
    return frozenset(names)


def _prints_itself(node: ast.ClassDef) -> bool:
    """Whether a class visibly has a `__repr__`: its own, or that of a decorator, a named tuple or an enum."""
    methods = {method.name for method in node.body if isinstance(method, ast.FunctionDef)}
    bases = {base.id for base in node.bases if isinstance(base, ast.Name)}
    return "__repr__" in methods or bool(node.decorator_list) or bool(bases & {"NamedTuple", "IntEnum", "Enum"})


def _makes_generators(function: ast.AST) -> bool:
    return any(isinstance(node, ast.Yield | ast.YieldFrom) for node in _own(function))


def _own(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function without those of nested functions."""
    for child in below(node):
        if not isinstance(child, _FUNCTIONS):
            yield child
            yield from _own(child)


def _bindings(nodes: Sequence[ast.AST]) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Each target of the program with the value that is bound to it, or with the iterable that it is an element of."""
    for node in nodes:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                yield from _pairs(target, node.value)
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr | ast.AugAssign) and node.value is not None:
            yield node.target, node.value
        elif isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
            if not _is_call_of(node.iter, _UNSTABLE_CALLS - {"set", "frozenset"}):
                yield node.target, node.iter
            elif isinstance(node.iter, ast.Call):
                for argument in node.iter.args:
                    yield node.target, argument
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            yield node.optional_vars, node.context_expr


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    """A target and its value; element by element if both are written as tuples or lists of the same length."""
    if (
        isinstance(target, ast.Tuple | ast.List)
        and isinstance(value, ast.Tuple | ast.List)
        and len(target.elts) == len(value.elts)
        and not any(isinstance(element, ast.Starred) for element in (*target.elts, *value.elts))
    ):
        for one, other in zip(target.elts, value.elts, strict=True):
            yield from _pairs(one, other)
    else:
        yield target, value


def _names(target: ast.AST) -> Iterable[str]:
    """The names that a target binds or changes, such as `a` in `a[0] = f` and `a.b = f`."""
    return (node.id for node in walk(target) if isinstance(node, ast.Name))


def _is_call_of(node: ast.expr, names: Iterable[str]) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names


def _unstable(value: ast.expr, names: set[str], silent: set[str]) -> bool:
    """Whether a value may print differently from run to run, according to its text.

    Args:
        value: The expression.
        names: Names with unstable values.
        silent: Names of classes and functions whose calls give unstable values.
    """
    match value:
        case ast.Lambda() | ast.GeneratorExp() | ast.Set() | ast.SetComp():
            return True
        case ast.Name(id=name):
            return name in names
        case ast.Call(func=ast.Name(id=name)):
            return name in _UNSTABLE_CALLS or name in silent
        case ast.Call(func=ast.Attribute(attr=name, value=inner)):
            return name in _SET_METHODS or (isinstance(inner, ast.Name) and name in ("copy",) and inner.id in names)
        case ast.BinOp(left=left, right=right) | ast.IfExp(body=left, orelse=right):
            return _unstable(left, names, silent) or _unstable(right, names, silent)
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.BoolOp(values=parts):
            return any(_unstable(part, names, silent) for part in parts)
        case ast.Dict(keys=keys, values=parts):
            return any(_unstable(part, names, silent) for part in (*keys, *parts) if part is not None)
        case ast.ListComp(elt=part) | ast.Starred(value=part) | ast.NamedExpr(value=part):
            return _unstable(part, names, silent)
        case ast.DictComp(key=key, value=part):
            return _unstable(key, names, silent) or _unstable(part, names, silent)
        case ast.Subscript(value=part):
            return isinstance(part, ast.Name) and part.id in names
        case _:
            return False
