"""A debug print at every place, with every name that the analysis considers bound there, never fails."""

import textwrap
from collections.abc import Iterator

import pytest

from veritas_rl.envs.trace.injection import insert, without_debug
from veritas_rl.envs.trace.programs import generate
from veritas_rl.envs.trace.sandbox import Limits, Sandbox, Status
from veritas_rl.seeding import generator

EVERYWHERE = 10_000
"""A number of prints above the number of places in any program."""

TRICKY = {
    "a name of one branch": """
        import os
        if os.environ.get("NEVER"):
            planted = 1
            other = 2
        else:
            other = 3
        after = other
        """,
    "elif without else": """
        kind = 5
        if kind == 1:
            one = 1
        elif kind == 2:
            two = 2
        elif kind == 5:
            five = 5
        end = kind
        """,
    "loops that may not turn": """
        for unused in []:
            inside = unused
        else:
            ended = True
        n = 0
        while n > 0:
            never = n
            n -= 1
        rest = n
        """,
    "break and continue": """
        for i in range(6):
            if i % 2:
                continue
            even = i
            if i == 4:
                late = i
                break
            x = even
        else:
            done = 1
        after = i
        while True:
            got = 1
            if got:
                break
            unreached = 2
        last = got
        """,
    "a deletion in a loop": """
        keep = 0
        item = 1
        for i in range(3):
            keep += 1
            if i == 1:
                del item
            if i < 1:
                item = 5
                y = item
            z = i
        w = keep
        """,
    "try": """
        def risky(n):
            before = n
            try:
                first = n
                value = 10 // n
                second = value
            except ZeroDivisionError as error:
                kind = 1
                third = kind
            else:
                fine = second
                fourth = fine
            finally:
                closing = 1
                fifth = closing
            sixth = before
            return sixth
        print(risky(0), risky(2))
        """,
    "the name of an exception": """
        error = "old"
        try:
            raise ValueError("x")
        except ValueError as error:
            inside = 1
        after = inside
        try:
            pass
        finally:
            seen = 2
        last = seen
        """,
    "a break out of a handler": """
        for i in range(3):
            error = i
            try:
                raise ValueError
            except ValueError as error:
                x = 1
                break
        after = i if True else 0
        y = after
        """,
    "with that swallows": """
        from contextlib import suppress
        with suppress(KeyError) as nothing:
            a = 1
            {}["x"]
            b = 2
        c = 3
        class Twice:
            def __enter__(self):
                found = 7
                return found
            def __exit__(self, *error):
                kinds = len(error)
                return True
        with Twice() as one, Twice() as two:
            three = one + two
        four = 4
        """,
    "del": """
        a = b = 1
        c = a
        del a, b
        d = c
        a = 2
        e = a
        """,
    "global and nonlocal": """
        count = 0
        total = 5
        def bump():
            global count, fresh
            count += 1
            fresh = count
            local = 1
            return local
        def outer():
            shared = 1
            def inner():
                nonlocal shared
                shared += 1
                own = shared
                return own
            got = inner()
            return got + shared
        def drop():
            global total
            del total
            left = 1
            return left
        bumped = bump()
        value = outer()
        gone = drop()
        last = value
        """,
    "closures before their names": """
        def outer():
            def inner():
                here = 1
                return here
            early = inner()
            late = 2
            again = inner()
            return late + again + early
        def uses():
            mine = 1
            return mine + later
        later = 4
        result = uses() + outer()
        """,
    "comprehensions": """
        row = [cell for cell in range(3)]
        table = {k: v for k, v in zip("ab", row)}
        total = sum(x for x in row if (last := x) >= 0)
        nothing = [hidden := y for y in []]
        done = last
        """,
    "walrus": """
        if False and (never := 1):
            pass
        a = 1
        if (b := a) and True or (maybe := 3):
            c = b
        while (n := a) < 3:
            a += 1
            d = n
        e = n
        f = (g := 2) if a else (h := 3)
        i = 0 < (j := 5) < (k := 9)
        m = 9 < (j := 5) < (o := 9)
        p = j
        """,
    "classes": """
        shown = 1
        class Point:
            size = 2
            if size > 5:
                rare = 1
            other = size
            def __init__(self, x):
                z = x
                self.x = x
                w = z
            def __repr__(self):
                text = f"P{self.x}"
                return text
            @classmethod
            def make(cls, x):
                made = cls(x)
                y = x
                return made
        p = Point.make(3)
        q = p.x
        """,
    "match": """
        def kind(thing):
            match thing:
                case [first, *rest]:
                    a = first
                case {"x": x, **others}:
                    b = x
                case str() as word if word:
                    c = word
                case int(n) | float(n):
                    d = n
                case _:
                    e = 1
            after = 1
            return after
        r = [kind(t) for t in ([1, 2], {"x": 1, "y": 2}, "w", 3, None)]
        match 5:
            case 4:
                four = 4
        s = 1
        """,
    "imports": """
        import math, os.path as path
        from collections import deque as line, Counter
        try:
            import missing_module
        except ImportError:
            missing_module = None
            x = 1
        y = math.pi > 3
        z = line([1])
        """,
    "early returns": """
        def f(n):
            if n > 2:
                big = n
                return big
            else:
                small = n
            x = small
            while True:
                x += 1
                if x > 3:
                    return x
            unreachable = 1
        a = f(1)
        b = f(3)
        try:
            raise KeyError
            c = 1
        except KeyError:
            d = 2
        e = 3
        """,
    "one line": """
        a = 1; b = 2
        if a: c = 3
        if a: c = 3; d = 4
        else: d = 5
        for i in range(2): e = i; f = i
        while b: b = 0
        class C: x = 1; y = 2
        def g(): h = 1; return h
        k = g(); l = k  # a comment
        m = (1,
             2); n = m
        o = '''x
        y'''; p = o
        q = 1 ; \\
        r = 2
        """,
    "docstrings and odd layout": '''
        """The module's words.

        x = 1
        """
        from __future__ import annotations
        def f(a: int, *args: int, b: int = 2, **kwargs: int) -> int:
            """Words."""
            c: int = a
            d: int
            if c:
                """No docstring."""
                e = 1
            else:

                # a comment

                e = 2   # another
            return (
                c +
                e
            )
        x = f(
            1,
            b=2,
        )
        ä = "ö"; é = 2
        if ä:
        \tü = 1
        z = [
            1,
        ]
        ''',
    "exception groups": """
        x = 1
        try:
            raise ExceptionGroup("g", [ValueError(), KeyError()])
        except* ValueError:
            del x
            a = 1
        except* KeyError:
            b = 2
        c = 3
        """,
    "generators and decorators": """
        def gen(n):
            k = 0
            while k < n:
                got = yield k
                k += 1
            done = k
        g = gen(3)
        values = list(g)
        def twice(function):
            def wrapped(*args):
                result = function(*args)
                both = (result, result)
                return both
            return wrapped
        if values:
            @twice
            def h(x):
                y = x
                return y
            v = h(2)
        """,
    "finally that deletes": """
        def f():
            for i in range(2):
                temp = i
                try:
                    if i:
                        break
                    a = i
                finally:
                    del temp
                b = i
            c = i
            return c
        x = f()
        """,
    "partial lines": """
        for i in range(3):
            j = i * i
            print(j, end=" ")
        print()
        k = j if True else 0
        """,
}


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(Limits(output=64 << 20)) as running:
        yield running


