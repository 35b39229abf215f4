"""Where the behaviour of verl, TransferQueue or tensordict is changed: one small function for each fault.

Each names the fault, looks that the fault is still there, and refuses on a version that it was not written for, so that
an upgrade can never leave a stale patch at work unseen.
"""

import functools
import importlib.metadata
import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement


class PatchRefused(RuntimeError):
    """A package is not the version that a patch was written for, or the fault that it mends is gone."""


def required_version(package: str) -> str:
    """The version of a package that this one pins (train/verl/*.txt, read through the metadata)."""
    for line in importlib.metadata.requires("veritas-rl") or []:
        requirement = Requirement(line)
        if requirement.name == package:
            return str(requirement.specifier).removeprefix("==")
    raise PatchRefused(f"the installed veritas-rl names no {package}: install it again, with pip install -e .")


def require_fault(function: Callable[..., Any], line: str, package: str = "verl") -> None:
    """Refuse unless this is the pinned version and `line` stands in the source of `function`."""
    installed, required, name = importlib.metadata.version(package), required_version(package), function.__name__
    if installed != required:
        raise PatchRefused(f"{package} {installed} is installed, the patch of {name} is for {package} {required}")
    if line not in inspect.getsource(function):
        raise PatchRefused(f"{name} of {package} {installed} no longer has the fault: {line}")


def gloo_process_group(module: Any) -> None:
    """On a CPU the backend string becomes "cpu:gloo,cpu:gloo", which torch refuses: pass plain "gloo"."""
    original = module.initialize_global_process_group_ray
    require_fault(original, 'backend or f"cpu:gloo,{get_device_name()}:{get_nccl_backend()}"')

    @functools.wraps(original)
    def initialize(timeout_second: float | None = None, backend: str | None = None) -> None:
        if module.get_device_name() == "cpu":
            backend = backend or "gloo"
        original(timeout_second=timeout_second, backend=backend)

    module.initialize_global_process_group_ray = initialize


def gloo_process_group_of_torchrun(module: Any) -> None:
    """The same for processes that torchrun starts, which cannot name a backend: make the group before verl looks."""
    original = module.initialize_global_process_group
    require_fault(original, 'backend = f"cpu:gloo,{get_device_name()}:{get_nccl_backend()}"')

    @functools.wraps(original)
    def initialize(timeout_second: int = 36000) -> tuple[int, int, int]:
        if module.get_device_name() != "cpu":
            return original(timeout_second)
        module.torch.distributed.init_process_group(backend="gloo", timeout=module.timedelta(seconds=timeout_second))
        return int(os.environ["LOCAL_RANK"]), int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])

    module.initialize_global_process_group = initialize


CHUNK_ELEMENTS = 1 << 24
"""How many logits are exponentiated at once."""


def log_probabilities(module: Any) -> None:
    """Without flash-attn, log-probabilities are made one token at a time, each a node of the graph: make many at once.

    On a CPU this was more than half of an update of a small model. Those of bf16 logits are also rounded to bf16, to
    steps of 1/32 where they are about -5: compute in fp32, as flash-attn does.
    """
    from torch.utils.checkpoint import checkpoint

    original = module.logprobs_from_logits_v2
    require_fault(original, "torch.stack([torch.logsumexp(logit, dim=-1) for logit in logits])")
    require_fault(original, "row_logprobs = F.log_softmax(row_logits, dim=-1)")

    def normaliser(chunk: Any) -> Any:
        return module.torch.logsumexp(chunk.float(), dim=-1)

    @functools.wraps(original)
    def logprobs(logits: Any, labels: Any) -> Any:
        torch = module.torch
        chosen = torch.gather(logits, dim=-1, index=labels.unsqueeze(-1)).squeeze(-1).float()
        rows = logits.flatten(0, -2)
        chunks = rows.split(max(1, CHUNK_ELEMENTS // rows.shape[-1]))
        if rows.dtype == torch.float32:
            found = [normaliser(chunk) for chunk in chunks]
        else:
            # The backward pass makes the fp32 copies again, instead of keeping them all.
            found = [checkpoint(normaliser, chunk, use_reentrant=False, preserve_rng_state=False) for chunk in chunks]
        return chosen - torch.cat(found).view_as(chosen)

    module.logprobs_from_logits_v2 = logprobs


def critic_head(module: Any) -> None:
    """The critic is loaded with flash attention whatever the configuration says: use the attention it names.

    Its new head is drawn at random, so its first values are noise, and a checkpoint that holds adapters alone could
    never give the same critic back: begin with zeros.
    """
    original = module.load_valuehead_model
    require_fault(original, 'attn_implementation="flash_attention_2"')

    @functools.wraps(original)
    def load(local_path: str, torch_dtype: Any, model_config: Any, trust_remote_code: bool) -> Any:
        from transformers import AutoModelForTokenClassification

        model, told = AutoModelForTokenClassification.from_pretrained(
            local_path,
            dtype=torch_dtype,
            config=model_config,
            attn_implementation=model_config._attn_implementation,
            trust_remote_code=trust_remote_code,
            output_loading_info=True,
        )
        for name, parameter in model.named_parameters():
            if name in told["missing_keys"]:
                parameter.data.zero_()
        return model

    module.load_valuehead_model = load


def reference_offload(module: Any) -> None:
    """The reference is offloaded to pinned memory, which takes a GPU: on a CPU it stays where it is."""
    original = module.CPUOffloadPolicy
    require_fault(module.FSDPEngine._build_fsdp_module, "offload_policy = CPUOffloadPolicy(pin_memory=True)")
    module.CPUOffloadPolicy = lambda pin_memory: None if module.get_device_name() == "cpu" else original(pin_memory)


def critic_adapter(module: Any) -> None:
    """The critic's adapter is made for a model that generates, which a critic does not: make it for one that reads."""
    require_fault(module.FSDPEngine._build_lora_module, '"task_type": TaskType.CAUSAL_LM')
    original = module.get_peft_model

    @functools.wraps(original)
    def get_peft_model(model: Any, config: Any) -> Any:
        if not hasattr(model, "prepare_inputs_for_generation"):
            config.task_type = module.TaskType.FEATURE_EXTRACTION
        return original(model, config)

    module.get_peft_model = get_peft_model


def metrics_file(module: Any) -> None:
    """The file logger empties the file of a run that goes on: append to it."""
    logger = module.FileLogger
    original = logger.__init__
    require_fault(original, 'open(self.filepath, "wb", buffering=0)')

    @functools.wraps(original)
    def initialize(self: Any, project_name: str, experiment_name: str) -> None:
        path = os.environ.get("VERL_FILE_LOGGER_PATH")
        if path is None:
            original(self, project_name, experiment_name)
            return
        self.project_name, self.experiment_name, self.filepath = project_name, experiment_name, path
        self.fp = Path(path).open("ab", buffering=0)  # noqa: SIM115 (its `finish` closes it)

    logger.__init__ = initialize
