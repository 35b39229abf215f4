"""Checks that need an import: `python -m veritas_rl.launch.probe NAME [ADDRESS]` prints one JSON object.

Each probe runs in its own process, because such an import may take long, crash, or print.
"""

import importlib
import inspect
import json
import logging
import sys
import traceback
from typing import Any

ROLLOUT_MODULES = {
    "vllm": ("verl.workers.rollout.vllm_rollout.vllm_async_server", "verl.workers.rollout.vllm_rollout.vllm_rollout"),
    "sglang": (
        "verl.workers.rollout.sglang_rollout.async_sglang_server",
        "verl.workers.rollout.sglang_rollout.sglang_rollout",
    ),
}
"""The modules of verl for each rollout backend."""

REGISTRIES = {"vllm": "vllm.model_executor.models.registry", "sglang": "sglang.srt.models.registry"}
PATCHES = ("sglang.srt.utils.patch_torch", "sglang.srt.patch_torch")
"""The SGLang module that patches torch's tensor transfer: the current name, and an older name."""


def torch() -> dict[str, Any]:
    """The versions of torch and its CUDA, and the devices that torch sees."""
    import torch

    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    devices = [torch.cuda.get_device_properties(index) for index in range(gpus)]
    return {
        "version": torch.__version__,
        "cuda": torch.version.cuda,
        "gpus": [{"name": device.name, "bytes": device.total_memory} for device in devices],
        # The sum fails with an old driver, or on a GPU without kernels.
        "sums": [float(torch.ones(8, device=f"cuda:{index}").sum()) for index in range(gpus)],
    }


def flash_attn() -> dict[str, Any]:
    """The import error of flash_attn, or null."""
    from veritas_rl.launch.attention import flash_attention_fault

    return {"fault": flash_attention_fault()}


def vllm() -> dict[str, Any]:
    """Imports verl's vLLM modules, and lists the model classes of vLLM."""
    return _rollout("vllm")


def sglang() -> dict[str, Any]:
    """Imports verl's SGLang modules, and lists the model classes of SGLang."""
    return _rollout("sglang")


def sglang_patch() -> dict[str, Any]:
    """The index of the device argument in torch's tensor transfer: the index that SGLang's patch expects, and the
    real index."""
    from torch.multiprocessing import reductions

    arguments = list(inspect.signature(reductions.rebuild_cuda_tensor).parameters)
    for name in PATCHES:
        try:
            patch = importlib.import_module(name)
        except ModuleNotFoundError:
            continue
        index = getattr(patch, "_REDUCE_TENSOR_ARG_DEVICE_INDEX", None)
        return {"module": name, "expected": index, "real": arguments.index("storage_device")}
    return {"module": None, "expected": None, "real": None}


def _rollout(backend: str) -> dict[str, Any]:
    for module in ROLLOUT_MODULES[backend]:
        importlib.import_module(module)
    try:
        architectures = importlib.import_module(REGISTRIES[backend]).ModelRegistry.get_supported_archs()
    except (ImportError, AttributeError):
        # Without the import, the classes are unknown.
        architectures = ()
    return {"architectures": sorted(architectures)}


def ray() -> dict[str, Any]:
    """Starts Ray, or joins the cluster at an address, and runs a task."""
    import ray

    address = sys.argv[2]
    own = {"num_cpus": 1, "include_dashboard": False} if address == "local" else {}
    ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **own)
    answer = ray.get(ray.remote(num_cpus=1)(lambda: 6 * 7).remote())
    nodes = sum(node["Alive"] for node in ray.nodes())
    ray.shutdown()
    return {"answer": answer, "nodes": nodes}


def openspiel() -> dict[str, Any]:
    """Counts the playable games of OpenSpiel."""
    from veritas_rl.envs.openspiel.cases import playable_names

    return {"games": len(playable_names())}


def plugin() -> dict[str, Any]:
    """Checks that the pinned verl loads this package's plugin."""
    from veritas_rl.launch.machine_checks import check_verl

    check_verl()
    return {}


PROBES = (torch, flash_attn, vllm, sglang, sglang_patch, ray, openspiel, plugin)


def main() -> None:
    """Print the result of the named probe. A traceback goes to standard error."""
    probe = next(probe for probe in PROBES if probe.__name__ == sys.argv[1])
    try:
        found = probe()
    except BaseException:
        traceback.print_exc()
        sys.exit(1)
    # Libraries print to standard output too. The result is the last line.
    print("\n" + json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