@pytest.fixture
def everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make `inject` put a print with every name at every place, if enough prints are requested."""
    monkeypatch.setattr(insert, "_CHANCE", dict.fromkeys(insert._CHANCE, 1.1))
    monkeypatch.setattr(insert, "_MOST_NAMES", 10_000)
    monkeypatch.setattr("random.Random.randint", lambda self, low, high: high)


@pytest.mark.usefixtures("everywhere")
@pytest.mark.parametrize("name", list(TRICKY))
def test_every_name_is_bound_at_every_place(sandbox: Sandbox, name: str) -> None:
    source = textwrap.dedent(TRICKY[name]).lstrip("\n")
    original = sandbox.run(source)
    assert original.status is Status.OK, original
    injected = insert.inject(source, generator(name), most=EVERYWHERE)
    outcome = sandbox.run(injected)
    assert outcome.status is Status.OK, f"{outcome}\n{injected}"
    assert outcome.stdout.count("__DBG_") > 0, injected
    assert without_debug(outcome.stdout) == original.stdout


@pytest.mark.usefixtures("everywhere")
def test_generated_programs_keep_their_meaning_with_a_print_everywhere(sandbox: Sandbox) -> None:
    reached = 0
    for level in range(1, 11):
        for seed in range(6):
            program = generate(generator("everywhere", level, seed), level)
            injected = insert.inject(program.source, generator("prints", level, seed), program.opaque, EVERYWHERE)
            before, after = sandbox.run(program.source), sandbox.run(injected)
            assert before.status is after.status is Status.OK, f"{after}\n{injected}"
            assert without_debug(after.stdout) == before.stdout
            reached += injected != program.source
    assert reached > 55


def _bound(source: str, line: str) -> set[str]:
    """The names in the print directly after `line`, with prints at every place."""
    injected = insert.inject(textwrap.dedent(source), generator("bound"), most=EVERYWHERE).split("\n")
    at = next(index for index, text in enumerate(injected) if text.strip() == line)
    after = injected[at + 1]
    return {word.strip("{}=") for word in after.split("__ ")[1].rstrip('")').split()} if "__DBG_" in after else set()


@pytest.mark.usefixtures("everywhere")
def test_names_bound_on_all_ways_are_used() -> None:
    source = """
        a = 1
        if a:
            b = 1
        else:
            b = 2
        c = 3
        try:
            d = 1
        except KeyError:
            d = 2
        e = 5
        while True:
            f = 1
            break
        g = 7
        """
    assert _bound(source, "c = 3") == {"a", "b", "c"}
    assert _bound(source, "e = 5") == {"a", "b", "c", "d", "e"}
    assert _bound(source, "g = 7") == {"a", "b", "c", "d", "e", "f", "g"}


@pytest.mark.usefixtures("everywhere")
def test_names_bound_on_some_ways_only_are_left_out() -> None:
    assert _bound("a = 1\nif a:\n  b = 1\nc = 1\n", "c = 1") == {"a", "c"}
    assert _bound("for i in [1]:\n  b = 1\nc = 1\n", "c = 1") == {"c"}
    assert _bound("try:\n  b = 1\nexcept E as e:\n  pass\nc = 1\n", "c = 1") == {"c"}
    assert _bound("a = b = 1\ndel a\nc = 1\n", "c = 1") == {"b", "c"}
    assert _bound("def f():\n  global a\n  a = 1\n  b = 1\n", "b = 1") == {"b"}


@pytest.mark.usefixtures("everywhere")
@pytest.mark.parametrize(
    ("header", "line"),
    [
        ("while a < 2:", "a += 1"),
        ("with open(0) as f:", "a = 1"),
        ("try:", "a = 1"),
        ("for i in range(2):", "b = 1"),
        ("def f(x):", "b = x"),
        ("class C:", "b = 1"),
        ("if a:", "b = 1"),
    ],
)
def test_prints_are_inserted_into_every_kind_of_body(header: str, line: str) -> None:
    tail = "\nexcept KeyError:\n    z = 1\nfinally:\n    y = 1\n" if header == "try:" else "\n"
    injected = insert.inject(f"a = 0\n{header}\n    {line}{tail}", generator("bodies"), most=EVERYWHERE)
    lines = injected.split("\n")
    wanted = [line, *(["z = 1", "y = 1"] if header == "try:" else [])]
    for text in wanted:
        at = lines.index(f"    {text}")
        assert lines[at + 1].startswith('    print(f"__DBG_'), injected
