"""Functions with random parameters and random bodies, and calls of them."""

from veritas_rl.envs.trace.programs.blocks.registry import block
from veritas_rl.envs.trace.programs.blocks.statements import statements
from veritas_rl.envs.trace.programs.draft import Draft, Scope, Variable, mapping, quoted
from veritas_rl.envs.trace.programs.expressions import (
    condition,
    number,
    number_of_list,
    number_of_text,
    of_list,
    of_text,
    small_atoms,
)
from veritas_rl.envs.trace.programs.names import Names


def _returned(draft: Draft, scope: Scope) -> tuple[str, str]:
    """An expression to return, and its kind."""
    roll = draft.random.random()
    lists, texts, numbers = scope.of("ints"), scope.of("str"), [v.name for v in scope.of("int")]
    if lists and roll < 0.3:
        return of_list(draft, lists[-1], scope.names.one("item"))[0], "ints"
    if lists and roll < 0.5:
        return number_of_list(draft, draft.choose(lists)), "int"
    if texts and roll < 0.75:
        return of_text(draft, texts[-1]), "str"
    if texts and roll < 0.85:
        return number_of_text(draft, texts[-1]), "int"
    if numbers and roll < 0.9:
        name = numbers[-1]
        return draft.pick(name, name, f"{name} + {draft.literal()}", f"{name} % {draft.between(3, 20)}"), "int"
    return number(draft, small_atoms(draft, scope), 2), "int"


def _argument(draft: Draft, kind: str) -> str:
    if kind == "int":
        return draft.number()
    if kind == "str":
        known = draft.body.of("str", 3)
        return draft.choose(known).name if known and draft.chance(0.4) else draft.said()
    known = draft.body.of("ints", 2)
    return draft.choose(known).name + "[:]" if known and draft.chance(0.5) else repr(draft.ints())


def _parameters(draft: Draft, names: Names, most: int) -> list[Variable]:
    kinds = ["int"] * draft.between(1, 2)
    if draft.level > 3 and draft.chance(0.5):
        kinds.append(draft.pick("str", "ints"))
    draft.random.shuffle(kinds)
    roles = {"int": "number", "str": "text", "ints": "list"}
    least = {"int": 0, "str": 3, "ints": 2}
    return [Variable(names.one(roles[kind]), kind, least[kind]) for kind in kinds[:most]]


@block(level=3, lines=4, weight=1.2)
def short_function(draft: Draft) -> None:
    """A function of one expression, called once or twice."""
    function, names = draft.names.one("function"), draft.local()
    parameters = names.some(*["number"] * draft.between(1, 2))
    with draft.define().block(f"def {function}({', '.join(parameters)}):") as writer:
        if draft.chance(0.3):
            with writer.block(f"if {condition(draft, parameters)}:"):
                writer.add(f"return {number(draft, parameters, 1)}")
        writer.add(f"return {number(draft, parameters, 2)}")
    call = f"{function}({', '.join(draft.number() for _ in parameters)})"
    if draft.chance(0.5):
        draft.show(draft.result(call))
    else:
        draft.show(call)


