"""Measures the memory of verl's actor or critic by part, in a separate process.

The argument is a JSON object: `role` ("actor" or "critic"), `overrides`, `rows` (number of sequences), `prompt` and
`reply` (tokens of each). The script prints one JSON object with the bytes of each part. The kernel reports the resident
memory, and its peak is reset before each phase.
"""

import gc
import json
import os
import sys
from pathlib import Path

# Arenas keep freed memory, so each large tensor gets its own mapping. malloc reads these settings at process start.
os.environ.update(MALLOC_MMAP_THRESHOLD_="65536", MALLOC_TRIM_THRESHOLD_="65536", MALLOC_ARENA_MAX="1")
if os.environ.get("VERITAS_RL_MEASURING") != "1":
    os.execvpe(sys.executable, [sys.executable, *sys.argv], {**os.environ, "VERITAS_RL_MEASURING": "1"})

# peft and the model's module are loaded with the first model. Imported here, they do not count as weights.
import peft  # noqa: F401
import torch
import transformers.models.qwen3.modeling_qwen3  # noqa: F401

from veritas_rl.launch.configuration import compose_configuration
from veritas_rl.verl_plugin.alone import infer, random_rows, update, worker_of


def memory(field: str) -> int:
    """Bytes of this process: "VmRSS" now, "RssAnon" without files such as libraries, "VmHWM" at the peak since the last
    reset."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(field))


def resident() -> tuple[int, int]:
    """The resident bytes of this process, and those of them that are no file's."""
    gc.collect()
    return memory("VmRSS"), memory("RssAnon")


def reset_peak() -> None:
    """Reset the peak to the current memory."""
    Path("/proc/self/clear_refs").write_text("5")


def main() -> None:
    asked = json.loads(sys.argv[1])
    torch.set_num_threads(int(asked.get("threads", 1)))
    settings = compose_configuration(asked["overrides"])
    role, lengths = asked["role"], [(asked["prompt"], asked["reply"])] * asked["rows"]
    _, start = resident()
    worker = worker_of(role, settings)
    all_made, made = resident()
    measured: dict[str, int] = {"imports": start, "weights": made - start}
    reset_peak()
    infer(role, worker, random_rows(lengths))
    measured["inference"] = memory("VmHWM") - all_made

    update(role, worker, random_rows(lengths), settings)
    # Adam allocates its moments in the first step.
    before, own = resident()
    measured["optimizer"] = own - made
    reset_peak()
    update(role, worker, random_rows(lengths), settings)
    measured["update"] = memory("VmHWM") - before
    print(json.dumps(measured))


if __name__ == "__main__":
    main()
