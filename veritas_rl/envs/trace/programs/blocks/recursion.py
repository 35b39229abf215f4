"""Functions that call themselves, with an argument that is small at first and decreases."""

from veritas_rl.envs.trace.programs.blocks.registry import block
from veritas_rl.envs.trace.programs.draft import Draft
from veritas_rl.envs.trace.programs.expressions import condition, number


@block(level=5, lines=6)
def counting_down(draft: Draft) -> None:
    """A function of a number that calls itself with a smaller number."""
    function = draft.names.one("function")
    n, m = draft.local().some("number", "number")
    shape = draft.between(0, 4)
    writer = draft.define()
    shown = draft.afford(draft.limits.turns[1]) and draft.chance(0.5)
    with writer.block(f"def {function}({n}):"):
        if shape == 0:
            writer.add(
                f"if {n} <= {draft.pick(0, 1)}:", f"    return {draft.between(0, 4)}", f"print({n})" if shown else ""
            )
            step = draft.pick(f"{n} * {function}({n} - 1)", f"{n} + {function}({n} - {draft.between(1, 2)})")
            writer.add(f"return {draft.pick(step, step, f'{function}({n} - 1) * 2 - {n}')}")
        elif shape == 1:
            writer.add(
                f"if {n} < 10:", f"    return {n}", f"return {n} % 10 {draft.pick('+', '+', '-')} {function}({n} // 10)"
            )
        elif shape == 2:
            writer.add(f"if {n} == 0:", f'    return "{draft.pick("", ".", "0")}"', f"print({n})" if shown else "")
            writer.add(f"return {draft.pick(f'str({n}) + {function}({n} - 1)', f'{function}({n} - 1) + str({n})')}")
        elif shape == 3:
            writer.add(f"if {n} < 2:", f"    return {draft.pick(n, '1', f'[{n}]') if draft.chance(0.6) else n}")
            if "[" in writer.lines[-1]:
                writer.add(f"return {function}({n} // 2) + [{n} % 2]")
            else:
                writer.add(f"return {function}({n} - 1) {draft.pick('+', '-', '+')} {function}({n} - 2)")
        else:
            writer.add(f"if {n} <= 0:", f"    return {draft.between(0, 3)}", f"if {condition(draft, [n])}:")
            writer.add(f"    return {draft.literal()} + {function}({n} - {draft.between(1, 2)})")
            writer.add(f"{m} = {function}({n} - {draft.between(1, 3)})", f"print({n}, {m})" if shown else "")
            writer.add(f"return {m} {draft.pick('+ 1', f'+ {n}', f'- {n}', '* 2')}")
    largest = draft.between(3, min(8, draft.limits.turns[1] + 1))
    value = draft.between(100, 99999) if shape == 1 else largest
    draft.show(f"{function}({value})")
    if draft.chance(0.4) and not shown:
        x = draft.names.one("item")
        draft.show(f"[{function}({x}) for {x} in range({min(largest, 6)})]")


@block(level=6, lines=7)
def list_recursion(draft: Draft) -> None:
    """A function of a list or a string that calls itself with the remaining items."""
    function = draft.names.one("function")
    xs, first, rest = draft.local().some("list", "number", "list")
    writer = draft.define()
    shape = draft.between(0, 3)
    with writer.block(f"def {function}({xs}):"):
        if shape == 0:
            writer.add(f"if not {xs}:", f"    return {draft.pick(0, 1)}", f"{first}, *{rest} = {xs}")
            writer.add(f"return {number(draft, [first], 1)} {draft.pick('+', '-')} {function}({rest})")
        elif shape == 1:
            writer.add(f"if len({xs}) == 1:", f"    return {xs}[0]", f"{rest} = {function}({xs}[1:])")
            sign = draft.pick(">", "<")
            writer.add(f"return {xs}[0] if {xs}[0] {sign} {rest} else {rest}")
        elif shape == 2:
            writer.add(f"if not {xs}:", "    return []", f"{first} = {xs}[0]", f"if {condition(draft, [first])}:")
            writer.add(
                f"    return [{number(draft, [first], 1)}] + {function}({xs}[1:])", f"return {function}({xs}[1:])"
            )
        else:
            writer.add(f"if len({xs}) < 2:", f"    return {xs}[:]", f"{rest} = {function}({xs}[1:-1])")
            writer.add(
                f"return [{xs}[-1]] + {rest} + [{xs}[0]]"
                if draft.chance(0.5)
                else f"return {rest} + [{xs}[0], {xs}[-1]]"
            )
    draft.show(f"{function}({draft.numbers()})")
    if draft.chance(0.4):
        draft.show(f"{function}({draft.ints()})")


