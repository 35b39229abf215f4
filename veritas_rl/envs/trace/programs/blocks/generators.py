"""Generators: bounded sequences, pipelines of them, delegation and values sent in."""

from veritas_rl.envs.trace.programs.blocks.registry import block
from veritas_rl.envs.trace.programs.draft import Draft
from veritas_rl.envs.trace.programs.expressions import condition, number


@block(level=7, lines=9, weight=1.5)
def yielded_numbers(draft: Draft) -> None:
    """A generator with a loop, used by a for statement, a list or an aggregate."""
    function = draft.names.one("function")
    n, a, b = draft.local().some("number", "number", "number")
    turns = draft.turns()
    with draft.define().block(f"def {function}({n}):") as writer:
        shape = draft.between(0, 3)
        if shape == 0:
            writer.add(
                f"{a}, {b} = {draft.between(0, 3)}, {draft.between(1, 4)}",
                f"while {a} < {n}:",
                f"    yield {a}",
                f"    {a}, {b} = {b}, {a} + {b}",
            )
        elif shape == 1:
            writer.add(
                f"for {a} in range({n}):",
                f"    if {condition(draft, [a])}:",
                f"        {draft.pick('continue', f'yield -{a}')}",
            )
            writer.add(f"    yield {number(draft, [a], 1)}")
        elif shape == 2:
            writer.add(
                f"while {n} > 0:",
                f"    yield {draft.pick(n, f'{n} * {n}', f'{n} % {draft.between(2, 4)}')}",
                f"    {n} -= {draft.between(1, 2)}",
            )
        else:
            writer.add(
                f"{b} = {draft.between(0, 5)}",
                f"for {a} in range({n}):",
                f"    {b} += {number(draft, [a], 1)}",
                f"    yield {draft.pick(b, f'{a}, {b}')}",
            )
        writer.add(draft.maybe(f"yield {draft.literal()}", 0.3) if shape != 3 else "")
        if draft.afford() and draft.chance(0.4):
            writer.add(f'print("{draft.word()}")')
    x = draft.names.one("item")
    if draft.chance(0.5) and draft.afford(turns):
        draft.add(f"for {x} in {function}({turns}):", "    " + draft.shown(x))
    for option in draft.sample(
        (
            f"list({function}({turns}))",
            f"[{x} for {x} in {function}({turns})][::-1]",
            f"max({function}({turns}), default={draft.said()})",
            f"next({function}({draft.between(1, 5) + 4}), {draft.said()})",
            f"len([0 for {x} in {function}({turns})])",
        ),
        draft.between(1, 2),
    ):
        draft.show(option)


@block(level=8, lines=11)
def pipeline(draft: Draft) -> None:
    """Generators that read from each other."""
    source, keep, change = draft.names.some("function", "function", "function")
    x, flow, total = draft.local().some("item", "list", "number")
    draft.opaque.add(flow)
    noisy = draft.afford(5) and draft.chance(0.6)
    with draft.define().block(f"def {source}(n):") as writer:
        x0 = draft.local("n").one("item")
        writer.add(
            f"for {x0} in range(1, n + 1):",
            f'    print("{draft.word()}", {x0})' if noisy else "",
            f"    yield {number(draft, [x0], 1)}",
        )
    with draft.define().block(f"def {keep}({flow}):") as writer:
        writer.add(f"for {x} in {flow}:", f"    if {condition(draft, [x])}:", f"        yield {x}")
    with draft.define().block(f"def {change}({flow}):") as writer:
        writer.add(
            f"{total} = 0",
            f"for {x} in {flow}:",
            f"    {total} += {x}",
            f"    yield {draft.pick(total, f'({x}, {total})', f'{x} - {total}')}",
        )
    turns = draft.between(2, 5)
    inner = f"{source}({turns})"
    for stage in draft.shuffled(keep, change)[: draft.between(1, 2)]:
        if f"({x}, {total})" in "".join(writer.lines) and stage == keep and change in inner:
            continue
        inner = f"{stage}({inner})"
    draft.show(f"list({inner})")
    if draft.chance(0.4):
        draft.show(f"sum({keep}({source}({draft.between(2, 4)})))")


