"""Random statements on numbers, strings, lists and dicts, nested in branches and loops.

Loops terminate: a `for` iterates over a range or over a container that its body must not resize, and a `while` counts
with a variable that its body must not assign. No value grows faster than linearly with the number of iterations.
"""

from collections.abc import Callable

from veritas_rl.envs.trace.programs.blocks.registry import block
from veritas_rl.envs.trace.programs.draft import Draft, Scope, Variable, quoted
from veritas_rl.envs.trace.programs.expressions import (
    condition,
    number,
    number_of_list,
    number_of_text,
    of_list,
    of_text,
    small_atoms,
)


def statements(draft: Draft, scope: Scope, count: int) -> None:
    """Write random statements, at least one and about `count` lines.

    Args:
        draft: The program under construction.
        scope: The scope of the statements, to which new variables are added.
        count: The approximate number of lines.
    """
    goal = len(scope.writer.lines) + count
    while len(scope.writer.lines) < goal:
        _statement(draft, scope)


def _statement(draft: Draft, scope: Scope) -> None:
    choice = draft.random.choices(_KINDS, cum_weights=_WEIGHTS[draft.level])[0]
    if not choice(draft, scope):
        _assign(draft, scope)


def _assign(draft: Draft, scope: Scope) -> bool:
    atoms = small_atoms(draft, scope)
    if not atoms or draft.chance(0.15):
        expression, small = str(draft.literal()), True
    else:
        expression = number(draft, atoms, 1 if draft.level < 5 else 2)
        small = not scope.loops and "*" not in expression
    old = [] if scope.nested else [v for v in scope.changeable("int") if not v.small]
    if old and draft.chance(0.15):
        scope.writer.add(f"{draft.choose(old).name} = {expression}")
        return True
    name = scope.names.one("number")
    scope.writer.add(f"{name} = {expression}")
    scope.variables.append(Variable(name, "int", small=small))
    return True


def _augment(draft: Draft, scope: Scope) -> bool:
    targets = scope.changeable("int")
    if not targets:
        return False
    target = draft.choose(targets)
    atoms = [atom for atom in small_atoms(draft, scope) if target.name not in atom]
    amount = draft.choose(atoms) if atoms and draft.chance(0.5) else str(draft.literal())
    roll = draft.random.random()
    if roll < 0.55:
        scope.writer.add(f"{target.name} {draft.pick('+=', '+=', '-=')} {amount}")
    elif roll < 0.75 and atoms:
        scope.writer.add(f"{target.name} += {number(draft, atoms, 1)}")
    elif roll < 0.9:
        scope.writer.add(f"{target.name} = ({target.name} * {draft.between(2, 5)} + {amount}) % {draft.between(7, 60)}")
        return True  # The modulus keeps a small integer small.
    else:
        scope.writer.add(f"{target.name} {draft.pick('//=', '%=')} {draft.between(2, 5)}")
        return True
    target.small = False
    return True


def _show(draft: Draft, scope: Scope) -> bool:
    if not scope.variables or not draft.afford(scope.times):
        return False
    variable = draft.choose(scope.variables[-5:])
    kind = variable.kind
    if kind == "str" and draft.chance(0.6):
        expression = draft.pick(of_text, number_of_text)(draft, variable)
    elif kind == "ints" and draft.chance(0.6):
        expression = number_of_list(draft, variable)
    elif kind == "int" and draft.chance(0.3) and small_atoms(draft, scope):
        expression = number(draft, small_atoms(draft, scope), 1)
    else:
        expression = variable.name
    others = [v.name for v in scope.variables if v.name != variable.name]
    if others and draft.chance(0.2):
        scope.writer.add(f"print({expression}, {draft.choose(others)})")
    else:
        scope.writer.add(draft.shown(expression))
    return True


def _body(draft: Draft, scope: Scope, count: int) -> None:
    """Write an indented block of statements. Later statements do not use the variables that it defines."""
    known = len(scope.variables)
    scope.nested += 1
    scope.writer.deeper()
    statements(draft, scope, count)
    scope.writer.shallower()
    scope.nested -= 1
    del scope.variables[known:]


