"""The CPU as a verl platform, in the processes where verl detects it."""

import os
import subprocess
import sys

PROGRAM = """
import torch, verl
from verl.utils.device import get_device_id, get_device_name, get_torch_device
from verl.workers.engine import EngineRegistry
from verl.workers.rollout.base import get_rollout_class
from verl.workers.rollout.replica import get_rollout_replica_class
from verl.experimental.agent_loop.agent_loop import _agent_loop_registry
from verl.utils.distributed import initialize_global_process_group_ray

assert get_device_name() == "cpu"
assert torch.ones(1).to(get_device_id()).device.type == "cpu"
assert get_torch_device().memory_allocated() > 1e6
for model_type in ("language_model", "value_model"):
    for backend in ("fsdp", "fsdp2"):
        assert EngineRegistry.get_engine_cls(model_type, backend).__name__.startswith("CpuEngine")
assert get_rollout_class("transformers").__name__ == "TransformersRollout"
assert get_rollout_replica_class("transformers").__name__ == "TransformersReplica"
assert "game_agent" in _agent_loop_registry
initialize_global_process_group_ray()
total = torch.ones(3)
torch.distributed.all_reduce(total)
assert total.tolist() == [1.0, 1.0, 1.0]
print("all is registered")
"""


def test_everything_is_registered_in_a_fresh_process(free_port: int) -> None:
    ranks = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port)}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM],
        env={**os.environ, "VERL_PLATFORM": "cpu", **ranks},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "all is registered" in done.stdout
