"""The form of a program, which decides its split, ignores names, comments and layout."""

import ast
import builtins
import io
import keyword
import re
import tokenize
from collections.abc import Callable
from random import Random

import pytest

from veritas_rl.envs.trace.programs import generate
from veritas_rl.envs.trace.programs.names import WORDS
from veritas_rl.envs.trace.questions import form_of, split_of
from veritas_rl.seeding import generator

# WORDS occur as keywords of calls only where they become keys of **kwargs, which are content of the program.
KEPT = {*keyword.kwlist, *dir(builtins), *WORDS, "key", "reverse", "sep", "end", "default", "start", "strict"}
KINDS = (int, float, str, list, tuple, dict, set, property, Exception, type(_ for _ in ()))
BUILTIN_ATTRIBUTES = {name for kind in KINDS for name in dir(kind)}


class TokenRenamer:
    """Gives every identifier of a program a new name, token by token, without regard to scopes."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.names: dict[str, str] = {}

    def name(self, name: str, attribute: bool = False) -> str:
        if name in KEPT or name.startswith("__") or (attribute and name in BUILTIN_ATTRIBUTES):
            return name
        return self.names.setdefault(name, f"{self.random.choice('abcdefgh')}{self.random.randrange(10**6)}")

    def formatted(self, literal: str) -> str:
        """An f-string with new names inside its replacement fields."""
        return re.sub(r"(?<!\{)\{([^{}]+)\}", lambda field: "{" + self.field(field[1]) + "}", literal)

    def field(self, text: str) -> str:
        expression, mark, layout = text, "", ""
        if found := re.search(r"(:[^\[\]()]*|![rsa])$", text):
            expression, mark, layout = text[: found.start()], "", found[0]
        pieces = re.split(r"('[^']*')", expression)
        for place in range(0, len(pieces), 2):
            pieces[place] = re.sub(
                r"(\.?)\b([A-Za-z_]\w*)", lambda found: found[1] + self.name(found[2], bool(found[1])), pieces[place]
            )
        return "".join(pieces) + mark + layout

    def __call__(self, source: str) -> str:
        changed, before = [], ""
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            text = token.string
            if token.type == tokenize.NAME:
                text = self.name(text, before == ".")
            elif token.type == tokenize.STRING and text[0] == "f":
                text = self.formatted(text)
            elif token.type == tokenize.COMMENT:
                text = "# another comment"
            changed.append((token.type, text))
            before = token.string
        return "# renamed\n\n" + tokenize.untokenize(changed)


@pytest.mark.parametrize("level", range(1, 11))
def test_renamed_programs_have_the_same_form(level: int) -> None:
    for number in range(40):
        random = generator("renaming", level, number)
        source = generate(random, level).source
        changed = TokenRenamer(random)(source)
        assert changed != source
        assert form_of(changed) == form_of(source), f"{source}\n{changed}"
        assert form_of(ast.unparse(ast.parse(changed))) == form_of(source), f"{source}\n{changed}"


def test_renamed_programs_print_the_same(run_programs: Callable[..., list[str]]) -> None:
    """Checks the renamer of these tests itself: renaming does not change a program's output."""
    sources = [generate(generator("renamer", n), 2 + n % 9).source for n in range(90)]
    renamed = [TokenRenamer(generator("renamer", n))(source) for n, source in enumerate(sources)]
    assert run_programs(renamed) == run_programs(sources)


