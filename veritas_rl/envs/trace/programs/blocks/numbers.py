"""Small algorithms on integers, in functions or in loops of the main part."""

from veritas_rl.envs.trace.programs.blocks.registry import block
from veritas_rl.envs.trace.programs.draft import Draft
from veritas_rl.envs.trace.programs.expressions import condition, number


@block(level=4, lines=7)
def digits(draft: Draft) -> None:
    """A loop over the decimal digits of a number."""
    n, total, digit = draft.names.some("number", "number", "item")
    value = draft.between(100, 99 * 10 ** draft.between(1, 1 + draft.level // 3))
    start = draft.pick(0, 0, 1)
    draft.add(f"{n}, {total} = {value}, {start}" if draft.chance(0.4) else f"{n} = {value}")
    if len(draft.body.writer.lines) and not draft.body.writer.lines[-1].startswith(f"{n},"):
        draft.add(f"{total} = {start}")
    if draft.chance(0.5):
        draft.add(f"while {n}:", f"    {digit} = {n} % 10", f"    {n} //= 10")
    else:
        draft.add(f"while {n} > 0:", f"    {n}, {digit} = divmod({n}, 10)")
    change = draft.pick(
        f"{total} += {digit}",
        f"{total} = {total} * 10 + {digit}",
        f"{total} += {number(draft, [digit], 1)}",
        f"{total} = max({total}, {digit})",
        f"{total} = {total} * {draft.between(2, 3)} - {digit}",
    )
    if draft.chance(0.4):
        draft.add(f"    if {condition(draft, [digit])}:", f"        {change}")
        draft.add(*draft.pick((), ("    else:", f"        {total} += 1")))
    else:
        draft.add(f"    {change}")
    draft.show(total)
    draft.keep(total, "int", small=False)


@block(level=5, lines=8)
def common_divisor(draft: Draft) -> None:
    """The greatest common divisor, with a loop or by recursion, and optionally the least common multiple."""
    function = draft.names.one("function")
    a, b = draft.local("d").some("number", "number")
    writer = draft.define()
    with writer.block(f"def {function}({a}, {b}):"):
        shape = draft.between(0, 3)
        if shape == 0:
            writer.add(f"while {b}:", f"    {a}, {b} = {b}, {a} % {b}", f"return {a}")
        elif shape == 1:
            writer.add(f"if {b} == 0:", f"    return {a}", f"return {function}({b}, {a} % {b})")
        elif shape == 2:
            writer.add(f"return {a} if {b} == 0 else {function}({b}, {a} % {b})")
        else:
            writer.add(
                f"for d in range(min({a}, {b}), 0, -1):", f"    if {a} % d == 0 and {b} % d == 0:", "        return d"
            )
            writer.add("return 1")
    factor, most = draft.between(1, 6), 9 if draft.level < 7 else 15
    pair = [factor * draft.between(2, most), factor * draft.between(2, most)]
    if draft.chance(0.4):
        multiple = draft.names.one("function")
        draft.define().add(f"def {multiple}({a}, {b}):", f"    return {a} * {b} // {function}({a}, {b})")
        draft.show(f"{multiple}({pair[0]}, {pair[1]})")
    elif draft.afford(3):
        x = draft.names.one("item")
        draft.add(f"for {x} in {[factor * draft.between(1, most) for _ in range(3)]}:")
        draft.add("    " + draft.shown(f"{function}({x}, {pair[0]})"))
    draft.show(draft.result(f"{function}({pair[0]}, {pair[1]})"))


@block(level=5, lines=9)
def steps_until(draft: Draft) -> None:
    """A number is changed by one of two rules until it reaches an end, or for a limited number of steps."""
    function = draft.names.one("function")
    n, count, path = draft.local().some("number", "index", "list")
    most = draft.turns() + draft.between(2, 8)
    even, odd = draft.pick(
        ("// 2", f"* 3 + {draft.pick(1, 1, 3)}"), ("// 2", f"+ {draft.pick(1, 3, 5)}"), ("- 3", "* 2 - 1")
    )
    listed = draft.chance(0.4)
    with draft.define().block(f"def {function}({n}):") as writer:
        writer.add(f"{path} = [{n}]" if listed else f"{count} = 0")
        length = f"len({path})" if listed else count
        with writer.block(f"while {n} {draft.pick('!=', '>')} 1 and {length} < {most}:"):
            if draft.chance(0.5):
                writer.add(f"if {n} % 2 == 0:", f"    {n} = {n} {even}", "else:", f"    {n} = {n} {odd}")
            else:
                writer.add(f"{n} = {n} {even} if {n} % 2 == 0 else {n} {odd}")
            writer.add(f"{path}.append({n})" if listed else f"{count} += 1")
        writer.add(f"return {path}" if listed else f"return {draft.pick(count, f'{count}, {n}')}")
    if draft.afford(2):
        draft.show(f"{function}({draft.between(3, 20)})")
    x = draft.names.one("item")
    call = f"{function}({x})"
    draft.show(f"[{f'len({call})' if listed else call} for {x} in range({draft.between(1, 5)}, {draft.between(7, 9)})]")


@block(level=5, lines=8)
def primes(draft: Draft) -> None:
    """Primes by trial division or by a sieve."""
    function = draft.names.one("function")
    n, d, found = draft.local("m").some("number", "index", "list")
    high = draft.between(8, 8 + 4 * draft.level)
    writer = draft.define()
    shape = draft.between(0, 2)
    if shape == 0:
        with writer.block(f"def {function}({n}):"):
            writer.add(f"if {n} < 2:", "    return False")
            if draft.chance(0.5):
                writer.add(f"for {d} in range(2, {n}):", f"    if {d} * {d} > {n}:", "        break")
            else:
                writer.add(f"for {d} in range(2, int({n} ** 0.5) + 1):")
            writer.add(f"    if {n} % {d} == 0:", "        return False", "return True")
        x = draft.names.one("item")
        start = draft.between(0, high // 2)
        draft.show(
            draft.result(
                f"[{x} for {x} in range({start}, {high}) if {draft.maybe('not ', 0.2)}{function}({x})]", "ints"
            )
        )
        return
    if shape == 1:
        with writer.block(f"def {function}({n}):"):
            writer.add(f"{found} = []", f"{d} = 2", f"while {n} > 1:")
            writer.add(
                f"    while {n} % {d} == 0:", f"        {found}.append({d})", f"        {n} //= {d}", f"    {d} += 1"
            )
            writer.add(f"return {found}")
        for _ in range(draft.between(1, 2)):
            draft.show(f"{function}({draft.between(2, 9) * draft.between(2, 9) * draft.between(1, 5)})")
        return
    with writer.block(f"def {function}({n}):"):
        writer.add(f"{found} = [True] * ({n} + 1)", f"for {d} in range(2, {n} + 1):", f"    if {found}[{d}]:")
        writer.add(
            f"        for m in range({d} * {draft.pick(2, d)}, {n} + 1, {d}):", f"            {found}[m] = False"
        )
        writer.add(f"return [m for m in range(2, {n} + 1) if {found}[m]]")
    draft.show(draft.result(f"{function}({high})", "ints", 4))


@block(level=4, lines=6)
def recurrence(draft: Draft) -> None:
    """A sequence in which each number follows from the previous one or two numbers."""
    a, b, i = draft.names.some("number", "number", "index")
    turns = draft.turns()
    start = draft.ints(2, 0, 5)
    modulus = draft.between(10, 100)
    if draft.chance(0.6):
        following = draft.pick(
            f"{a} + {b}", f"{a} + {b}", f"2 * {a} + {b}", f"({a} * {b} + 1) % {modulus}", f"{b} - {a}"
        )
        draft.add(f"{a}, {b} = {start[0]}, {start[1]}", f"for {i} in range({turns}):")
        if draft.level > 3 and draft.afford(turns):
            draft.add("    " + draft.shown(draft.pick(a, b)))
        draft.add(f"    {a}, {b} = {b}, {following}")
        draft.show(draft.pick(a, b, f"{a} + {b}"))
    else:
        values = draft.names.one("list")
        following = f"{values}[-1] {draft.pick('+', '-')} {values}[-2]"
        if draft.chance(0.5):
            following = f"({values}[-1] * {draft.between(2, 5)} + {values}[-2]) % {modulus}"
        draft.add(f"{values} = {start}", f"for {i} in range({turns}):", f"    {values}.append({following})")
        draft.show(values)
        draft.keep(values, "ints", 2, small=False)


@block(level=6, lines=9)
def other_bases(draft: Draft) -> None:
    """Numbers converted to another base, and back."""
    function = draft.names.one("function")
    n, base, out = draft.local().some("number", "number", "text")
    with draft.define().block(f"def {function}({n}, {base}={draft.between(2, 5)}):") as writer:
        if draft.chance(0.5):
            writer.add(
                f"if {n} < {base}:",
                f"    return str({n})",
                f"return {function}({n} // {base}, {base}) + str({n} % {base})",
            )
        else:
            writer.add(
                f'{out} = ""', f"while {n} > 0:", f"    {out} = str({n} % {base}) + {out}", f"    {n} //= {base}"
            )
            writer.add(f'return {out} or "0"')
    for _ in range(draft.between(1, 2)):
        value = draft.between(3, 20 * draft.level)
        draft.show(draft.pick(f"{function}({value})", f"{function}({value}, {draft.between(2, 9)})"))
    if draft.chance(0.5):
        draft.show(f"int({function}({draft.between(5, 99)}, {(base := draft.between(2, 8))}), {base})")


@block(level=4, lines=8)
def counting_game(draft: Draft) -> None:
    """Words printed, joined or counted for the multiples of two numbers."""
    i, out = draft.names.some("index", "texts")
    first, second = draft.sample((2, 3, 4, 5), 2)
    one, two = draft.words(2)
    turns = draft.turns() + draft.between(1, 4)
    both = draft.chance(0.5)
    join = draft.chance(0.5) or not draft.afford(turns)
    if join:
        draft.add(f"{out} = []")

    def output(text: str) -> str:
        return f"{out}.append({text})" if join else f"print({text})"

    draft.add(f"for {i} in range(1, {turns + 1}):")
    if both:
        draft.add(f"    if {i} % {first * second} == 0:", f"        {output(repr(one + two))}")
    draft.add(f"    {'el' if both else ''}if {i} % {first} == 0:", f"        {output(repr(one))}")
    draft.add(f"    elif {i} % {second} == 0:", f"        {output(repr(two))}")
    draft.add("    else:", f"        {output(f'str({i})' if join else i)}")
    if join:
        draft.show(draft.pick(f'" ".join({out})', out, f'{out}.count("{one}")'))


@block(level=5, lines=8)
def divisors(draft: Draft) -> None:
    """Numbers sorted into kinds by the sum or the number of their divisors."""
    function, names = draft.names.one("function"), draft.local()
    n, total, d = names.some("number", "number", "index")
    one, two, three = draft.words(3)
    writer = draft.define()
    with writer.block(f"def {function}({n}):"):
        if draft.chance(0.5):
            writer.add(f"{total} = sum({d} for {d} in range(1, {n}) if {n} % {d} == 0)")
        else:
            writer.add(f"{total} = 0", f"for {d} in range(1, {n}):", f"    if {n} % {d} == 0:")
            writer.add(f"        {total} += {draft.pick(d, d, '1')}")
        if draft.chance(0.5):
            writer.add(f"if {total} == {n}:", f'    return "{one}"', f'return "{two}" if {total} > {n} else "{three}"')
        else:
            writer.add(f"return {draft.pick(total, f'{total} - {n}', f'{total} % {draft.between(2, 7)}')}")
    x = draft.names.one("item")
    values = draft.sample((6, 8, 10, 12, 15, 16, 18, 20, 24, 28), draft.between(2, 4))
    if draft.afford(len(values)):
        draft.add(f"for {x} in {values}:", f"    print({x}, {function}({x}))")
    else:
        draft.show(f"[{function}({x}) for {x} in {values}]")


@block(level=6, lines=7)
def scrambled_numbers(draft: Draft) -> None:
    """The sequence of a linear congruential generator."""
    function = draft.names.one("function")
    state, made, i = draft.local("n").some("number", "list", "index")
    a, c, m = draft.pick(3, 5, 7, 11, 13), draft.between(1, 9), draft.between(16, 99)
    with draft.define().block(f"def {function}({state}, n):") as writer:
        writer.add(f"{made} = []", f"for {i} in range(n):")
        writer.add(f"    {state} = ({a} * {state} + {c}) % {m}")
        writer.add(f"    {made}.append({draft.pick(state, f'{state} % {draft.between(4, 9)}', f'{state} // 2')})")
        writer.add(f"return {made}")
    turns = draft.turns()
    name = draft.result(f"{function}({draft.between(1, 9)}, {turns})", "ints", turns)
    draft.body.variables[-1].small = True
    draft.show(name)
    draft.show(draft.pick(f"sorted({name})", f"max({name})", f"sum({name}) % {draft.between(2, 9)}", f"{name}[::2]"))


@block(level=5, lines=5)
def averages(draft: Draft) -> None:
    """A mean, and optionally a variance, as floating-point numbers."""
    values = draft.numbers(3)
    mean = draft.names.one("number")
    draft.add(f"{mean} = sum({values}) / len({values})")
    draft.printed -= 1
    draft.add(
        draft.pick(
            f"print(round({mean}, 2))", f'print(f"{{{mean}:.1f}}")', f'print("%.2f" % {mean})', f"print({mean} > 5)"
        )
    )
    if draft.chance(0.5):
        x = draft.names.one("item")
        sign = draft.pick(">", "<", ">=")
        draft.show(f"[{x} for {x} in {values} if {x} {sign} {mean}]")
    if draft.chance(0.4):
        spread, y = draft.names.some("number", "item")
        draft.add(
            f"{spread} = sum(({y} - {mean}) ** 2 for {y} in {values}) / len({values})", f'print(f"{{{spread}:.2f}}")'
        )
        draft.printed -= 1


@block(level=6, lines=8)
def fast_power(draft: Draft) -> None:
    """A power by repeated squaring, or a polynomial by Horner's rule."""
    function = draft.names.one("function")
    x, n, out, part = draft.local().some("number", "number", "number", "item")
    writer = draft.define()
    if draft.chance(0.5):
        modulus = draft.maybe(f" % {draft.between(7, 99)}", 0.6)
        with writer.block(f"def {function}({x}, {n}):"):
            writer.add(f"{out} = 1", f"while {n} > 0:", f"    if {n} % 2:", f"        {out} = {out} * {x}{modulus}")
            writer.add(f"    {x} = {x} * {x}{modulus}", f"    {n} //= 2", f"return {out}")
        draft.show(f"{function}({draft.between(2, 5)}, {draft.between(3, 10)})")
        return
    with writer.block(f"def {function}({n}, {x}):"):
        writer.add(f"{out} = 0", f"for {part} in {n}:", f"    {out} = {out} * {x} + {part}")
        writer.add(f"return {out}")
    values = draft.ints(draft.between(3, 4), 0, 5)
    y = draft.names.one("item")
    draft.show(f"[{function}({values}, {y}) for {y} in range({draft.between(-2, 0)}, {draft.between(2, 4)})]")
