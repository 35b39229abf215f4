"""docs/patches.md names every patch that is applied."""

import inspect

import pytest

from veritas_rl.verl_plugin import patch_list, patches
from veritas_rl.verl_plugin.cpu import corrections
from veritas_rl.verl_plugin.cpu import patches as speed
from veritas_rl.verl_plugin.patching import patches_in

MODULES = (patches, corrections, speed)


def test_the_page_is_up_to_date() -> None:
    assert patch_list.PAGE.read_text() == patch_list.page(), "run python -m veritas_rl.verl_plugin.patch_list"


@pytest.mark.parametrize("module", MODULES)
def test_every_patch_stands_in_it_with_what_it_does(module) -> None:
    page = patch_list.PAGE.read_text()
    found = patches_in(module)
    # Every function with this signature checks for a fault, so a function that is not listed is a forgotten patch.
    assert len(found) == inspect.getsource(module).count("(module: Any) -> None:")
    for patch in found:
        assert f"| `{patch.name}` | `{patch.module}` | {patch.summary} |\n" in page
        assert patch.summary.endswith(".")
        assert ": " in patch.summary


def test_every_method_stands_in_it_with_what_it_fixes() -> None:
    page = patch_list.PAGE.read_text()
    found = [method for file in patch_list.CLASSES for method in patch_list.methods_in(file)]
    assert {"FSDPEngineWithLMHead", "TrainingWorker", "vLLMHttpServer"} <= {extended for _, extended, _ in found}
    for name, extended, words in found:
        assert f"| `{name}` | `{extended}` | {words} |\n" in page
        assert words.endswith(".")
        assert ": " in words