def _branch(draft: Draft, scope: Scope) -> bool:
    atoms = small_atoms(draft, scope) or [v.name for v in scope.of("int")]
    if not atoms or scope.nested >= draft.limits.depth:
        return False
    scope.writer.add(f"if {condition(draft, atoms)}:")
    _body(draft, scope, 1 + (draft.level > 4 and draft.chance(0.3)))
    if draft.level > 3 and draft.chance(0.25):
        scope.writer.add(f"elif {condition(draft, atoms)}:")
        _body(draft, scope, 1)
    if draft.chance(0.5):
        scope.writer.add("else:")
        _body(draft, scope, 1)
    return True


def _loop(draft: Draft, scope: Scope) -> bool:
    if scope.nested >= draft.limits.depth or scope.loops >= 2:
        return False
    if scope.loops == 0 and not scope.changeable("int") and draft.chance(0.7):
        _assign(draft, scope)
    turns = draft.turns() if scope.loops == 0 else draft.between(2, 3)
    writer, locked, header, tail = scope.writer, [], "", ""
    known = len(scope.variables)
    roll = draft.random.random()
    if roll < 0.45:
        name = scope.names.one("index")
        start = draft.pick(0, 0, 1, draft.between(1, 9))
        stride = draft.pick(1, 1, 1, 2, 3)
        end = start + turns * stride
        arguments = [f"{turns}", f"{start}, {start + turns}", f"{start}, {end}, {stride}", f"{turns}, 0, -1"]
        header = f"for {name} in range({draft.choose(arguments)}):"
        scope.variables.append(Variable(name, "int"))
    elif roll < 0.6 and scope.of("ints", 1):
        values = draft.choose(scope.of("ints", 1))
        name = scope.names.one("item")
        locked = [values.name]
        if draft.level > 4 and draft.chance(0.4):
            place = scope.names.one("index")
            header = f"for {place}, {name} in enumerate({values.name}):"
            scope.variables.append(Variable(place, "int"))
        else:
            header = f"for {name} in {values.name}:"
        scope.variables.append(Variable(name, "int", small=values.small))
    elif roll < 0.7 and scope.of("words", 1):
        values = draft.choose(scope.of("words", 1))
        name = scope.names.one("text")
        header, locked = f"for {name} in {values.name}:", [values.name]
        scope.variables.append(Variable(name, "str", 2 if values.small else 0))
    elif roll < 0.78 and scope.of("str", 1):
        name = scope.names.one("char")
        header = f"for {name} in {draft.choose(scope.of('str', 1)).name}[:{turns}]:"
        scope.variables.append(Variable(name, "str", 1))
    elif roll < 0.84 and scope.of("counts", 1):
        counts = draft.choose(scope.of("counts", 1))
        key, name = scope.names.some("text", "item")
        header = f"for {key}, {name} in {draft.pick(f'{counts.name}.items()', f'sorted({counts.name}.items())')}:"
        locked = [counts.name]
        scope.variables += [Variable(key, "str", 1), Variable(name, "int", small=False)]
    elif draft.level > 2:
        name = scope.names.one("number")
        step = draft.between(1, 3)
        if draft.chance(0.5):
            writer.add(f"{name} = {draft.pick(0, 1)}")
            header, tail = f"while {name} < {turns * step}:", f"{name} += {step}"
        else:
            writer.add(f"{name} = {turns * step}")
            header, tail = f"while {name} > 0:", f"{name} -= {step}"
        scope.variables.append(Variable(name, "int"))
        locked = [name]
    else:
        name = scope.names.one("item")
        header = f"for {name} in {draft.ints(turns)}:"
        scope.variables.append(Variable(name, "int"))
    inner = [v.name for v in scope.variables[known:] if v.kind == "int"]
    fresh = [name for name in locked + inner if name not in scope.locked]
    scope.locked.update(fresh)
    before, scope.times, scope.loops = scope.times, scope.times * max(turns, 4), scope.loops + 1
    writer.add(header)
    _loop_body(draft, scope, inner, leave=not tail)
    writer.add(f"    {tail}" if tail else "")
    scope.times, scope.loops = before, scope.loops - 1
    scope.locked.difference_update(fresh)
    if tail:
        del scope.variables[known + 1 :]
    else:
        del scope.variables[known:]
    return True


