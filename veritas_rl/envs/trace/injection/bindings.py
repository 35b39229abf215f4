"""Finds the names that are bound at each place of a program on every path.

A walk over each scope's statements tracks the set of names that are bound on every path. The set grows at assignments,
shrinks at `del` and at the end of handlers, and is the intersection of all paths where they meet. `None` means an
unreachable place. Only a scope's own names count, because names of enclosing functions may be unbound when a function
is called.
"""

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from veritas_rl.envs.trace.nodes import below, walk

Names = frozenset[str]
State = Names | None
Function = ast.FunctionDef | ast.AsyncFunctionDef
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Kind(Enum):
    """The statement before a place."""

    ASSIGNMENT = "assignment"
    CONDITION = "condition"


@dataclass(frozen=True)
class Place:
    """A place for a statement.

    Attributes:
        block: The statements of one block.
        index: The index of the next statement; the block's length for its end.
        names: The names of the scope that are bound there.
        kind: The statement before the place.
    """

    block: Sequence[ast.stmt]
    index: int
    names: Names
    kind: Kind


def places(tree: ast.Module, nodes: Sequence[ast.AST]) -> list[Place]:
    """All places after an assignment, and after and inside the branches of an `if`, in the order of the walk.

    Args:
        tree: The program.
        nodes: All its nodes.
    """
    return [place for scope in _scopes(tree, _Traits.of(nodes), nodes) for place in scope.places]


@dataclass(frozen=True)
class _Traits:
    """Features of a program, computed once, so that the walk skips the search for absent features.

    Attributes:
        unbinds: Whether names are unbound, by `del` or by leaving a handler.
        declares: Whether names are declared `global` or `nonlocal`.
        walrus: Whether there is an assignment inside an expression.
    """

    unbinds: bool
    declares: bool
    walrus: bool

    @classmethod
    def of(cls, nodes: Sequence[ast.AST]) -> "_Traits":
        kinds = set(map(type, nodes))
        return cls(
            unbinds=ast.Delete in kinds or ast.ExceptHandler in kinds,
            declares=ast.Global in kinds or ast.Nonlocal in kinds,
            walrus=ast.NamedExpr in kinds,
        )


def _scopes(tree: ast.Module, traits: _Traits, nodes: Sequence[ast.AST]) -> Iterator["_Scope"]:
    lost = _deleted_from_inside(nodes) if traits.declares and traits.unbinds else frozenset()
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    # Calls of `globals`, `vars` and `exec` may unbind any name of the module.
    everything = names if names & {"globals", "vars", "exec"} else frozenset()
    waiting: list[tuple[Sequence[ast.stmt], Names, Names]] = [(tree.body, frozenset(), lost | everything)]
    while waiting:
        body, bound, foreign = waiting.pop(0)
        scope = _Scope(foreign | _declared(body) if traits.declares else foreign, traits)
        scope.block(body, bound)
        yield scope
        for inner in scope.inner:
            parameters = _parameters(inner) if not isinstance(inner, ast.ClassDef) else frozenset()
            waiting.append((inner.body, parameters, lost))


def _parameters(function: Function) -> Names:
    given = function.args
    extra = [given.vararg, given.kwarg]
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, *(one for one in extra if one is not None)]
    return frozenset(one.arg for one in every)


def _same_scope(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """The nodes, and their descendants in the same scope."""
    waiting = list(nodes)
    for node in waiting:
        yield node
        if not isinstance(node, _SCOPES):
            waiting += below(node)


def _declared(body: Sequence[ast.stmt]) -> Names:
    """Names that a scope declares `global` or `nonlocal`."""
    found = (node.names for node in _same_scope(body) if isinstance(node, ast.Global | ast.Nonlocal))
    return frozenset(name for names in found for name in names)


def _deleted_from_inside(nodes: Sequence[ast.AST]) -> Names:
    """Names that some function or class may unbind in an enclosing scope."""
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found |= _declared(node.body) & _unbound(node.body)
    return frozenset(found)


def _unbound(statements: Sequence[ast.stmt]) -> Names:
    """Names that statements of one scope may unbind: by `del`, and by leaving `except ... as name`."""
    found: set[str] = set()
    for node in _same_scope(statements):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Del):
            found.add(node.id)
        elif isinstance(node, ast.ExceptHandler) and node.name is not None:
            found.add(node.name)
    return frozenset(found)


