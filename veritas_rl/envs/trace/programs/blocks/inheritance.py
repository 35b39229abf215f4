"""Classes that inherit: overridden methods, super(), class attributes and objects of several kinds in one list."""

from veritas_rl.envs.trace.programs.blocks.classes import representation
from veritas_rl.envs.trace.programs.blocks.registry import block
from veritas_rl.envs.trace.programs.draft import Draft
from veritas_rl.envs.trace.programs.expressions import condition, number


@block(level=8, lines=24, weight=2.0)
def kinds(draft: Draft) -> None:
    """A base class whose method calls another method, which subclasses override."""
    base, *others = draft.names.some("class", *["class"] * draft.between(2, 3))
    names = draft.local()
    first, second = names.some("attribute", "attribute")
    worth, label = names.some("method", "method")
    extended = draft.chance(0.5)
    with draft.define().block(f"class {base}:") as writer:
        if draft.chance(0.5):
            mark = names.one("attribute")
            writer.add(f'{mark} = "{draft.word()}"')
        else:
            mark = ""
        with writer.block(f"def __init__(self, {first}):"):
            writer.add(f"self.{first} = {first}")
        writer.add(f"def {worth}(self):", f"    return {number(draft, [f'self.{first}'], 1)}")
        with writer.block(f"def {label}(self):"):
            shown = f"{{self.{mark}}}" if mark else draft.word()
            writer.add(f'return f"{shown}{draft.pick(":", " ", "=")}{{self.{worth}()}}"')
        representation(writer, base, first)
    signatures = {}
    for other in others:
        parent = draft.choose([base, *signatures]) if draft.chance(0.3) else base
        atoms = [f"self.{first}"]
        with draft.define().block(f"class {other}({parent}):") as writer:
            if mark and draft.chance(0.6):
                writer.add(f'{mark} = "{draft.word()}"')
            arguments = signatures.get(parent, 1)
            if extended and arguments == 1 and draft.chance(0.6):
                with writer.block(f"def __init__(self, {first}, {second}):"):
                    writer.add(
                        f"super().__init__({first}{draft.maybe(f' + {draft.literal()}', 0.3)})",
                        f"self.{second} = {second}",
                    )
                atoms.append(f"self.{second}")
                arguments = 2
            signatures[other] = arguments
            with writer.block(f"def {worth}(self):"):
                if draft.chance(0.3):
                    writer.add(f"if {condition(draft, atoms)}:", f"    return {draft.literal()}")
                if draft.chance(0.4):
                    writer.add(f"return super().{worth}() {draft.pick('+', '-', '*')} {draft.between(2, 9)}")
                else:
                    writer.add(f"return {number(draft, atoms, 2)}")
            if draft.chance(0.35):
                writer.add(
                    f"def {label}(self):",
                    f"    return {draft.pick(f'super().{label}().upper()', f'super().{label}() + {draft.said()}')}",
                )
            if draft.chance(0.4):
                representation(writer, other, first)
    signatures[base] = 1
    group, thing = draft.names.some("list", "object")
    made = [f"{kind}({', '.join(str(draft.literal()) for _ in range(count))})" for kind, count in signatures.items()]
    draft.random.shuffle(made)
    draft.add(f"{group} = [{', '.join(made)}]")
    if draft.afford(len(made)):
        draft.add(f"for {thing} in {group}:")
        draft.add(
            f"    print({draft.pick(f'{thing}.{label}()', f'{thing}.{label}(), isinstance({thing}, {others[0]})')})"
        )
    draft.show(
        draft.pick(
            f"sum({thing}.{worth}() for {thing} in {group})",
            f"sorted({group}, key=lambda {thing}: ({thing}.{worth}(), {thing}.{first}))[0].{label}()",
            f"[type({thing}).__name__ for {thing} in {group}]",
            f"[{thing} for {thing} in {group} if isinstance({thing}, {others[0]})]",
        )
    )


@block(level=8, lines=17)
def expression_tree(draft: Draft) -> None:
    """An arithmetic expression as a tree of objects that evaluate and print themselves."""
    leaf, pair = draft.names.some("class", "class")
    names = draft.local("left", "right", "sign")
    value, work = names.some("attribute", "method")
    with draft.define().block(f"class {leaf}:") as writer:
        writer.add(
            f"def __init__(self, {value}):",
            f"    self.{value} = {value}",
            f"def {work}(self):",
            f"    return self.{value}",
        )
        writer.add("def __repr__(self):", f"    return str(self.{value})")
    signs = draft.sample(("+", "-", "*", "max"), draft.between(2, 3))
    results = {"+": "one + two", "-": "one - two", "*": "one * two", "max": "max(one, two)"}
    with draft.define().block(f"class {pair}({leaf}):") as writer:
        writer.add("def __init__(self, sign, left, right):", f"    super().__init__({draft.between(0, 9)})")
        writer.add("    self.sign, self.left, self.right = sign, left, right")
        with writer.block(f"def {work}(self):"):
            writer.add(f"one, two = self.left.{work}(), self.right.{work}()")
            for sign in signs[:-1]:
                writer.add(f'if self.sign == "{sign}":', f"    return {results[sign]}")
            writer.add(f"return {results[signs[-1]]}")
        writer.add("def __repr__(self):", '    return f"({self.left} {self.sign} {self.right})"')

    def tree(depth: int) -> str:
        if depth == 0 or draft.chance(0.2):
            return f"{leaf}({draft.between(1, 9)})"
        return f'{pair}("{draft.choose(signs)}", {tree(depth - 1)}, {tree(depth - 1)})'

    name = draft.names.one("object")
    draft.add(f'{name} = {pair}("{signs[0]}", {tree(1)}, {tree(1)})')
    draft.show(name)
    draft.show(f"{name}.{work}()")
    if draft.chance(0.5):
        draft.show(f"{name}.{draft.pick('left', 'right')}.{work}()")


@block(level=9, lines=16)
def mixed_in(draft: Draft) -> None:
    """Several base classes, and the order in which their methods run."""
    one, two, both = draft.names.some("class", "class", "class")
    names = draft.local("steps")
    call = names.one("method")
    bases = [one, two]
    root = draft.names.one("class")
    with draft.define().block(f"class {root}:") as writer:
        writer.add(
            "def __init__(self):",
            "    self.steps = []",
            f"def {call}(self):",
            f'    self.steps.append("{draft.word()}")',
        )
        representation(writer, root, "steps")
    for base in bases:
        with draft.define().block(f"class {base}({root}):") as writer, writer.block(f"def {call}(self):"):
            first = f'self.steps.append("{draft.word()}")'
            chained = f"super().{call}()"
            writer.add(*draft.shuffled(first, chained))
    order = draft.shuffled(*bases)
    with draft.define().block(f"class {both}({', '.join(order)}):") as writer, writer.block(f"def {call}(self):"):
        writer.add(*draft.shuffled(f"super().{call}()", f"self.steps.append({draft.literal()})"))
        writer.add("return len(self.steps)")
    thing, cls = draft.names.some("object", "item")
    draft.add(f"{thing} = {both}()")
    draft.show(f"{thing}.{call}()")
    draft.show(f"{thing}.steps")
    if draft.chance(0.5):
        draft.opaque.add(cls)
        draft.show(f"[{cls}.__name__ for {cls} in {both}.__mro__[:{draft.between(2, 4)}]]")
