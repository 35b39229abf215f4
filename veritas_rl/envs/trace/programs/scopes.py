"""The scopes of a program: which binding each name refers to, as Python resolves it."""

import ast
from collections.abc import Iterator

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
MARKS = (ast.expr_context, ast.operator, ast.cmpop, ast.unaryop, ast.boolop)
"""Nodes that hold nothing: an operator, or whether a name is read or bound."""


class Scope:
    """The names that one module, class, function or comprehension binds.

    Attributes:
        kind: "module", "class", "function" or "comprehension".
        parent: The scope around it; None for a module.
        bound: Names that are bound here.
        declared_global: Names that a `global` statement hands to the module.
        declared_nonlocal: Names that a `nonlocal` statement hands to a function around it.
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
        """The scope whose binding `name` refers to here; None for a built-in or an undefined name."""
        scope: Scope | None = self
        while scope is not None and name not in scope.declared_global:
            reachable = scope is self or scope.kind != "class"
            if reachable and name in scope.bound and name not in scope.declared_nonlocal:
                return scope
            scope = scope.parent
        return self.module if name in self.module.bound else None


class Survey:
    """What a program defines.

    Args:
        tree: The parsed program.

    Attributes:
        scopes: The scope that a module, class, function or comprehension opens.
        attributes: Names of attributes and methods that the program defines.
        parameters: Names of all parameters.
        callables: The functions and classes that a name of a scope is bound to by `def` or `class`.
        methods: The functions of that name in any class.
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
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                self._bind(name, scope)
            case ast.Attribute(attr=name, ctx=ast.Store() | ast.Del()):
                self.attributes.add(name)
            case ast.Global(names=names):
                scope.declared_global.update(names)
                self._module.bound.update(names)
            case ast.Nonlocal(names=names):
                scope.declared_nonlocal.update(names)
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                for alias in aliases:
                    self._bind(alias.asname or alias.name.partition(".")[0], scope)
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                self._bind(name, scope)
            case ast.MatchMapping(rest=str(name)):
                self._bind(name, scope)
            case ast.NamedExpr(target=ast.Name(id=name)):
                outer = scope
                while outer.kind == "comprehension" and outer.parent is not None:
                    outer = outer.parent
                self._bind(name, outer)
                self._visit(node.value, scope)
                return
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                self._bind(name, scope)
                self.callables.setdefault((scope, name), []).append(node)
                if scope.kind == "class":
                    self.methods.setdefault(name, []).append(node)
        inner = self._open(node, scope)
        for child, inside in children(node):
            self._visit(child, inner if inside else scope)

    def _open(self, node: ast.AST, scope: Scope) -> Scope:
        """The scope that a node opens, else the scope around it."""
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


def parameters(arguments: ast.arguments) -> Iterator[ast.arg]:
    """All parameters of a function, `*` and `**` ones included."""
    yield from (*arguments.posonlyargs, *arguments.args)
    if arguments.vararg:
        yield arguments.vararg
    yield from arguments.kwonlyargs
    if arguments.kwarg:
        yield arguments.kwarg


def children(node: ast.AST) -> Iterator[tuple[ast.AST, bool]]:
    """The nodes below a node, each with whether it is evaluated in the scope that the node opens.

    Defaults, annotations, decorators, base classes and the first iterable of a comprehension are evaluated outside. The
    `arguments` of a function are replaced by their defaults and annotations. `MARKS` are left out.
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
        yield from ((child, False) for child in ast.iter_child_nodes(node) if not isinstance(child, MARKS))


def _evaluated_at_definition(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> Iterator[ast.AST]:
    if not isinstance(node, ast.Lambda):
        yield from node.decorator_list
        if node.returns:
            yield node.returns
    yield from node.args.defaults
    yield from (default for default in node.args.kw_defaults if default)
    yield from (argument.annotation for argument in parameters(node.args) if argument.annotation)
