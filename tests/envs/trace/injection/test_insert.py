"""The number of debug prints, the names in them, and texts that stay unchanged."""

import ast
import re

import pytest

from veritas_rl.envs.trace.injection import MOST_PRINTS, inject, without_debug
from veritas_rl.envs.trace.injection.values import unstable_names
from veritas_rl.envs.trace.programs import generate
from veritas_rl.seeding import generator

PRINT = re.compile(r'^\s*print\(f"__DBG_(\d)__ (\{\w+=\}(?: \{\w+=\})*)"\)$')


def test_only_prints_are_added_and_they_are_numbered_in_order() -> None:
    seen = 0
    for seed in range(60):
        program = generate(generator("insert", seed), 1 + seed % 10)
        injected = inject(program.source, generator("prints", seed), program.opaque)
        matches = [PRINT.match(line) for line in injected.split("\n")]
        kept = [line for line, match in zip(injected.split("\n"), matches, strict=True) if match is None]
        assert "\n".join(kept) == program.source
        found = [match for match in matches if match is not None]
        assert [match[1] for match in found] == [str(number) for number in range(len(found))]
        assert len(found) <= MOST_PRINTS
        for match in found:
            names = match[2].split()
            assert 1 <= len(names) <= 3
            assert len(set(names)) == len(names)
            assert not {name.strip("{}=") for name in names} & program.opaque
        seen += len(found)
    assert seen > 150


def test_the_same_state_gives_the_same_text() -> None:
    program = generate(generator("same"), 7)
    texts = {inject(program.source, generator("x", seed), program.opaque) for seed in (1, 1, 2, 3)}
    assert len(texts) == 3


def test_probabilities_are_those_of_the_documentation() -> None:
    assignments = sum("__DBG_" in inject("a = 1\n", generator("p", seed)) for seed in range(2000))
    assert 0.56 < assignments / 2000 < 0.64
    after_if = "import os\ndef f(a):\n    if a:\n        pass\n    return a\n"
    texts = [inject(after_if, generator("q", seed)) for seed in range(2000)]
    inside = sum('    if a:\n        print(f"' in text for text in texts)
    after = sum('        pass\n    print(f"' in text for text in texts)
    assert 0.36 < inside / 2000 < 0.44
    assert 0.36 < after / 2000 < 0.44


@pytest.mark.parametrize(
    "source",
    [
        "",
        "not python at all",
        "x = '\0'",
        "print(1)\n",
        "a = 1\nprint('__DBG_0__')\n",
        "print = len\na = 1\n",
        "def print(x): pass\na = 1\n",
        "async def print(x): pass\na = 1\n",
        "from m import show as print\na = 1\n",
        "try:\n    f()\nexcept ValueError as print:\n    a = 1\n",
        "match f():\n    case print:\n        a = 1\n",
        "match f():\n    case [_, *print]:\n        a = 1\n",
        "match f():\n    case {1: _, **print}:\n        a = 1\n",
        "def f(print):\n    a = 1\n",
        "import sys\na = 1\nsys.stdout = None\n",
        "from contextlib import redirect_stdout\na = 1\n",
        "import builtins\na = 1\nbuiltins.print = len\n",
        "def f(): pass\ng = f\n",
        "class A: pass\na = A()\n",
    ],
)
def test_a_program_without_a_fitting_place_is_left_as_it_is(source: str) -> None:
    assert all(inject(source, generator(seed)) == source for seed in range(20))


def test_values_that_print_differently_are_not_shown() -> None:
    source = """
import math
def f(): pass
def gen():
    yield 1
class Plain: pass
class Shown:
    def __init__(self, x): self.x = x
    def __repr__(self): return "S"
a = lambda: 1
b = {1, 2}
c = (x for x in b)
d = map(str, [1])
e = gen()
g = Plain()
h = Shown(1)
i = [g]
j = f
k = {"f": f}
l = iter([1])
m, n = 1, j
o = [1, 2]
o2 = []
for p in [f]: pass
for q, r in enumerate([1]): pass
s = b | {3}
t = o if o else j
u = set(o)
v = frozenset(o)
w = math.pi
k2 = {}
k2["x"] = f
"""
    unstable = unstable_names(list(ast.walk(ast.parse(source))))
    assert unstable >= set("abcdefgijklnpstuv") | {"math", "self", "gen", "Plain", "Shown"}
    assert not unstable & {"h", "m", "o", "o2", "q", "r", "w"}


def test_debug_text_is_removed_wherever_it_begins() -> None:
    output = "1 __DBG_0__ a=1 b='x'\n4 __DBG_1__ a=2\n\n__DBG_2__ c=3\nend\n"
    assert without_debug(output) == "1 4 \nend\n"


def test_line_ends_of_other_systems_are_read() -> None:
    injected = {inject("a = 1\r\nb = 2\r\nprint(a)\r\n", generator(seed)) for seed in range(20)}
    assert 'a = 1\nprint(f"__DBG_0__ {a=}")\nb = 2\nprint(a)\n' in injected
