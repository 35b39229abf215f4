"""The scopes of a program, which resolve each name to its binding by Python's rules."""

import ast
from collections.abc import Callable, Iterator
from typing import Any

from veritas_rl.envs.trace.nodes import below

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_OPENS = frozenset((*FUNCTIONS, ast.ClassDef, *COMPREHENSIONS))


class Scope:
    """The names that one module, class, function or comprehension binds.

    Attributes:
        kind: "module", "class", "function" or "comprehension".
        parent: The enclosing scope; None for a module.
        bound: Names that are bound in this scope.
        declared_global: Names that a `global` statement declares as names of the module.
        declared_nonlocal: Names that a `nonlocal` statement declares as names of an enclosing function.
    """

    def __init__(self, kind: str, parent: "Scope | None") -> None:
        self.kind = kind
        self.parent = parent
        self.bound: set[str] = set()
        self.declared_global: set[str] = set()
        self.declared_nonlocal: set[str] = set()

    @property
    def module(self) -> "Scope":
        """The outermost scope."""
        return self if self.parent is None else self.parent.module

    def find(self, name: str) -> "Scope | None":
        """The scope that binds `name` as seen from this scope; None for a built-in or an undefined name."""
        scope: Scope | None = self
        while scope is not None and name not in scope.declared_global:
            reachable = scope is self or scope.kind != "class"
            if reachable and name in scope.bound and name not in scope.declared_nonlocal:
                return scope
            scope = scope.parent
        return self.module if name in self.module.bound else None


class Survey:
    """The definitions of a program.

    Args:
        tree: The parsed program.

    Attributes:
        scopes: The scope that a module, class, function or comprehension opens.
        attributes: Names of attributes and methods that the program defines.
        parameters: Names of all parameters.
        callables: For a scope and a name, the functions and classes that `def` and `class` bind to it.
        methods: For a name, the definitions with this name in the bodies of all classes.
    """

    def __init__(self, tree: ast.Module) -> None:
        self.scopes: dict[ast.AST, Scope] = {}
        self.attributes: set[str] = set()
        self.parameters: set[str] = set()
        self.callables: dict[tuple[Scope, str], list[ast.AST]] = {}
        self.methods: dict[str, list[ast.AST]] = {}
        self._module = self.scopes[tree] = Scope("module", None)
        for child in tree.body:
            self._visit(child, self._module)

    def _bind(self, name: str, scope: Scope) -> None:
        if name in scope.declared_global:
            self._module.bound.add(name)
            return
        scope.bound.add(name)
        if scope.kind == "class":
            self.attributes.add(name)

    def _visit(self, node: ast.AST, scope: Scope) -> None:
        binds = _BINDS.get(type(node))
        if binds is not None:
            binds(self, node, scope)
        if isinstance(node, ast.NamedExpr):  # its target is already bound, possibly in another scope
            self._visit(node.value, scope)
            return
        if type(node) not in _OPENS:
            for child in below(node):
                self._visit(child, scope)
            return
        inner = self._open(node, scope)
        for child, inside in children(node):
            self._visit(child, inner if inside else scope)

    def _bind_name(self, node: ast.Name, scope: Scope) -> None:
        if type(node.ctx) is not ast.Load:
            self._bind(node.id, scope)

    def _bind_attribute(self, node: ast.Attribute, scope: Scope) -> None:
        if type(node.ctx) is not ast.Load:
            self.attributes.add(node.attr)

    def _bind_global(self, node: ast.Global, scope: Scope) -> None:
        scope.declared_global.update(node.names)
        self._module.bound.update(node.names)

    def _bind_nonlocal(self, node: ast.Nonlocal, scope: Scope) -> None:
        scope.declared_nonlocal.update(node.names)

    def _bind_import(self, node: ast.Import | ast.ImportFrom, scope: Scope) -> None:
        for alias in node.names:
            self._bind(alias.asname or alias.name.partition(".")[0], scope)

    def _bind_optional(self, node: ast.ExceptHandler | ast.MatchAs | ast.MatchStar, scope: Scope) -> None:
        if node.name is not None:
            self._bind(node.name, scope)

    def _bind_rest(self, node: ast.MatchMapping, scope: Scope) -> None:
        if node.rest is not None:
            self._bind(node.rest, scope)

    def _bind_walrus(self, node: ast.NamedExpr, scope: Scope) -> None:
        """Bind the target outside the enclosing comprehensions."""
        outer = scope
        while outer.kind == "comprehension" and outer.parent is not None:
            outer = outer.parent
        self._bind(node.target.id, outer)

    def _bind_definition(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, scope: Scope) -> None:
        self._bind(node.name, scope)
        self.callables.setdefault((scope, node.name), []).append(node)
        if scope.kind == "class":
            self.methods.setdefault(node.name, []).append(node)

    def _open(self, node: ast.AST, scope: Scope) -> Scope:
        """The scope that a node opens; the enclosing scope if it opens none."""
        if isinstance(node, ast.ClassDef):
            inner = Scope("class", scope)
        elif isinstance(node, FUNCTIONS):
            inner = Scope("function", scope)
            names = [argument.arg for argument in parameters(node.args)]
            inner.bound.update(names)
            self.parameters.update(names)
        elif isinstance(node, COMPREHENSIONS):
            inner = Scope("comprehension", scope)
        else:
            return scope
        self.scopes[node] = inner
        return inner


