"""Small programs on strings."""

from veritas_rl.envs.trace.programs.blocks.registry import block
from veritas_rl.envs.trace.programs.draft import LETTERS, Draft, Variable, mapping
from veritas_rl.envs.trace.programs.expressions import condition, of_text


@block(level=4, lines=6)
def characters(draft: Draft) -> None:
    """A loop that counts, keeps or changes some characters of a string."""
    text = draft.text()
    char, out = draft.names.some("char", "text")
    test = draft.pick(
        f'{char} in "aeiou"',
        f'{char} not in "aeiou"',
        f'{char} == "{draft.choose("aeorst")}"',
        f'{char} < "{draft.choose("fhkmps")}"',
        f"{char}.isalpha()",
        f"{text}.count({char}) > 1",
        f"ord({char}) % 2 == {draft.pick(0, 1)}",
    )
    if draft.chance(0.4):
        draft.add(f"{out} = 0", f"for {char} in {text}:", f"    if {test}:", f"        {out} += 1")
        kind = "int"
    else:
        kind = "str"
        changed = draft.pick(f"{char}.upper()", f"{char} * 2", f'"{draft.choose("*-_.")}"', f"{char}", f'{char} + "-"')
        draft.add(f'{out} = ""', f"for {char} in {text}:", f"    if {test}:", f"        {out} += {changed}")
        if draft.chance(0.6):
            draft.add("    else:", f"        {out} {draft.pick(f'+= {char}', f'= {char} + {out}')}")
    draft.show(out)
    draft.keep(out, kind, small=False)


@block(level=5, lines=7)
def shift_cipher(draft: Draft) -> None:
    """Letters shifted along the alphabet, and back."""
    function = draft.names.one("function")
    text, shift, out, char = draft.local().some("text", "number", "text", "char")
    with draft.define().block(f"def {function}({text}, {shift}):") as writer:
        moved = f"chr((ord({char}) - 97 + {shift}) % 26 + 97)"
        if draft.chance(0.5):
            writer.add(f'return "".join({moved} if {char}.isalpha() else {char} for {char} in {text})')
        else:
            writer.add(f'{out} = ""', f"for {char} in {text}:")
            with_else = draft.pick(f"{out} += {char}", f'{out} += "{draft.choose("-_.")}"')
            writer.add(
                f'    if "a" <= {char} <= "z":', f"        {out} += {moved}", "    else:", f"        {with_else}"
            )
            writer.add(f"return {out}")
    shift_by = draft.between(1, 12)
    secret = draft.result(f'{function}("{draft.phrase()}", {shift_by})', "str")
    draft.show(secret)
    if draft.chance(0.6):
        draft.show(f"{function}({secret}, -{shift_by})")


@block(level=6, lines=10)
def run_lengths(draft: Draft) -> None:
    """Runs of equal letters, counted and written as numbers."""
    function = draft.names.one("function")
    text, out, _char, count = draft.local("i").some("text", "list", "char", "index")
    as_text = draft.chance(0.5)
    with draft.define().block(f"def {function}({text}):") as writer:
        writer.add(f"{out} = []", f"{count} = 1", f"for i in range(1, len({text}) + 1):")
        writer.add(f"    if i < len({text}) and {text}[i] == {text}[i - 1]:", f"        {count} += 1", "    else:")
        writer.add(
            f"        {out}.append({f'{text}[i - 1] + str({count})' if as_text else f'({text}[i - 1], {count})'})"
        )
        writer.add(f"        {count} = 1", f'return "".join({out})' if as_text else f"return {out}")
    parts = "".join(draft.choose(LETTERS[:6]) * draft.between(1, 4) for _ in range(draft.size()))
    draft.show(draft.result(f'{function}("{parts}")', "str") if as_text else f'{function}("{parts}")')
    if not as_text and draft.chance(0.5):
        draft.show(f'max({function}("{parts[:-1]}"), key=lambda pair: (pair[1], pair[0]))')


