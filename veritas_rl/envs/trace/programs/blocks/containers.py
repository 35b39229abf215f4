"""Small programs on lists, dicts, tuples and sets. No name is bound to a set, so no output shows its order."""

from veritas_rl.envs.trace.programs.blocks.registry import block
from veritas_rl.envs.trace.programs.draft import Draft, Variable, mapping
from veritas_rl.envs.trace.programs.expressions import condition, number, of_list


@block(level=4, lines=6)
def kept_and_changed(draft: Draft) -> None:
    """A loop that keeps, changes or drops members of a list."""
    values = draft.numbers()
    out, item = draft.names.some("list", "item")
    draft.add(f"{out} = []", f"for {item} in {values}:")
    draft.add(f"    if {condition(draft, [item])}:", f"        {out}.append({number(draft, [item], 1)})")
    roll = draft.random.random()
    if roll < 0.3:
        draft.add("    else:", f"        {out}.insert(0, {item})")
    elif roll < 0.5:
        draft.add(
            f"    elif {condition(draft, [item])}:", f"        {draft.pick('break', 'continue', f'{out}.append(0)')}"
        )
    draft.show(out)
    draft.keep(out, "ints", small=False)


@block(level=4, lines=5)
def comprehensions(draft: Draft) -> None:
    """List, dict and set comprehensions over a list."""
    values = draft.numbers()
    x, y = draft.names.some("item", "index")
    made = Variable(values, "ints", 3)
    lines = (
        of_list(draft, made, x)[0],
        f"{{{x}: {number(draft, [x], 1)} for {x} in {values}}}",
        f"sorted({{{number(draft, [x], 1)} for {x} in {values}}})",
        f"len({{{x} % {draft.between(2, 5)} for {x} in {values}}})",
        f"[({y}, {x}) for {y}, {x} in enumerate({values}) if {condition(draft, [x])}]",
        f"sum({number(draft, [x], 1)} for {x} in {values})",
        f"[{x} + {y} for {x} in {values}[:{draft.between(2, 3)}] for {y} in range({draft.between(2, 3)})]",
        f"[{draft.pick('a', 'b')!r} if {condition(draft, [x])} else {draft.literal()} for {x} in {values}]",
        f"{draft.pick('any', 'all')}({condition(draft, [x])} for {x} in {values})",
    )
    for line in draft.sample(lines, draft.between(2, 3)):
        draft.show(line)


