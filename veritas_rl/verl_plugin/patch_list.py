"""Writes docs/patches.md, the list of all run-time patches of verl and its libraries:

python -m veritas_rl.verl_plugin.patch_list
python -m veritas_rl.verl_plugin.patch_list --check    # exit code 1 if the page is not current
"""

import textwrap
from types import ModuleType

from veritas_rl.errors import exit_on_user_error
from veritas_rl.generated_page import DOCS, page_command
from veritas_rl.pins import required_version
from veritas_rl.verl_plugin import engine_patches, patches, vllm_patches
from veritas_rl.verl_plugin.cpu import corrections
from veritas_rl.verl_plugin.cpu import patches as speed
from veritas_rl.verl_plugin.patching import patches_in

PAGE = DOCS / "patches.md"

GROUPS: tuple[tuple[str, tuple[ModuleType, ...], str], ...] = (
    ("In every run", (engine_patches, patches), "These fix faults."),
    ("With vLLM", (vllm_patches,), "These fix faults of a rollout in vLLM."),
    (
        "On a CPU only",
        (corrections,),
        "verl has no CPU platform, and cannot train on a CPU without these; `kept_weights` is for `rollout=vllm`.",
    ),
    (
        "On a CPU only, for speed",
        (speed,),
        "These do not change results. [benchmarks.md](benchmarks.md) has the gain of each. VERITAS_RL_CPU_PATCHES "
        "turns them off: `0` all of them, `-small_cells,-padded_tensors` these two. It also turns off two things that "
        "are no patches: `forkserver`, from which all processes start, and `separate_critic`, by which actor and "
        "critic are updated at the same time.",
    ),
)
"""The heading, the modules, and a description of their patches."""


def page() -> str:
    """The text of docs/patches.md."""
    counts = [sum(len(patches_in(module)) for module in modules) for _, modules, _ in GROUPS]
    lines = [
        "<!-- Written by python -m veritas_rl.verl_plugin.patch_list: change the docstrings instead. -->",
        "# Patches of verl",
        "",
        *textwrap.wrap(
            f"Training runs verl {required_version('verl')} as released. At run time {counts[0] + counts[1]} small "
            f"patches fix faults; on a CPU {counts[2]} more make verl and vLLM run, and {counts[3]} make it faster. "
            "Each patch checks the version and the faulty line of source, and stops the run with an error if either "
            "has changed.",
            width=120,
        ),
    ]
    for heading, modules, about in GROUPS:
        lines += [
            "",
            f"## {heading}",
            "",
            *textwrap.wrap(about, width=120),
            "",
            "| patch | module | fault and fix |",
        ]
        lines += ["| --- | --- | --- |"]
        found = [patch for module in modules for patch in patches_in(module)]
        lines += [f"| `{patch.name}` | `{patch.module}` | {patch.summary} |" for patch in found]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    exit_on_user_error(lambda: page_command("veritas_rl.verl_plugin.patch_list", lambda: {PAGE: page()}))