@block(level=4, lines=9, weight=2.0)
def function(draft: Draft) -> None:
    """A function with a random body, called in several ways."""
    function, names = draft.names.one("function"), draft.local()
    parameters = _parameters(draft, names, 3)
    header = [parameter.name for parameter in parameters]
    required = len(header)
    if draft.level > 4 and parameters[-1].kind == "int" and draft.chance(0.4):
        header[-1] += f"={draft.between(1, 9)}"
        required -= 1
    writer = draft.define()
    scope = Scope(names, writer)
    scope.variables = list(parameters)
    scope.times = draft.limits.turns[1]
    with writer.block(f"def {function}({', '.join(header)}):"):
        if draft.chance(0.3):
            integers = [p.name for p in parameters if p.kind == "int"]
            if integers:
                writer.add(f"if {condition(draft, integers)}:", f"    return {draft.pick(0, -1, draft.literal())}")
                kind = "int"
                statements(draft, scope, draft.between(2, 2 + draft.level // 2))
                writer.add(f"return {number(draft, small_atoms(draft, scope) or integers, 2)}")
                _call(draft, function, parameters, required, kind)
                return
        statements(draft, scope, draft.between(2, 2 + draft.level // 2))
        expression, kind = _returned(draft, scope)
        writer.add(f"return {expression}")
    _call(draft, function, parameters, required, kind)


def _call(draft: Draft, function: str, parameters: list[Variable], required: int, kind: str) -> None:
    """Call a function once, twice, or in a loop over one of its integer parameters."""
    arguments = [_argument(draft, p.kind) for p in parameters]
    named = list(arguments)
    if draft.level > 4 and draft.chance(0.3):
        place = draft.between(0, len(named) - 1)
        named[place:] = [f"{p.name}={a}" for p, a in zip(parameters[place:], arguments[place:], strict=True)]
    elif required < len(named) and draft.chance(0.6):
        del named[required:]
    places = [n for n, p in enumerate(parameters) if p.kind == "int"]
    roll = draft.random.random()
    if places and roll < 0.35:
        turns = draft.turns()
        turn = draft.names.one("index")
        arguments[draft.choose(places)] = turn
        call = f"{function}({', '.join(arguments)})"
        if kind == "int" and draft.chance(0.4):
            draft.show(draft.result(f"[{call} for {turn} in range({turns})]", "ints", turns))
        elif draft.afford(turns):
            draft.add(f"for {turn} in range({turns}):", "    " + draft.shown(call))
        else:
            draft.show(f"[{call} for {turn} in range({turns})]")
        return
    if roll < 0.75:
        draft.show(draft.result(f"{function}({', '.join(named)})", kind))
    else:
        draft.show(f"{function}({', '.join(named)})")
    if draft.chance(0.4):
        draft.show(f"{function}({', '.join(_argument(draft, p.kind) for p in parameters)})")


@block(level=5, lines=9)
def functions_that_call(draft: Draft) -> None:
    """Two or three functions, each of which calls the previous function."""
    names = draft.names.some(*["function"] * draft.between(2, 3 if draft.level > 6 else 2))
    previous = ""
    for name in names:
        x, y = draft.local().some("item", "number")
        with draft.define().block(f"def {name}({x}):") as writer:
            inner = draft.pick(f"{x} * {x}", f"{x} + {draft.literal()}", f"{x} * {draft.between(2, 5)}")
            if previous:
                inner = f"{previous}({number(draft, [x], 1)})"
            writer.add(f"{y} = {inner}")
            if draft.chance(0.4):
                writer.add(f"if {condition(draft, [y])}:", f"    return {y} - {draft.literal()}")
            if draft.chance(0.6):
                writer.add(f"return {y} {draft.pick('+', '-')} {draft.pick(x, str(draft.literal()))}")
            else:
                writer.add(f"return {y} % {draft.between(5, 30)}")
        previous = name
    if draft.afford(2):
        x = draft.names.one("item")
        draft.add(f"for {x} in {draft.ints(draft.between(2, 3))}:", "    " + draft.shown(f"{previous}({x})"))
    else:
        draft.show(draft.result(f"{previous}({draft.number()})"))


@block(level=6, lines=8)
def variable_arguments(draft: Draft) -> None:
    """A function with *args, **kwargs or both."""
    function, names = draft.names.one("function"), draft.local()
    first, total, rest, options, key, value, item = names.some(
        "number", "number", "list", "dict", "text", "number", "item"
    )
    words = draft.words(draft.between(2, 3))
    keywords = ", ".join(f"{word}={draft.literal()}" for word in words)
    positional = ", ".join(map(str, draft.ints(draft.between(2, 4))))
    writer = draft.define()
    shape = draft.pick("args", "kwargs", "both")
    if shape == "args":
        with writer.block(f"def {function}({first}, *{rest}):"):
            writer.add(f"{total} = {first}")
            with writer.block(f"for {item} in {rest}:"):
                writer.add(f"{total} {draft.pick('+=', '-=')} {number(draft, [item], 1)}")
            writer.add(f"return {draft.pick(f'{total}', f'{total}, len({rest})', f'({total}, {rest})')}")
        draft.show(f"{function}({positional})")
        if draft.chance(0.5):
            draft.show(f"{function}(*{draft.numbers(2)})")
    elif shape == "kwargs":
        with writer.block(f"def {function}(**{options}):"):
            writer.add(f"{total} = {draft.between(0, 9)}")
            with writer.block(
                f"for {key}, {value} in {draft.pick(f'{options}.items()', f'sorted({options}.items())')}:"
            ):
                if draft.afford(2):
                    writer.add(f"print({key}, {value})")
                writer.add(f"{total} += {number(draft, [value], 1)} + len({key})")
            writer.add(f"return {total}")
        draft.show(f"{function}({keywords})")
        if draft.chance(0.4):
            draft.show(f"{function}(**{mapping({word: draft.literal() for word in words[:2]})})")
    else:
        default = draft.between(1, 9)
        with writer.block(f"def {function}(*{rest}, {first}={default}, **{options}):"):
            writer.add(f"{total} = sum({rest}) {draft.pick('+', '-', '*')} {first}")
            with writer.block(f"if {draft.pick(options, f'len({options}) > 1', f'len({rest}) > 2')}:"):
                writer.add(f"{total} += {draft.pick(f'sum({options}.values())', f'len({options})')}")
            writer.add(f"return {draft.pick(total, f'[{total}, sorted({options})]')}")
        draft.show(f"{function}({positional})")
        draft.show(f"{function}({positional}, {draft.maybe(f'{first}={draft.literal()}, ')}{keywords})")


@block(level=4, lines=5)
def several_results(draft: Draft) -> None:
    """A function that returns a tuple, which the caller unpacks."""
    function, names = draft.names.one("function"), draft.local()
    if draft.chance(0.5):
        a, b = names.some("number", "number")
        with draft.define().block(f"def {function}({a}, {b}):") as writer:
            writer.add(f"return {number(draft, [a, b], 1)}, {number(draft, [a, b], 1)}")
        call = f"{function}({draft.number()}, {draft.number()})"
    else:
        values = names.one("list")
        with draft.define().block(f"def {function}({values}):") as writer:
            if draft.chance(0.4):
                writer.add(f"{values} = sorted({values})")
            pieces = (
                f"min({values})",
                f"max({values})",
                f"sum({values})",
                f"len({values})",
                f"{values}[0]",
                f"{values}[-1]",
            )
            writer.add(f"return {', '.join(draft.sample(pieces, 2))}")
        call = f"{function}({draft.numbers(2)})"
    first, second = draft.names.some("number", "number")
    draft.add(f"{first}, {second} = {call}")
    draft.show(draft.pick(f"{first} + {second}", f"{first} - {second}", first, second))
    if draft.chance(0.5):
        draft.printed -= 1
        draft.add(f"print({second}, {first})")
    draft.keep(first, "int", small=False)


@block(level=6, lines=7, weight=0.7)
def functions_in_a_table(draft: Draft) -> None:
    """Functions stored in a dict and called by name."""
    table, key, x = draft.names.some("dict", "text", "item")
    words = draft.words(draft.between(2, 3))
    draft.opaque.add(table)
    if draft.chance(0.5):
        draft.add(f"{table} = {{")
        draft.add(*(f'    "{word}": lambda {x}: {number(draft, [x], 2)},' for word in words))
        draft.add("}")
    else:
        functions = draft.names.some(*["function"] * len(words))
        for name in functions:
            y = draft.local().one("item")
            draft.define().add(f"def {name}({y}):", f"    return {number(draft, [y], 2)}")
        draft.add(f"{table} = {mapping(dict(zip(words, functions, strict=True)))}")
    if draft.chance(0.5) and draft.afford(len(words)):
        draft.add(f"for {key} in {draft.pick(table, f'sorted({table})', quoted(words[:2]))}:")
        draft.add(f"    print({key}, {table}[{key}]({draft.number()}))")
    else:
        draft.show(f'{table}["{words[0]}"]({draft.number()}) + {table}["{words[-1]}"]({draft.number()})')
