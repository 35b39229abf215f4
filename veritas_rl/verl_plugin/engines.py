"""verl's FSDP engines of actor, reference and critic, with what verl's own lack.

verl's registry prefers them to its own, because they are registered for the vendors of GPUs and NPUs. `cpu.engine`
extends them for a CPU, and `shared_prompts` for groups that share a prompt. Import `verl.workers.engine` before this
module, as verl does: it registers all of them.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from peft import LoraConfig, TaskType, get_peft_model
from verl.utils.py_functional import convert_to_regular_types
from verl.utils.torch_dtypes import PrecisionType
from verl.workers.engine.base import EngineRegistry
from verl.workers.engine.fsdp import transformer_impl

from veritas_rl.errors import UserError
from veritas_rl.shared_prompts import VENDOR
from veritas_rl.verl_plugin import nf4, not_finite
from veritas_rl.verl_plugin.adapter_shards import gathered, peft_model
from veritas_rl.verl_plugin.columns import row_sums
from veritas_rl.verl_plugin.patching import mends
from veritas_rl.verl_plugin.reference import StartAdapter, reshard

# verl's registering decorator hides the types from pyright.
_verl: Any = transformer_impl
FSDPEngineWithLMHead = _verl.FSDPEngineWithLMHead
FSDPEngineWithValueHead = _verl.FSDPEngineWithValueHead


class EngineWithLMHead(FSDPEngineWithLMHead):
    """The engine of actor and reference, and of fine-tuning."""

    def initialize(self) -> None:
        super().initialize()
        self._start_adapter: StartAdapter | None = None
        if self._is_lora and self.model_config.lora_adapter_path is not None:
            self._start_adapter = StartAdapter(self.module)

    @mends(
        _verl.FSDPEngine._build_module, "config=self.model_config.hf_config,\n                    trust_remote_code="
    )
    def _build_module(self) -> Any:
        """verl has no 4-bit base for LoRA: if `model.lora.quantization` is nf4, quantize the loaded model."""
        model = super()._build_module()
        if self.model_config.lora.get("quantization") is not None:
            computing = (self.engine_config.mixed_precision or {}).get("param_dtype", "bf16")
            nf4.quantize(model, PrecisionType.to_dtype(computing), _verl.get_device_id())
        return model

    @mends(_verl.FSDPEngine._build_lora_module, "module = get_peft_model(module, LoraConfig(**lora_config))")
    def _build_lora_module(self, module: Any) -> Any:
        """verl draws an adapter's first weights without a seed, and keeps its dropout: seed them, turn dropout off.

        With the engine's seed, runs repeat. With dropout in updates, their probabilities would differ from those of
        rollout and reference; `dropout` turns off the dropout of the base.
        """
        with torch.random.fork_rng(devices=[]):
            # torch.manual_seed would seed the accelerators too.
            torch.default_generator.manual_seed(self.engine_config.seed)
            model = self._with_adapter(module)
        for part in model.modules():
            if isinstance(part, torch.nn.Dropout):
                part.p = 0.0
        return model

    def _with_adapter(self, module: Any) -> Any:
        # A method of its own, which the critic's engine replaces.
        return super()._build_lora_module(module)

    @mends(_verl.FSDPEngine.disable_adapter, "return self.module.disable_adapter()")
    @contextmanager
    def disable_adapter(self) -> Iterator[None]:
        """verl's reference is the base, even if training began from an adapter: let the reference have that adapter.

        After a pass without any adapter, verl would train it in the first mini-batch only: PEFT switches off the
        gradients of the adapter's parameters, and on again. With `reshard_after_forward=false` these are shards before
        the pass and gathered parameters after it, and the shards would stay without gradients. So both times they are
        shards.
        """
        if self._start_adapter is not None:
            with self._start_adapter.in_place(self.module):
                yield
            return
        reshard(self.module)
        with self.module.disable_adapter():
            yield
            reshard(self.module)

    @mends(_verl.collect_lora_params, "lora_params = get_peft_model_state_dict(peft_model)")
    def get_per_tensor_param(self, layered_summon: bool = False, base_sync_done: bool = False, **kwargs: Any) -> Any:
        """PEFT finds no adapter in FSDP 1 or in one layer, so verl sends an empty one: gather it directly."""
        model = peft_model(self.module)
        if model is None or not base_sync_done or self.model_config.lora.get("merge", False):
            return super().get_per_tensor_param(layered_summon, base_sync_done, **kwargs)
        if not self._uses_fsdp2_cpu_offload_policy:
            _verl.load_fsdp_model_to_gpu(self.module)
        adapter = _verl.convert_weight_keys(gathered(self.module), model)
        if self._is_offload_param:
            _verl.offload_fsdp_model_to_cpu(self.module)
        return adapter.items(), model.peft_config["default"].to_dict()

    def prepare_model_inputs(self, micro_batch: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        inputs, output_args = super().prepare_model_inputs(micro_batch)
        self._computed_tokens = inputs["input_ids"].numel()
        return inputs, output_args

    @mends(FSDPEngineWithLMHead.forward_step, '"loss": loss.detach().item(),')
    def forward_step(self, micro_batch: Any, loss_function: Callable[..., Any] | None, forward_only: bool) -> Any:
        """verl goes on after a loss that is not finite, and does not report padding: report the rank, and `waste`.

        In RL the trainer reads the metric `not_finite/rank_R` and ends the run. Fine-tuning uses verl's own trainer, so
        the engine itself ends the run. `waste` is the computed tokens over the real tokens, in updates of actor and
        critic. Real tokens are those of rows with a learned token. Rows that only fill a mini-batch count as waste.
        """
        loss, output = super().forward_step(micro_batch, loss_function, forward_only)
        if forward_only:
            return loss, output
        fine_tuning = "response_mask" not in micro_batch
        if not math.isfinite(output["loss"]):
            rank = self.get_data_parallel_rank()
            if fine_tuning:
                raise UserError(not_finite.report_of_fine_tuning(micro_batch, output["loss"], rank))
            output["metrics"][f"{not_finite.RANK}{rank}"] = 1.0
        if fine_tuning:
            return loss, output
        learned = row_sums(micro_batch["response_mask"]) > 0
        real = int((micro_batch["input_ids"].offsets().diff() * learned).sum())
        if real:
            output["metrics"]["waste"] = self._computed_tokens / real
        return loss, output


class EngineWithValueHead(EngineWithLMHead, FSDPEngineWithValueHead):
    """The engine of the critic."""

    @mends(_verl.FSDPEngine._build_lora_module, '"task_type": TaskType.CAUSAL_LM')
    def _with_adapter(self, module: Any) -> Any:
        """verl gives the critic's adapter the task type of a generating model: use that of feature extraction."""
        model = self.model_config
        if model.lora_adapter_path is not None:
            return super()._with_adapter(module)
        module.enable_input_require_grads()
        plain: Any = convert_to_regular_types
        settings = LoraConfig(
            task_type=TaskType.FEATURE_EXTRACTION,
            r=model.lora_rank,
            lora_alpha=model.lora_alpha,
            target_modules=plain(model.target_modules),
            target_parameters=plain(model.target_parameters),
            exclude_modules=plain(model.exclude_modules),
        )
        adapted = get_peft_model(module, settings)
        # As verl does: FSDP needs one dtype for the parameters that it gathers together.
        frozen = next(parameter for parameter in adapted.parameters() if not parameter.requires_grad)
        for parameter in adapted.parameters():
            if parameter.requires_grad:
                parameter.data = parameter.data.to(frozen.dtype)
        return adapted


for _device, _vendors in {"cuda": ["nvidia", "amd", "metax"], "npu": ["huawei"]}.items():
    EngineRegistry.register("language_model", ["fsdp", "fsdp2"], _device, _vendors)(EngineWithLMHead)
    # The vendor of shared prompts chooses the engine of a critic too.
    EngineRegistry.register("value_model", ["fsdp", "fsdp2"], _device, [*_vendors, VENDOR])(EngineWithValueHead)
