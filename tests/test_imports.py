"""Imports have one direction: no cycles, each library only in its folders, each folder below those that use it.

The graph is read from the source, so an import inside a function or under `if TYPE_CHECKING:` counts like any other.
`KNOWN` lists known violations; it may only shrink.
"""

import ast
import subprocess
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ("veritas_rl", "train")

KNOWN: frozenset[tuple[str, str]] = frozenset()
"""Imports that currently violate a rule: the importing file and the imported module."""

_MODEL_PLAYERS = tuple(
    f"veritas_rl/players/{name}.py"
    for name in (
        "answer_probabilities",
        "generation",
        "language_model",
        "loading",
        "processor",
        "sampling",
        "slot_kv_cache",
    )
)
_MODEL_CODE = ("veritas_rl/verl_plugin/", "veritas_rl/checkpoints/", "veritas_rl/launch/", *_MODEL_PLAYERS)
LIBRARIES: Mapping[str, tuple[str, ...]] = {
    "verl": ("veritas_rl/verl_plugin/",),
    "transfer_queue": ("veritas_rl/verl_plugin/",),
    "tensordict": ("veritas_rl/verl_plugin/",),
    "ray": ("veritas_rl/verl_plugin/", "veritas_rl/launch/", "veritas_rl/node_versions.py", "veritas_rl/parallel.py"),
    "pyspiel": ("veritas_rl/envs/openspiel/",),
    **dict.fromkeys(("torch", "transformers", "peft", "safetensors", "vllm", "sglang"), _MODEL_CODE),
}
"""The path prefixes where each library may be imported. Any other library may be imported anywhere."""

_PLAYING = ("envs", "curriculum", "players", "checkpoints", "viewing")
FOLDERS: Mapping[str, tuple[str, ...]] = {
    "": (),
    "envs": (),
    "curriculum": ("envs",),
    "checkpoints": (),
    "planning": (),
    "records": (),
    "players": ("envs", "checkpoints"),
    "viewing": ("envs", "curriculum", "players", "checkpoints"),
    "judging": _PLAYING,
    "exact": (*_PLAYING, "judging"),
    "rating": (*_PLAYING, "judging"),
    "datasets": (*_PLAYING, "judging"),
    "demonstrations": (*_PLAYING, "judging", "datasets"),
    "serving": _PLAYING,
    "verl_plugin": (*_PLAYING, "datasets", "demonstrations"),
    "launch": (
        *(
            *_PLAYING,
            "planning",
            "records",
            "judging",
            "exact",
            "rating",
            "datasets",
            "demonstrations",
            "serving",
            "verl_plugin",
        ),
    ),
    "doctor": (*_PLAYING, "planning", "launch"),
    "wizard": (*_PLAYING, "planning", "launch"),
}
"""The folders of the package that each folder may import. Every folder may import "", the top-level modules."""


@dataclass(frozen=True)
class Import:
    """One import of one name.

    Attributes:
        file: The importing file, relative to the root, with forward slashes.
        line: Its line.
        module: The importing module's dotted name.
        target: The imported module's dotted name; for a name imported from a module, the name of that module.
    """

    file: str
    line: int
    module: str
    target: str

    @property
    def key(self) -> tuple[str, str]:
        return self.file, self.target

    def __str__(self) -> str:
        return f"{self.file}:{self.line} imports {self.target}"


def read_imports(root: Path, folders: Iterable[str] = SOURCES) -> list[Import]:
    """Every import in the Python files of these folders of `root`, ordered by file and line."""
    files = {}
    for folder in folders:
        for path in sorted((root / folder).rglob("*.py")):
            relative = path.relative_to(root)
            parts = relative.with_suffix("").parts
            files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = relative
    found = []
    for module, relative in files.items():
        tree = ast.parse((root / relative).read_text(encoding="utf-8"))
        package = module if relative.name == "__init__.py" else module.rpartition(".")[0]
        for line, target in _targets(tree, package, files):
            found.append(Import(relative.as_posix(), line, module, target))
    return sorted(set(found), key=lambda one: (one.file, one.line, one.target))


def _targets(tree: ast.AST, package: str, modules: Collection[str]) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            source = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                inner = f"{source}.{alias.name}"
                yield node.lineno, inner if inner in modules else source
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            function = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if function in ("import_module", "__import__") and isinstance(node.args[0].value, str):
                yield node.lineno, node.args[0].value


