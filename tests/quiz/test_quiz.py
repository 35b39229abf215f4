"""The environment has no misleading rewards."""

from pathlib import Path

from veritas_rl.envs.lint import lint
from veritas_rl.envs.registry import environment_named


def test_the_linter_finds_nothing() -> None:
    name = environment_named("quiz.py:quiz", Path(__file__).parent)
    assert [(row.check, row.findings) for row in lint(name, count=6) if row.findings] == []
