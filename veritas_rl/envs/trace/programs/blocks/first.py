"""Programs of level 1: two to four short lines on small numbers or a short string, and one print.

A language model with little other training can learn them within a minute, because most outputs are copied from the
program or need one small sum.
"""

from veritas_rl.envs.trace.programs.draft import Draft, Scope

_LETTERS = "abcdefghijkmnpqrstuvwxyz"


def first_program(draft: Draft) -> None:
    """Write a complete program of level 1 into the draft's main part."""
    scope = draft.body
    roll = draft.random.random()
    if roll < 0.45:
        _copied(draft, scope)
    elif roll < 0.8:
        _sum(draft, scope)
    elif roll < 0.9:
        _augmented(draft, scope)
    else:
        _string(draft, scope)


def _names(draft: Draft, count: int) -> list[str]:
    return draft.sample(_LETTERS, count)


def _copied(draft: Draft, scope: Scope) -> None:
    """Numbers are assigned, and some are printed."""
    names = _names(draft, draft.between(2, 3))
    values = [draft.between(0, 99 if len(names) == 2 else 20) for _ in names]
    if draft.chance(0.25):
        scope.writer.add(f"{', '.join(names)} = {', '.join(map(str, values))}")
    else:
        scope.writer.add(*(f"{name} = {value}" for name, value in zip(names, values, strict=True)))
    if len(scope.writer.lines) < 3 and draft.chance(0.3):
        first, second = draft.sample(names, 2)
        scope.writer.add(f"{first} = {second}")
    scope.writer.add(f"print({', '.join(draft.sample(names, draft.between(1, 2)))})")


def _sum(draft: Draft, scope: Scope) -> None:
    """Small numbers are added or subtracted."""
    a, b, c = _names(draft, 3)
    low, high = sorted((draft.between(0, 9), draft.between(0, 9)))
    operation = draft.pick(
        f"{a} + {b}", f"{b} + {a}", f"{b} - {a}", f"{a} + {draft.between(1, 9)}", f"{b} + {draft.between(1, 9)}"
    )
    scope.writer.add(f"{a} = {low}", f"{b} = {high}")
    if draft.chance(0.5):
        scope.writer.add(f"{c} = {operation}", f"print({draft.pick(c, c, f'{c}, {a}', f'{b}, {c}', f'{a}, {c}')})")
    else:
        scope.writer.add(f"print({draft.pick(operation, operation, f'{operation}, {b}', f'{a}, {operation}')})")


def _augmented(draft: Draft, scope: Scope) -> None:
    """A number is changed in place."""
    a, b = _names(draft, 2)
    value, change = draft.between(0, 12), draft.between(1, 9)
    operator, amount = draft.pick(("+=", str(change)), ("-=", str(min(change, value))), ("+=", b))
    other = draft.between(0, 9)
    scope.writer.add(f"{a} = {value}", f"{b} = {other}", f"{a} {operator} {amount}")
    scope.writer.add(f"print({draft.pick(a, a, f'{a}, {b}', f'{b}, {a}')})")


def _string(draft: Draft, scope: Scope) -> None:
    """A short string is printed, joined to another or repeated."""
    a, b = _names(draft, 2)
    first, second = draft.letters(draft.between(2, 3)), draft.letters(draft.between(1, 3))
    shown = draft.pick(a, f"{a} + {b}", f"{b} + {a}", f"{a}, len({a})", f"{b} * 2")
    scope.writer.add(f'{a} = "{first}"', f'{b} = "{second}"', f"print({shown})")
