"""Random expressions that never raise an error and have bounded values.

Every divisor is a positive literal, and every factor of a product is small.
"""

from collections.abc import Sequence

from veritas_rl.envs.trace.programs.draft import Draft, Scope, Variable

_SUM, _PRODUCT, _ATOM = range(3)
"""The rank of an expression's outermost operator; a higher rank binds tighter."""


def number(draft: Draft, atoms: Sequence[str], depth: int = 2) -> str:
    """An integer expression.

    Args:
        draft: The program under construction.
        atoms: The operands that the expression may use: names of small integers, or integer expressions that need no
            parentheses.
        depth: The maximum depth of nested operators.
    """
    text = _number(draft, atoms, depth)[0]
    if atoms and not any(atom in text for atom in atoms):
        return f"{text} + {draft.choose(atoms)}"
    return text


def _number(draft: Draft, atoms: Sequence[str], depth: int) -> tuple[str, int]:
    roll = draft.random.random()
    if depth <= 0 or roll < 0.15 or not atoms:
        return (draft.choose(atoms) if atoms and draft.chance(0.75) else str(draft.literal())), _ATOM
    left, left_rank = _number(draft, atoms, depth - 1 if roll < 0.5 else 0)
    if roll < 0.62:
        right, right_rank = _number(draft, [atom for atom in atoms if atom != left], 0)
        operator = "+" if draft.chance(0.6) else "-"
        return f"{left} {operator} {right if right_rank > _SUM else f'({right})'}", _SUM
    left = left if left_rank >= _PRODUCT else f"({left})"
    if roll < 0.76:
        right = str(draft.between(2, 5)) if draft.chance(0.7) else draft.choose(atoms)
        return f"{left} * {right}", _PRODUCT
    if roll < 0.85:
        return f"{left} % {draft.between(2, 9)}", _PRODUCT
    if roll < 0.92:
        return f"{left} // {draft.between(2, 5)}", _PRODUCT
    right, _ = _number(draft, [atom for atom in atoms if atom != left], 0)
    if roll < 0.95:
        return f"abs({left} - {right})", _ATOM
    return f"{draft.pick('max', 'min')}({left}, {right})", _ATOM


def condition(draft: Draft, atoms: Sequence[str], depth: int = 1) -> str:
    """A condition on small integers; see `number` for the arguments."""
    roll = draft.random.random()
    left = draft.choose(atoms)
    if roll < 0.3:
        divisor = draft.between(2, 4)
        return f"{left} % {divisor} {draft.pick('==', '==', '!=')} {draft.between(0, divisor - 1)}"
    others = [atom for atom in atoms if atom != left]
    right = draft.choose(others) if others and draft.chance(0.4) else str(draft.literal())
    if roll < 0.68 or depth <= 0:
        return f"{left} {draft.pick('<', '>', '<=', '>=', '==', '!=')} {right}"
    if roll < 0.78:
        return f"{draft.between(0, 4)} {draft.pick('<', '<=')} {left} < {draft.between(5, 9 + draft.limits.literal)}"
    if roll < 0.85:
        return f"{left} {draft.pick('in', 'not in')} {tuple(draft.ints(draft.between(2, 3)))}"
    first = condition(draft, atoms, 0)
    if roll < 0.9:
        return f"not {first}"
    return f"{first} {draft.pick('and', 'or')} {condition(draft, atoms, 0)}"


def small_atoms(draft: Draft, scope: Scope) -> list[str]:
    """Names of the scope's small integers. If there are none, remainders of its other integers."""
    names = [v.name for v in scope.variables if v.kind == "int" and v.small]
    if names:
        return names[-6:]
    return [f"({v.name} % {draft.between(3, 9)})" for v in scope.of("int")[-2:]]


def of_text(draft: Draft, text: Variable) -> str:
    """A string expression of a string variable."""
    name = text.name
    roll = draft.random.random()
    if roll < 0.3:
        return f"{name}.{draft.pick('upper', 'title', 'capitalize', 'swapcase', 'lower')}()"
    if roll < 0.5:
        start = draft.between(1, 3)
        return draft.pick(
            f"{name}[{start}:]", f"{name}[:{start}]", f"{name}[-{start}:]", f"{name}[::{draft.between(2, 3)}]"
        )
    if roll < 0.62:
        return f"{name}[::-1]"
    if roll < 0.72:
        return f'{name}.replace("{draft.choose("aeiorstn")}", "{draft.choose("*-_xy")}")'
    if roll < 0.82:
        method = draft.pick("center", "ljust", "rjust")
        return f'{name}.{method}({draft.between(5, 12)}, "{draft.choose(".*-_")}")'
    if roll < 0.9:
        return f'{name} + "{draft.word()}"' if draft.chance(0.5) else f'"{draft.choose("<[*+")}" + {name}'
    return f'"{draft.choose("-.,+")}".join({name})'


def number_of_text(draft: Draft, text: Variable) -> str:
    """An integer expression of a string variable."""
    name = text.name
    options = [
        f"len({name})",
        f'{name}.count("{draft.choose("aeiorstn")}")',
        f'{name}.find("{draft.choose("aeiorst")}")',
    ]
    if text.least:
        options.append(f"ord({name}[0])")
    return draft.choose(options)


def number_of_list(draft: Draft, values: Variable) -> str:
    """An integer expression of a list of integers."""
    name = values.name
    options = [f"sum({name})", f"len({name})", f"{name}.count({draft.literal()})"]
    if values.least:
        options += [
            f"max({name})",
            f"min({name})",
            f"{name}[0]",
            f"{name}[-1]",
            f"{name}[{draft.between(0, values.least - 1)}]",
        ]
        options.append(f"max({name}) - min({name})")
        options.append(f"{name}[{draft.literal()} % len({name})]")
    return draft.choose(options)


def of_list(draft: Draft, values: Variable, item: str) -> tuple[str, int]:
    """An expression for a list of integers made from another list, and its guaranteed minimum length.

    Args:
        draft: The program under construction.
        values: The variable of the other list.
        item: An unused name for the variable of a comprehension.
    """
    name, least = values.name, values.least
    atoms = [item if values.small else f"({item} % {draft.between(5, 12)})"]
    roll = draft.random.random()
    if roll < 0.25:
        return f"[{number(draft, atoms, 1)} for {item} in {name}]", least
    if roll < 0.45:
        return f"[{item} for {item} in {name} if {condition(draft, [item])}]", 0
    if roll < 0.55:
        return f"[{number(draft, atoms, 1)} for {item} in {name} if {condition(draft, [item])}]", 0
    if roll < 0.68:
        return draft.pick(f"sorted({name})", f"sorted({name}, reverse=True)", f"list(reversed({name}))"), least
    if roll < 0.8:
        start = draft.between(1, 2)
        return draft.pick(f"{name}[{start}:]", f"{name}[:-{start}]"), max(0, least - start)
    if roll < 0.88:
        return f"{name}[::-1]", least
    if roll < 0.94:
        return f"{name} + {draft.ints(draft.between(1, 2))}", least
    return f"{name}[::{draft.between(2, 3)}]", 1 if least else 0
