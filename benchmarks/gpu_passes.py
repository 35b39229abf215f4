"""Measures the time and peak memory of the trainer's passes; `gpu_step.py` starts it as a separate process.

The argument is a JSON object: `role` ("actor" or "critic"), `overrides` (for Hydra), `lengths` (tokens of prompt and
reply of each row), `repeats`. The script prints one JSON object. "inference" and "update" each contain the seconds of
the fastest pass over all rows and the peak in bytes. `waste` is the number of tokens computed per real token, as a mean
over the micro-batches, and `most_waste` is its maximum.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from veritas_rl.launch.configuration import compose_configuration
from veritas_rl.verl_plugin.alone import infer, random_rows, update, worker_of


class Meter:
    """Measures time and peak memory of one device.

    Args:
        cuda: Whether the device is a GPU. Memory is what torch allocates on the GPU, otherwise the growth of this
            process's resident memory.
    """

    def __init__(self, cuda: bool) -> None:
        self._cuda = cuda
        self._start = 0 if cuda else self._resident("VmRSS")

    def measure(self, work: Callable[[], object], repeats: int) -> dict[str, float]:
        """The seconds of the fastest of several passes after an uncounted first pass, and their peak in bytes."""
        work()
        self._reset()
        taken = []
        for _ in range(repeats):
            started = time.perf_counter()
            work()
            if self._cuda:
                torch.cuda.synchronize()
            taken.append(time.perf_counter() - started)
        peak = torch.cuda.max_memory_allocated() if self._cuda else self._resident("VmHWM") - self._start
        return {"seconds": min(taken), "peak": peak}

    def _reset(self) -> None:
        if self._cuda:
            torch.cuda.reset_peak_memory_stats()
        else:
            Path("/proc/self/clear_refs").write_text("5")

    @staticmethod
    def _resident(field: str) -> int:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith(field))


def main() -> None:
    asked = json.loads(sys.argv[1])
    settings = compose_configuration(asked["overrides"])
    role, rows = asked["role"], random_rows([(prompt, reply) for prompt, reply in asked["lengths"]])
    meter = Meter(settings.trainer.device != "cpu")
    worker = worker_of(role, settings)
    metrics: dict[str, Any] = {}
    measured: dict[str, Any] = {
        "inference": meter.measure(lambda: infer(role, worker, rows), asked["repeats"]),
        "update": meter.measure(lambda: metrics.update(update(role, worker, rows, settings)), asked["repeats"]),
        "waste": fmean(metrics["waste"]),
        "most_waste": max(metrics["waste"]),
    }
    print(json.dumps(measured))


if __name__ == "__main__":
    main()
