"""Changes of verl at run time that every run needs, one small function for each fault.

A `Patch` names the module that has the fault and runs after that module was imported. It checks that the fault is still
there and refuses on a version that it was not written for, so no patch outlives its fault. docs/patches.md lists all of
them; `python -m veritas_rl.verl_plugin.patch_list` writes it.
"""

import functools
import importlib.metadata
import inspect
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from wrapt import when_imported

from veritas_rl.errors import UserError
from veritas_rl.pins import required_version
from veritas_rl.verl_plugin import not_finite


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

    def normalizer(chunk: Any) -> Any:
        return module.torch.logsumexp(chunk.float(), dim=-1)

    @functools.wraps(original)
    def logprobs(logits: Any, labels: Any) -> Any:
        torch = module.torch
        chosen = torch.gather(logits, dim=-1, index=labels.unsqueeze(-1)).squeeze(-1).float()
        rows = logits.flatten(0, -2)
        chunks = rows.split(max(1, CHUNK_ELEMENTS // rows.shape[-1]))
        if rows.dtype == torch.float32:
            found = [normalizer(chunk) for chunk in chunks]
        else:
            # The backward pass makes the fp32 copies again, so they are not all kept.
            found = [checkpoint(normalizer, chunk, use_reentrant=False, preserve_rng_state=False) for chunk in chunks]
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
def four_bit_base(module: Any) -> None:
    """verl knows no base in 4 bit for LoRA: where `model.lora.quantization` says nf4, quantize what it has loaded."""
    engine = module.FSDPEngine
    original = engine._build_module
    # Nothing of quantisation is handed to transformers.
    require_fault(original, "torch_dtype=torch_dtype,\n                    config=self.model_config.hf_config,")

    @functools.wraps(original)
    def build(self: Any) -> Any:
        model = original(self)
        if self.model_config.lora.get("quantization") is not None:
            from verl.utils.torch_dtypes import PrecisionType

            from veritas_rl.verl_plugin import nf4

            computing = (self.engine_config.mixed_precision or {}).get("param_dtype", "bf16")
            nf4.quantize(model, PrecisionType.to_dtype(computing), module.get_device_id())
        return model

    engine._build_module = build


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


@patch_of("verl.workers.engine.fsdp.transformer_impl")
def losses_not_finite(module: Any) -> None:
    """A loss that is no finite number is averaged over ranks, and training goes on: name the rank, or end the run.

    In RL the trainer finds the metric `not_finite/rank_R` among those of the update; fine-tuning has none of ours.
    """
    engine = module.FSDPEngineWithLMHead
    original = engine.forward_step
    require_fault(original, '"loss": loss.detach().item(),')

    @functools.wraps(original)
    def forward_step(self: Any, micro_batch: Any, loss_function: Any, forward_only: bool) -> Any:
        loss, output = original(self, micro_batch, loss_function, forward_only)
        if not forward_only and not math.isfinite(output["loss"]):
            rank = self.get_data_parallel_rank()
            if "response_mask" not in micro_batch:
                raise UserError(not_finite.report_of_fine_tuning(micro_batch, output["loss"], rank))
            output["metrics"][f"{not_finite.RANK}{rank}"] = 1.0
        return loss, output

    engine.forward_step = forward_step


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


@patch_of("verl.utils.fsdp_utils")
def adapter_of_shards(module: Any) -> None:
    """PEFT 0.21 finds no adapter inside FSDP 1, nor in one layer, so verl sends an empty one: gather it ourselves."""
    original = module.collect_lora_params
    require_fault(original, "lora_params = get_peft_model_state_dict(peft_model)")

    @functools.wraps(original)
    def collect_lora_params(module: Any, layered_summon: bool, base_sync_done: bool) -> Any:
        if not base_sync_done:
            return original(module, layered_summon, base_sync_done)
        from veritas_rl.verl_plugin.adapter_shards import gathered

        return gathered(module)

    module.collect_lora_params = collect_lora_params


@patch_of("verl.workers.engine_workers")
def adapter_delivery(module: Any) -> None:
    """Nothing checks that a rollout holds the adapter that was sent: compare digests after each weight sync.

    A run whose rollout holds something else ends with one line.
    """
    worker = module.ActorRolloutRefWorker
    original = worker.update_weights
    require_fault(original, "per_tensor_param, peft_config=peft_config, base_sync_done=True, global_steps=global_steps")

    @functools.wraps(original)
    async def update_weights(self: Any, global_steps: int | None = None, mode: str = "auto") -> Any:
        sent = await original(self, global_steps, mode)
        engine = self.actor.engine
        adapted = hasattr(getattr(engine.module, "_fsdp_wrapped_module", engine.module), "peft_config")
        backend = mode if mode != "auto" else self.config.rollout.checkpoint_engine.backend
        if adapted and not self.peft_merge and backend == "naive":
            from veritas_rl.verl_plugin.adapter_delivery import AdapterWatch

            if not hasattr(self, "_adapter_watch"):
                self._adapter_watch = AdapterWatch(self.rollout)
            await self._adapter_watch.check(engine, global_steps, self.rank)
        return sent

    worker.update_weights = update_weights


@patch_of("verl.workers.rollout.vllm_rollout.vllm_async_server")
def answers_of_workers(module: Any) -> None:
    """The vLLM server asks its workers and drops what they answer: return it."""
    server = module.vLLMHttpServer
    original = server.collective_rpc
    require_fault(original, "        await self.engine.collective_rpc(")

    @functools.wraps(original)
    async def collective_rpc(
        self: Any,
        method: Any,
        timeout: float | None = None,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        return await self.engine.collective_rpc(method=method, timeout=timeout, args=args, kwargs=kwargs)

    server.collective_rpc = collective_rpc


@patch_of("verl.workers.rollout.vllm_rollout.utils")
def adapter_of_vllm(module: Any) -> None:
    """A worker of vLLM cannot be asked which adapter it generates with: let it say the digests.

    The method is added to what verl makes each worker inherit from.
    """
    extension = module.vLLMColocateWorkerExtension
    require_fault(extension._update_weights, "lora_int_id=VLLM_LORA_INT_ID")

    def adapter_digests(self: Any, dtype: str) -> dict[str, int]:
        from veritas_rl.verl_plugin.adapter_delivery import served_by_vllm

        return served_by_vllm(self, module.VLLM_LORA_INT_ID, dtype)

    extension.adapter_digests = adapter_digests


@patch_of("verl.utils.checkpoint.checkpoint_handler")
def epoch_boundary(module: Any) -> None:
    """Fine-tuning that resumes where an epoch ended skips the next one, and exits with 0: begin it afresh.

    The saved place in the data is the end of the epoch before. Reinforcement learning has no such fault.
    """
    handler = module.CheckpointHandler
    original = handler._load_dataloader_state
    require_fault(original, "self.train_dataloader.load_state_dict(dataloader_state_dict)")

    @functools.wraps(original)
    def load(self: Any, checkpoint_path: str) -> None:
        if self.resume_global_step % len(self.train_dataloader):
            original(self, checkpoint_path)

    handler._load_dataloader_state = load
