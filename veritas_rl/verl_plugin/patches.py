"""Changes of verl at run time that every run needs, one small function for each fault.

A `Patch` names the module that has the fault and runs after that module was imported. It checks that the fault is still
there and refuses on a version that it was not written for, so no patch outlives its fault. docs/patches.md lists all of
them; `python -m veritas_rl.verl_plugin.patch_list` writes it.
"""

import functools
import importlib.metadata
import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from wrapt import when_imported

from veritas_rl.pins import required_version


class PatchRefused(RuntimeError):
    """A package is not the version that a patch was written for, or the fault that it mends is gone."""


@dataclass(frozen=True)
class Patch:
    """A change of another package at run time.

    Attributes:
        module: The module that is changed, by its full name.
        apply: Changes the module. Raises `PatchRefused`.
    """

    module: str
    apply: Callable[[Any], None]

    @property
    def name(self) -> str:
        """The name of the function."""
        return self.apply.__name__

    @property
    def summary(self) -> str:
        """What is at fault and what is done about it, in one line."""
        return (inspect.getdoc(self.apply) or "").partition("\n")[0]

    def register(self) -> None:
        """Apply it once the module is imported, which is at once where it was imported before."""
        when_imported(self.module)(self.apply)


def patch_of(module: str) -> Callable[[Callable[[Any], None]], Patch]:
    """Makes a function a patch of the module with this name."""
    return functools.partial(Patch, module)


def patches_in(module: ModuleType) -> tuple[Patch, ...]:
    """The patches that a module of ours defines, in their order."""
    return tuple(value for value in vars(module).values() if isinstance(value, Patch))


def require_fault(function: Callable[..., Any], line: str, package: str = "verl") -> None:
    """Refuse unless this is the pinned version and `line` stands in the source of `function`."""
    installed, required, name = importlib.metadata.version(package), required_version(package), function.__name__
    if installed != required:
        raise PatchRefused(f"{package} {installed} is installed, the patch of {name} is for {package} {required}")
    if line not in inspect.getsource(function):
        raise PatchRefused(f"{name} of {package} {installed} no longer has the fault: {line}")


CHUNK_ELEMENTS = 1 << 24
"""How many logits are exponentiated at once."""


@patch_of("verl.utils.torch_functional")
def log_probabilities(module: Any) -> None:
    """Without flash-attn, log-probabilities are computed token by token and rounded to bf16: use fp32, many at once.

    bf16 rounds a log-probability of about -5 to steps of 1/32. A graph node for each token took more than half of an
    update of a small model on a CPU.
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
            # The backward pass makes the fp32 copies again, so they are not all kept.
            found = [checkpoint(normaliser, chunk, use_reentrant=False, preserve_rng_state=False) for chunk in chunks]
        return chosen - torch.cat(found).view_as(chosen)

    module.logprobs_from_logits_v2 = logprobs


@patch_of("verl.utils.model")
def critic_head(module: Any) -> None:
    """The critic always loads flash attention and a random head: use the configured attention and a head of zeros.

    The first values of a random head are noise, and a checkpoint that holds adapters alone could not restore it. A
    model that lacks other weights is refused; the launcher refuses a model of which transformers makes no critic.
    """
    original = module.load_valuehead_model
    require_fault(original, 'attn_implementation="flash_attention_2"')

    @functools.wraps(original)
    def load(local_path: str, torch_dtype: Any, model_config: Any, trust_remote_code: bool) -> Any:
        from transformers import AutoModelForTokenClassification

        model, loaded = AutoModelForTokenClassification.from_pretrained(
            local_path,
            dtype=torch_dtype,
            config=model_config,
            attn_implementation=model_config._attn_implementation,
            trust_remote_code=trust_remote_code,
            output_loading_info=True,
        )
        body = f"{model.base_model_prefix}."
        if lost := sorted(name for name in loaded["missing_keys"] if name.startswith(body)):
            raise ValueError(f"{local_path} lacks weights of its own: {', '.join(lost[:3])} ({len(lost)} in all)")
        for name, parameter in model.named_parameters():
            if name in loaded["missing_keys"]:
                parameter.data.zero_()
        return model

    module.load_valuehead_model = load


@patch_of("verl.workers.engine.fsdp.transformer_impl")
def critic_adapter(module: Any) -> None:
    """The critic's LoRA adapter has the task type of a generating model: use the one for feature extraction."""
    require_fault(module.FSDPEngine._build_lora_module, '"task_type": TaskType.CAUSAL_LM')
    original = module.get_peft_model

    @functools.wraps(original)
    def get_peft_model(model: Any, config: Any) -> Any:
        if not hasattr(model, "prepare_inputs_for_generation"):
            config.task_type = module.TaskType.FEATURE_EXTRACTION
        return original(model, config)

    module.get_peft_model = get_peft_model


@patch_of("verl.workers.engine.fsdp.transformer_impl")
def padding_waste(module: Any) -> None:
    """verl does not say how much of what it computes is padding: report `waste`, the tokens computed over real tokens.

    Each update of actor and critic has it, as a mean over micro-batches. Real tokens are those of rows of which
    something is learned: rows that only fill a mini-batch are waste too.
    """
    engine = module.FSDPEngineWithLMHead
    prepare, forward = engine.prepare_model_inputs, engine.forward_step
    require_fault(forward, '"metrics": metrics,')

    @functools.wraps(prepare)
    def prepare_model_inputs(self: Any, micro_batch: Any) -> Any:
        inputs, output_args = prepare(self, micro_batch)
        self._computed_tokens = inputs["input_ids"].numel()
        return inputs, output_args

    @functools.wraps(forward)
    def forward_step(self: Any, micro_batch: Any, loss_function: Any, forward_only: bool) -> Any:
        loss, output = forward(self, micro_batch, loss_function, forward_only)
        # Supervised fine-tuning logs what it is given without taking means.
        if not forward_only and "response_mask" in micro_batch:
            learned = module.torch.stack([mask.any() for mask in micro_batch["response_mask"].unbind()])
            real = int((micro_batch["input_ids"].offsets().diff() * learned).sum())
            if real:
                output["metrics"]["waste"] = self._computed_tokens / real
        return loss, output

    engine.prepare_model_inputs, engine.forward_step = prepare_model_inputs, forward_step


@patch_of("verl.utils.tracking")
def metrics_file(module: Any) -> None:
    """The file logger empties the metrics file when a run resumes: append to it."""
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
