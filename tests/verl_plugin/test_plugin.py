"""verl loads the modules of the plugin by name in any order, so each can be the first import of a process."""

import os
import subprocess
import sys

PROGRAM = """
import importlib, os, sys
import verl

for name in ("agent_loop", "loop_manager", "loop_worker", "replay_buffer", "trainer"):
    child = os.fork()
    if not child:
        importlib.import_module(f"veritas_rl.verl_plugin.{name}")
        from verl.trainer.ppo.v1.trainer_base import get_trainer_cls
        os._exit(0 if get_trainer_cls("game").__name__ == "TaskTrainer" else 1)
    assert os.waitpid(child, 0)[1] == 0, name
"""


def test_every_module_can_be_imported_first() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM],
        env={**os.environ, "VERL_PLATFORM": "cpu"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