@block(level=8, lines=9)
def delegated(draft: Draft) -> None:
    """A recursive generator that delegates with `yield from`."""
    function = draft.names.one("function")
    xs, x = draft.local("left", "right").some("list", "item")
    writer = draft.define()
    shape = draft.between(0, 2)
    if shape == 0:
        with writer.block(f"def {function}({xs}):"):
            writer.add(
                f"for {x} in {xs}:", f"    if isinstance({x}, (list, tuple)):", f"        yield from {function}({x})"
            )
            writer.add("    else:", f"        yield {number(draft, [x], 1)}")
        argument = str([draft.literal(), draft.ints(2), (draft.literal(), draft.ints(draft.between(1, 2)))])
    elif shape == 1:
        with writer.block(f"def {function}({xs}):"):
            writer.add(f"if len({xs}) <= 1:", f"    yield {xs}", "    return", f"for {x} in {function}({xs}[1:]):")
            writer.add(f"    for left in range(len({xs})):", f"        yield {x}[:left] + {xs}[:1] + {x}[left:]")
        argument = f'"{"".join(draft.sample("abcxyz", draft.between(2, 3)))}"'
    else:
        with writer.block(f"def {function}({xs}, low=0):"):
            writer.add(
                f"if low < len({xs}):",
                *(
                    f"    {line}"
                    for line in draft.shuffled(
                        f"yield from {function}({xs}, 2 * low + 1)",
                        f"yield {xs}[low]",
                        f"yield from {function}({xs}, 2 * low + 2)",
                    )
                ),
            )
        argument = str(draft.ints())
    draft.show(f"list({function}({argument}))")
    if shape != 1 and draft.chance(0.4):
        draft.show(f"sum({function}({argument}))")


@block(level=9, lines=12)
def values_sent_in(draft: Draft) -> None:
    """A generator that receives values with send()."""
    function, name = draft.names.one("function"), draft.names.one("object")
    total, got = draft.local().some("number", "number")
    draft.opaque.add(name)
    with draft.define().block(f"def {function}({total}):") as writer, writer.block("while True:"):
        writer.add(f"{got} = yield {total}", f"if {got} is None:", f"    {draft.pick('return', 'break')}")
        writer.add(f"{total} {draft.pick('+=', '-=')} {number(draft, [got], 1)}")
        if draft.chance(0.4):
            writer.add(f"if {total} > {draft.literal()}:", f"    {total} -= {draft.literal()}")
    draft.add(f"{name} = {function}({draft.literal()})")
    draft.show(f"next({name})")
    for _ in range(draft.between(2, 3)):
        draft.show(f"{name}.send({draft.literal()})")
    if draft.chance(0.5):
        draft.add("try:", f"    next({name})", "except StopIteration:", f'    print("{draft.word()}")')
        draft.printed -= 1


@block(level=8, lines=12)
def own_iterator(draft: Draft) -> None:
    """A class with `__iter__` and `__next__`, or with a generator for `__iter__`."""
    name, names = draft.names.one("class"), draft.local("low", "high")
    now, limit = names.some("attribute", "attribute")
    step = draft.between(1, 3)
    with draft.define().block(f"class {name}:") as writer:
        writer.add("def __init__(self, low, high):", f"    self.{now}, self.{limit} = low, high")
        if draft.chance(0.5):
            writer.add("def __iter__(self):", "    return self", "def __next__(self):")
            writer.add(
                f"    if self.{now} >= self.{limit}:", "        raise StopIteration", f"    self.{now} += {step}"
            )
            writer.add(f"    return {number(draft, [f'self.{now}'], 1)}")
        else:
            value = draft.local().one("item")
            writer.add("def __iter__(self):", f"    for {value} in range(self.{now}, self.{limit}, {step}):")
            writer.add(f"        if {condition(draft, [value])}:", f"            yield {number(draft, [value], 1)}")
        writer.add("def __repr__(self):", f'    return f"{name} {{self.{now}}} to {{self.{limit}}}"')
    thing, x = draft.names.some("object", "item")
    start = draft.between(0, 5)
    draft.add(f"{thing} = {name}({start}, {start + draft.turns() + 2})")
    if draft.afford(4):
        draft.add(f"for {x} in {thing}:", f"    if {condition(draft, [x])}:", "        break", "    " + draft.shown(x))
    draft.show(draft.pick(f"list({thing})", f"sum({thing})", f"sorted({thing}, reverse=True)"))
    draft.show(thing)
