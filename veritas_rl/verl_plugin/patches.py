"""Where verl's behaviour is changed: one small function for each fault.

Each names the fault, looks that the fault is still there, and refuses on a verl that it was not written for, so that
an upgrade can never leave a stale patch at work unseen.
"""

import functools
import importlib.metadata
import inspect
from collections.abc import Callable
from typing import Any

from packaging.requirements import Requirement


class PatchRefused(RuntimeError):
    """verl is not the version that a patch was written for, or the fault that it mends is gone."""


def required_verl() -> str:
    """The verl version that this package pins (train/verl/REQUIRED_VERL.txt, read through the package's metadata)."""
    for line in importlib.metadata.requires("veritas-rl") or []:
        requirement = Requirement(line)
        if requirement.name == "verl":
            return str(requirement.specifier).removeprefix("==")
    raise PatchRefused("the installed veritas-rl names no verl: install it again, with pip install -e .")


def _require_fault(function: Callable[..., Any], line: str) -> None:
    """Refuse unless this is the pinned verl and `line` stands in the source of `function`."""
    installed, required = importlib.metadata.version("verl"), required_verl()
    if installed != required:
        raise PatchRefused(f"verl {installed} is installed, the patch of {function.__name__} is for verl {required}")
    if line not in inspect.getsource(function):
        raise PatchRefused(f"{function.__name__} of verl {installed} no longer has the fault: {line}")


def gloo_process_group(module: Any) -> None:
    """On a CPU the backend string becomes "cpu:gloo,cpu:gloo", which torch refuses: pass plain "gloo"."""
    original = module.initialize_global_process_group_ray
    _require_fault(original, 'backend or f"cpu:gloo,{get_device_name()}:{get_nccl_backend()}"')

    @functools.wraps(original)
    def initialize(timeout_second: float | None = None, backend: str | None = None) -> None:
        if module.get_device_name() == "cpu":
            backend = backend or "gloo"
        original(timeout_second=timeout_second, backend=backend)

    module.initialize_global_process_group_ray = initialize


def critic_attention(module: Any) -> None:
    """The critic is loaded with flash attention whatever the configuration says: use the attention it names."""
    original = module.load_valuehead_model
    _require_fault(original, 'attn_implementation="flash_attention_2"')

    @functools.wraps(original)
    def load(local_path: str, torch_dtype: Any, model_config: Any, trust_remote_code: bool) -> Any:
        from transformers import AutoModelForTokenClassification

        attention = model_config._attn_implementation
        if attention == "flash_attention_2":
            return original(local_path, torch_dtype, model_config, trust_remote_code)
        return AutoModelForTokenClassification.from_pretrained(
            local_path,
            dtype=torch_dtype,
            config=model_config,
            attn_implementation=attention,
            trust_remote_code=trust_remote_code,
        )

    module.load_valuehead_model = load
