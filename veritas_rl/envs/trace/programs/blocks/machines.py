"""Little machines: states, stacks, parsers, queues and simulations."""

from veritas_rl.envs.trace.programs.blocks.registry import block
from veritas_rl.envs.trace.programs.draft import Draft
from veritas_rl.envs.trace.programs.expressions import condition, number


@block(level=7, lines=13, weight=1.3)
def states(draft: Draft) -> None:
    """A machine that changes its state with each event, by a table or by conditions."""
    state, event, table = draft.names.some("text", "char", "dict")
    names = draft.words(draft.between(2, 4))
    letters = draft.sample("abcxyz", draft.between(2, 3))
    events = "".join(draft.choose(letters) for _ in range(draft.turns() + 2))
    moves = {(name, letter): draft.choose(names) for name in names for letter in letters if draft.chance(0.75)}
    count = draft.names.one("number")
    if draft.chance(0.5):
        draft.add(f"{table} = {{", *(f"    {key}: {after!r}," for key, after in moves.items()), "}")
        draft.add(f'{state}, {count} = "{names[0]}", 0', f'for {event} in "{events}":')
        draft.add(
            f"    if ({state}, {event}) not in {table}:",
            f"        {count} += {draft.between(1, 3)}",
            "        continue",
        )
        draft.add(f"    {state} = {table}[{state}, {event}]")
    else:
        draft.add(f'{state}, {count} = "{names[0]}", 0', f'for {event} in "{events}":')
        for place, name in enumerate(names):
            own = draft.choose(letters)
            draft.add(
                f'    {"el" if place else ""}if {state} == "{name}" and {event} {draft.pick("==", "!=")} "{own}":'
            )
            draft.add(
                f'        {state} = "{draft.choose(names)}"', draft.maybe(f"        {count} += {draft.between(1, 4)}")
            )
        draft.add("    else:", f"        {count} -= 1")
    if draft.afford(len(events)) and draft.chance(0.6):
        draft.add(f"    print({draft.pick(f'{event}, {state}', state, f'{state}, {count}')})")
    draft.show(f"({state}, {count})")


@block(level=8, lines=15, weight=1.3)
def stack_machine(draft: Draft) -> None:
    """A machine that runs words on a stack: reverse Polish notation with a few commands."""
    function = draft.names.one("function")
    text, stack, word, a, b = draft.local().some("text", "list", "char", "number", "number")
    results = {
        "+": f"{a} + {b}",
        "-": f"{a} - {b}",
        "*": f"{a} * {b}",
        "%": f"{a} % {b} if {b} else 0",
        "max": f"max({a}, {b})",
    }
    signs = draft.sample(list(results), draft.between(2, 4))
    extra = draft.pick("dup", "neg", "swap", "")
    table = draft.chance(0.4)
    traced = draft.chance(0.6) and draft.afford(draft.limits.size[1] + 6)
    with draft.define().block(f"def {function}({text}):") as writer:
        writer.add(f"{stack} = []")
        with writer.block(f"for {word} in {text}.split():"):
            writer.add(f"if {word}.isdigit():", f"    {stack}.append(int({word}))")
            if extra:
                writer.add(f'elif {word} == "{extra}":')
                writer.add(
                    {
                        "dup": f"    {stack}.append({stack}[-1])",
                        "neg": f"    {stack}.append(-{stack}.pop())",
                        "swap": f"    {stack}.reverse()",
                    }[extra]
                )
            writer.add("else:", f"    {b}, {a} = {stack}.pop(), {stack}.pop()")
            if table:
                writer.add(
                    "    " + f"{stack}.append({{{', '.join(f'{sign!r}: {results[sign]}' for sign in signs)}}}[{word}])"
                )
            else:
                for place, sign in enumerate(signs[:-1]):
                    writer.add(
                        f'    {"el" if place else ""}if {word} == "{sign}":', f"        {stack}.append({results[sign]})"
                    )
                writer.add("    else:", f"        {stack}.append({results[signs[-1]]})")
            writer.add(f"print({word}, {stack})" if traced else "")
        writer.add(f"return {draft.pick(f'{stack}.pop()', stack)}")
    for _ in range(1 if traced else draft.between(1, 2)):
        words, high = [str(draft.between(1, 12))], 1
        while len(words) < draft.size() + 3 or high > 1:
            if high >= 2 and draft.chance(0.5):
                words.append(draft.choose(signs))
                high -= 1
            elif extra and draft.chance(0.2):
                words.append(extra)
                high += extra == "dup"
            elif len(words) < 12:
                words.append(str(draft.between(1, 12)))
                high += 1
            elif high >= 2:
                words.append(draft.choose(signs))
                high -= 1
        draft.show(f'{function}("{" ".join(words)}")')


