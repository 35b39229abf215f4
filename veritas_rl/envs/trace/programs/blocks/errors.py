"""Exceptions: raised, caught, passed on and cleaned up after. Only the program's own messages are printed."""

from veritas_rl.envs.trace.programs.blocks.registry import block
from veritas_rl.envs.trace.programs.draft import Draft
from veritas_rl.envs.trace.programs.expressions import condition, number


@block(level=5, lines=8)
def safe_division(draft: Draft) -> None:
    """A function that catches a division by zero and returns a fallback value."""
    function = draft.names.one("function")
    a, b, out = draft.local().some("number", "number", "number")
    operator = draft.pick("//", "%")
    fallback = draft.pick("0", "-1", "None", draft.said())
    with draft.define().block(f"def {function}({a}, {b}):") as writer:
        if draft.chance(0.4):
            writer.add("try:", f"    return {a} {operator} {b}", "except ZeroDivisionError:", f"    return {fallback}")
        else:
            writer.add(
                "try:", f"    {out} = {a} {operator} {b}", "except ZeroDivisionError:", f"    {out} = {fallback}"
            )
            if draft.chance(0.5):
                writer.add("else:", f"    {out} += {draft.literal()}")
            if draft.afford(3):
                writer.add("finally:", f"    print({draft.pick(f'{a}, {b}', draft.said(), a)})")
            writer.add(f"return {out}")
    x = draft.names.one("item")
    values = draft.shuffled(0, *draft.ints(draft.between(1, 2), 1, 7))
    if draft.afford(len(values)):
        draft.add(f"for {x} in {values}:", "    " + draft.shown(f"{function}({draft.number()}, {x})"))
    else:
        draft.show(f"[{function}({draft.literal()}, {x}) for {x} in {values}]")


@block(level=5, lines=8)
def numbers_from_words(draft: Draft) -> None:
    """Words that may be numbers are converted; other words are collected or counted."""
    good, bad, word = draft.names.some("list", "number", "text")
    words = [str(draft.literal()) if draft.chance(0.6) else draft.word() for _ in range(draft.size() + 1)]
    collected = draft.chance(0.5)
    draft.add(f"{good} = []", f"{bad} = {'[]' if collected else '0'}")
    draft.add(f"for {word} in {words}:" if draft.chance(0.6) else f'for {word} in "{" ".join(words)}".split():')
    draft.add("    try:", f"        {good}.append({number(draft, [f'int({word})'], 1)})", "    except ValueError:")
    draft.add(f"        {bad}.append({word})" if collected else f"        {bad} += {draft.pick('1', f'len({word})')}")
    roll = draft.random.random()
    if roll < 0.2:
        draft.add(f"        if len({word}) > 4:", "            break")
    elif roll < 0.4 and draft.afford(3):
        draft.add("    else:", f"        print({word}, {good}[-1])")
    draft.printed -= 1
    draft.add(f"print({draft.pick(f'{good}, {bad}', f'{bad}, sum({good})', f'sum({good}), {bad}')})")
    draft.keep(good, "ints", small=False)


@block(level=6, lines=12)
def own_errors(draft: Draft) -> None:
    """The program's own exception class, raised by a check and caught by the caller."""
    error, function = draft.names.some("error", "function")
    value, caught, x = draft.local("reason").one("number"), draft.names.one("text"), draft.names.one("item")
    coded = draft.chance(0.4)
    writer = draft.define()
    field = draft.local("reason").one("attribute")
    base = draft.pick("Exception", "ValueError", "Exception")
    with writer.block(f"class {error}({base}):"):
        if coded:
            writer.add(f"def __init__(self, {field}):", f'    super().__init__(f"{draft.word()} {{{field}}}")')
            writer.add(f"    self.{field} = {field}{draft.maybe(f' + {draft.literal()}', 0.4)}")
            draft.opaque.add("self")
        else:
            writer.add(draft.pick("pass", f'"""{draft.word().title()} is not allowed."""'))
    argument = (
        value if coded else draft.pick(draft.said(), f'f"{draft.word()} {{{value}}}"', f'"{draft.word()}", {value}')
    )
    with draft.define().block(f"def {function}({value}):") as writer:
        writer.add(f"if {condition(draft, [value])}:", f"    raise {error}({argument})")
        if draft.chance(0.4):
            writer.add(f"if {condition(draft, [value])}:", f'    raise KeyError("{draft.word()}")')
        writer.add(f"return {number(draft, [value], 2)}")
    known = any("KeyError" in line for line in writer.lines)
    shown = f"{caught}.{field}" if coded else draft.pick(caught, f"str({caught})", f"{caught}.args")
    values = draft.ints(draft.between(2, 4))
    draft.printed -= len(values)
    draft.add(f"for {x} in {values}:", "    try:", f"        print({draft.maybe(f'{x}, ', 0.3)}{function}({x}))")
    draft.add(f"    except {error} as {caught}:", f'        print("{draft.word()}:", {shown})')
    if known:
        draft.add("    except KeyError:", f'        print("{draft.word()}")')
    if draft.chance(0.3) and draft.afford(3):
        draft.add("    finally:", f'        print("{draft.choose("-.=")}")')


