"""Patches of what verl names itself. `engines`, `workers` and `vllm` extend classes that can be chosen."""

import functools
import os
from pathlib import Path
from typing import Any

from veritas_rl.checkpoints.adapter import weights_fingerprint
from veritas_rl.checkpoints.layout import CheckpointInfo, LoraInfo, step_folder, write_info
from veritas_rl.verl_plugin.patching import patch_of, require_fault

CHUNK_ELEMENTS = 1 << 24
"""How many logits are processed at once."""


@patch_of("verl.utils.torch_functional")
def log_probabilities(module: Any) -> None:
    """Without flash-attn, log-probabilities are computed token by token and rounded to bf16: use fp32, many at once.

    bf16 rounds a log-probability of about -5 to steps of 1/32. One graph node per token took more than half of a small
    model's update on a CPU.
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
            # The backward pass recomputes the fp32 copies, so they are not all kept.
            found = [checkpoint(normalizer, chunk, use_reentrant=False, preserve_rng_state=False) for chunk in chunks]
        return chosen - torch.cat(found).view_as(chosen)

    module.logprobs_from_logits_v2 = logprobs


@patch_of("verl.utils.model")
def critic_head(module: Any) -> None:
    """The critic always loads flash attention and a random head: use the configured attention and a head of zeros.

    The first values of a random head are noise, and a checkpoint with adapters only could not restore it. A model that
    lacks weights outside the head is refused. The launcher refuses a model without a critic class.
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
            raise ValueError(
                f"{local_path} lacks {len(lost)} weights, such as {', '.join(lost[:3])}: download the model again"
            )
        for name, parameter in model.named_parameters():
            if name in loaded["missing_keys"]:
                parameter.data.zero_()
        return model

    module.load_valuehead_model = load


@patch_of("verl.trainer.ppo.core_algos")
def geometric_mean_loss(module: Any) -> None:
    """`loss_mode=geo_mean` averages over padding, and over each micro-batch alone: average over all learned rows."""
    losses = module.POLICY_LOSS_REGISTRY
    original = losses["geo_mean"]
    require_fault(original, "pg_loss = torch.mean(pg_losses)")

    @functools.wraps(original)
    def geo_mean(*args: Any, **kwargs: Any) -> Any:
        loss, metrics = original(*args, **kwargs)
        # A row without a learned token has advantage 0.
        rows, batch = len(kwargs["response_mask"]), kwargs["config"].global_batch_info
        return loss * rows * batch["dp_size"] / batch["global_batch_size"], metrics

    losses["geo_mean"] = geo_mean


@patch_of("verl.utils.torch_functional")
def whitened_advantages(module: Any) -> None:
    """Advantages of fewer than two tokens cannot be whitened, and raise an error: make them 0."""
    original = module.masked_whiten
    require_fault(module.masked_var, 'raise ValueError("At least one element in the mask has to be 1.")')

    @functools.wraps(original)
    def masked_whiten(values: Any, mask: Any, shift_mean: bool = True) -> Any:
        return original(values, mask, shift_mean) if mask.sum() > 1 else module.torch.zeros_like(values)

    module.masked_whiten = masked_whiten


@patch_of("verl.trainer.ppo.rollout_corr_helper")
def corrected_rows(module: Any) -> None:
    """Metrics of the rollout's correction count padding, and padding alone is an error: correct learned rows only.

    Weights and masks are the same as with padding.
    """
    original = module.compute_rollout_correction_and_rejection_mask
    require_fault(original, 'raise ValueError("response_mask must contain at least one valid token (1).")')
    require_fault(module.compute_offpolicy_metrics, "training_ppl = torch.exp(-mean_log_prob_training).mean()")

    @functools.wraps(original)
    def correct(old_log_prob: Any, rollout_log_prob: Any, response_mask: Any, **settings: Any) -> Any:
        learned = response_mask.any(-1)
        columns = [column[learned] for column in (old_log_prob, rollout_log_prob, response_mask)]
        if not learned.any():
            # All ranks need the same metrics; those of one token without a difference have no weight.
            one = old_log_prob.new_zeros(1, 1)
            _, _, metrics = original(one, one, module.torch.ones_like(one, dtype=response_mask.dtype), **settings)
            return None, response_mask, metrics
        weights, kept, metrics = original(*columns, **settings)
        mask = response_mask.clone()
        mask[learned] = kept
        if weights is not None:
            found = weights.batch["rollout_is_weights"]
            whole = found.new_zeros(response_mask.shape)
            whole[learned] = found
            weights = module.DataProto.from_dict(tensors={"rollout_is_weights": whole})
        return weights, mask, metrics

    module.compute_rollout_correction_and_rejection_mask = correct


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


@patch_of("verl.utils.checkpoint.checkpoint_handler")
def epoch_boundary(module: Any) -> None:
    """Fine-tuning that resumes at the end of an epoch skips the next epoch and exits with 0: start the next epoch.

    The saved position in the data is the end of the previous epoch. Reinforcement learning does not have this
    fault.
    """
    handler = module.CheckpointHandler
    original = handler._load_dataloader_state
    require_fault(original, "self.train_dataloader.load_state_dict(dataloader_state_dict)")

    @functools.wraps(original)
    def load(self: Any, checkpoint_path: str) -> None:
        if self.resume_global_step % len(self.train_dataloader):
            original(self, checkpoint_path)

    handler._load_dataloader_state = load


@patch_of("verl.utils.checkpoint.checkpoint_handler")
def record_of_fine_tuning(module: Any) -> None:
    """A checkpoint of fine-tuning does not say from what it was trained: write checkpoint.json, as RL does.

    A merge needs its base, and a resumed run its adapter's settings.
    """
    from verl.utils.device import get_device_name

    handler = module.CheckpointHandler
    original = handler.save_checkpoint
    require_fault(original, "json.dump(self.lora_train_meta, f, ensure_ascii=False, indent=4)")

    @functools.wraps(original)
    def save(self: Any, step: int) -> None:
        original(self, step)
        if self.rank == 0:
            model = self.engine.model_config
            info = CheckpointInfo(
                global_step=step,
                base_model=model.path,
                world_size=module.torch.distributed.get_world_size(),
                lora=LoraInfo.of(model),
                base_fingerprint=weights_fingerprint(Path(model.local_path)),
                device=get_device_name(),
            )
            write_info(step_folder(Path(self.default_local_dir), step), info)

    handler.save_checkpoint = save


@patch_of("verl.workers.rollout.vllm_rollout.vllm_rollout")
def failed_weight_sync(module: Any) -> None:
    """The sender of weights waits forever for a receiver that failed or died: end the run with the receiver's error.

    A receiver that is only slow has as much time as it needs. The segment of shared memory through which weights go on
    a CPU loses its name as soon as both sides have it open, so whatever ends the run leaves nothing in /dev/shm.
    """
    from veritas_rl.verl_plugin.vllm.weight_sync import WatchedSender

    adapter, sender = module.ServerAdapter, module.BucketedWeightSender
    execute = adapter._execute_method
    require_fault(sender.async_send_weights, "self.socket.recv()")
    require_fault(sender._cleanup, "self.shm.unlink()")
    require_fault(adapter.update_weights, "await sender.async_send_weights(weights)")

    @functools.wraps(execute)
    async def execute_method(self: Any, method: str, non_block: bool = False, **arguments: Any) -> Any:
        answer = await execute(self, method, non_block, **arguments)
        if non_block:
            # A process has one adapter, whose calls without waiting are those of receivers.
            WatchedSender.receiver = None if answer is None else answer.future()
        return answer

    adapter._execute_method = execute_method
    module.BucketedWeightSender = WatchedSender
