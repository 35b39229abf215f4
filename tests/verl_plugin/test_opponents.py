"""The processes in which opponents choose their moves."""

import subprocess
import sys

import pytest

from veritas_rl.verl_plugin.opponents import servers_of


@pytest.mark.parametrize(("cores", "workers", "each"), [(192, 8, 6), (16, 8, 1), (2, 1, 1), (64, 1, 16)])
def test_all_workers_together_take_a_share_of_the_cores(cores: int, workers: int, each: int) -> None:
    assert servers_of(cores, workers) == each
    # One process for four cores, and at least one for each worker.
    assert each * workers <= max(cores // 4, workers)


def test_a_process_that_only_searches_imports_no_torch() -> None:
    code = "import sys, veritas_rl.verl_plugin.opponents; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
