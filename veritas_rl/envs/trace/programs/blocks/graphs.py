"""Searches and walks on graphs, trees, linked lists and grids."""

from veritas_rl.envs.trace.programs.blocks.classes import representation
from veritas_rl.envs.trace.programs.blocks.registry import block
from veritas_rl.envs.trace.programs.draft import Draft
from veritas_rl.envs.trace.programs.expressions import condition, number


def _edges(draft: Draft, nodes: str, extra: int) -> list[tuple[str, str]]:
    """Edges from earlier to later nodes: a tree that reaches every node from the first, and up to `extra` more."""
    edges = [(draft.choose(nodes[:place]), nodes[place]) for place in range(1, len(nodes))]
    for _ in range(extra):
        low, high = sorted(draft.sample(range(len(nodes)), 2))
        edges.append((nodes[low], nodes[high]))
    return sorted(set(edges))


@block(level=8, lines=16, weight=1.5)
def search(draft: Draft) -> None:
    """A graph is searched breadth first or depth first."""
    function, graph = draft.names.some("function", "dict")
    start, seen, waiting, node, other = draft.local("around").some("text", "list", "dict", "char", "item")
    nodes = "".join(sorted(draft.sample("ABCDEFGHK", min(8, draft.size()))))
    edges = _edges(draft, nodes, draft.between(1, 3))
    table = {node: "".join(b for a, b in edges if a == node) for node in nodes}
    order = draft.pick("around[{0}]", "reversed(around[{0}])", "sorted(around[{0}])")
    shape = draft.between(0, 2)
    writer = draft.define()
    if shape == 0:
        with writer.block(f"def {function}(around, {start}):"):
            writer.add(f"{seen}, {waiting} = [{start}], [{start}]", f"while {waiting}:")
            writer.add(
                f"    {node} = {waiting}.pop({draft.pick('0', '')})", f"    for {other} in {order.format(node)}:"
            )
            writer.add(f"        if {other} not in {seen}:", f"            {seen}.append({other})")
            writer.add(f"            {waiting}.append({other})")
            writer.add(
                f"    print({node}, {waiting})" if draft.afford(len(nodes)) and draft.chance(0.6) else "",
                f"return {seen}",
            )
        call = f'{function}({graph}, "{nodes[0]}")'
    elif shape == 1:
        with writer.block(f"def {function}(around, {start}, {seen}):"):
            writer.add(f"if {start} in {seen}:", f"    return {seen}")
            lines = [f"for {other} in {order.format(start)}:", f"    {function}(around, {other}, {seen})"]
            mark = f"{seen}.append({start})"
            writer.add(mark, *lines)
            writer.add(
                f"print({start}, len({seen}))" if draft.afford(len(nodes)) and draft.chance(0.5) else "",
                f"return {seen}",
            )
        call = f'{function}({graph}, "{nodes[0]}", [])'
    else:
        with writer.block(f"def {function}(around, {start}):"):
            writer.add(f"{seen} = {{{start}: 0}}", f"{waiting} = [{start}]", f"for {node} in {waiting}:")
            writer.add(f"    for {other} in {order.format(node)}:", f"        if {other} not in {seen}:")
            writer.add(
                f"            {seen}[{other}] = {seen}[{node}] + {draft.between(1, 3)}",
                f"            {waiting}.append({other})",
            )
            writer.add(f"return {seen}")
        call = f'{function}({graph}, "{draft.choose(nodes[:2])}")'
    if draft.chance(0.5):
        draft.add(f"{graph} = {table}")
    else:
        a, b = draft.names.some("char", "item")
        draft.add(f'{graph} = {{{a}: [] for {a} in "{nodes}"}}', f"for {a}, {b} in {[a + b for a, b in edges]}:")
        draft.add(f"    {graph}[{a}].append({b})")
    draft.show(call)