@block(level=5, lines=5)
def words_of_a_sentence(draft: Draft) -> None:
    """A sentence is split, its words changed, sorted or measured, and joined again."""
    text = draft.text()
    words, word = draft.names.some("texts", "text")
    draft.add(f"{words} = {text}.split()")
    for shape in draft.sample(range(6), draft.between(1, 3)):
        made = of_text(draft, Variable(word, "str"))
        if shape == 0:
            draft.show(f'"{draft.pick(" ", "-", ", ")}".join({made} for {word} in {words})')
        elif shape == 1:
            order = draft.pick(f"(len({word}), {word})", f"{word}[::-1]", f"{word}[-1]")
            draft.show(f"sorted({words}, key=lambda {word}: {order})")
        elif shape == 2:
            draft.show(f"[len({word}) for {word} in {words}]")
        elif shape == 3:
            draft.show(f'" ".join({words}[::-1])')
        elif shape == 4:
            draft.show(f"max({words}, key=len)")
        else:
            draft.show(f"{{{word}: len({word}) for {word} in {words}}}")
    draft.keep(words, "words", 1)


@block(level=5, lines=7)
def mirrored_words(draft: Draft) -> None:
    """Words that read the same backwards, or that have the same letters."""
    function = draft.names.one("function")
    a, b = draft.local("i", "j", "at", "best", "table").some("text", "text")
    writer = draft.define()
    if draft.chance(0.5):
        with writer.block(f"def {function}({a}):"):
            shape = draft.between(0, 2)
            if shape == 0:
                writer.add(f"return {a} == {a}[::-1]")
            elif shape == 1:
                writer.add(f"if len({a}) < 2:", "    return True", f"if {a}[0] != {a}[-1]:", "    return False")
                writer.add(f"return {function}({a}[1:-1])")
            else:
                writer.add(f"for i in range(len({a}) // 2):", f"    if {a}[i] != {a}[-1 - i]:", "        return False")
                writer.add("return True")
        words = draft.sample(
            ("level", "noon", "radar", "civic", "kayak", "lever", "moon", "ladder", "refer", "cool"), 3
        )
        word = draft.names.one("text")
        if draft.afford(3):
            draft.add(f"for {word} in {words}:", f"    print({word}, {function}({word}))")
        else:
            draft.show(f"[{word} for {word} in {words} if {function}({word})]")
        return
    writer.add(f"def {function}({a}, {b}):", f"    return sorted({a}) == sorted({b})")
    for _ in range(draft.between(1, 2)):
        word = draft.word()
        other = "".join(draft.sample(word, len(word))) if draft.chance(0.6) else draft.word()
        draft.show(f'{function}("{word}", "{other}")')


@block(level=6, lines=12)
def brackets(draft: Draft) -> None:
    """A check of matching brackets with a stack."""
    function = draft.names.one("function")
    text, stack, char, pairs = draft.local("deepest").some("text", "list", "char", "dict")
    kinds = draft.sample(("()", "[]", "<>", "{}"), draft.between(2, 3))
    deepest = draft.chance(0.4)
    with draft.define().block(f"def {function}({text}):") as writer:
        writer.add(f"{pairs} = {mapping({kind[1]: repr(kind[0]) for kind in kinds})}", f"{stack} = []")
        writer.add("deepest = 0" if deepest else "")
        with writer.block(f"for {char} in {text}:"):
            writer.add(f"if {char} in {pairs}.values():", f"    {stack}.append({char})")
            writer.add(f"    deepest = max(deepest, len({stack}))" if deepest else "")
            with writer.block(f"elif {char} in {pairs}:"):
                writer.add(
                    f"if not {stack} or {stack}.pop() != {pairs}[{char}]:", f"    return {draft.pick('False', '-1')}"
                )
        writer.add(
            "return deepest"
            if deepest
            else f"return {draft.pick(f'not {stack}', f'len({stack}) == 0', f'len({stack})')}"
        )
    for _ in range(draft.between(2, 3)):
        opened, made = [], ""
        for _ in range(draft.size() + 2):
            if opened and draft.chance(0.5):
                made += opened.pop() if draft.chance(0.9) else draft.choose(kinds)[1]
            else:
                kind = draft.choose(kinds)
                made += kind[0]
                opened.append(kind[1])
        made += "".join(reversed(opened)) if draft.chance(0.7) else ""
        draft.show(f'{function}("{made}")')