def misplaced_libraries(
    imports: Iterable[Import], libraries: Mapping[str, tuple[str, ...]] = LIBRARIES
) -> list[Import]:
    """The imports of a library outside its folders."""
    return [
        one
        for one in imports
        if (allowed := libraries.get(one.target.partition(".")[0])) is not None and not one.file.startswith(allowed)
    ]


def upward_imports(imports: Iterable[Import], folders: Mapping[str, tuple[str, ...]] = FOLDERS) -> list[Import]:
    """The imports from one folder of `veritas_rl` to another that it may not import."""
    found = []
    for one in imports:
        if not (one.module.startswith("veritas_rl.") and one.target.startswith("veritas_rl.")):
            continue
        here, there = (_folder(name, folders) for name in (one.module, one.target))
        if there not in ("", here) and there not in folders[here]:
            found.append(one)
    return found


def _folder(module: str, folders: Collection[str]) -> str:
    name = module.split(".")[1]
    return name if name in folders else ""


def circles(imports: Iterable[Import]) -> list[list[Import]]:
    """The shortest import cycle of each set of modules that import one another."""
    edges: dict[str, dict[str, Import]] = {}
    for one in imports:
        if one.target != one.module:
            edges.setdefault(one.module, {}).setdefault(one.target, one)
    found: list[list[Import]] = []
    done: set[str] = set()
    for start in sorted(edges):
        if start in done:
            continue
        shortest = min(
            (circle for each in _mutual(start, edges) if (circle := _way(each, each, edges))), key=len, default=[]
        )
        if shortest:
            found.append(shortest)
            done |= _mutual(start, edges)
    return found


def _reached(start: str, edges: Mapping[str, Mapping[str, Import]]) -> set[str]:
    seen, waiting = {start}, [start]
    while waiting:
        for target in edges.get(waiting.pop(), {}):
            if target not in seen:
                seen.add(target)
                waiting.append(target)
    return seen


def _mutual(start: str, edges: Mapping[str, Mapping[str, Import]]) -> set[str]:
    """The modules that `start` reaches and that reach `start`, including `start`."""
    return {other for other in _reached(start, edges) if start in _reached(other, edges)}


def _way(start: str, end: str, edges: Mapping[str, Mapping[str, Import]]) -> list[Import]:
    """The shortest chain of at least one import from `start` to `end`; empty if there is none."""
    ways: list[list[Import]] = [[edge] for edge in edges.get(start, {}).values()]
    seen = {start}
    for way in ways:  # the loop appends to `ways`
        here = way[-1].target
        if here == end:
            return way
        if here not in seen:
            seen.add(here)
            ways += [[*way, edge] for edge in edges.get(here, {}).values()]
    return []


@pytest.fixture(scope="module")
def imports() -> list[Import]:
    return read_imports(ROOT)


def without_known(imports: Iterable[Import]) -> list[Import]:
    return [one for one in imports if one.key not in KNOWN]


def test_no_modules_import_each_other_in_a_circle(imports: list[Import]) -> None:
    found = circles(without_known(imports))
    assert not found, "\n".join("a circle: " + "; ".join(map(str, circle)) for circle in found)


def test_every_library_is_imported_in_its_place(imports: list[Import]) -> None:
    found = misplaced_libraries(without_known(imports))
    assert not found, "\n".join(f"{one}, which belongs in {', '.join(LIBRARIES[_top(one)])}" for one in found)


def _top(one: Import) -> str:
    return one.target.partition(".")[0]


def test_every_folder_imports_only_those_below_it(imports: list[Import]) -> None:
    found = upward_imports(without_known(imports))
    assert not found, "\n".join(map(str, found))


def test_every_folder_of_the_package_has_its_place() -> None:
    package = ROOT / "veritas_rl"
    there = {path.name for path in package.iterdir() if path.is_dir() and any(path.rglob("*.py"))}
    assert there <= set(FOLDERS), f"say in FOLDERS what these may import: {sorted(there - set(FOLDERS))}"


@pytest.mark.parametrize("key", sorted(KNOWN))
def test_each_known_exception_still_breaks_a_rule(key: tuple[str, str], imports: list[Import]) -> None:
    rest = [one for one in imports if one.key == key or one.key not in KNOWN]
    broken = [*misplaced_libraries(rest), *upward_imports(rest), *(one for circle in circles(rest) for one in circle)]
    assert key in {one.key for one in broken}, f"{key} breaks no rule any more: take it out of KNOWN"


