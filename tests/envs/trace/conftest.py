"""A fixture that runs many generated programs in one interpreter."""

import json
import os
import subprocess
import sys
from collections.abc import Callable

import pytest

_RUNNER = """
import contextlib, io, json, sys
outputs = []
for source in json.load(sys.stdin):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(source, "<program>", "exec"), {"__name__": "__main__"})
    outputs.append(out.getvalue())
json.dump(outputs, sys.stdout)
"""

RunPrograms = Callable[..., list[str]]


@pytest.fixture
def run_programs() -> RunPrograms:
    """A function that runs generated programs in a child interpreter and returns the output of each."""

    def run(sources: list[str], hash_seed: int = 0) -> list[str]:
        done = subprocess.run(
            [sys.executable, "-c", _RUNNER],
            input=json.dumps(sources),
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run