@block(level=9, lines=22, weight=1.3)
def calculator(draft: Draft) -> None:
    """A recursive descent parser that evaluates sums and products."""
    total, product, atom = draft.names.some("function", "function", "function")
    text, at, value = draft.local("other").some("text", "index", "number")
    low, high = draft.pick(("+", "-"), ("-", "+"), ("+", "|")), draft.pick("*", "*", "%", "^")
    work = {"+": "+=", "-": "-=", "|": "+= 10 *"}
    power = {"*": f"{value} *= other", "%": f"{value} %= abs(other) + 1", "^": f"{value} = {value} * other % 100"}
    with draft.define().block(f"def {atom}({text}, {at}):") as writer:
        writer.add(
            f'if {text}[{at}] == "(":',
            f"    {value}, {at} = {total}({text}, {at} + 1)",
            f"    return {value}, {at} + 1",
            f"{value} = 0",
        )
        writer.add(
            f"while {at} < len({text}) and {text}[{at}].isdigit():",
            f"    {value} = {value} * 10 + int({text}[{at}])",
            f"    {at} += 1",
        )
        writer.add(f"return {value}, {at}")
    with draft.define().block(f"def {product}({text}, {at}):") as writer:
        writer.add(f"{value}, {at} = {atom}({text}, {at})", f'while {at} < len({text}) and {text}[{at}] == "{high}":')
        writer.add(f"    other, {at} = {atom}({text}, {at} + 1)", f"    {power[high]}", f"return {value}, {at}")
    with draft.define().block(f"def {total}({text}, {at}):") as writer:
        writer.add(
            f"{value}, {at} = {product}({text}, {at})",
            f'while {at} < len({text}) and {text}[{at}] in "{"".join(low)}":',
        )
        writer.add(f"    sign = {text}[{at}]", f"    other, {at} = {product}({text}, {at} + 1)")
        writer.add(
            f'    if sign == "{low[0]}":',
            f"        {value} {work[low[0]]} other",
            "    else:",
            f"        {value} {work[low[1]]} other",
        )
        writer.add(
            f"    print(sign, {value})" if draft.afford(4) and draft.chance(0.6) else "", f"return {value}, {at}"
        )

    def formula(depth: int) -> str:
        if depth == 0 or draft.chance(0.2):
            return str(draft.between(1, 20))
        inner = draft.choose((*low, high)).join((formula(depth - 1), formula(depth - 1)))
        return f"({inner})" if draft.chance(0.5) else inner

    for _ in range(draft.between(1, 2)):
        draft.show(f'{total}("{formula(draft.between(2, 3))}", 0)[0]')


