"""The canonical form of a program. It is equal for programs that differ only in names, comments and layout.

Names are resolved by Python's scoping rules, and bindings are numbered in order of their first occurrence. Names that
the program does not define are kept: built-ins, attributes of built-in types, and imported modules and members. Strings
are not changed.
"""

import ast
from collections.abc import Callable
from typing import Any

from veritas_rl.envs.trace.nodes import MARKS, parse
from veritas_rl.envs.trace.programs.scopes import COMPREHENSIONS, FUNCTIONS, Scope, Survey, children, parameters

_BUILTIN_ATTRIBUTES = frozenset(
    name
    for value in (0.0, 0j, "", bytearray(), [], (), {}, set(), property(), Exception(), (_ for _ in ()))
    for name in dir(value)
)


def canonical(source: str) -> str:
    """The canonical form of a program.

    Two programs have the same form if they differ only in comments, blank lines, layout, and a consistent renaming of
    the variables, functions, parameters, classes and attributes that they define. Two kinds of names are not renamed:
    attributes named like an attribute of a built-in type, such as `append`, because the type of the object before the
    dot is unknown; and names with two underscores on both sides.

    Args:
        source: The text of the program.

    Returns:
        A text for comparing and hashing, which is not Python.

    Raises:
        SyntaxError: `source` is not Python.
        ValueError: `source` contains a null byte.
        RecursionError: `source` nests too deeply.
    """
    tree = parse(source)
    form = _Form(Survey(tree))
    form.emit_all(tree.body, form.survey.scopes[tree])
    return "".join(form.pieces)