def _loop_body(draft: Draft, scope: Scope, inner: list[str], leave: bool) -> None:
    """Write a loop's body, which usually begins with a statement that uses the loop's variable."""
    writer = scope.writer
    targets = scope.changeable("int")
    if inner and leave and draft.level > 3 and draft.chance(0.15):
        writer.add(f"    if {condition(draft, inner)}:", f"        {draft.pick('continue', 'break', 'continue')}")
    if targets and inner and draft.chance(0.7):
        target = draft.choose(targets)
        small = [v.name for v in scope.variables if v.name in inner and v.small]
        target.small = False
        amount = number(draft, small, 1) if small else draft.choose(inner)
        writer.add(f"    {target.name} {draft.pick('+=', '+=', '-=')} {amount}")
        if draft.chance(0.5 if draft.level < 5 else 0.3):
            return
    _body(draft, scope, draft.between(1, 1 if draft.level < 4 else 2))


def _list(draft: Draft, scope: Scope) -> bool:
    name = scope.names.one("list")
    known = scope.of("ints")
    if known and draft.level > 3 and draft.chance(0.6):
        source = draft.choose(known)
        text, least = of_list(draft, source, scope.names.one("item"))
        scope.variables.append(Variable(name, "ints", least, small=False))
    elif draft.level > 3 and draft.chance(0.2):
        turns = draft.turns()
        item = scope.names.one("item")
        text, least = f"[{number(draft, [item], 2)} for {item} in range({turns})]", turns
        scope.variables.append(Variable(name, "ints", least, small=False))
    else:
        values = draft.ints()
        text, least = repr(values), len(values)
        scope.variables.append(Variable(name, "ints", least))
    scope.writer.add(f"{name} = {text}")
    return True


def _list_change(draft: Draft, scope: Scope) -> bool:
    known = scope.changeable("ints")
    if not known:
        return False
    values = draft.choose(known)
    atoms = [v.name for v in scope.of("int")]
    atom = draft.choose(atoms) if atoms and draft.chance(0.6) else str(draft.literal())
    if atoms and atom in atoms:
        values.small = False
    roll = draft.random.random()
    name = values.name
    if roll < 0.45 or (scope.nested and roll < 0.6):
        scope.writer.add(f"{name}.append({atom})")
        values.least += not scope.nested
    elif roll < 0.6 and values.least > 1:
        values.least -= 1
        scope.writer.add(
            f"{name}.pop({draft.pick('', '0')})" if draft.chance(0.7) else f"del {name}[{draft.pick(0, -1)}]"
        )
    elif roll < 0.75 and values.least:
        scope.writer.add(f"{name}[{draft.between(0, values.least - 1)}] {draft.pick('=', '+=', '-=')} {atom}")
        values.small = False
    elif roll < 0.85:
        scope.writer.add(f"{name}.{draft.pick('reverse', 'sort')}()")
    elif roll < 0.93:
        scope.writer.add(f"{name}.insert({draft.between(0, 2)}, {atom})")
    else:
        scope.writer.add(f"{name}.extend({draft.ints(2)})")
    return True


def _text(draft: Draft, scope: Scope) -> bool:
    known = scope.changeable("str")
    name = scope.names.one("text")
    if known and draft.chance(0.5):
        source = draft.choose(known)
        if scope.loops or draft.chance(0.3):
            scope.writer.add(f'{source.name} += "{draft.choose("abcxyz!-*")}"')
            return True
        scope.writer.add(f"{name} = {of_text(draft, source)}")
        scope.variables.append(Variable(name, "str", 0))
        return True
    value = draft.word() if draft.chance(0.7) else draft.phrase()
    scope.writer.add(f'{name} = "{value}"')
    scope.variables.append(Variable(name, "str", len(value)))
    return True


def _words(draft: Draft, scope: Scope) -> bool:
    name = scope.names.one("texts")
    known = scope.of("words")
    if known and draft.chance(0.6):
        word = scope.names.one("text")
        source = draft.choose(known)
        made = of_text(draft, Variable(word, "str", 2))
        text = draft.pick(f"[{made} for {word} in {source.name}]", f"sorted({source.name}, key=len)")
        scope.variables.append(Variable(name, "words", source.least, small=False))
    else:
        values = draft.words()
        text = quoted(values)
        scope.variables.append(Variable(name, "words", len(values)))
    scope.writer.add(f"{name} = {text}")
    return True