@block(level=7, lines=13)
def passed_on(draft: Draft) -> None:
    """An exception passes through several functions, some of which clean up or raise another exception."""
    inner, outer = draft.names.some("function", "function")
    n, log, caught = draft.local().some("number", "list", "text")
    first, second = draft.sample(("ValueError", "KeyError", "RuntimeError", "TypeError", "LookupError"), 2)
    words = draft.words(4)
    with draft.define().block(f"def {inner}({n}, {log}):") as writer:
        writer.add(f'{log}.append("{words[0]}")', f"if {condition(draft, [n])}:", f'    raise {first}("{words[1]}")')
        writer.add("try:", f"    if {condition(draft, [n])}:", f'        raise {second}("{words[2]}")')
        writer.add(f"    return {number(draft, [n], 1)}", "finally:", f'    {log}.append("{words[3]}")')
    with draft.define().block(f"def {outer}({n}, {log}):") as writer:
        writer.add("try:", f"    return {inner}({n}, {log})", f"except {first} as {caught}:")
        writer.add(f"    {log}.append(str({caught}.args[0]))")
        action = draft.pick(f"return -{draft.literal()}", f'raise {second}("{words[0]}") from {caught}', "raise")
        writer.add(f"    {action}")
    events, x, problem = draft.names.some("list", "item", "text")
    values = draft.ints(draft.between(2, 3))
    draft.add(f"{events} = []")
    draft.add(f"for {x} in {values}:", "    try:", f"        print({outer}({x}, {events}))")
    draft.add(f"    except ({first}, {second}) as {problem}:", f"        print({problem}.args[0])")
    draft.printed -= len(values)
    draft.show(events)
    draft.keep(events, "words", small=False)


@block(level=6, lines=9)
def retries(draft: Draft) -> None:
    """An operation is tried again until it succeeds or the attempts are used up."""
    function = draft.names.one("function")
    n = draft.local().one("number")
    need = draft.between(1, 4)
    with draft.define().block(f"def {function}({n}):") as writer:
        writer.add(
            f"if {n} {draft.pick('<', '!=')} {need}:",
            f'    raise {draft.pick("ValueError", "RuntimeError")}("{draft.word()}")',
        )
        writer.add(f"return {n} * {draft.literal()}")
    kind = writer.lines[-2].split("raise ")[1].split("(")[0]
    turn, caught, out = draft.names.some("index", "text", "number")
    draft.add(f"{out} = {draft.pick('None', '0', '-1')}", f"for {turn} in range({draft.between(2, 5)}):", "    try:")
    draft.add(
        f"        {out} = {function}({turn}{draft.maybe(' + 1', 0.3)})",
        "        break",
        f"    except {kind} as {caught}:",
    )
    draft.add(f"        print({turn}, {caught})" if draft.afford(3) else f"        {out} = {turn}")
    if draft.chance(0.5):
        draft.printed -= 1
        draft.add("else:", f'    print("{draft.word()}")')
    draft.show(out)


@block(level=6, lines=7)
def missing_keys(draft: Draft) -> None:
    """A lookup in a dict or a list that may fail, and its fallback."""
    table, key, total = draft.names.some("dict", "item", "number")
    if draft.chance(0.5):
        words = draft.words()
        draft.add(f"{table} = {{{', '.join(f'{word!r}: {draft.literal()}' for word in words)}}}")
        asked = [draft.choose(words) if draft.chance(0.6) else draft.word() for _ in range(draft.between(2, 4))]
        kind = draft.pick("KeyError", "LookupError")
    else:
        values = draft.ints()
        draft.add(f"{table} = {values}")
        asked = [draft.between(-len(values) - 1, len(values) + 1) for _ in range(draft.between(2, 4))]
        kind = draft.pick("IndexError", "LookupError", "IndexError")
    draft.add(
        f"{total} = 0",
        f"for {key} in {asked}:",
        "    try:",
        f"        {total} += {table}[{key}]",
        f"    except {kind}:",
    )
    if draft.afford(2):
        draft.add(f'        print("{draft.pick("no", "missing", "none for")}", {key})')
    draft.add(f"        {total} -= {draft.between(1, 5)}")
    draft.show(total)
    draft.keep(total, "int", small=False)