class _Form:
    """Writes the canonical form of a program, node by node."""

    def __init__(self, survey: Survey) -> None:
        self.survey = survey
        self.pieces: list[str] = []
        self._numbers: dict[tuple[object, str], int] = {}

    def _number(self, owner: object, name: str) -> str:
        """The number of a name; `owner` is the scope of its binding, or the name of a separate table."""
        return str(self._numbers.setdefault((owner, name), len(self._numbers)))

    def _name(self, name: str, scope: Scope) -> str:
        owner = scope.find(name)
        if owner is None or _reserved(name):
            return name
        return self._attribute(name) if owner.kind == "class" else "$" + self._number(owner, name)

    def _attribute(self, name: str) -> str:
        if name not in self.survey.attributes or name in _BUILTIN_ATTRIBUTES or _reserved(name):
            return name
        return "." + self._number("attribute", name)

    def _keyword(self, call: ast.Call, name: str, scope: Scope) -> str:
        """The form of a keyword in a call, independent of the parameter's name."""
        match call.func:
            case ast.Name(id=function):
                owner = scope.find(function)
                if owner is None:
                    return name
                candidates = self.survey.callables.get((owner, function), [])
            case ast.Attribute(attr=function):
                candidates = self.survey.methods.get(function, [])
                if not candidates and function not in self.survey.attributes:
                    return name
            case _:
                candidates = []
        for candidate in candidates:
            if place := self._place(candidate, name, scope):
                return place
        return "=" + self._number("keyword", name) if not candidates and name in self.survey.parameters else name

    def _place(self, node: ast.AST, name: str, scope: Scope, depth: int = 0) -> str:
        """The form of the parameter of a function, or field of a class, that a keyword names; "" for none."""
        if isinstance(node, FUNCTIONS):
            arguments = (*node.args.args, *node.args.kwonlyargs)
            return next((f"#{place}" for place, argument in enumerate(arguments) if argument.arg == name), "")
        if not isinstance(node, ast.ClassDef) or depth > 20:
            return ""
        for member in node.body:
            if isinstance(member, ast.FunctionDef) and member.name == "__init__":
                return self._place(member, name, scope)
            if isinstance(member, ast.AnnAssign) and isinstance(member.target, ast.Name) and member.target.id == name:
                return self._attribute(name)
        for base in node.bases:
            if isinstance(base, ast.Name) and (owner := scope.find(base.id)):
                for found in self.survey.callables.get((owner, base.id), []):
                    if place := self._place(found, name, scope, depth + 1):
                        return place
        return ""

    def emit_all(self, nodes: list[ast.stmt], scope: Scope) -> None:
        """Append the forms of statements, each on its own line."""
        for node in nodes:
            self._emit(node, scope)
            self.pieces.append("\n")

    def _emit(self, node: ast.AST, scope: Scope) -> None:
        """Append the form of a node: its kind, and its names, values and parts in parentheses."""
        kind = type(node)
        write = _WRITERS.get(kind)
        if write is not None:
            write(self, node, scope)
            return
        inner = self.survey.scopes.get(node, scope)
        self.pieces.append(kind.__name__)
        if inner is not scope:
            self._emit_scope(node, scope, inner)
            return
        add = self.pieces.append
        add("(")
        for field in kind._fields:
            value = getattr(node, field, None)
            if type(value) is list:
                for part in value:
                    self._emit_field(field, part, scope)
                    add(",")
            else:
                self._emit_field(field, value, scope)
            add(";")
        add(")")

    def _emit_name(self, node: ast.Name, scope: Scope) -> None:
        self.pieces.append(self._name(node.id, scope))
        if type(node.ctx) is not ast.Load:
            self.pieces.append("!")

    def _emit_constant(self, node: ast.Constant, scope: Scope) -> None:
        self.pieces.append(repr(node.value))

    def _emit_call(self, node: ast.Call, scope: Scope) -> None:
        add = self.pieces.append
        add("Call(")
        self._emit(node.func, scope)
        for argument in node.args:
            add(",")
            self._emit(argument, scope)
        for keyword in node.keywords:
            add(",**" if keyword.arg is None else f",{self._keyword(node, keyword.arg, scope)}=")
            self._emit(keyword.value, scope)
        add(")")

    def _emit_field(self, field: str, value: object, scope: Scope) -> None:
        if isinstance(value, MARKS):
            self.pieces.append(type(value).__name__)
        elif isinstance(value, ast.AST):
            self._emit(value, scope)
        elif isinstance(value, str) and field in ("name", "names", "rest"):
            self.pieces.append(self._name(value, scope))
        elif isinstance(value, str) and field in ("attr", "kwd_attrs"):
            self.pieces.append(self._attribute(value))
        elif field != "type_comment":
            self.pieces.append(repr(value))

    def _emit_scope(self, node: ast.AST, scope: Scope, inner: Scope) -> None:
        """Append the parts of a function, a class or a comprehension, each in its scope; see `children`."""
        add = self.pieces.append
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            add(f" {self._name(node.name, scope)} {len(node.decorator_list)}")
        if isinstance(node, ast.ClassDef):
            add(f",{len(node.bases)},{[keyword.arg for keyword in node.keywords]}")
        elif isinstance(node, FUNCTIONS):
            self._emit_parameters(node, inner)
        elif isinstance(node, COMPREHENSIONS):
            add(f"{[(len(generator.ifs), generator.is_async) for generator in node.generators]}")
        add("(")
        for child, inside in children(node):
            self._emit(child, inner if inside else scope)
            add("\n" if isinstance(child, ast.stmt) else ",")
        add(")")

    def _emit_parameters(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, inner: Scope) -> None:
        arguments = node.args
        counts = [len(arguments.posonlyargs), len(arguments.args), len(arguments.kwonlyargs), len(arguments.defaults)]
        kinds = [arguments.vararg is not None, arguments.kwarg is not None]
        kinds += [default is not None for default in arguments.kw_defaults]
        kinds += [argument.annotation is not None for argument in parameters(arguments)]
        returns = not isinstance(node, ast.Lambda) and node.returns is not None
        names = [self._name(argument.arg, inner) for argument in parameters(arguments)]
        self.pieces.append(f"{counts}{kinds}{returns}{names}")

    def _emit_import(self, node: ast.Import | ast.ImportFrom, scope: Scope) -> None:
        origin = f"{node.level}{node.module}" if isinstance(node, ast.ImportFrom) else ""
        for alias in node.names:
            bound = alias.asname or alias.name.partition(".")[0]
            whole = alias.asname is not None or isinstance(node, ast.ImportFrom) or "." not in alias.name
            self.pieces.append(f"Import({origin},{alias.name},{whole},{self._name(bound, scope)})")


_WRITERS: dict[type, Callable[[_Form, Any, Scope], None]] = {
    ast.Name: _Form._emit_name,
    ast.Constant: _Form._emit_constant,
    ast.Call: _Form._emit_call,
    ast.Import: _Form._emit_import,
    ast.ImportFrom: _Form._emit_import,
}
"""The kinds of nodes with a special form, and the functions that write it."""


def _reserved(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")