def test_environments_and_the_curriculum_load_no_training_library() -> None:
    program = """
import importlib, pkgutil, sys
import veritas_rl.curriculum, veritas_rl.envs
names = [
    found.name
    for package in (veritas_rl.envs, veritas_rl.curriculum)
    for found in pkgutil.walk_packages(package.__path__, package.__name__ + ".")
]
assert "veritas_rl.envs.registry" in names, names
for name in names:
    importlib.import_module(name)
    loaded = {"ray", "torch", "transformers", "verl"} & set(sys.modules)
    assert not loaded, f"{name} loads {sorted(loaded)}"
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def planted(folder: Path, files: Mapping[str, str]) -> list[Import]:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return read_imports(folder, ["veritas_rl"])


TYPED = "from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    from veritas_rl import one\n"


@pytest.mark.parametrize(
    "second",
    [
        "from veritas_rl import one\n",
        "import veritas_rl.one\n",
        "from .one import f\n",
        "from . import one\n",
        TYPED,
        "def f():\n    from veritas_rl.one import f\n",
        "class A:\n    def f(self):\n        with self:\n            import veritas_rl.one as a\n",
        "import importlib\n\nimportlib.import_module('veritas_rl.one')\n",
    ],
)
def test_a_circle_is_found_however_it_is_written(second: str, tmp_path: Path) -> None:
    found = circles(
        planted(tmp_path, {"veritas_rl/one.py": "from veritas_rl.two import g\n", "veritas_rl/two.py": second})
    )
    (circle,) = found
    assert {one.key for one in circle} == {
        ("veritas_rl/one.py", "veritas_rl.two"),
        ("veritas_rl/two.py", "veritas_rl.one"),
    }


def test_each_circle_is_found_once_at_its_shortest(tmp_path: Path) -> None:
    files = {
        "a/__init__.py": "from veritas_rl.a.x import f\n",
        "a/x.py": "from .. import b\nfrom .y import g\n",
        "a/y.py": "import veritas_rl.c\nimport veritas_rl.a.x\n",
        "b.py": "import veritas_rl.c",
        "c.py": "from veritas_rl.a import x\n",
        "d.py": "import veritas_rl.e\nimport veritas_rl.d",
        "e.py": "import veritas_rl.f",
        "f.py": "from veritas_rl import d",
        "g.py": "from veritas_rl.d import h\n",
    }
    found = circles(planted(tmp_path, {f"veritas_rl/{name}": text for name, text in files.items()}))
    assert [sorted(one.module for one in circle) for circle in found] == [
        ["veritas_rl.a.x", "veritas_rl.a.y"],
        ["veritas_rl.d", "veritas_rl.e", "veritas_rl.f"],
    ]
    assert not circles(planted(tmp_path, {"veritas_rl/a/y.py": "", "veritas_rl/c.py": "", "veritas_rl/f.py": ""}))


def test_a_misplaced_library_is_found(tmp_path: Path) -> None:
    files = {
        "verl_plugin/trainer.py": "import verl.trainer\nimport torch",
        "judging/judge.py": "def f():\n    import numpy\n    from verl.utils import x\n",
        "envs/openspiel/env.py": "import pyspiel\nimport torch.nn as nn\n",
        "players/mcts.py": "\n\nimport verlang, pyspiel\n",
        "players/sampling.py": "import torch\nfrom transformers import x\n",
    }
    found = misplaced_libraries(planted(tmp_path, {f"veritas_rl/{name}": text for name, text in files.items()}))
    assert list(map(str, found)) == [
        "veritas_rl/envs/openspiel/env.py:2 imports torch.nn",
        "veritas_rl/judging/judge.py:3 imports verl.utils",
        "veritas_rl/players/mcts.py:3 imports pyspiel",
    ]


def test_an_import_upward_is_found(tmp_path: Path) -> None:
    files = {
        "errors.py": "from veritas_rl.envs import base\n",
        "envs/base.py": "import veritas_rl.errors\nfrom veritas_rl.envs.openspiel import env\n",
        "envs/openspiel/env.py": "def f():\n    from veritas_rl.players.random import g\n",
        "checkpoints/merge.py": TYPED.replace("one", "players"),
        "players/__init__.py": "",
        "players/random.py": "from veritas_rl.checkpoints import merge\nfrom veritas_rl.envs.base import Player\n",
    }
    found = upward_imports(planted(tmp_path, {f"veritas_rl/{name}": text for name, text in files.items()}))
    assert list(map(str, found)) == [
        "veritas_rl/checkpoints/merge.py:4 imports veritas_rl.players",
        "veritas_rl/envs/openspiel/env.py:2 imports veritas_rl.players.random",
        "veritas_rl/errors.py:1 imports veritas_rl.envs.base",
    ]
