"""Generated programs end without an error, differ, get harder with the level, and are the same on every machine."""

import ast
import builtins
import hashlib
import itertools
import os
import subprocess
import sys
from collections.abc import Callable
from statistics import mean

import pytest

from veritas_rl.envs.trace.injection import inject
from veritas_rl.envs.trace.programs import generate
from veritas_rl.envs.trace.programs.measures import Measures, measure
from veritas_rl.envs.trace.programs.names import POOLS, WORDS
from veritas_rl.envs.trace.questions import form_of
from veritas_rl.seeding import generator

LEVELS = range(1, 11)
MEASURED = ("lines", "characters", "steps", "output_lines", "output_characters", "live_names")


def sources(purpose: str, level: int, count: int) -> list[str]:
    return [generate(generator(purpose, level, n), level).source for n in range(count)]


@pytest.fixture(scope="module")
def measures() -> dict[int, list[Measures]]:
    return {level: [measure(generate(generator("measures", level, n), level)) for n in range(80)] for level in LEVELS}


@pytest.mark.parametrize("levels", [(1, 2, 3, 4), (5, 6, 7), (8, 9, 10)])
def test_programs_end_print_and_do_not_depend_on_hashes(
    levels: tuple[int, ...], run_programs: Callable[..., list[str]]
) -> None:
    programs = [source for level in levels for source in sources("run", level, 120)]
    outputs = run_programs(programs, hash_seed=1)
    assert all(outputs)
    assert max(map(len, outputs)) < 4000
    assert outputs == run_programs(programs, hash_seed=2)


def test_names_that_are_not_opaque_can_be_shown(run_programs: Callable[..., list[str]]) -> None:
    """A debug print of a name that is not opaque neither fails nor shows an address or a hash order."""
    shown = []
    for number in range(300):
        random = generator("shown", number)
        program = generate(random, 4 + number % 7)
        shown.append(inject(program.source, random, program.opaque))
    outputs = run_programs(shown, hash_seed=1)
    assert outputs == run_programs(shown, hash_seed=2)
    assert sum("__DBG_0__" in output for output in outputs) > 250
    assert not any(" at 0x" in output for output in outputs)


@pytest.mark.parametrize("name", MEASURED)
def test_levels_get_harder(name: str, measures: dict[int, list[Measures]]) -> None:
    means = [mean(getattr(found, name) for found in measures[level]) for level in LEVELS]
    coarse = means[0::3]
    assert coarse == sorted(set(coarse)), means
    assert all(after > 0.95 * before for before, after in itertools.pairwise(means)), means


def test_level_1_is_short(measures: dict[int, list[Measures]]) -> None:
    for found in measures[1]:
        assert 2 <= found.lines <= 4
        assert found.characters <= 80
        assert found.output_lines == 1
        assert 1 <= found.output_characters - 1 <= 6


def test_level_10_is_long_but_bounded(measures: dict[int, list[Measures]]) -> None:
    assert 60 <= mean(found.lines for found in measures[10]) <= 100
    assert 300 <= mean(found.steps for found in measures[10]) <= 5000
    assert max(found.output_lines for found in measures[10]) <= 60


def test_generator_repeats_itself_and_nothing_else() -> None:
    for level in LEVELS:
        assert generate(generator("same", level), level) == generate(generator("same", level), level)
        assert generate(generator("same", level), level) != generate(generator("other", level), level)


def test_same_programs_in_any_process() -> None:
    text = (
        "import hashlib; from veritas_rl.envs.trace.programs import generate; "
        "from veritas_rl.envs.trace.questions import form_of; "
        "from veritas_rl.seeding import generator; "
        "made = [generate(generator('p', n), 1 + n % 10) for n in range(100)]; "
        "text = repr([(p.source, sorted(p.opaque), form_of(p.source)) for p in made]); "
        "print(hashlib.sha256(text.encode()).hexdigest())"
    )
    made = [generate(generator("p", n), 1 + n % 10) for n in range(100)]
    here = repr([(program.source, sorted(program.opaque), form_of(program.source)) for program in made])
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", text],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == hashlib.sha256(here.encode()).hexdigest()


@pytest.mark.parametrize("level", [2, 5, 10])
def test_99_percent_of_programs_differ(level: int) -> None:
    count = 1000 if level < 10 else 300
    assert len({form_of(source) for source in sources("differ", level, count)}) >= 0.99 * count


def test_level_1_has_thousands_of_programs() -> None:
    assert len({form_of(source) for source in sources("differ", 1, 5000)}) >= 4000


def test_high_levels_use_the_whole_language() -> None:
    kinds = {type(node) for source in sources("kinds", 9, 300) for node in ast.walk(ast.parse(source))}
    wanted = {
        ast.FunctionDef, ast.Lambda, ast.For, ast.While, ast.Break, ast.Continue, ast.List, ast.Dict, ast.Set,
        ast.Tuple, ast.Slice, ast.JoinedStr, ast.ClassDef, ast.Try, ast.Raise, ast.ListComp, ast.DictComp, ast.SetComp,
        ast.GeneratorExp, ast.Yield, ast.YieldFrom, ast.With, ast.Global, ast.Nonlocal, ast.Delete, ast.Starred,
        ast.IfExp, ast.BoolOp, ast.Attribute, ast.Return, ast.AugAssign,
    }  # fmt: skip
    assert not wanted - kinds
    assert not kinds & {ast.Import, ast.ImportFrom, ast.Assert}


def test_names_do_not_clash() -> None:
    """A variable never shadows a function or a class, and no attribute has the name of a built-in type's attribute."""
    builtin = {
        name for kind in (int, str, list, dict, set, tuple, Exception, type(_ for _ in ())) for name in dir(kind)
    }
    assert not builtin & {*POOLS["attribute"], *POOLS["method"]}
    assert not {*POOLS["attribute"]} & {*POOLS["method"]}
    variables = {
        name for role, pool in POOLS.items() if role not in ("function", "method", "attribute") for name in pool
    }
    assert not variables & {*POOLS["function"]}
    assert not variables & {*dir(builtins), *WORDS}


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(ValueError, match="level must be 1 to 10"):
        generate(generator("x"), 11)
