"""Sample keys are written and read in one module, with any text in a uid."""

import ast
from pathlib import Path

import pytest

from veritas_rl.verl_plugin.sample_key import SampleKey

PLUGIN = Path(__file__).parents[2] / "veritas_rl/verl_plugin"


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("a-1_0_10", SampleKey("a-1", 0, 10)),
        ("3f2b8c1e-0000-4000-8000-000000000000_7_0", SampleKey("3f2b8c1e-0000-4000-8000-000000000000", 7, 0)),
        ("a_b_2_3", SampleKey("a_b", 2, 3)),
    ],
)
def test_a_key_is_read_as_it_was_written(text: str, key: SampleKey) -> None:
    assert SampleKey.parse(text) == key
    assert str(key) == text


def test_the_samples_of_one_game_share_a_session() -> None:
    keys = [SampleKey.parse(text) for text in ("a_0_0", "a_0_1", "a_1_0", "b_0_0")]
    assert keys[0].session == keys[1].session
    assert len({key.session for key in keys}) == 3


@pytest.mark.parametrize("text", ["a", "a_1", "a_x_1", "a_1_"])
def test_malformed_sample_keys_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a sample key"):
        SampleKey.parse(text)


def test_no_other_module_takes_a_key_apart() -> None:
    """Only one module may know the format of a key."""
    for file in PLUGIN.rglob("*.py"):
        if file.name == "sample_key.py":
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                splits = node.func.attr in ("split", "rsplit", "partition", "rpartition")
                assert not (splits and node.args and ast.unparse(node.args[0]) == "'_'"), (file, node.lineno)
