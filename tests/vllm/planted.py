"""Faults that a worker of vLLM has in or after the weight syncs that PLANTED names, such as "slow:2,refuse:4".

verl imports this module in every process if VERL_USE_EXTERNAL_MODULES names it. Syncs are counted from 1. Only the
last bucket of a sync counts. The file PLANTED_DEATH is written when the worker dies.
"""

import functools
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

from wrapt import when_imported

PLANTED = {int(sync): fault for fault, _, sync in (word.partition(":") for word in os.environ["PLANTED"].split(","))}


def die(*_: Any) -> None:
    """End this process as the kernel does if memory runs out."""
    Path(os.environ["PLANTED_DEATH"]).touch()
    os.kill(os.getpid(), signal.SIGKILL)


@when_imported("verl.workers.rollout.vllm_rollout.utils")
def plant(module: Any) -> None:
    """Let the worker's method that loads weights have the faults."""
    extension = module.vLLMColocateWorkerExtension
    original, done = extension._update_weights, 0

    @functools.wraps(original)  # patches look into its source
    def update_weights(self: Any, weights: Any, **settings: Any) -> None:
        nonlocal done
        done += 1
        fault = PLANTED.get(done)
        if fault == "slow":
            time.sleep(10)
        if fault == "refuse":
            raise ValueError(f"planted: weights of sync {done} are refused")
        if fault == "die":
            die()
        if fault == "die_later":
            threading.Timer(1.0, die).start()
        if fault == "die_generating":
            self.execute_model = die
        if fault != "leave_out":
            original(self, weights, **settings)

    extension._update_weights = update_weights