@block(level=6, lines=9)
def towers(draft: Draft) -> None:
    """The towers of Hanoi, with the moves printed or counted."""
    function = draft.names.one("function")
    n, a, b, c = draft.local().some("number", "text", "text", "text")
    discs = draft.between(2, 3 if draft.level < 9 else 4)
    writer = draft.define()
    printed = draft.afford(2**discs - 1)
    ends = draft.sample("ABCXYZ", 3)
    with writer.block(f"def {function}({n}, {a}, {b}, {c}):"):
        writer.add(f"if {n} == 0:", f"    return {0 if printed else '[]'}")
        if printed:
            writer.add(
                f"count = {function}({n} - 1, {a}, {c}, {b})",
                f'print({n}, {a} + "{draft.pick("->", " to ", "")}" + {b})',
            )
            writer.add(f"return count + 1 + {function}({n} - 1, {c}, {b}, {a})")
        else:
            move = draft.pick(f"{a} + {b}", f"({n}, {b})", n)
            writer.add(f"return {function}({n} - 1, {a}, {c}, {b}) + [{move}] + {function}({n} - 1, {c}, {b}, {a})")
    call = f'{function}({discs}, "{ends[0]}", "{ends[1]}", "{ends[2]}")'
    draft.show(call if printed else draft.pick(call, f"len({call})", f"{call}[{draft.between(0, 2)}:]"))


@block(level=6, lines=8)
def arrangements(draft: Draft) -> None:
    """Permutations, subsets or binary words."""
    function = draft.names.one("function")
    xs, out, i, rest = draft.local("tail").some("list", "list", "index", "list")
    writer = draft.define()
    shape = draft.between(0, 2)
    with writer.block(f"def {function}({xs}):"):
        if shape == 0:
            writer.add(f"if len({xs}) <= 1:", f"    return [{xs}]", f"{out} = []", f"for {i} in range(len({xs})):")
            writer.add(f"    for {rest} in {function}({xs}[:{i}] + {xs}[{i} + 1:]):")
            writer.add(
                f"        {out}.append({draft.pick(f'{xs}[{i}:{i} + 1] + {rest}', f'{rest} + {xs}[{i}:{i} + 1]')})"
            )
            writer.add(f"return {out}")
        elif shape == 1:
            writer.add(f"if not {xs}:", f"    return [{xs}]", f"{rest} = {function}({xs}[1:])")
            with_first = f"[{xs}[:1] + tail for tail in {rest}]"
            writer.add(f"return {draft.pick(f'{rest} + {with_first}', f'{with_first} + {rest}')}")
        else:
            writer.add(
                f"if len({xs}) == 0:",
                '    return [""]',
                f"return [{i} + tail for {i} in {xs}[0] for tail in {function}({xs}[1:])]",
            )
    letters = "".join(draft.sample("abcdexyz", draft.between(2, 3)))
    if shape == 2:
        argument = repr(["".join(draft.sample("01abxy", draft.between(1, 2))) for _ in range(draft.between(2, 3))])
    else:
        argument = f'"{letters}"' if draft.chance(0.5) else repr(draft.ints(draft.between(2, 3)))
    call = f"{function}({argument})"
    draft.show(draft.pick(call, call, f"len({call})", f"sorted({call})[{draft.pick(0, -1)}]", f"{call}[::-1]"))


