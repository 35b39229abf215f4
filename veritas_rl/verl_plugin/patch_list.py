"""Writes docs/patches.md, the list of what this package changes in verl and its libraries:

python -m veritas_rl.verl_plugin.patch_list
python -m veritas_rl.verl_plugin.patch_list --check    # exit code 1 if the page is not current
"""

import ast
import textwrap
from collections.abc import Iterator, Sequence
from types import ModuleType

from veritas_rl.errors import exit_on_user_error
from veritas_rl.generated_page import DOCS, page_command
from veritas_rl.paths import ROOT
from veritas_rl.pins import required_version
from veritas_rl.verl_plugin import patches
from veritas_rl.verl_plugin.cpu import corrections
from veritas_rl.verl_plugin.cpu import patches as speed
from veritas_rl.verl_plugin.patching import patches_in

PAGE = DOCS / "patches.md"

CLASSES = ("engines.py", "workers.py", "vllm/server.py", "vllm/extension.py")
"""The files beside this one with classes that verl runs instead of its own. They are read, because some need vLLM."""

GROUPS: tuple[tuple[str, tuple[ModuleType, ...], str], ...] = (
    ("Patches", (patches,), "These fix faults; `failed_weight_sync` is for a rollout in vLLM."),
    (
        "Patches on a CPU only",
        (corrections,),
        "verl has no CPU platform, and cannot train on a CPU without these; `kept_weights` is for `rollout=vllm`.",
    ),
    (
        "Patches on a CPU only, for speed",
        (speed,),
        "These do not change results. [benchmarks.md](benchmarks.md) has the gain of each. VERITAS_RL_CPU_PATCHES "
        "turns them off: `0` all of them, `-small_cells,-short_padding` these two. It also turns off two things that "
        "are no patches: `forkserver`, from which all processes start, and `separate_critic`, by which actor and "
        "critic are updated at the same time.",
    ),
)
"""The heading, the modules, and a description of their patches."""


def page() -> str:
    """The text of docs/patches.md."""
    counts = [sum(len(patches_in(module)) for module in modules) for _, modules, _ in GROUPS]
    methods = [row for file in CLASSES for row in methods_in(file)]
    lines = [
        "<!-- Written by python -m veritas_rl.verl_plugin.patch_list: change the docstrings instead. -->",
        "# Patches of verl",
        "",
        *textwrap.wrap(
            f"Training runs verl {required_version('verl')} as released. verl's registries and this package's "
            f"trainer choose classes of this package, whose {len(methods)} methods below fix faults. {counts[0]} small "
            f"patches fix faults at run time; on a CPU {counts[1]} more make verl and vLLM run, and {counts[2]} make "
            "it faster. Each method and patch checks the version and the faulty line of source, and stops the run with "
            "an error if either has changed.",
            width=120,
        ),
        *_table(
            "Classes",
            "Each class extends the class of verl that it replaces.",
            ("method", "verl's class"),
            methods,
        ),
    ]
    for heading, modules, about in GROUPS:
        found = [patch for module in modules for patch in patches_in(module)]
        rows = [(patch.name, patch.module, patch.summary) for patch in found]
        lines += _table(heading, about, ("patch", "module"), rows)
    return "\n".join(lines) + "\n"


def methods_in(file: str) -> Iterator[tuple[str, str, str]]:
    """The name, verl's class, and the fault with its fix, of each method with the decorator `mends`."""
    tree = ast.parse((ROOT / "veritas_rl/verl_plugin" / file).read_text())
    for each in (node for node in tree.body if isinstance(node, ast.ClassDef)):
        extended = ast.unparse(each.bases[-1])
        for method in each.body:
            if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef) and any(map(_mends, method.decorator_list)):
                words = ast.get_docstring(method) or ""
                yield f"{each.name}.{method.name}", extended, words.partition("\n")[0]


def _mends(decorator: ast.expr) -> bool:
    return ast.unparse(decorator).startswith("mends(")


def _table(heading: str, about: str, columns: tuple[str, str], rows: Sequence[tuple[str, str, str]]) -> list[str]:
    lines = ["", f"## {heading}", "", *textwrap.wrap(about, width=120), ""]
    lines += [f"| {columns[0]} | {columns[1]} | fault and fix |", "| --- | --- | --- |"]
    return lines + [f"| `{name}` | `{of}` | {words} |" for name, of, words in rows]


if __name__ == "__main__":
    exit_on_user_error(lambda: page_command("veritas_rl.verl_plugin.patch_list", lambda: {PAGE: page()}))