@block(level=5, lines=9)
def grid(draft: Draft) -> None:
    """A matrix is made, and its rows, columns or diagonal are summed, printed or changed."""
    rows, i, j, row = draft.names.some("list", "index", "index", "item")
    high, wide = draft.between(2, 3 + draft.level // 5), draft.between(2, 3 + draft.level // 5)
    cell = number(draft, [i, j], 2)
    shape = draft.between(0, 2)
    if shape == 0:
        draft.add(f"{rows} = [[{cell} for {j} in range({wide})] for {i} in range({high})]")
    elif shape == 1:
        draft.add(f"{rows} = {[draft.ints(wide) for _ in range(high)]}")
    else:
        draft.add(f"{rows} = [[0] * {wide} for _ in range({high})]", f"for {i} in range({high}):")
        draft.add(f"    for {j} in range({wide}):")
        draft.add(f"        {rows}[{i}][{j}] = {cell}")
    if draft.chance(0.4):
        place = f"{rows}[{draft.between(0, high - 1)}][{draft.between(0, wide - 1)}]"
        draft.add(f"{place} {draft.pick('=', '+=')} {draft.literal()}")
    if draft.chance(0.6) and draft.afford(high):
        draft.add(f"for {row} in {rows}:", f"    print({draft.pick(row, f'*{row}', f'sum({row})', f'{row}[::-1]')})")
    k = draft.names.one("index")
    options = (
        f"[sum({row}) for {row} in {rows}]",
        f"[list({row}) for {row} in zip(*{rows})]",
        f"[{rows}[{k}][{k}] for {k} in range({min(high, wide)})]",
        f"max(max({row}) for {row} in {rows})",
        f"[{k} for {row} in {rows} for {k} in {row} if {condition(draft, [k])}]",
        f"sum({rows}[{k}][-1] for {k} in range(len({rows})))",
        f"{rows}[-1][0] - {rows}[0][-1]",
    )
    for option in draft.sample(options, draft.between(1, 2)):
        draft.show(option)


@block(level=5, lines=6)
def tally(draft: Draft) -> None:
    """The members of a string or a list are counted in a dict."""
    counts, item = draft.names.some("dict", "char")
    source = draft.text() if draft.chance(0.5) else draft.numbers()
    draft.add(f"{counts} = {{}}", f"for {item} in {source}:")
    if draft.chance(0.5):
        draft.add(f"    {counts}[{item}] = {counts}.get({item}, {draft.pick(0, 0, 1)}) + {draft.pick(1, 1, 2)}")
    else:
        draft.add(f"    if {item} not in {counts}:", f"        {counts}[{item}] = 0", f"    {counts}[{item}] += 1")
    key, value = draft.names.some("char", "number")
    options = (
        counts,
        f"sorted({counts}.items(), key=lambda pair: (-pair[1], pair[0]))[:{draft.between(2, 3)}]",
        f"max({counts}.values())",
        f"[{key} for {key}, {value} in {counts}.items() if {value} > 1]",
        f"sorted({counts})",
        f"len({counts})",
        f"sorted(set({counts}.values()))",
    )
    for option in draft.sample(options, draft.between(1, 2)):
        draft.show(option)


@block(level=6, lines=8)
def groups(draft: Draft) -> None:
    """Members are grouped in a dict of lists."""
    table, item, key = draft.names.some("dict", "item", "number")
    words = draft.chance(0.5)
    source = draft.texts() if words else draft.numbers()
    rule = draft.pick(f"len({item})", f"{item}[0]", f"{item}[-1]") if words else f"{item} % {draft.between(2, 4)}"
    draft.add(f"{table} = {{}}", f"for {item} in {source}:")
    if draft.chance(0.5):
        draft.add(f"    {table}.setdefault({rule}, []).append({item})")
    else:
        draft.add(f"    {key} = {rule}", f"    if {key} in {table}:", f"        {table}[{key}].append({item})")
        draft.add("    else:", f"        {table}[{key}] = [{item}]")
    part = draft.names.one("list")
    if draft.chance(0.6) and draft.afford(3):
        draft.add(f"for {key}, {part} in sorted({table}.items()):")
        draft.add(f"    print({key}, {draft.pick(part, f'len({part})', f'{part}[0]', f'sorted({part})')})")
    else:
        draft.show(table)
        draft.show(f"{{{key}: len({part}) for {key}, {part} in {table}.items()}}")


@block(level=6, lines=8)
def records(draft: Draft) -> None:
    """Tuples or dicts with a name and numbers are sorted, filtered and summed."""
    rows, row, name, score = draft.names.some("list", "item", "text", "number")
    as_dict = draft.chance(0.4)
    key, other = draft.sample(("age", "price", "size", "points", "rank"), 2)
    made: list[object] = []
    for word in draft.words():
        values = draft.literal(), draft.literal()
        made.append({"name": word, key: values[0], other: values[1]} if as_dict else (word, *values))
    if len(repr(made)) > 70:
        draft.add(f"{rows} = [", *(f"    {entry!r}," for entry in made), "]")
    else:
        draft.add(f"{rows} = {made!r}")
    first, second = (f"{row}['{key}']", f"{row}['name']") if as_dict else (f"{row}[1]", f"{row}[0]")
    sign = draft.pick("", "-")
    draft.add(f"{rows}.sort(key=lambda {row}: ({sign}{first}, {second}))" if draft.chance(0.5) else f"{rows}.reverse()")
    turns = min(len(made), draft.between(1, 4))
    if draft.afford(turns) and draft.chance(0.6):
        if as_dict or draft.chance(0.3):
            draft.add(f"for {row} in {rows}[:{turns}]:", f"    print({second}, {first})")
        else:
            draft.add(f"for {name}, {score}, _ in {rows}[:{turns}]:", f'    print(f"{{{name}}}: {{{score}}}")')
    options = (
        f"sum({first} for {row} in {rows})",
        f"[{second} for {row} in {rows} if {first} > {draft.literal()}]",
        f"max({rows}, key=lambda {row}: ({first}, {second}))",
        f"{{{second}: {first} for {row} in {rows}}}",
        f"sorted({second} for {row} in {rows})",
    )
    for option in draft.sample(options, draft.between(1, 2)):
        draft.show(option)


@block(level=6, lines=10)
def sorting_by_hand(draft: Draft) -> None:
    """Bubble, selection or insertion sort, which counts its swaps or prints its passes."""
    function = draft.names.one("function")
    xs, i, j, swaps = draft.local().some("list", "index", "index", "number")
    sign = draft.pick(">", "<")
    values = draft.ints()
    shown = draft.afford(len(values) - 1) and draft.chance(0.6)
    with draft.define().block(f"def {function}({xs}):") as writer:
        writer.add(f"{swaps} = 0")
        shape = draft.between(0, 2)
        if shape == 0:
            writer.add(f"for {i} in range(len({xs}) - 1):", f"    for {j} in range(len({xs}) - 1 - {i}):")
            writer.add(f"        if {xs}[{j}] {sign} {xs}[{j} + 1]:")
            writer.add(f"            {xs}[{j}], {xs}[{j} + 1] = {xs}[{j} + 1], {xs}[{j}]", f"            {swaps} += 1")
        elif shape == 1:
            writer.add(
                f"for {i} in range(len({xs}) - 1):", f"    low = {i}", f"    for {j} in range({i} + 1, len({xs})):"
            )
            writer.add(f"        if {xs}[low] {sign} {xs}[{j}]:", f"            low = {j}", f"    if low != {i}:")
            writer.add(f"        {xs}[{i}], {xs}[low] = {xs}[low], {xs}[{i}]", f"        {swaps} += 1")
        else:
            writer.add(f"for {i} in range(1, len({xs})):", f"    {j} = {i}")
            writer.add(f"    while {j} > 0 and {xs}[{j} - 1] {sign} {xs}[{j}]:")
            writer.add(f"        {xs}[{j} - 1], {xs}[{j}] = {xs}[{j}], {xs}[{j} - 1]", f"        {j} -= 1")
            writer.add(f"        {swaps} += 1")
        if shown:
            writer.add(f"    print({draft.pick(xs, f'{i}, {xs}', f'{swaps}, {xs}[:3]')})")
        writer.add(f"return {swaps}")
    if draft.chance(0.5):
        name = draft.names.one("list")
        draft.add(f"{name} = {values}")
        draft.show(f"{function}({name})")
        draft.show(name)
        draft.keep(name, "ints", len(values))
    else:
        draft.show(f"{function}({values})")


@block(level=6, lines=11)
def halving_search(draft: Draft) -> None:
    """Binary search in a sorted list."""
    function = draft.names.one("function")
    xs, wanted, low, high, middle = draft.local().some("list", "number", "number", "number", "index")
    shown = draft.afford(4) and draft.chance(0.6)
    with draft.define().block(f"def {function}({xs}, {wanted}):") as writer:
        writer.add(
            f"{low}, {high} = 0, len({xs}) - 1", f"while {low} <= {high}:", f"    {middle} = ({low} + {high}) // 2"
        )
        writer.add(f"    print({low}, {middle}, {high})" if shown else "")
        writer.add(
            f"    if {xs}[{middle}] == {wanted}:", f"        return {middle}", f"    if {xs}[{middle}] < {wanted}:"
        )
        writer.add(f"        {low} = {middle} + 1", "    else:", f"        {high} = {middle} - 1")
        writer.add(f"return {draft.pick('-1', 'None', low)}")
    values = sorted(set(draft.ints(draft.size() + 3, 0, 60)))
    draft.show(f"{function}({values}, {draft.choose(values) if draft.chance(0.7) else draft.between(0, 60)})")
    if draft.chance(0.5):
        draft.show(f"{function}({values}, {draft.between(0, 60)})")


@block(level=5, lines=6)
def running_sums(draft: Draft) -> None:
    """Prefix sums, differences or sums of a sliding window."""
    values = draft.numbers(4)
    out, i, x = draft.names.some("list", "index", "item")
    shape = draft.between(0, 3)
    if shape == 0:
        draft.add(
            f"{out} = [{draft.pick(0, values + '[0]')}]", f"for {x} in {values}:", f"    {out}.append({out}[-1] + {x})"
        )
    elif shape == 1:
        width = draft.between(2, 3)
        draft.add(f"{out} = []", f"for {i} in range(len({values}) - {width - 1}):")
        draft.add(f"    {out}.append({draft.pick('sum', 'max', 'min')}({values}[{i}:{i} + {width}]))")
    elif shape == 2:
        gap = draft.pick(f"{values}[{i}] - {values}[{i} - 1]", f"max({values}[{i}], {values}[{i} - 1])")
        draft.add(f"{out} = [{gap} for {i} in range(1, len({values}))]")
    else:
        first, second = draft.names.some("number", "number")
        sign = draft.pick("-", "+", "*")
        draft.add(f"{out} = [{second} {sign} {first} for {first}, {second} in zip({values}, {values}[1:])]")
    draft.show(out)
    draft.keep(out, "ints", 1, small=False)
    if draft.chance(0.4):
        draft.show(f"{out}.index(max({out}))")


@block(level=6, lines=9)
def merged_lists(draft: Draft) -> None:
    """Two lists are merged, paired, or compared as sets."""
    first, second = draft.numbers(), draft.numbers()
    a, b, out = draft.names.some("item", "number", "list")
    shape = draft.between(0, 2)
    if shape == 0:
        sign = draft.choose("&|-^")
        draft.show(f"sorted(set({first}) {sign} set({second}))")
        draft.show(f"[{a} for {a} in {first} if {a} {draft.pick('in', 'not in')} {{{draft.literal()}, *{second}}}]")
    elif shape == 1:
        draft.add(f"{out} = []", f"for {a}, {b} in zip({first}, {second}):")
        draft.add(f"    if {condition(draft, [a, b])}:", f"        {out}.append({number(draft, [a, b], 1)})")
        draft.add("    else:", f"        {out}.extend([{a}, {b}])")
        draft.show(out)
        draft.keep(out, "ints", small=False)
    else:
        function = draft.names.one("function")
        x, y, made = draft.local("i", "j").some("list", "list", "list")
        with draft.define().block(f"def {function}({x}, {y}):") as writer:
            writer.add("i = j = 0", f"{made} = []")
            writer.add(f"while i < len({x}) and j < len({y}):", f"    if {x}[i] {draft.pick('<=', '<')} {y}[j]:")
            writer.add(
                f"        {made}.append({x}[i])", "        i += 1", "    else:", f"        {made}.append({y}[j])"
            )
            writer.add("        j += 1", f"return {made} + {x}[i:] + {y}[j:]")
        draft.show(
            f"{function}(sorted({first}), sorted({second}))" if draft.chance(0.7) else f"{function}({first}, {second})"
        )


@block(level=6, lines=9)
def stock_list(draft: Draft) -> None:
    """A dict of amounts, which a list of orders changes."""
    stock, key, change = draft.names.some("dict", "text", "item")
    words = draft.words()
    orders = [
        (draft.choose(words) if draft.chance(0.8) else draft.word(), draft.between(-6, 9)) for _ in range(draft.size())
    ]
    draft.add(f"{stock} = {mapping({word: draft.between(1, 9) for word in words})}")
    draft.add(f"for {key}, {change} in {orders}:" if len(repr(orders)) < 80 else f"for {key}, {change} in [")
    if draft.body.writer.lines[-1].endswith("["):
        draft.add(*(f"    {order}," for order in orders), "]:")
    with_print = draft.afford(2)
    miss = f'print("no", {key})' if with_print else f"{stock}[{key}] = {draft.pick(change, 0)}"
    draft.add(f"    if {key} not in {stock}:", f"        {miss}")
    draft.add(f"    elif {stock}[{key}] + {change} < 0:")
    draft.add(f"        {draft.pick(f'del {stock}[{key}]', f'{stock}[{key}] = 0', f'{stock}.pop({key})')}")
    draft.add("    else:", f"        {stock}[{key}] += {change}")
    draft.show(stock)
    draft.show(draft.pick(f"sum({stock}.values())", f"len({stock})", f"sorted({stock}, reverse=True)"))


@block(level=5, lines=6)
def a_line_of_people(draft: Draft) -> None:
    """A list used as a queue or a stack."""
    queue, item, turn = draft.names.some("list", "text", "index")
    words = draft.words()
    draft.add(f"{queue} = {words}")
    turns = draft.turns()
    take = draft.pick("pop(0)", "pop()")
    draft.add(f"for {turn} in range({turns}):", f"    {item} = {queue}.{take}")
    then = draft.pick(
        f"{queue}.append({item})", f"{queue}.insert({draft.between(0, 2)}, {item})", f"{queue}.append({item}.upper())"
    )
    if draft.chance(0.5):
        draft.add(
            f"    if {condition(draft, [turn])}:",
            f"        {queue}.append({item}[::-1])",
            "    else:",
            f"        {then}",
        )
    else:
        draft.add(f"    {then}")
    if draft.afford(turns) and draft.chance(0.5):
        draft.add(f"    print({draft.pick(item, f'{turn}, {item}', f'{item}, len({queue})')})")
    draft.show(draft.pick(queue, f'" ".join({queue})', f"{queue}[0]"))


@block(level=6, lines=7)
def removals(draft: Draft) -> None:
    """Members of a list are deleted by index, slice or value, and duplicates are dropped."""
    xs, x, out = draft.names.some("list", "item", "list")
    values = draft.ints(draft.size() + 3, 0, 9)
    draft.add(f"{xs} = {values}")
    for shape in draft.sample(range(5), draft.between(2, 3)):
        if shape == 0:
            draft.add(f"del {xs}[{draft.pick(0, -1, 1)}]")
        elif shape == 1:
            draft.add(
                f"del {xs}[{draft.between(0, 1)}:{draft.between(1, 3)}]"
                if draft.chance(0.5)
                else f"{xs}[1:2] = [{draft.literal()}]"
            )
        elif shape == 2:
            draft.add(f"if {(v := draft.choose(values))} in {xs}:", f"    {xs}.remove({v})")
        elif shape == 3:
            draft.add(f"{xs}[0], {xs}[-1] = {xs}[-1], {xs}[0]")
        else:
            draft.add(f"{xs} = {xs}[{(k := draft.between(1, 2))}:] + {xs}[:{k}]")
    draft.show(xs)
    if draft.chance(0.6):
        draft.add(f"{out} = []", f"for {x} in {xs}:", f"    if {x} not in {out}:", f"        {out}.append({x})")
        draft.show(draft.pick(out, f"len({xs}) - len({out})", f"sorted({out})"))