@block(level=7, lines=10)
def remembered_results(draft: Draft) -> None:
    """A recursion on one or two numbers that stores its results in a dict."""
    function = draft.names.one("function")
    a, b, memo, out = draft.local("key").some("number", "number", "dict", "number")
    writer = draft.define()
    size = draft.between(3, 3 + draft.level // 2)
    if draft.chance(0.5):
        with writer.block(f"def {function}({a}, {memo}):"):
            writer.add(
                f"if {a} in {memo}:", f"    return {memo}[{a}]", f"if {a} < 2:", f"    return {draft.pick(a, 1)}"
            )
            second = f"{draft.maybe('2 * ')}{function}({a} - {draft.pick(2, 2, 3)}, {memo})"
            writer.add(f"{out} = {function}({a} - 1, {memo}) + {second}")
            writer.add(f"{memo}[{a}] = {out}", f"return {out}")
        store = draft.names.one("dict")
        draft.add(f"{store} = {{}}")
        draft.show(f"{function}({size + 2}, {store})")
        draft.show(draft.pick(store, f"len({store})", f"sorted({store}.items())[-1]"))
        return
    if draft.chance(0.5):
        blocked = draft.sample([(i, j) for i in range(1, 4) for j in range(1, 4)], draft.between(1, 3))
        end, test = "1", f"if ({a}, {b}) in {blocked}:"
    else:
        end, test = draft.pick(f"{a} + {b}", "1", f"{b} + 1"), f"if {condition(draft, [a, b])}:"
    with writer.block(f"def {function}({a}, {b}, {memo}):"):
        writer.add(f"if {a} == 0 or {b} == 0:", f"    return {end}", f"key = ({a}, {b})", f"if key not in {memo}:")
        writer.add(
            f"    {out} = {function}({a} - 1, {b}, {memo}) {draft.pick('+', '+', '-')} {function}({a}, {b} - 1, {memo})"
        )
        writer.add(f"    {test}", f"        {out} = {draft.pick('0', f'{out} % {draft.between(5, 20)}', f'{out} + 1')}")
        writer.add(f"    {memo}[key] = {out}", f"return {memo}[key]")
    draft.show(f"{function}({draft.between(2, 4)}, {draft.between(2, 4)}, {{}})")


@block(level=6, lines=7)
def each_other(draft: Draft) -> None:
    """Two functions that call each other."""
    one, two = draft.names.some("function", "function")
    n, m = draft.local().some("number", "text")
    first, second = draft.word(), draft.word()
    if draft.chance(0.5):
        draft.define().add(
            f"def {one}({n}):", f"    return {draft.pick('True', repr(first))} if {n} == 0 else {two}({n} - 1)"
        )
        draft.define().add(
            f"def {two}({n}):", f"    return {draft.pick('False', repr(second))} if {n} == 0 else {one}({n} - 1)"
        )
        draft.show(f"{one}({draft.between(1, 12)}), {two}({draft.between(1, 12)})".join("()"))
        return
    for name, other, letter, step in ((one, two, first[0], 1), (two, one, second[0], 2)):
        with draft.define().block(f"def {name}({n}, {m}):") as writer:
            writer.add(f"if {n} <= 0:", f"    return {draft.pick(m, f'{m}[::-1]', f'len({m})')}")
            writer.add(f"return {other}({n} - {step}, {draft.pick(m + ' + ' + repr(letter), f'str({n}) + {m}')})")
    draft.show(f'{one}({draft.between(3, 9)}, "")')


@block(level=7, lines=9)
def divide_and_conquer(draft: Draft) -> None:
    """Merge sort, quick sort, or the maximum of two halves."""
    function = draft.names.one("function")
    xs, pivot, left, right = draft.local("x", "i", "middle", "out").some("list", "number", "list", "list")
    sign = draft.pick("<", ">")
    writer = draft.define()
    shown = draft.afford(6) and draft.chance(0.6)
    shape = draft.between(0, 2)
    with writer.block(f"def {function}({xs}):"):
        writer.add(f"if len({xs}) <= 1:", f"    return {xs}")
        if shape == 0:
            writer.add(
                f"{pivot} = {xs}[{draft.pick('0', '-1', f'len({xs}) // 2')}]", f"print({pivot}, {xs})" if shown else ""
            )
            writer.add(f"{left} = [x for x in {xs} if x {sign} {pivot}]")
            writer.add(f"{right} = [x for x in {xs} if not x {sign} {pivot} and x != {pivot}]")
            writer.add(f"return {function}({left}) + [x for x in {xs} if x == {pivot}] + {function}({right})")
        elif shape == 1:
            writer.add(
                f"middle = len({xs}) // 2",
                f"{left} = {function}({xs}[:middle])",
                f"{right} = {function}({xs}[middle:])",
            )
            writer.add(f"print({left}, {right})" if shown else "", "out = []", f"while {left} and {right}:")
            writer.add(f"    out.append(({left} if {left}[0] {sign} {right}[0] else {right}).pop(0))")
            writer.add(f"return out + {left} + {right}")
        else:
            writer.add(
                f"middle = len({xs}) // 2", f"{left}, {right} = {function}({xs}[:middle]), {function}({xs}[middle:])"
            )
            writer.add(f"print({left}, {right})" if shown else "")
            writer.add(f"return {left} if sum({left}) {sign} sum({right}) else {right}")
    draft.show(draft.result(f"{function}({draft.ints()})", "ints"))


@block(level=7, lines=9)
def nested_lists(draft: Draft) -> None:
    """A nested list is flattened, measured or summed by depth."""
    function = draft.names.one("function")
    xs, out, x = draft.local().some("list", "list", "item")

    def nested(depth: int) -> list[object]:
        return [
            nested(depth - 1) if depth and draft.chance(0.4) else draft.literal() for _ in range(draft.between(1, 3))
        ]

    writer = draft.define()
    shape = draft.between(0, 2)
    if shape == 0:
        with writer.block(f"def {function}({xs}):"):
            writer.add(f"{out} = []", f"for {x} in {xs}:", f"    if isinstance({x}, list):")
            writer.add(f"        {out}.extend({function}({x}){draft.maybe('[::-1]', 0.3)})", "    else:")
            writer.add(f"        {out}.append({number(draft, [x], 1)})", f"return {out}")
    elif shape == 1:
        with writer.block(f"def {function}({xs}):"):
            writer.add(f"if not isinstance({xs}, list):", f"    return {draft.pick(0, 1)}")
            writer.add(f"return 1 + max({function}({x}) for {x} in {xs})")
    else:
        with writer.block(f"def {function}({xs}, depth=1):"):
            writer.add(f"{out} = 0", f"for {x} in {xs}:", f"    if isinstance({x}, list):")
            writer.add(
                f"        {out} += {function}({x}, depth + 1)",
                "    else:",
                f"        {out} += {x} * depth",
                f"return {out}",
            )
    for _ in range(draft.between(1, 2)):
        draft.show(f"{function}({[*nested(2), nested(1), draft.literal()]})")


@block(level=7, lines=8)
def change_making(draft: Draft) -> None:
    """Ways to pay an amount with coins, counted or listed."""
    function = draft.names.one("function")
    amount, coins, out = draft.local("rest", "coin").some("number", "list", "list")
    values = sorted(draft.sample((1, 2, 3, 5, 7), draft.between(2, 3)), reverse=draft.chance(0.5))
    writer = draft.define()
    if draft.chance(0.5):
        with writer.block(f"def {function}({amount}, {coins}):"):
            writer.add(f"if {amount} == 0:", "    return 1", f"if {amount} < 0 or not {coins}:", "    return 0")
            writer.add(f"return {function}({amount} - {coins}[0], {coins}) + {function}({amount}, {coins}[1:])")
        draft.show(draft.result(f"{function}({draft.between(4, 9)}, {values})"))
    else:
        with writer.block(f"def {function}({amount}, {coins}):"):
            writer.add(
                f"if {amount} == 0:",
                "    return []",
                f"{out} = None",
                f"for coin in {coins}:",
                f"    if coin <= {amount}:",
            )
            writer.add(f"        rest = {function}({amount} - coin, {coins})")
            writer.add(f"        if rest is not None and ({out} is None or len(rest) + 1 < len({out})):")
            writer.add(f"            {out} = [coin] + rest", f"return {out}")
        draft.show(f"{function}({draft.between(4, 7)}, {values})")
