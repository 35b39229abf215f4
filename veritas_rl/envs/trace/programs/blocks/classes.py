"""Classes with methods and special methods. Every class has a `__repr__`, so that no object prints its address."""

from veritas_rl.envs.trace.programs.blocks.registry import block
from veritas_rl.envs.trace.programs.draft import Draft, mapping
from veritas_rl.envs.trace.programs.expressions import condition, number
from veritas_rl.envs.trace.programs.writer import Writer


def representation(writer: Writer, name: str, *fields: str) -> None:
    """Write a `__repr__` that shows a class name and some fields, at the current indentation."""
    shown = ", ".join(f"{{self.{field}!r}}" for field in fields)
    writer.add("def __repr__(self):", f'    return f"{name}({shown})"')


@block(level=6, lines=18, weight=2.0)
def numbers_in_an_object(draft: Draft) -> None:
    """A class with one to three numbers, and methods made of random rules that read and change them."""
    name, names = draft.names.one("class"), draft.local()
    fields = names.some(*["attribute"] * draft.between(1, 3))
    methods: list[tuple[str, int]] = []
    atoms = [f"self.{field}" for field in fields]
    with draft.define().block(f"class {name}:") as writer:
        shared = names.one("attribute") if draft.chance(0.3) else ""
        writer.add(f"{shared} = {draft.literal()}" if shared else "")
        given = fields[: draft.between(1, len(fields))]
        with writer.block(f"def __init__(self, {', '.join(given)}):"):
            for field in fields:
                writer.add(f"self.{field} = {field if field in given else draft.between(0, 5)}")
        if shared:
            atoms.append(draft.pick(f"self.{shared}", f"{name}.{shared}"))
        for _ in range(draft.between(2, 3 if draft.level < 9 else 4)):
            methods.append(_method(draft, writer, names.one("method"), fields, atoms))
        representation(writer, name, *fields)
    made = draft.names.some(*["object"] * draft.between(1, 2))
    for thing in made:
        draft.add(f"{thing} = {name}({', '.join(str(draft.literal()) for _ in given)})")
    for _ in range(draft.between(2, 4 if draft.level < 9 else 6)):
        thing, (method, arguments) = draft.choose(made), draft.choose(methods)
        call = f"{thing}.{method}({', '.join(draft.number() for _ in range(arguments))})"
        if draft.afford():
            draft.add(draft.shown(call))
        else:
            draft.add(call)
    if draft.chance(0.3):
        turn = draft.names.one("index")
        method, arguments = draft.choose(methods)
        draft.add(f"for {turn} in range({draft.turns()}):")
        draft.add(f"    {made[0]}.{method}({', '.join([turn] * arguments)})")
    draft.show(draft.pick(made[0], made[-1], f"{made[0]}.{fields[0]}", f"[{', '.join(made)}]"))


def _method(draft: Draft, writer: Writer, method: str, fields: list[str], atoms: list[str]) -> tuple[str, int]:
    """Write a random method; return its name and its number of arguments besides `self`."""
    takes = draft.chance(0.6)
    argument = draft.local(*fields).one("number")
    field = draft.choose(fields)
    known = [*atoms, argument] if takes else atoms
    value = argument if takes else str(draft.literal())
    modulus = draft.between(20, 99)
    with writer.block(f"def {method}(self{f', {argument}' if takes else ''}):"):
        shape = draft.between(0, 5)
        if shape == 0:
            writer.add(f"return {number(draft, known, 2)}")
        elif shape == 1:
            writer.add(f"self.{field} {draft.pick('+=', '-=')} {value}", f"return self.{field}")
        elif shape == 2:
            writer.add(f"if {condition(draft, known)}:", f"    return {draft.pick('False', 'None', '-1')}")
            writer.add(
                f"self.{field} = ({number(draft, known, 1)}) % {modulus}",
                f"return {draft.pick('True', f'self.{field}')}",
            )
        elif shape == 3:
            writer.add(f"if {condition(draft, known)}:", f"    self.{field} += {value}", "else:")
            writer.add(
                f"    self.{draft.choose(fields)} -= {draft.literal()}", "return self" if draft.chance(0.4) else ""
            )
        elif shape == 4:
            writer.add(f"old = self.{field}", f"self.{field} = {number(draft, known, 1)}".replace("*", "+"))
            writer.add(f"return old, self.{field}")
        else:
            turns = draft.between(2, draft.limits.turns[1])
            writer.add(f"for i in range({turns}):", f"    if {condition(draft, ['i', *atoms])}:")
            writer.add(f"        self.{field} += {draft.pick('i', value)}", f"return self.{field}")
    return method, int(takes)


