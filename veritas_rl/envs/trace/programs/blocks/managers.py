"""The program's own context managers, and their behaviour when the body ends, returns or fails."""

from veritas_rl.envs.trace.programs.blocks.registry import block
from veritas_rl.envs.trace.programs.draft import Draft
from veritas_rl.envs.trace.programs.expressions import condition, number


@block(level=8, lines=16, weight=1.5)
def entered_and_left(draft: Draft) -> None:
    """A context manager that prints or records its entry and exit, nested or in a loop."""
    name, names = draft.names.one("class"), draft.local()
    label, log = names.some("attribute", "attribute")
    swallow = draft.pick("kind is ValueError", "kind is not None", "False", "True")
    words = draft.words(4)
    prints = draft.afford(5)
    with draft.define().block(f"class {name}:") as writer:
        writer.add(f"{log} = []" if not prints else "")
        writer.add(f"def __init__(self, {label}):", f"    self.{label} = {label}")

        def event(word: str) -> str:
            return f'print("{word}", self.{label})' if prints else f'{name}.{log}.append("{word}" + str(self.{label}))'

        writer.add(
            "def __enter__(self):", f"    {event(words[0])}", f"    return {draft.pick('self', f'self.{label}')}"
        )
        writer.add("def __exit__(self, kind, error, trace):", f"    {event(words[1])}")
        if draft.chance(0.4):
            writer.add("    if kind:", f"        {event(words[2])}")
        writer.add(f"    return {swallow}")
        writer.add("def __repr__(self):", f'    return f"{name}:{{self.{label}}}"')
    draft.opaque.update(("kind", "trace"))
    x, caught, n = draft.names.some("item", "text", "number")
    roll = draft.random.random()
    if roll < 0.35:
        draft.add(f"with {name}({draft.literal()}) as {x}:", f"    {draft.shown(x)}")
        draft.add(f"    with {name}({draft.said()}):", f"        {draft.shown(str(draft.literal()))}")
        draft.printed -= 2
    elif roll < 0.6:
        draft.add(
            "try:",
            f'    with {name}("{words[3]}") as {x}:',
            f"        {draft.shown(x)}",
            f'        raise {draft.pick("ValueError", "KeyError")}("{words[2]}")',
        )
        draft.add(
            f'    print("{words[2]}")', f"except (ValueError, KeyError) as {caught}:", f"    print({caught}.args)"
        )
        draft.printed -= 2
    elif roll < 0.8:
        draft.add(
            f"for {n} in range({draft.between(2, 3)}):",
            f"    with {name}({n}):",
            f"        if {condition(draft, [n])}:",
            f"            {draft.pick('continue', 'break')}",
        )
        draft.add("        " + draft.shown(f"{n} * {draft.literal()}"))
        draft.printed -= 3
    else:
        function, value = draft.names.one("function"), draft.local().one("number")
        with draft.define().block(f"def {function}({value}):") as writer:
            with writer.block(f"with {name}({value}):"):
                writer.add(
                    f"if {condition(draft, [value])}:",
                    f"    return {number(draft, [value], 1)}",
                    f"{value} += {draft.literal()}",
                )
            writer.add(f"return {value}")
        draft.show(f"{function}({draft.literal()})")
        draft.show(f"{function}({draft.literal()})")
    if not prints:
        draft.show(f"{name}.{log}")
    elif roll >= 0.8:
        draft.printed -= 2


@block(level=9, lines=18)
def rolled_back(draft: Draft) -> None:
    """A transaction on a dict or a list that is undone if its body fails."""
    name, names = draft.names.one("class"), draft.local()
    data, saved = names.some("attribute", "attribute")
    as_list = draft.chance(0.5)
    copy = f"list({data})" if as_list else f"dict({data})"
    undo = (
        (f"self.{data}[:] = self.{saved}",)
        if as_list
        else (f"self.{data}.clear()", f"self.{data}.update(self.{saved})")
    )
    with draft.define().block(f"class {name}:") as writer:
        writer.add(f"def __init__(self, {data}):", f"    self.{data} = {data}", f"    self.{saved} = None")
        writer.add(
            "def __enter__(self):",
            f"    self.{saved} = {copy.replace(data, f'self.{data}')}",
            f"    return self.{data}",
        )
        writer.add(
            "def __exit__(self, kind, error, trace):", "    if kind is not None:", *(f"        {line}" for line in undo)
        )
        writer.add(
            f'        print("{draft.word()}")', f"    return kind is {draft.pick('ValueError', 'ZeroDivisionError')}"
        )
        writer.add("def __repr__(self):", f'    return f"{name}({{self.{data}}})"')
    draft.opaque.update(("kind", "trace"))
    store, opened, x = draft.names.some("list", "list", "item")
    keys = draft.words(3)
    draft.add(
        f"{store} = {draft.ints(3)}"
        if as_list
        else f'{store} = {{"{keys[0]}": {draft.literal()}, "{keys[1]}": {draft.literal()}}}'
    )
    values = draft.ints(draft.between(2, 3), 0, 4)
    draft.add(f"for {x} in {values}:", "    try:", f"        with {name}({store}) as {opened}:")
    key = "0" if as_list else f'"{keys[0]}"'
    draft.add(
        f"            {opened}[{key}] += {x}",
        f"            {f'{opened}.append({x})' if as_list else f'{opened}[{keys[2]!r}] = {x}'}",
    )
    draft.add(
        f"            {opened}[{key}] += 12 // {x}" if draft.chance(0.5) else f"            if {condition(draft, [x])}:"
    )
    if draft.body.writer.lines[-1].endswith(":"):
        draft.add(f'                raise {draft.pick("ValueError", "KeyError")}("{keys[1]}")')
    draft.add("    except (KeyError, ValueError, ZeroDivisionError):", f'        print("{draft.word()}", {x})')
    draft.printed -= 4
    draft.show(store)
