"""Patches of verl's FSDP engine that every run needs."""

import contextlib
import functools
import math
from collections.abc import Iterator
from typing import Any

from veritas_rl.errors import UserError
from veritas_rl.verl_plugin import not_finite
from veritas_rl.verl_plugin.patching import patch_of, require_fault


@patch_of("verl.workers.engine.fsdp.transformer_impl")
def critic_adapter(module: Any) -> None:
    """The critic's LoRA adapter has the task type of a generating model: use the task type for feature extraction."""
    require_fault(module.FSDPEngine._build_lora_module, '"task_type": TaskType.CAUSAL_LM')
    original = module.get_peft_model

    @functools.wraps(original)
    def get_peft_model(model: Any, config: Any) -> Any:
        if not hasattr(model, "prepare_inputs_for_generation"):
            config.task_type = module.TaskType.FEATURE_EXTRACTION
        return original(model, config)

    module.get_peft_model = get_peft_model


@patch_of("verl.workers.engine.fsdp.transformer_impl")
def adapter_seed(module: Any) -> None:
    """verl draws the first weights of an adapter without a seed: draw them by the engine's seed, so runs repeat."""
    engine, torch = module.FSDPEngine, module.torch
    original = engine._build_lora_module
    require_fault(original, "module = get_peft_model(module, LoraConfig(**lora_config))")

    @functools.wraps(original)
    def build(self: Any, base: Any) -> Any:
        with torch.random.fork_rng(devices=[]):
            # torch.manual_seed would seed the accelerators too.
            torch.default_generator.manual_seed(self.engine_config.seed)
            return original(self, base)

    engine._build_lora_module = build


@patch_of("verl.workers.engine.fsdp.transformer_impl")
def adapter_after_the_reference(module: Any) -> None:
    """After a reference pass without the adapter, only the first mini-batch may train it: switch its shards.

    PEFT switches off the gradients of the adapter's parameters, and on again. With `reshard_after_forward=false` these
    were shards before the pass and gathered parameters after it, so the shards stayed without gradients.
    """
    engine = module.FSDPEngine
    require_fault(engine.disable_adapter, "return self.module.disable_adapter()")

    @contextlib.contextmanager
    def disable_adapter(self: Any) -> Iterator[None]:
        from veritas_rl.verl_plugin.reference import reshard

        reshard(self.module)
        with self.module.disable_adapter():
            yield
            reshard(self.module)

    engine.disable_adapter = disable_adapter


@patch_of("verl.workers.engine.fsdp.transformer_impl")
def four_bit_base(module: Any) -> None:
    """verl has no 4-bit base for LoRA: if `model.lora.quantization` is nf4, quantize the loaded model."""
    engine = module.FSDPEngine
    original = engine._build_module
    # verl passes no quantization settings to transformers.
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
def start_adapter(module: Any) -> None:
    """If training begins from an adapter, the reference is the base without it: let the reference have that adapter."""
    engine = module.FSDPEngine
    initialize, disable = engine.initialize, engine.disable_adapter  # of `adapter_after_the_reference`
    require_fault(initialize, "self._build_model_optimizer()")

    @functools.wraps(initialize)
    def with_start(self: Any) -> None:
        initialize(self)
        if self._is_lora and self.model_config.lora_adapter_path is not None:
            from veritas_rl.verl_plugin.reference import StartAdapter

            self._start_adapter = StartAdapter(self.module)

    @functools.wraps(disable)
    def disable_adapter(self: Any) -> Any:
        start = getattr(self, "_start_adapter", None)
        return disable(self) if start is None else start.in_place(self.module)

    engine.initialize, engine.disable_adapter = with_start, disable_adapter


@patch_of("verl.workers.engine.fsdp.transformer_impl")
def adapter_dropout(module: Any) -> None:
    """An adapter of a folder may have a dropout, which verl leaves on in updates alone: turn it off.

    With it, the probabilities of an update would differ from those of rollout and reference. `dropout` turns
    off the dropout of the base.
    """
    engine = module.FSDPEngine
    original = engine._build_lora_module
    require_fault(original, "PeftModel.from_pretrained(module, local_adapter_path, is_trainable=True)")

    @functools.wraps(original)
    def build(self: Any, base: Any) -> Any:
        model = original(self, base)
        for part in model.modules():
            if isinstance(part, module.torch.nn.Dropout):
                part.p = 0.0
        return model

    engine._build_lora_module = build


@patch_of("verl.workers.engine.fsdp.transformer_impl")
def padding_waste(module: Any) -> None:
    """verl does not report how much of its work is padding: report `waste`, computed tokens over real tokens.

    Each update of actor and critic reports it as a mean over micro-batches. Real tokens are those of rows with a
    learned token. Rows that only fill a mini-batch count as waste.
    """
    from veritas_rl.verl_plugin.columns import row_sums

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
        # Supervised fine-tuning would log the metric without averaging.
        if not forward_only and "response_mask" in micro_batch:
            learned = row_sums(micro_batch["response_mask"]) > 0
            real = int((micro_batch["input_ids"].offsets().diff() * learned).sum())
            if real:
                output["metrics"]["waste"] = self._computed_tokens / real
        return loss, output

    engine.prepare_model_inputs, engine.forward_step = prepare_model_inputs, forward_step


@patch_of("verl.workers.engine.fsdp.transformer_impl")
def losses_not_finite(module: Any) -> None:
    """A loss that is not finite is averaged over ranks, and training continues: report the rank, or end the run.

    In RL this package's trainer reads the metric `not_finite/rank_R` and ends the run. Fine-tuning uses verl's own
    trainer, so the patch itself ends the run.
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