@block(level=7, lines=22, weight=1.5)
def account(draft: Draft) -> None:
    """Accounts with deposits and withdrawals, which may be refused, and a history."""
    name, names = draft.names.one("class"), draft.local()
    owner, balance, history = names.some("attribute", "attribute", "attribute")
    put, take, move = names.some("method", "method", "method")
    error = draft.names.one("error") if draft.chance(0.5) else ""
    fee = draft.between(0, 2)
    if error:
        draft.define().add(f"class {error}(Exception):", "    pass")
    with draft.define().block(f"class {name}:") as writer:
        with writer.block(f"def __init__(self, {owner}, {balance}={draft.between(0, 20)}):"):
            writer.add(f"self.{owner} = {owner}", f"self.{balance} = {balance}", f"self.{history} = []")
        with writer.block(f"def {put}(self, amount):"):
            if draft.chance(0.5):
                problem = draft.pick("0", "1", "2")
                writer.add(
                    f"if amount <= {problem}:", f'    raise {error}("{draft.word()}")' if error else "    return False"
                )
            entry = draft.pick("amount", '("in", amount)')
            writer.add(f"self.{balance} += amount", f"self.{history}.append({entry})", "return True")
        with writer.block(f"def {take}(self, amount):"):
            writer.add(f"if amount + {fee} > self.{balance}:" if fee else f"if amount > self.{balance}:")
            writer.add(
                f'    raise {error}(f"{{self.{owner}}} has {{self.{balance}}}")' if error else "    return False"
            )
            writer.add(
                f"self.{balance} -= amount{f' + {fee}' if fee else ''}",
                f"self.{history}.append(-amount)",
                "return True",
            )
        if draft.chance(0.6):
            with writer.block(f"def {move}(self, other, amount):"):
                writer.add(f"if self.{take}(amount):", f"    other.{put}(amount)", "    return True", "return False")
        else:
            move = ""
        representation(writer, name, owner, balance)
    one, two = draft.names.some("object", "object")
    first, second = draft.words(2)
    draft.add(f'{one} = {name}("{first}", {draft.between(10, 60)})', f'{two} = {name}("{second}")')
    caught = draft.names.one("text")
    for _ in range(draft.between(2, 4 if draft.level < 9 else 6)):
        thing = draft.pick(one, two)
        amount = draft.between(0, 40)
        call = f"{thing}.{draft.pick(put, take)}({amount})"
        if move and draft.chance(0.35):
            call = f"{one}.{move}({two}, {amount})" if thing == one else f"{two}.{move}({one}, {amount})"
        shown = f"print({call})" if draft.afford() and draft.chance(0.6) else call
        if error:
            draft.add(
                "try:",
                f"    {shown}",
                f"except {error} as {caught}:",
                f'    print("{draft.pick("error", "no", "failed")}:", {caught})',
            )
            draft.printed -= 1
        else:
            draft.add(shown)
    draft.printed -= 2
    draft.add(f"print({one}, {two})", f"print({draft.pick(one, two)}.{history})")


