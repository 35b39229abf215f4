"""No tool has the name of a module of the standard library.

Python puts the folder of a script first on its path. A file `train/tools/statistics.py` would therefore replace the
module `statistics` in every tool and in every library that a tool imports.
"""

import sys
from collections.abc import Iterable
from pathlib import Path

TOOLS = Path(__file__).resolve().parents[1] / "train/tools"


def shadowing(names: Iterable[str]) -> list[str]:
    """The names of files or folders that hide a module of the standard library."""
    return sorted(name for name in names if name.removesuffix(".py") in sys.stdlib_module_names)


def test_no_tool_is_named_like_a_standard_module() -> None:
    names = [path.name for path in TOOLS.iterdir()]
    assert "learning_signal.py" in names
    assert shadowing(names) == []


def test_such_names_are_found() -> None:
    assert shadowing(["signal.py", "evaluate.py", "statistics.py", "json", "learning_signal.py"]) == [
        "json",
        "signal.py",
        "statistics.py",
    ]