@block(level=8, lines=19)
def linked_list(draft: Draft) -> None:
    """A linked list of objects that is built, walked, reversed or changed."""
    name, names = draft.names.one("class"), draft.local()
    value, rest = names.some("attribute", "attribute")
    with draft.define().block(f"class {name}:") as writer:
        writer.add(
            f"def __init__(self, {value}, {rest}=None):", f"    self.{value} = {value}", f"    self.{rest} = {rest}"
        )
        writer.add("def __repr__(self):", f'    return f"{{self.{value}}}{draft.pick("->", ",", " ")}{{self.{rest}}}"')
    build, work = draft.names.some("function", "function")
    head, x, out = draft.local().some("object", "item", "object")
    with draft.define().block(f"def {build}(values):") as writer:
        order = draft.pick("values", "reversed(values)")
        writer.add(f"{head} = None", f"for {x} in {order}:", f"    {head} = {name}({x}, {head})", f"return {head}")
    writer = draft.define()
    shape = draft.between(0, 2)
    with writer.block(f"def {work}({head}):"):
        if shape == 0:
            writer.add(
                f"{out} = None",
                f"while {head}:",
                f"    {head}.{rest}, {out}, {head} = {out}, {head}, {head}.{rest}",
                f"return {out}",
            )
        elif shape == 1:
            writer.add(f"if {head} is None:", f"    return {draft.pick(0, 1)}")
            writer.add(f"return {number(draft, [f'{head}.{value}'], 1)} {draft.pick('+', '-')} {work}({head}.{rest})")
        else:
            writer.add(
                f"{out} = {head}",
                f"while {out} and {out}.{rest}:",
                f"    if {condition(draft, [f'{out}.{rest}.{value}'])}:",
            )
            writer.add(
                f"        {out}.{rest} = {out}.{rest}.{rest}",
                "    else:",
                f"        {out} = {out}.{rest}",
                f"return {head}",
            )
    chain = draft.names.one("object")
    draft.add(f"{chain} = {build}({draft.numbers() if draft.chance(0.4) else draft.ints()})")
    draft.show(chain)
    draft.show(f"{work}({chain})")


@block(level=8, lines=22, weight=1.3)
def search_tree(draft: Draft) -> None:
    """A binary search tree, as objects or nested dicts, and a walk over it."""
    name, names = draft.names.one("class"), draft.local("left", "right")
    (value,) = names.some("attribute")
    put, walk, deep = names.some("method", "method", "method")
    sign = draft.pick("<", ">")
    with draft.define().block(f"class {name}:") as writer:
        writer.add(f"def __init__(self, {value}):", f"    self.{value} = {value}", "    self.left = self.right = None")
        with writer.block(f"def {put}(self, new):"):
            if draft.chance(0.5):
                writer.add(f"if new == self.{value}:", "    return False")
            writer.add(f"if new {sign} self.{value}:")
            for side in ("left", "right"):
                writer.add(
                    "else:" if side == "right" else "",
                    f"    if self.{side}:",
                    f"        return self.{side}.{put}(new)",
                    f"    self.{side} = {name}(new)",
                )
            writer.add("return True")
        with writer.block(f"def {walk}(self):"):
            parts = [
                f"(self.left.{walk}() if self.left else [])",
                f"[self.{value}]",
                f"(self.right.{walk}() if self.right else [])",
            ]
            draft.random.shuffle(parts)
            writer.add(f"return {' + '.join(parts)}")
        with writer.block(f"def {deep}(self):"):
            below = [f"self.{side}.{deep}() if self.{side} else {draft.pick(0, 0, 1)}" for side in ("left", "right")]
            writer.add(f"return 1 + {draft.pick('max', 'max', 'min')}({', '.join(below)})")
        representation(writer, name, value)
    root, x = draft.names.some("object", "item")
    values = draft.ints(draft.size() + 2)
    draft.add(f"{root} = {name}({draft.literal()})", f"for {x} in {values}:", f"    {root}.{put}({x})")
    draft.show(f"{root}.{walk}()")
    draft.show(f"{root}.{deep}()")
    if draft.chance(0.5):
        draft.show(f"{root}.{draft.pick('left', 'right')}")


@block(level=8, lines=15)
def walk_on_a_grid(draft: Draft) -> None:
    """A robot walks over a small map by a string of commands."""
    rows, x, y, char = draft.names.some("list", "number", "number", "char")
    high, wide = draft.between(3, 4), draft.between(3, 5)
    cells = ["".join(draft.choose("....#*") for _ in range(wide)) for _ in range(high)]
    found, steps = draft.names.some("number", "dict")
    commands = "".join(draft.choose("LRUD") for _ in range(draft.turns() + 3))
    draft.add(f"{rows} = {cells}", f"{x}, {y}, {found} = 0, 0, 0")
    draft.add(f'{steps} = {{"L": (-1, 0), "R": (1, 0), "U": (0, -1), "D": (0, 1)}}', f'for {char} in "{commands}":')
    dx, dy = draft.names.some("number", "number")
    nx, ny = draft.names.some("number", "number")
    draft.add(f"    {dx}, {dy} = {steps}[{char}]")
    if draft.chance(0.5):
        draft.add(f"    {nx}, {ny} = ({x} + {dx}) % {wide}, ({y} + {dy}) % {high}")
    else:
        draft.add(
            f"    {nx}, {ny} = {x} + {dx}, {y} + {dy}", f"    if not (0 <= {nx} < {wide} and 0 <= {ny} < {high}):"
        )
        draft.add(
            f'        print("{draft.word()}", {char})' if draft.afford(3) else f"        {found} -= 1",
            "        continue",
        )
    draft.add(
        f'    if {rows}[{ny}][{nx}] == "#":', f"        {draft.pick('continue', f'{found} += {draft.between(2, 5)}')}"
    )
    draft.add(f"    {x}, {y} = {nx}, {ny}", f'    if {rows}[{y}][{x}] == "*":', f"        {found} += 1")
    if draft.afford(len(commands)) and draft.chance(0.6):
        draft.add(f"    print({draft.pick(f'{char}, {x}, {y}', f'{x}, {y}, {found}', f'({x}, {y})')})")
    draft.show(f"({x}, {y}, {found})")


