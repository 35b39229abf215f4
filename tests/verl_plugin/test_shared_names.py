"""Shared memory of killed engines leaves no name in /dev/shm."""

import subprocess
import sys
from pathlib import Path

from veritas_rl.verl_plugin.vllm.shared_names import remove_names

CHILD = """
from multiprocessing.shared_memory import SharedMemory

memory = SharedMemory(create=True, size=1 << 20)
memory.buf[7] = 77
print(memory.name, flush=True)
input()
print(memory.buf[7], flush=True)
input()
"""


def test_the_shared_memory_of_children_loses_its_name_and_stays() -> None:
    pipe = subprocess.PIPE
    child = subprocess.Popen([sys.executable, "-c", CHILD], stdin=pipe, stdout=pipe, stderr=pipe, text=True)
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        memory = Path("/dev/shm", child.stdout.readline().strip())
        assert memory.exists()
        remove_names()
        assert not memory.exists()
        child.stdin.write("\n")
        child.stdin.flush()
        assert child.stdout.readline() == "77\n"
    finally:
        child.kill()
        child.communicate()
