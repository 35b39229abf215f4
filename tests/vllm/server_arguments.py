"""The arguments of vLLM's server as verl composes and vLLM parses them.

As a program it prints for each configuration the settings of an engine on a GPU, as one JSON object a line:
`python server_arguments.py '[["hardware=h200x1", ...], ...]'`. The GPU is faked: vLLM asks a platform for the device's
name, memory and capability (sm90), and no engine is started.
"""

import asyncio
import json
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

from verl.utils.config import omega_conf_to_dataclass
from vllm.engine.arg_utils import AsyncEngineArgs  # pyright: ignore[reportMissingImports]
from vllm.platforms import current_platform  # pyright: ignore[reportMissingImports]

from veritas_rl.launch.configuration import compose_configuration, context_overrides
from veritas_rl.verl_plugin.vllm.server import VllmServer


class Server(VllmServer):
    """The server that keeps the parsed arguments instead of starting an engine."""

    async def run_server(self, args: Any) -> None:
        self.parsed = args


def parsed(configuration: Any) -> Any:
    """The arguments that verl's server parses, by vLLM's own parser."""
    server: Any = object.__new__(Server)
    server.config = omega_conf_to_dataclass(configuration.actor_rollout_ref.rollout)
    server.model_config = omega_conf_to_dataclass(configuration.actor_rollout_ref.model)
    server.replica_rank = server.node_rank = 0
    server.nnodes = 1
    server._disaggregation_role = "null"
    server.profiler_controller = SimpleNamespace(check_enable=lambda: False, check_this_rank=lambda: False)
    server._validate_configs()
    asyncio.run(server.launch_server())
    return server.parsed


def composed(typed: list[str]) -> Any:
    """The configuration of a run, with the context that the launcher sets."""
    return compose_configuration([*typed, *context_overrides(compose_configuration(typed))])


def fake_gpu() -> None:
    """Let vLLM see an H200."""
    sys.modules["vllm._C_stable_libtorch"] = ModuleType("vllm._C_stable_libtorch")
    from vllm.platforms.cuda import CudaPlatformBase  # pyright: ignore[reportMissingImports]
    from vllm.platforms.interface import DeviceCapability  # pyright: ignore[reportMissingImports]

    class H200(CudaPlatformBase):
        @classmethod
        def get_device_capability(cls, device_id: int = 0) -> DeviceCapability:
            return DeviceCapability(9, 0)

        @classmethod
        def get_device_name(cls, device_id: int = 0) -> str:
            return "NVIDIA H200"

        @classmethod
        def get_device_total_memory(cls, device_id: int = 0) -> int:
            return 141 << 30

        @classmethod
        def device_count(cls) -> int:
            return 8

        def is_cumem_allocator_available(self) -> bool:
            return True

    # Many modules have imported the object.
    current_platform.__class__ = H200


def engine(typed: list[str]) -> dict[str, Any]:
    """What an engine of a configuration would do."""
    made = AsyncEngineArgs.from_cli_args(parsed(composed(typed))).create_engine_config()
    compilation = made.compilation_config
    return {
        "dtype": str(made.model_config.dtype),
        "sleep": made.model_config.enable_sleep_mode,
        "graphs": compilation.cudagraph_mode.name,
        "largest_graph": compilation.max_cudagraph_capture_size,
        "graphs_without_adapter": compilation.cudagraph_specialize_lora,
        "async_scheduling": made.scheduler_config.async_scheduling,
        "rank": made.lora_config.max_lora_rank if made.lora_config else 0,
        "context": made.model_config.max_model_len,
    }


if __name__ == "__main__":
    fake_gpu()
    for words in json.loads(sys.argv[1]):
        print(json.dumps(engine(words)), flush=True)
