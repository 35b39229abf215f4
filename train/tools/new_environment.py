"""Write a package with an environment of one question and one answer, and its test, to begin with.

    python train/tools/new_environment.py riddles --output my-folder
    python -m pytest my-folder/riddles
    python train/tools/lint_env.py --env my-folder/riddles/riddles.py:riddles
    bash train/scripts/openspiel-ppo-trainer.sh environment=my-folder/riddles/riddles.py:riddles

Installed (`pip install my-folder/riddles`), the environment is found by its name: `--env riddles`.
docs/environments.md says what a question needs.
"""

import argparse
import keyword
import re
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from veritas_rl.envs.registry import ENVIRONMENTS
from veritas_rl.errors import UserError, exit_on_user_error
from veritas_rl.paths import ROOT

MODULE = '''"""Sums and differences of numbers below 50."""

from veritas_rl.envs.one_turn import Question, environment


@environment("NAME", cases=("sums", "differences"), form=r"-?[0-9]+")
def NAME(case, random):
    first, second = random.randrange(50), random.randrange(50)
    sign, truth = ("+", first + second) if case == "sums" else ("-", first - second)
    return Question(f"{first} {sign} {second} = ?", str(truth))
'''
TEST = '''"""The environment has no misleading rewards."""

from pathlib import Path

from veritas_rl.envs.lint import lint
from veritas_rl.envs.registry import environment_named


def test_the_linter_finds_nothing() -> None:
    name = environment_named("NAME.py:NAME", Path(__file__).parent)
    assert [(row.check, row.findings) for row in lint(name, count=6) if row.findings] == []
'''
PROJECT = """[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "veritas-NAME"
version = "1.0"

[project.entry-points."veritas_rl.environments"]
NAME = "NAME:NAME"

[tool.setuptools]
py-modules = ["NAME"]
"""


def files_of(name: str) -> Mapping[str, str]:
    """The contents of the package's files, by their names."""
    texts = {f"{name}.py": MODULE, f"test_{name}.py": TEST, "pyproject.toml": PROJECT}
    return {file: text.replace("NAME", name) for file, text in texts.items()}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="the environment's name: small letters, digits and _")
    parser.add_argument("--output", type=Path, default=Path(), help="where its folder is made; default: here")
    given = parser.parse_args()
    if not re.fullmatch(r"[a-z][a-z0-9_]*", given.name):
        raise UserError(f"{given.name!r} is no name of a module: use small letters, digits and _")
    if given.name in ENVIRONMENTS or (ROOT / f"train/verl/config/environment/{given.name}.yaml").is_file():
        raise UserError(f"{given.name} is an environment of this repository: choose another name")
    if keyword.iskeyword(given.name) or find_spec(given.name):
        raise UserError(f"{given.name} is a word of Python, or a module that it finds already: choose another name")
    folder = given.output / given.name
    if folder.exists():
        raise UserError(f"{folder} exists already: choose another name, or another folder with --output")
    try:
        folder.mkdir(parents=True)
        for file, text in files_of(given.name).items():
            (folder / file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"{folder} cannot be written: {error.strerror}") from error
    print(f"wrote {folder}; try: python train/tools/lint_env.py --env {folder / given.name}.py:{given.name}")


if __name__ == "__main__":
    exit_on_user_error(main)