EQUAL = [
    ("x = 1\nprint(x)", "# one\n\ny   = 1\nprint( y )"),
    ("def f(a):\n    return a\ndef g(a):\n    return a", "def p(a):\n    return a\ndef q(b):\n    return b"),
    ("i = 3\nprint([i for i in range(i)])", "n = 3\nprint([i for i in range(n)])"),
    ("f = lambda x, y=2: x + y\nprint(f(1))", "g = lambda a, b=2: a + b\nprint(g(1))"),
    ("def f(a, b):\n    return a - b\nprint(f(b=1, a=2))", "def f(c, d):\n    return c - d\nprint(f(d=1, c=2))"),
    ("n = 0\ndef f():\n    global n\n    n += 1\nf()", "m = 0\ndef g():\n    global m\n    m += 1\ng()"),
    (
        "def f():\n    n = 0\n    def g():\n        nonlocal n\n        n += 1\n        return n\n    return g",
        "def a():\n    b = 0\n    def c():\n        nonlocal b\n        b += 1\n        return b\n    return c",
    ),
    (
        "try:\n    raise ValueError('v')\nexcept ValueError as e:\n    print(e)",
        "try:\n    raise ValueError('v')\nexcept ValueError as error:\n    print(error)",
    ),
    ("x = 5\nprint(f'{x:>3} {x!r} x')", "y = 5\nprint(f'{y:>3} {y!r} x')"),
    (
        "class A:\n    n = 1\n    def up(self, by=1):\n        self.m = self.n + by\n        return self\n"
        "print(A().up(by=2).m)",
        "class B:\n    k = 1\n    def go(me, of=1):\n        me.j = me.k + of\n        return me\n"
        "print(B().go(of=2).j)",
    ),
    (
        "class E(Exception):\n    def __init__(self, code):\n        self.code = code\ntry:\n    raise E(code=3)\n"
        "except E as e:\n    print(e.code)",
        "class F(Exception):\n    def __init__(self, number):\n        self.number = number\n"
        "try:\n    raise F(number=3)\n"
        "except F as f:\n    print(f.number)",
    ),
    ("import math\nprint(math.floor(2.5))", "import math as m\nprint(m.floor(2.5))"),
    ("from math import gcd\nprint(gcd(4, 6))", "from math import gcd as g\nprint(g(4, 6))"),
    (
        "match [1, 2]:\n    case [a, *b]:\n        print(a, b)\n    case {'k': v, **r}:\n        print(v, r)",
        "match [1, 2]:\n    case [x, *y]:\n        print(x, y)\n    case {'k': z, **w}:\n        print(z, w)",
    ),
    ("print(sum(x for x in [1] if (y := x)), y)", "print(sum(a for a in [1] if (b := a)), b)"),
    ("print('a' 'b', 0x10)", "print('ab', 16)"),
    ("class A:\n    x: int\nprint(A(x=3))", "class B:\n    y: int\nprint(B(y=3))"),
    ("def f(*a, **k):\n    return a, k\nprint(f(1, z=2))", "def g(*b, **c):\n    return b, c\nprint(g(1, z=2))"),
]

DIFFERENT = [
    ("x = 1\nprint(x)", "x = 2\nprint(x)"),
    ("x = 1\nprint(x)", "x = 1.0\nprint(x)"),
    ("x = True\nprint(x)", "x = 1\nprint(x)"),
    ("print('x')", "print('y')"),
    ("x = 1\nprint(f'{x}')", "x = 1\nprint(f'{x:2}')"),
    ("x = 1\nprint(f'{x}')", "x = 1\nprint(f'{x!r}')"),
    ("def f(a=1, *, b):\n    return a", "def f(a, *, b=1):\n    return a"),
    ("def f(a, b):\n    return a", "def f(a, /, b):\n    return a"),
    ("n = 0\ndef f():\n    global n\n    n = 1\nf()\nprint(n)", "n = 0\ndef f():\n    n = 1\nf()\nprint(n)"),
    ("x = 1\nif x:\n    print(1)\nprint(2)", "x = 1\nif x:\n    print(1)\n    print(2)"),
    ("for i in [1]:\n    print(i)\nelse:\n    print(2)", "for i in [1]:\n    print(i)\nprint(2)"),
    ("print([x for x in [1] if x if x > 1])", "print([x for x in [1] if x and x > 1])"),
    ("a, b = 1, 2\nprint(a, b)", "a = 1, 2\nprint(*a)"),
    ("x = 1\ndel x", "x = 1\nx"),
    ("@f\n@g\ndef h():\n    pass", "@f\ndef h(a=g):\n    pass"),
]


@pytest.mark.parametrize(("one", "other"), EQUAL)
def test_programs_that_differ_in_names_have_one_form(one: str, other: str) -> None:
    assert form_of(one) == form_of(other)


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_different_programs_have_different_forms(one: str, other: str) -> None:
    assert form_of(one) != form_of(other)


def test_text_that_is_no_program() -> None:
    with pytest.raises(SyntaxError):
        form_of("def f(:\n")


def test_deep_and_large_programs_have_forms() -> None:
    """A sum of 700 terms is a tree of depth 700, and Python refuses to write so many digits in decimal."""
    deep = "+".join(["x"] * 700)
    assert form_of(f"x = 1\nprint({deep})") == form_of(f"y = 1\nprint({deep.replace('x', 'y')})")
    assert form_of(f"x = 1\nprint({deep})") != form_of(f"x = 1\nprint({deep} + x)")
    assert form_of(f"print(0x{'1' * 5000} > 0)") != form_of(f"print(0x{'1' * 5001} > 0)")


def test_a_quarter_of_all_programs_belongs_to_validation() -> None:
    sources = [generate(generator("a quarter", n), 1 + n % 6).source for n in range(1500)]
    assert sum(split_of(form_of(source)) == "val" for source in sources) / len(sources) == pytest.approx(0.25, abs=0.03)
