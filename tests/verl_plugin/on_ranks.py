"""Run a program of this folder with torchrun on a CPU."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any


def printed(program: Path, ranks: int, *words: str | Path, **variables: str) -> list[dict[str, Any]]:
    """The JSON objects that a program prints, one for each line, on all ranks together."""
    torchrun = ("-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}")
    done = subprocess.run(
        [sys.executable, *torchrun, program, *words],
        env={**os.environ, "VERL_PLATFORM": "cpu", "OMP_NUM_THREADS": "1", **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