@block(level=9, lines=15)
def living_cells(draft: Draft) -> None:
    """A cellular automaton on a line or on a small grid, shown after each step."""
    function, cells, turn = draft.names.one("function"), draft.names.one("list"), draft.names.one("index")
    row, i, out = draft.local("near", "j").some("list", "index", "list")
    turns = draft.between(2, 4)
    wide = draft.between(5, 9)
    writer = draft.define()
    if draft.chance(0.6):
        rule = draft.between(1, 254)
        with writer.block(f"def {function}({row}):"):
            writer.add(f"{out} = []", f"for {i} in range(len({row})):")
            writer.add(f"    near = {row}[{i} - 1] * 4 + {row}[{i}] * 2 + {row}[({i} + 1) % len({row})]")
            writer.add(f"    {out}.append({rule} >> near & 1)", f"return {out}")
        draft.add(f"{cells} = {[draft.between(0, 1) for _ in range(wide)]}", f"for {turn} in range({turns}):")
        cell = draft.names.one("item")
        on, off = draft.pick(("#", "."), ("*", " "), ("1", "0"), ("x", "-"))
        shown = f'"".join("{on}" if {cell} else "{off}" for {cell} in {cells})'
        draft.add(f"    print({shown})", f"    {cells} = {function}({cells})")
    else:
        with writer.block(f"def {function}({row}):"):
            writer.add(
                f"{out} = [line[:] for line in {row}]",
                f"for {i} in range({wide - 3}):",
                f"    for j in range({wide - 3}):",
            )
            writer.add("        near = 0", "        for a in (-1, 0, 1):", "            for b in (-1, 0, 1):")
            writer.add(
                "                if a or b:",
                f"                    near += {row}[({i} + a) % {wide - 3}][(j + b) % {wide - 3}]",
            )
            stays = f"{row}[{i}][j] and near {draft.pick('== 2', '> 2', '< 4')}"
            writer.add(f"        {out}[{i}][j] = int(near == {draft.pick(3, 3, 2)} or ({stays}))", f"return {out}")
        size = wide - 3
        draft.add(
            f"{cells} = {[[draft.between(0, 1) for _ in range(size)] for _ in range(size)]}",
            f"for {turn} in range({turns}):",
        )
        line = draft.names.one("item")
        draft.add(
            f"    {cells} = {function}({cells})",
            f"    print({draft.pick(cells, f'[sum({line}) for {line} in {cells}]')})",
        )
    draft.printed -= turns
    draft.show(draft.pick(cells, f"len({cells})"))


@block(level=9, lines=14)
def ordered_tasks(draft: Draft) -> None:
    """Tasks are sorted so that each follows the tasks that it depends on."""
    function, needs = draft.names.some("function", "dict")
    table, done, name, before = draft.local("task", "ready").some("dict", "list", "text", "item")
    words = draft.words(min(6, draft.size()))
    wants = {
        word: sorted(draft.sample(words[:place], draft.between(0, min(2, place)))) for place, word in enumerate(words)
    }
    shuffled = draft.sample(list(wants), len(words))
    writer = draft.define()
    if draft.chance(0.5):
        with writer.block(f"def {function}({table}):"):
            writer.add(f"{done} = []", f"while len({done}) < len({table}):")
            ready = f"task not in {done} and all({before} in {done} for {before} in {table}[task])"
            writer.add(f"    ready = {draft.pick('sorted(', 'list(')}task for task in {table} if {ready})")
            writer.add(
                "    print(ready)" if draft.afford(4) else "",
                f"    {done}{draft.pick('.append(ready[0])', ' += ready', '.append(ready[-1])')}",
                f"return {done}",
            )
        call = f"{function}({needs})"
    else:
        with writer.block(f"def {function}({name}, {table}, {done}):"):
            writer.add(
                f"if {name} in {done}:",
                "    return 0",
                f"total = {draft.between(1, 3)}",
                f"for {before} in {table}[{name}]:",
            )
            writer.add(f"    total += {function}({before}, {table}, {done})", f"{done}.append({name})")
            writer.add(f"print({name}, total)" if draft.afford(len(words)) else "", "return total")
        call = f'{function}("{words[-1]}", {needs}, [])'
    draft.add(f"{needs} = {{", *(f'    "{word}": {wants[word]},' for word in shuffled), "}")
    draft.show(call)