def _counts(draft: Draft, scope: Scope) -> bool:
    known = scope.of("counts", 1)
    if known and draft.chance(0.6):
        counts = draft.choose(known)
        key = draft.choose(counts.keys)
        atoms = [v.name for v in scope.of("int")]
        atom = draft.choose(atoms) if atoms and draft.chance(0.5) else str(draft.literal())
        if counts.name in scope.locked or draft.chance(0.5):
            scope.writer.add(f'{counts.name}["{key}"] {draft.pick("+=", "-=", "=")} {atom}')
        else:
            new = draft.word()
            scope.writer.add(f'{counts.name}["{new}"] = {counts.name}.get("{new}", {draft.between(0, 9)}) + {atom}')
        return True
    if scope.nested:
        return False
    name = scope.names.one("dict")
    keys = draft.words()
    entries = ", ".join(f'"{key}": {draft.literal()}' for key in keys)
    scope.writer.add(f"{name} = {{{entries}}}")
    scope.variables.append(Variable(name, "counts", len(keys), keys=tuple(keys)))
    return True


def _measure(draft: Draft, scope: Scope) -> bool:
    sources = scope.of("ints") + scope.of("str") + scope.of("counts", 1)
    if not sources:
        return False
    source = draft.choose(sources)
    name = scope.names.one("number")
    if source.kind == "ints":
        text = number_of_list(draft, source)
    elif source.kind == "str":
        text = number_of_text(draft, source)
    else:
        word = draft.choose(source.keys)
        options = (f"sum({source.name}.values())", f'{source.name}["{word}"]', f'{source.name}.get("{word}", 0)')
        text = draft.choose((*options, f"len({source.name})", f"max({source.name}.values())"))
    scope.writer.add(f"{name} = {text}")
    scope.variables.append(Variable(name, "int", small=False))
    return True


def _unpack(draft: Draft, scope: Scope) -> bool:
    known = [v for v in scope.changeable("int") if v.small]
    if len(known) >= 2 and draft.chance(0.6):
        first, second = draft.sample([v.name for v in known], 2)
        scope.writer.add(
            f"{first}, {second} = {second}, {first}"
            if draft.chance(0.5)
            else f"{first}, {second} = {second} % {draft.between(5, 20)}, {first} + {draft.between(1, 5)}"
        )
        for variable in known:
            variable.small = variable.small and (not scope.loops or variable.name not in (first, second))
        return True
    first, second = scope.names.some("number", "number")
    scope.writer.add(f"{first}, {second} = {draft.literal()}, {draft.literal()}")
    scope.variables += [Variable(first, "int"), Variable(second, "int")]
    return True


_TABLE: tuple[tuple[Callable[[Draft, Scope], bool], int, float], ...] = (
    (_assign, 2, 1.0),
    (_augment, 2, 1.3),
    (_show, 2, 0.8),
    (_branch, 2, 1.2),
    (_loop, 2, 1.3),
    (_text, 2, 0.5),
    (_unpack, 3, 0.4),
    (_list, 3, 0.8),
    (_list_change, 3, 0.8),
    (_measure, 3, 0.6),
    (_words, 4, 0.4),
    (_counts, 4, 0.5),
)
"""The kinds of statements, each with its lowest level and its weight."""

_KINDS = [kind for kind, _, _ in _TABLE]


def _cumulated(level: int) -> list[float]:
    weights = [weight if level >= least else 0.0 for _, least, weight in _TABLE]
    return [sum(weights[: n + 1]) for n in range(len(weights))]


_WEIGHTS = {level: _cumulated(level) for level in range(1, 11)}


@block(level=2, lines=4, weight=1.5)
def steps(draft: Draft) -> None:
    """A few random statements, and a print of one or two of their variables."""
    known = len(draft.body.variables)
    statements(draft, draft.body, draft.between(2, 4))
    new = [v.name for v in draft.body.variables[known:]]
    shown = draft.sample(new or [v.name for v in draft.body.variables], draft.between(1, 2))
    if len(shown) == 1:
        draft.show(shown[0])
    elif shown:
        draft.printed -= 1
        draft.add(f"print({', '.join(shown)})")