@block(level=8, lines=16)
def waiting_line(draft: Draft) -> None:
    """Jobs take turns on one machine until all are done."""
    jobs, clock, name, left, done = draft.names.some("list", "number", "text", "number", "dict")
    share = draft.between(1, 4)
    pairs = [(word, draft.between(1, 8)) for word in draft.words(min(5, draft.size()))]
    traced = draft.afford(sum(1 + left // share for _, left in pairs)) and draft.chance(0.6)
    draft.add(
        f"{jobs} = {pairs}", f"{clock}, {done} = 0, {{}}", f"while {jobs}:", f"    {name}, {left} = {jobs}.pop(0)"
    )
    if draft.chance(0.5):
        draft.add(f"    {clock} += min({share}, {left})", f"    {left} -= {share}")
    else:
        draft.add(
            f"    for _ in range({share}):",
            f"        if {left} > 0:",
            f"            {left} -= 1",
            f"            {clock} += 1",
        )
    draft.add(
        f"    print({clock}, {name})" if traced else "",
        f"    if {left} > 0:",
        f"        {jobs}.append(({name}, {left}))",
    )
    draft.add("    else:", f"        {done}[{name}] = {clock}")
    draft.show(done)
    key = draft.names.one("text")
    draft.show(draft.pick(clock, f"sum({done}.values())", f"max({done}, key=lambda {key}: {done}[{key}])"))


@block(level=8, lines=15)
def little_computer(draft: Draft) -> None:
    """A list of instructions on two registers, with a backward jump that is taken a bounded number of times."""
    program, registers, at, order, fuel = draft.names.some("list", "dict", "index", "item", "number")
    one, two = draft.sample("abcdxy", 2)
    turns = draft.turns()
    first = draft.pick(("add", one, draft.literal()), ("mul", one, draft.between(2, 3)))
    orders = [("set", one, draft.between(0, 5)), ("set", two, turns), first, ("add", two, -1), ("jump", two, 2)]
    if draft.chance(0.5):
        orders.insert(3, ("add", one, draft.between(-9, 9)))
    if draft.chance(0.4):
        orders.append(("add", two, draft.literal()))
    draft.add(f"{program} = [", *(f"    {entry}," for entry in orders), "]")
    draft.add(
        f"{registers}, {at}, {fuel} = {{}}, 0, {draft.between(5, 10) * 5}",
        f"while {at} < len({program}) and {fuel} > 0:",
    )
    name, value = draft.names.some("text", "number")
    draft.add(f"    {order}, {name}, {value} = {program}[{at}]", f"    {at} += 1", f"    {fuel} -= 1")
    draft.add(f'    if {order} == "set":', f"        {registers}[{name}] = {value}")
    draft.add(f'    elif {order} == "add":', f"        {registers}[{name}] += {value}")
    draft.add(
        f'    elif {order} == "mul":',
        f"        {registers}[{name}] = {registers}[{name}] * {value} % {draft.between(50, 999)}",
    )
    draft.add(f"    elif {registers}[{name}] > 0:", f"        {at} = {value}")
    if draft.afford(turns) and draft.chance(0.5):
        draft.add(f"        print({registers})")
    draft.show(registers)
    draft.show(f"{fuel}")


@block(level=7, lines=14)
def simulation(draft: Draft) -> None:
    """A quantity that rules change day by day, until it is used up or the last day is over."""
    day, amount, gain, log = draft.names.some("index", "number", "number", "list")
    turns = draft.turns() + 1
    draft.add(
        f"{amount}, {gain} = {draft.literal()}, {draft.between(1, 9)}",
        f"{log} = []",
        f"for {day} in range(1, {turns + 1}):",
    )
    draft.add(f"    if {condition(draft, [day])}:", f"        {gain} += {number(draft, [day], 1)}")
    draft.add(
        f"    elif {condition(draft, [amount, gain, day])}:", f"        {gain} = {gain} // 2 - {draft.between(0, 3)}"
    )
    draft.add(f"    {amount} += {gain} - {draft.between(0, 9)}", f"    if {amount} < 0:")
    end = draft.pick("break", f"{amount} = 0", f"{amount} = -{amount}")
    draft.add(f'        {log}.append("{draft.word()}")', f"        {end}")
    draft.add(f"    {log}.append({draft.pick(amount, gain, f'({day}, {amount})')})")
    if draft.afford(turns) and draft.chance(0.6):
        draft.add("    " + draft.shown(draft.pick(amount, f"({day}, {amount}, {gain})")))
    if end == "break" and draft.chance(0.5):
        draft.add("else:", f'    print("{draft.word()}")')
    draft.show(draft.pick(log, f"len({log})", f"{log}[-2:]"))
    draft.show(f"({amount}, {gain})")


@block(level=9, lines=20)
def undone_edits(draft: Draft) -> None:
    """An editor with commands that can be undone."""
    name, names = draft.names.one("class"), draft.local("entries", "old")
    text, past = names.some("attribute", "attribute")
    run = names.one("method")
    commands = draft.sample(("add", "cut", "up", "swap"), draft.between(2, 3))
    changes = {
        "add": f"self.{text} + word",
        "cut": f"self.{text}[:-int(word)]",
        "up": f"self.{text}.replace(word, word.upper())",
        "swap": f"word + self.{text}[::-1]",
    }
    with draft.define().block(f"class {name}:") as writer:
        writer.add(f"def __init__(self, {text}):", f"    self.{text} = {text}", f"    self.{past} = []")
        with writer.block(f"def {run}(self, command):"):
            writer.add(
                'kind, _, word = command.partition(" ")',
                'if kind == "undo":',
                f"    if not self.{past}:",
                f'        raise ValueError("{draft.word()}")',
            )
            writer.add(f"    self.{text} = self.{past}.pop()", "    return self", f"self.{past}.append(self.{text})")
            for place, command in enumerate(commands):
                last = place == len(commands) - 1
                writer.add(
                    "else:" if last else f'{"el" if place else ""}if kind == "{command}":',
                    f"    self.{text} = {changes[command]}",
                )
            writer.add("return self")
        writer.add("def __repr__(self):", f'    return f"{name}({{self.{text}!r}}, {{len(self.{past})}})"')
    thing, command, caught = draft.names.some("object", "text", "char")
    made = []
    for _ in range(draft.size()):
        kind = draft.choose(commands)
        made.append(
            {
                "add": f"add {draft.word()}",
                "cut": f"cut {draft.between(1, 3)}",
                "up": f"up {draft.choose('aeiorst')}",
                "swap": f"swap {draft.choose('xyz')}",
            }[kind]
        )
        if draft.chance(0.35):
            made.append("undo")
    made.insert(draft.between(0, 1), "undo")
    draft.add(f'{thing} = {name}("{draft.word()}")', f"for {command} in {made}:", "    try:")
    draft.add(
        f"        print({thing}.{run}({command}))" if draft.afford(len(made)) else f"        {thing}.{run}({command})"
    )
    draft.add("    except ValueError as " + caught + ":", f"        print({caught})")
    draft.show(thing)