@block(level=7, lines=17, weight=1.5)
def own_container(draft: Draft) -> None:
    """A stack or a queue, optionally bounded, with special methods of containers."""
    name, names = draft.names.one("class"), draft.local()
    (stored,) = names.some("attribute")
    put, take = names.some("method", "method")
    limit = draft.between(2, 4)
    first_out = draft.chance(0.5)
    specials = draft.sample(("len", "contains", "getitem", "iter", "bool", "call"), draft.between(2, 4))
    with draft.define().block(f"class {name}:") as writer:
        writer.add("def __init__(self):", f"    self.{stored} = []")
        with writer.block(f"def {put}(self, value):"):
            if draft.chance(0.6):
                dropped = draft.pick("return False", f"self.{stored}.pop(0)", f"print({draft.said()}, value)")
                writer.add(f"if len(self.{stored}) >= {limit}:", f"    {dropped}")
            writer.add(f"self.{stored}.append(value)", "return True")
        with writer.block(f"def {take}(self):"):
            writer.add(f"if not self.{stored}:", f"    return {draft.pick('None', '-1', '0')}")
            writer.add(f"return self.{stored}.pop({'0' if first_out else ''})")
        bodies = {
            "len": ("def __len__(self):", f"    return len(self.{stored})"),
            "contains": (
                "def __contains__(self, value):",
                f"    return {draft.pick('', 'not ')}value in self.{stored}",
            ),
            "getitem": ("def __getitem__(self, place):", f"    return self.{stored}[place % len(self.{stored})]"),
            "iter": ("def __iter__(self):", f"    return iter(self.{stored}{draft.pick('', '[::-1]')})"),
            "bool": ("def __bool__(self):", f"    return len(self.{stored}) > {draft.between(0, 2)}"),
            "call": ("def __call__(self, extra):", f"    return sum(self.{stored}) + extra"),
        }
        for special in specials:
            writer.add(*bodies[special])
        representation(writer, name, stored)
    thing, x = draft.names.some("object", "item")
    draft.add(f"{thing} = {name}()")
    values = draft.ints()
    if draft.chance(0.5):
        draft.add(f"for {x} in {values}:", f"    {thing}.{put}({x})")
        taken = draft.between(0, 2)
    else:
        taken = 0
        for value in values[:4]:
            draft.add(f"{thing}.{put}({value})")
            if draft.chance(0.3):
                draft.show(f"{thing}.{take}()")
    draft.add(*[f"{thing}.{take}()"] * taken, f"{thing}.{put}({draft.literal()})")
    uses = {
        "len": f"len({thing})",
        "contains": f"{draft.choose(values)} in {thing}",
        "getitem": f"{thing}[{draft.between(0, 5)}]",
        "iter": draft.pick(f"list({thing})", f"[{x} * 2 for {x} in {thing}]", f"sum({thing})"),
        "bool": f'"{draft.word()}" if {thing} else "{draft.word()}"',
        "call": f"{thing}({draft.between(1, 9)})",
    }
    for special in specials:
        draft.show(uses[special])
    draft.show(thing)


@block(level=7, lines=16)
def vectors(draft: Draft) -> None:
    """A small value class with arithmetic and comparison."""
    name, names = draft.names.one("class"), draft.local()
    x, y = names.some("attribute", "attribute")
    specials = draft.sample(("add", "sub", "mul", "eq", "lt", "neg", "abs"), draft.between(2, 4))
    size = draft.pick(f"abs(self.{x}) + abs(self.{y})", f"max(self.{x}, self.{y})", f"self.{x} ** 2 + self.{y} ** 2")
    with draft.define().block(f"class {name}:") as writer:
        with writer.block(f"def __init__(self, {x}, {y}={draft.between(0, 3)}):"):
            writer.add(f"self.{x} = {x}", f"self.{y} = {y}")
        bodies = {
            "add": ("def __add__(self, other):", f"    return {name}(self.{x} + other.{x}, self.{y} + other.{y})"),
            "sub": ("def __sub__(self, other):", f"    return {name}(self.{x} - other.{x}, self.{y} - other.{y})"),
            "mul": (
                "def __mul__(self, factor):",
                f"    return {name}(self.{x} * factor, self.{y} {draft.pick('* factor', '+ factor')})",
            ),
            "eq": (
                "def __eq__(self, other):",
                f"    return self.{x} == other.{x} {draft.pick('and', 'or')} self.{y} == other.{y}",
            ),
            "lt": ("def __lt__(self, other):", f"    return (self.{y}, self.{x}) < (other.{y}, other.{x})"),
            "neg": ("def __neg__(self):", f"    return {name}(-self.{x}, {draft.pick('-', '')}self.{y})"),
            "abs": ("def __abs__(self):", f"    return {size}"),
        }
        for special in specials:
            writer.add(*bodies[special])
        representation(writer, name, x, y)
    a, b = draft.names.some("object", "object")
    draft.add(
        f"{a} = {name}({draft.literal()}, {draft.literal()})",
        f"{b} = {name}({draft.literal()}{draft.maybe(f', {draft.between(0, 9)}')})",
    )
    uses = {
        "add": f"{a} + {b}",
        "sub": f"{a} - {b}",
        "mul": f"{draft.pick(a, b)} * {draft.between(2, 5)}",
        "eq": f"{a} {draft.pick('==', '!=')} {b}",
        "lt": f"sorted([{a}, {b}, {name}({draft.literal()}, {draft.literal()})])",
        "neg": f"-{a}",
        "abs": f"abs({b})",
    }
    for special in specials:
        draft.show(uses[special])