def _unbound_on_the_way_out(statements: Sequence[ast.stmt]) -> Names:
    """Names that a `break` may unbind by leaving a handler or in a `finally`."""
    found: set[str] = set()
    for node in _same_scope(statements):
        if isinstance(node, ast.ExceptHandler) and node.name is not None:
            found.add(node.name)
        elif isinstance(node, ast.Try | ast.TryStar):
            found |= _unbound(node.finalbody)
    return frozenset(found)


def _targets(target: ast.AST) -> Names:
    """Names that an assignment to `target` binds."""
    stored = (node for node in walk(target) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    return frozenset(node.id for node in stored)


def _evaluated(*expressions: ast.AST | None) -> Names:
    """Names that are bound by `:=` whenever the expressions are evaluated."""
    found: Names = frozenset()
    for node in expressions:
        match node:
            case None | ast.Lambda():
                pass
            case ast.NamedExpr(target=ast.Name(id=name), value=value):
                found |= _evaluated(value) | {name}
            case ast.BoolOp(values=[first, *_]):
                found |= _evaluated(first)
            case ast.IfExp(test=test):
                found |= _evaluated(test)
            case ast.Compare(left=left, comparators=[second, *_]):
                found |= _evaluated(left, second)
            case _ if not isinstance(node, _COMPREHENSIONS):
                found |= _evaluated(*below(node))
    return found


def _meet(*states: State) -> State:
    """The names that are bound where several paths meet."""
    reached = [state for state in states if state is not None]
    return frozenset.intersection(*reached) if reached else None


class _Scope:
    """The walk over the statements of one scope.

    Attributes:
        places: The places found.
        inner: The functions and classes defined in the scope's own statements.
    """

    def __init__(self, foreign: Names, traits: _Traits) -> None:
        """Start a walk.

        Args:
            foreign: Names that never count as bound.
            traits: The features of the program.
        """
        self.places: list[Place] = []
        self.inner: list[Function | ast.ClassDef] = []
        self._foreign = foreign
        self._traits = traits
        self._breaks: list[list[Names]] = []

    def block(self, body: Sequence[ast.stmt], state: State, entered: Kind | None = None) -> State:
        """Walk a block.

        Args:
            body: The statements of the block.
            state: The names that are bound at the start.
            entered: The statement before the block's start; None if the start is no place.

        Returns:
            The names that are bound at the end.
        """
        if entered is not None and body:
            self._place(body, 0, state, entered)
        for index, statement in enumerate(body, start=1):
            if state is None:
                break
            state = self._statement(statement, state)
            if isinstance(statement, ast.Assign | ast.AugAssign | ast.AnnAssign):
                self._place(body, index, state, Kind.ASSIGNMENT)
            elif isinstance(statement, ast.If):
                self._place(body, index, state, Kind.CONDITION)
        return state

    def _evaluated(self, *expressions: ast.AST | None) -> Names:
        return _evaluated(*expressions) if self._traits.walrus else frozenset()

    def _unbound(self, statements: Sequence[ast.stmt]) -> Names:
        return _unbound(statements) if self._traits.unbinds else frozenset()

    def _unbound_on_the_way_out(self, statements: Sequence[ast.stmt]) -> Names:
        return _unbound_on_the_way_out(statements) if self._traits.unbinds else frozenset()

    def _place(self, body: Sequence[ast.stmt], index: int, state: State, kind: Kind) -> None:
        if state is not None:
            self.places.append(Place(body, index, state - self._foreign, kind))

    def _statement(self, statement: ast.stmt, state: Names) -> State:
        match statement:
            case ast.Return() | ast.Raise():
                return None
            case ast.Continue():
                return None
            case ast.Break():
                self._breaks[-1].append(state)
                return None
            case ast.Assign(targets=targets, value=value):
                return state.union(self._evaluated(value), *map(_targets, targets), self._evaluated(*targets))
            case ast.AnnAssign(target=target, value=value):
                # The annotation is ignored, because it is not evaluated in every scope.
                return state | self._evaluated(value) | (_targets(target) if value is not None else frozenset())
            case ast.AugAssign(target=target, value=value):
                return state | self._evaluated(value) | _targets(target)
            case ast.Delete():
                return state - self._unbound([statement])
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                self.inner.append(statement)
                return state | {name}
            case ast.ClassDef(name=name):
                self.inner.append(statement)
                return state | {name}
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                return state | {(alias.asname or alias.name).partition(".")[0] for alias in aliases} - {"*"}
            case ast.If():
                return self._if(statement, state)
            case ast.While() | ast.For() | ast.AsyncFor():
                return self._loop(statement, state)
            case ast.With() | ast.AsyncWith():
                return self._with(statement, state)
            case ast.Try() | ast.TryStar():
                return self._try(statement, state)
            case ast.Match():
                return self._match(statement, state)
            case ast.Expr(value=value):
                return state | self._evaluated(value)
            case _:  # `assert` may be disabled by -O; `pass` and declarations bind nothing
                return state

    def _if(self, statement: ast.If, state: Names) -> State:
        state |= self._evaluated(statement.test)
        body = self.block(statement.body, state, Kind.CONDITION)
        return _meet(body, self.block(statement.orelse, state, Kind.CONDITION))

    def _loop(self, statement: ast.While | ast.For | ast.AsyncFor, state: Names) -> State:
        """Any number of iterations, including none, may have run before an iteration."""
        if isinstance(statement, ast.While):
            head = (state - self._unbound(statement.body)) | self._evaluated(statement.test)
            turn, entered = head, None
            test = statement.test
            normal = None if isinstance(test, ast.Constant) and test.value else head
        else:
            head = (state | self._evaluated(statement.iter)) - self._unbound(statement.body)
            turn, entered = head | _targets(statement.target), Kind.ASSIGNMENT
            normal = head
        self._breaks.append([])
        self.block(statement.body, turn, entered)
        breaks = self._breaks.pop()
        lost = self._unbound_on_the_way_out(statement.body)
        return _meet(self.block(statement.orelse, normal), *(names - lost for names in breaks))

    def _with(self, statement: ast.With | ast.AsyncWith, state: Names) -> State:
        """A context manager may suppress an exception, so names of the body may be unbound after it."""
        inside = state.union(*(self._evaluated(item.context_expr) for item in statement.items))
        named = [_targets(item.optional_vars) for item in statement.items if item.optional_vars is not None]
        self.block(statement.body, inside.union(*named), Kind.ASSIGNMENT if named else None)
        return state - self._unbound(statement.body)

    def _try(self, statement: ast.Try | ast.TryStar, state: Names) -> State:
        body = self.block(statement.body, state)
        # An exception may occur before the body's first assignment or after its last deletion.
        caught = state - self._unbound(statement.body)
        if isinstance(statement, ast.TryStar):  # several `except*` handlers may run, one after another
            caught = state - self._unbound([statement])
        ends = [self.block(statement.orelse, body) if body is not None else None]
        for handler in statement.handlers:
            name = {handler.name} if handler.name is not None else set()
            end = self.block(handler.body, caught | name, Kind.ASSIGNMENT if name else None)
            ends.append(end - name if end is not None else None)
        if isinstance(statement, ast.TryStar):
            ends.append(caught)
        if not statement.finalbody:
            return _meet(*ends)
        at_worst = state - self._unbound([statement])
        self.block(statement.finalbody, at_worst)
        return self._again(lambda: self.block(statement.finalbody, _meet(*ends)))

    def _again(self, walk: Callable[[], State]) -> State:
        """Walk statements again for the state after them, and discard the places and scopes that this walk adds."""
        found, inner = len(self.places), len(self.inner)
        state = walk()
        del self.places[found:], self.inner[inner:]
        return state

    def _match(self, statement: ast.Match, state: Names) -> State:
        state |= self._evaluated(statement.subject)
        ends: list[State] = []
        for case in statement.cases:
            matched = state | _captured(case.pattern)
            ends.append(self.block(case.body, matched | self._evaluated(case.guard), Kind.CONDITION))
        last = statement.cases[-1]
        always = last.guard is None and isinstance(last.pattern, ast.MatchAs) and last.pattern.pattern is None
        return _meet(*ends) if always else _meet(*ends, state)


def _captured(pattern: ast.pattern) -> Names:
    """Names that a matching pattern binds."""
    found: set[str] = set()
    for node in walk(pattern):
        if isinstance(node, ast.MatchAs | ast.MatchStar) and node.name is not None:
            found.add(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest is not None:
            found.add(node.rest)
    return frozenset(found)
