"""Functions inside functions: closures, decorators, `nonlocal` and `global`."""

from veritas_rl.envs.trace.programs.blocks.registry import block
from veritas_rl.envs.trace.programs.draft import Draft
from veritas_rl.envs.trace.programs.expressions import condition, number


@block(level=7, lines=9, weight=1.3)
def counters(draft: Draft) -> None:
    """A function that makes functions, each with its own state."""
    maker, inner = draft.names.some("function", "function")
    start, step, state = draft.local().some("number", "number", "number")
    takes = draft.chance(0.5)
    with draft.define().block(f"def {maker}({start}):") as writer:
        writer.add(f"{state} = {draft.pick(start, f'{start} * 2', '0')}")
        with writer.block(f"def {inner}({step if takes else ''}):"):
            writer.add(f"nonlocal {state}")
            atoms = [start, *([step] if takes else [])]
            if draft.chance(0.4):
                writer.add(f"if {condition(draft, [state])}:", f"    {state} -= {draft.choose(atoms)}")
            writer.add(
                f"{state} {draft.pick('+=', '+=', '-=')} {number(draft, atoms, 1)}",
                f"return {draft.pick(state, f'{state} % {draft.between(3, 9)}')}",
            )
        writer.add(f"return {inner}")
    made = draft.names.some(*["function"] * draft.between(1, 2))
    draft.opaque.update(made)
    draft.add(*(f"{name} = {maker}({draft.literal()})" for name in made))
    for _ in range(draft.between(2, 4)):
        draft.show(f"{draft.choose(made)}({draft.literal() if takes else ''})")


@block(level=7, lines=8)
def made_functions(draft: Draft) -> None:
    """Functions made in a loop, or composed of other functions."""
    compose, first = draft.names.one("function"), draft.names.one("item")
    f, g, x, n = draft.local("out", "value", compose).some("function", "function", "item", "index")
    draft.opaque.update((f, g))
    writer = draft.define()
    shape = draft.between(0, 2)
    if shape == 0:
        writer.add(
            f"def {compose}({f}, {g}):",
            f"    return lambda {x}: {draft.pick(f'{f}({g}({x}))', f'{g}({x}) + {f}({x})', f'{g}({f}({x})) - {x}')}",
        )
        one, two = number(draft, [first], 2), number(draft, [first], 2)
        draft.show(f"{compose}(lambda {first}: {one}, lambda {first}: {two})({draft.number()})")
        draft.show(f"{compose}(abs, int)(-{draft.literal()})")
    elif shape == 1:
        with writer.block(f"def {compose}({f}, {n}, {x}):"):
            writer.add(
                f"out = [{x}]",
                f"for _ in range({n}):",
                f"    {x} = {f}({x}) % {draft.between(20, 99)}",
                f"    out.append({x})",
                f"return {draft.pick('out', x)}",
            )
        draft.show(f"{compose}(lambda {first}: {number(draft, [first], 2)}, {draft.turns()}, {draft.number()})")
    else:
        late = draft.chance(0.4)
        bound = "" if late else f", {n}={n}"
        with writer.block(f"def {compose}({x}):"):
            writer.add(
                "out = []",
                f"for {n} in range({x}):",
                f"    out.append(lambda value{bound}: value {draft.pick('+', '*', '-')} {n})",
                "return out",
            )
        made = draft.names.one("item")
        draft.opaque.add(made)
        draft.opaque.add("out")
        draft.show(f"[{made}({draft.literal()}) for {made} in {compose}({draft.between(2, 4)})]")


@block(level=8, lines=12, weight=1.3)
def decorated(draft: Draft) -> None:
    """A decorator that logs, counts, repeats or caches the calls of a function, or changes its results."""
    decorator, inner, function = draft.names.some("function", "function", "function")
    f, args, out, log = draft.local(inner, function, "wrapped").some("function", "list", "number", "list")
    argument = draft.local().one("number")
    draft.opaque.add(f)
    shape = draft.between(0, 3)
    times = draft.between(2, 3)
    writer = draft.define()
    if shape == 3:
        with writer.block(f"def {decorator}({log}):"):
            with writer.block(f"def {inner}({f}):"):
                draft.opaque.add("wrapped")
                with writer.block(f"def wrapped(*{args}):"):
                    writer.add(
                        f"{out} = {f}(*{args})",
                        f"print({log}, {args}, {out})" if draft.afford(2) else f"{out} += len({log})",
                    )
                    writer.add(f"return {out}")
                writer.add("return wrapped")
            writer.add(f"return {inner}")
        header = f'@{decorator}("{draft.word()}")'
    else:
        with writer.block(f"def {decorator}({f}):"):
            if shape == 1:
                writer.add(f"{log} = {{}}")
            with writer.block(f"def {inner}(*{args}):"):
                if shape == 0:
                    writer.add(
                        f'print("{draft.word()}", {args})', f"{out} = {f}(*{args})", f'print("{draft.word()}", {out})'
                    )
                    draft.printed -= 3
                elif shape == 1:
                    writer.add(f"if {args} not in {log}:", f"    {log}[{args}] = {f}(*{args})")
                    writer.add(
                        f'    print("{draft.word()}", len({log}))' if draft.afford(2) else "", f"{out} = {log}[{args}]"
                    )
                else:
                    writer.add(f"{out} = 0", f"for _ in range({times}):", f"    {out} += {f}(*{args})")
                writer.add(f"return {out}{draft.maybe(f' + {draft.literal()}', 0.3)}")
            writer.add(f"return {inner}")
        header = f"@{decorator}"
    draft.define().add(header, f"def {function}({argument}):", f"    return {number(draft, [argument], 2)}")
    values = draft.ints(2)
    for value in [*values, values[0]][: draft.between(2, 3)]:
        draft.show(f"{function}({value})")


@block(level=7, lines=8)
def shared_by_global(draft: Draft) -> None:
    """Functions that change a global variable of the module."""
    shared, function = draft.names.one("number"), draft.names.one("function")
    log = draft.names.one("list")
    n = draft.local(shared, log).one("number")
    with_list = draft.chance(0.5)
    draft.define().add(f"{shared} = {draft.between(0, 9)}", f"{log} = []" if with_list else "")
    with draft.define().block(f"def {function}({n}):") as writer:
        writer.add(f"global {shared}")
        if draft.chance(0.5):
            writer.add(f"if {condition(draft, [n, shared])}:", f"    {shared} = {draft.between(0, 5)}")
        writer.add(
            f"{shared} {draft.pick('+=', '-=')} {number(draft, [n], 1)}", f"{log}.append({shared})" if with_list else ""
        )
        writer.add(f"return {draft.pick(shared, f'{n} + {shared}', f'{shared} > {n}')}")
    if draft.chance(0.4):
        hidden = draft.names.one("function")
        draft.define().add(
            f"def {hidden}():",
            f"    {shared} = {draft.literal()}",
            f"    return {shared} + {function}({draft.between(1, 5)})",
        )
        draft.show(f"{hidden}()")
    for _ in range(draft.between(1, 3)):
        draft.show(f"{function}({draft.literal()})")
    draft.show(f"{shared}, {log}".join("()") if with_list else shared)