_BINDS: dict[type, Callable[[Survey, Any, Scope], None]] = {
    ast.Name: Survey._bind_name,
    ast.Attribute: Survey._bind_attribute,
    ast.Global: Survey._bind_global,
    ast.Nonlocal: Survey._bind_nonlocal,
    ast.Import: Survey._bind_import,
    ast.ImportFrom: Survey._bind_import,
    ast.ExceptHandler: Survey._bind_optional,
    ast.MatchAs: Survey._bind_optional,
    ast.MatchStar: Survey._bind_optional,
    ast.MatchMapping: Survey._bind_rest,
    ast.NamedExpr: Survey._bind_walrus,
    ast.FunctionDef: Survey._bind_definition,
    ast.AsyncFunctionDef: Survey._bind_definition,
    ast.ClassDef: Survey._bind_definition,
}
"""For each kind of node that binds names, the function that records them."""


def parameters(arguments: ast.arguments) -> Iterator[ast.arg]:
    """All parameters of a function, including `*` and `**`."""
    yield from (*arguments.posonlyargs, *arguments.args)
    if arguments.vararg:
        yield arguments.vararg
    yield from arguments.kwonlyargs
    if arguments.kwarg:
        yield arguments.kwarg


def children(node: ast.AST) -> Iterator[tuple[ast.AST, bool]]:
    """The child nodes of a node, each with whether it is evaluated in the scope that the node opens.

    Defaults, annotations, decorators, base classes and the first iterable of a comprehension are evaluated outside the
    scope. The `arguments` of a function are replaced by their defaults and annotations.
    """
    if isinstance(node, FUNCTIONS):
        yield from ((child, False) for child in _evaluated_at_definition(node))
        yield from ((child, True) for child in (node.body if isinstance(node.body, list) else [node.body]))
    elif isinstance(node, ast.ClassDef):
        yield from ((child, False) for child in (*node.decorator_list, *node.bases, *node.keywords))
        yield from ((child, True) for child in node.body)
    elif isinstance(node, COMPREHENSIONS):
        first, *others = node.generators
        yield first.iter, False
        yield from ((child, True) for child in (first.target, *first.ifs, *others))
        results = (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,)
        yield from ((child, True) for child in results)
    else:
        yield from ((child, False) for child in below(node))


def _evaluated_at_definition(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> Iterator[ast.AST]:
    if not isinstance(node, ast.Lambda):
        yield from node.decorator_list
        if node.returns:
            yield node.returns
    yield from node.args.defaults
    yield from (default for default in node.args.kw_defaults if default)
    yield from (argument.annotation for argument in parameters(node.args) if argument.annotation)