@block(level=6, lines=9)
def settings_text(draft: Draft) -> None:
    """A line of keys and values is parsed into a dict."""
    function = draft.names.one("function")
    text, table, part, key, value = draft.local().some("text", "dict", "text", "text", "text")
    gap, sign = draft.pick(";", ",", "|"), draft.pick("=", ":")
    fallback = draft.between(-1, 1)
    with draft.define().block(f"def {function}({text}):") as writer:
        writer.add(f"{table} = {{}}")
        with writer.block(f'for {part} in {text}.split("{gap}"):'):
            if draft.chance(0.5):
                writer.add(
                    f'if "{sign}" not in {part}:', draft.maybe(f"    {table}[{part}] = {fallback}"), "    continue"
                )
                writer.add(f'{key}, {value} = {part}.split("{sign}")', f"{table}[{key}.strip()] = int({value})")
            else:
                writer.add(f'{key}, _, {value} = {part}.partition("{sign}")')
                writer.add(f"{table}[{key}.strip()] = int({value}) if {value} else {fallback}")
        writer.add(f"return {table}")
    words = draft.words()
    pieces = [f"{word}{sign}{draft.literal()}" if draft.chance(0.8) else word for word in words]
    pieces[0] = f"{words[0]}{sign}{draft.literal()}"
    settings = draft.result(f'{function}("{gap.join(pieces)}")', "counts", 1)
    draft.body.variables[-1].keys = (words[0],)
    draft.show(settings)
    x, y = draft.names.some("text", "item")
    draft.show(
        draft.pick(
            f"sum({settings}.values())",
            f"sorted({settings})",
            f"[{x} for {x}, {y} in {settings}.items() if {condition(draft, [y])}]",
            f'{settings}.get("{words[-1]}", "none")',
        )
    )


@block(level=6, lines=7)
def table_of_text(draft: Draft) -> None:
    """Rows of text in columns, by ljust, rjust or format specifications."""
    rows, word, value = draft.names.some("list", "text", "item")
    words = draft.words(draft.between(2, 3 if draft.level < 8 else 5))
    if not draft.afford(len(words) + 1):
        words = words[:2]
    draft.add(f"{rows} = {[(name, draft.literal()) for name in words]}")
    width = draft.between(6, 9)
    header = draft.chance(0.5)
    if header:
        draft.add(f'print("{draft.pick("name", "item", "key").ljust(width)}" + "{draft.pick("n", "size", "points")}")')
        draft.add(draft.maybe(f'print("{draft.choose("-=")}" * {width + 4})'))
    draft.add(f"for {word}, {value} in {draft.pick(rows, f'sorted({rows})', f'{rows}[::-1]')}:")
    draft.add(
        "    "
        + draft.pick(
            f'print(f"{{{word}:<{width}}}{{{value}:>4}}")',
            f'print({word}.ljust({width}, "."), {value})',
            f'print({word}.rjust({width}), "|", str({value}).zfill(3))',
            f'print("{{:>{width}}} {{:03d}}".format({word}, {value}))',
            f'print("%-{width}s%d" % ({word}, {value}))',
        )
    )


@block(level=7, lines=9)
def longest_common_part(draft: Draft) -> None:
    """The longest common prefix or substring of two words, or a score of their longest common subsequence."""
    function = draft.names.one("function")
    a, b = draft.local("i", "j", "at", "best", "table").some("text", "text")
    writer = draft.define()
    shape = draft.between(0, 2)
    with writer.block(f"def {function}({a}, {b}):"):
        if shape == 0:
            writer.add("at = 0", f"while at < min(len({a}), len({b})) and {a}[at] == {b}[at]:", "    at += 1")
            writer.add(f"return {a}[:at]")
        elif shape == 1:
            writer.add('best = ""', f"for i in range(len({a})):", f"    for j in range(i + 1, len({a}) + 1):")
            writer.add(
                f"        if {a}[i:j] in {b} and j - i > len(best):", f"            best = {a}[i:j]", "return best"
            )
        else:
            gain = draft.pick("1", "1", "2")
            writer.add(f"table = [[0] * (len({b}) + 1) for _ in range(len({a}) + 1)]", f"for i in range(len({a})):")
            writer.add(f"    for j in range(len({b})):", f"        if {a}[i] == {b}[j]:")
            writer.add(f"            table[i + 1][j + 1] = table[i][j] + {gain}", "        else:")
            writer.add(
                "            table[i + 1][j + 1] = max(table[i][j + 1], table[i + 1][j])", "return table[-1][-1]"
            )
    first = draft.letters(draft.size())
    second = first[: draft.between(1, 3)] + draft.letters(draft.size() - 1)
    draft.show(f'{function}("{first}", "{second}")')
    if draft.chance(0.5):
        draft.show(f'{function}("{draft.word()}", "{draft.word()}")')