@block(level=7, lines=18)
def stock_keeping(draft: Draft) -> None:
    """A class that keeps amounts by name and reports on them."""
    name, names = draft.names.one("class"), draft.local()
    stored, log = names.some("attribute", "attribute")
    put, take, report = names.some("method", "method", "method")
    words = draft.words(draft.between(2, 4))
    with draft.define().block(f"class {name}:") as writer:
        writer.add("def __init__(self, start):", f"    self.{stored} = dict(start)", f"    self.{log} = []")
        with writer.block(f"def {put}(self, key, amount={draft.between(1, 3)}):"):
            writer.add(f"self.{stored}[key] = self.{stored}.get(key, 0) + amount", f'self.{log}.append("+" + key)')
        with writer.block(f"def {take}(self, key, amount=1):"):
            writer.add(
                f"left = self.{stored}.get(key, 0) - amount",
                "if left < 0:",
                f'    self.{log}.append("!" + key)',
                "    return False",
            )
            if draft.chance(0.6):
                writer.add("if left == 0:", f"    del self.{stored}[key]", "else:", f"    self.{stored}[key] = left")
            else:
                writer.add(f"self.{stored}[key] = left")
            writer.add("return True")
        with writer.block(f"def {report}(self):"):
            if draft.afford(len(words)):
                writer.add(f"for key in sorted(self.{stored}):", f'    print(f"{{key:<7}}{{self.{stored}[key]:>3}}")')
            writer.add(
                f"return {draft.pick(f'sum(self.{stored}.values())', f'len(self.{stored})', f'self.{log}[-2:]')}"
            )
        representation(writer, name, stored)
    thing = draft.names.one("object")
    draft.add(f"{thing} = {name}({mapping({word: draft.between(1, 6) for word in words})})")
    for _ in range(draft.between(3, 5)):
        word = draft.choose(words) if draft.chance(0.8) else draft.word()
        if draft.chance(0.4):
            draft.add(f'{thing}.{put}("{word}"{draft.maybe(f", {draft.between(1, 9)}")})')
        elif draft.afford():
            draft.add(f'print("{word}", {thing}.{take}("{word}", {draft.between(1, 6)}))')
        else:
            draft.add(f'{thing}.{take}("{word}", {draft.between(1, 6)})')
    draft.show(f"{thing}.{report}()")
    draft.show(draft.pick(thing, f"{thing}.{log}"))


@block(level=8, lines=16)
def computed_attributes(draft: Draft) -> None:
    """A class with a property, a static method or a class method."""
    name, names = draft.names.one("class"), draft.local("value")
    field, made, shown = names.some("attribute", "attribute", "method")
    build = names.one("method")
    with draft.define().block(f"class {name}:") as writer:
        writer.add(f"{made} = 0")
        with writer.block(f"def __init__(self, {field}):"):
            writer.add(f"self.{field} = {field}", f"{name}.{made} += {draft.pick('1', '1', field)}")
        writer.add("@property", f"def {shown}(self):", f"    return {number(draft, [f'self.{field}'], 2)}")
        if draft.chance(0.5):
            writer.add(
                f"@{shown}.setter",
                f"def {shown}(self, value):",
                f"    self.{field} = {draft.pick('value', 'value * 2', 'value - 1')}",
            )
            changed = True
        else:
            changed = False
        if draft.chance(0.5):
            writer.add("@classmethod", f"def {build}(cls, text):", '    return cls(int(text.strip("<>")))')
            argument = f'"<{draft.literal()}>"'
        else:
            writer.add(
                "@staticmethod",
                f"def {build}(value):",
                f"    return {name}(value {draft.pick('+', '*')} {draft.between(2, 5)})",
            )
            argument = str(draft.literal())
        representation(writer, name, field)
    one, two = draft.names.some("object", "object")
    draft.add(f"{one} = {name}({draft.literal()})", f"{two} = {name}.{build}({argument})")
    draft.show(f"{one}.{shown}")
    if changed:
        draft.add(f"{two}.{shown} = {draft.literal()}")
    draft.show(two)
    draft.show(f"{name}.{made}")
