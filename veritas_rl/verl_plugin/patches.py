"""Patches of verl that every run needs, besides those of its FSDP engine."""

import functools
import os
from collections.abc import Callable
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


@patch_of("verl.workers.engine_workers")
def learned_rows(module: Any) -> None:
    """Losses are divided by padding and rejected tokens, by 0 if no token is learned: count learned rows and tokens.

    The counts are of a mini-batch on all ranks. A row without a learned token is no sequence in the mean of
    `loss_agg_mode=seq-mean-...`: padding, a prompt that was too long, a rejected reply. A mini-batch without a learned
    token is left out: no forward pass, no step of the optimizer, so weights and moments stay as they are. So is every
    mini-batch of a batch with the key `LEAVE_OUT`. They are counted in `skipped_updates`. The rate schedule counts
    steps of training and goes on.
    """
    from veritas_rl.verl_plugin.columns import row_sums
    from veritas_rl.verl_plugin.learning_watch import LEAVE_OUT, SKIPPED

    worker = module.TrainingWorker
    original = worker.train_batch
    require_fault(original, "output = self.engine.train_batch(data, loss_function=self.loss_fn)")
    torch, tu = module.torch, module.tu

    @functools.wraps(original)
    def train_batch(self: Any, data: Any) -> Any:
        # Fine-tuning has no column of that name.
        if "response_mask" not in data:
            return original(self, data)
        learned = row_sums(data["response_mask"])
        counts = torch.stack([(learned > 0).sum(), learned.sum()]).to(self.device_name)
        torch.distributed.all_reduce(counts, group=self.engine.get_data_parallel_group())
        rows, tokens = counts.tolist()
        if tokens and not tu.get(data, key=LEAVE_OUT, default=False):
            data["loss_mask"] = data["response_mask"]  # without the tokens that `rollout_correction` has rejected
            tu.assign_non_tensor(data, global_batch_size=rows)
            return original(self, data)
        metrics = {"mfu": 0.0, SKIPPED: module.Metric("sum", 1)}
        if tu.get(data, key="update_lr_scheduler", default=False):
            metrics["lr"] = self.engine.lr_scheduler_step()
        return tu.get_tensordict({}, non_tensor_dict={"metrics": metrics})

    worker.train_batch = train_batch


MEANS = ("critic/vf_clipfrac", "critic/vpred_mean")
"""Metrics of the critic's loss that are means over the tokens of a micro-batch."""


@patch_of("verl.workers.utils.losses")
def means_of_tokens(module: Any) -> None:
    """Metrics such as `ppo_kl` count a micro-batch of padding as one of replies: average over all learned tokens."""
    require_fault(module.ppo_loss, "pg_metrics = Metric.from_dict(pg_metrics, aggregation=AggregationType.MEAN)")
    require_fault(module.value_loss, '"critic/vpred_mean": masked_mean(vpreds, response_mask).detach().item(),')
    metric, kinds = module.Metric, module.AggregationType

    def over_tokens(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def loss_of(config: Any, model_output: Any, data: Any, dp_group: Any = None) -> Any:
            loss, metrics = original(config, model_output, data, dp_group)
            # Sums over micro-batches are averaged over ranks.
            share = float(data["response_mask"].sum()) * data["dp_size"] / data["batch_num_tokens"]
            for name, found in metrics.items():
                if isinstance(found, metric) and found.aggregation is kinds.MEAN:
                    metrics[name] = metric(kinds.SUM, found.aggregate() * share)
                elif name in MEANS:
                    metrics[name] = metric(kinds.SUM, found * share)
            return loss, metrics

        return loss_of

    module.ppo_loss, module.value_loss = over_tokens(module.ppo_loss), over_tokens(module.value_loss)


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


@patch_of("verl.utils.fsdp_utils")
def adapter_of_shards(module: Any) -> None:
    """PEFT 0.21 finds no adapter inside FSDP 1 or in one layer, so verl sends an empty adapter: gather it directly."""
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
    """verl does not check that a rollout has the sent adapter: compare digests after each weight sync.

    If they differ, the run ends with a one-line error.
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


@patch_of("verl.workers.engine_workers")
def refreshed_reference(module: Any) -> None:
    """The reference of the KL term keeps its first weights: let it follow the actor's weights if a batch requests it.

    The trainer requests a copy with the key `REFRESH` in the batch, and an average with `AVERAGE`, see
    `veritas_rl.reference`. Checkpoints then contain the average.
    """
    worker = module.ActorRolloutRefWorker
    original = worker.compute_ref_log_prob
    save, load = worker.save_checkpoint, worker.load_checkpoint
    require_fault(original, "output = self.ref.infer_batch(data=data)")
    require_fault(save, "self.actor.save_checkpoint(local_path,")
    require_fault(load, "self.actor.load_checkpoint(local_path,")

    @functools.wraps(original)
    def compute_ref_log_prob(self: Any, data: Any) -> Any:
        from veritas_rl.verl_plugin.reference import AVERAGE, REFRESH, WeightAverage, copy_weights

        actor, reference = self.actor.engine.module, self.ref.engine.module
        # The keys of a batch, whose columns the original fetches.
        if data.extra_info.pop(REFRESH, False):
            copy_weights(actor, reference)
        if decay := data.extra_info.pop(AVERAGE, None):
            if self._weight_average is None:
                saved = self._saved_average
                self._weight_average = WeightAverage.load(saved) if saved is not None else WeightAverage()
            self._weight_average.update(actor, reference, decay)
        return original(self, data)

    @functools.wraps(save)
    def save_checkpoint(self: Any, local_path: str, *args: Any, **kwargs: Any) -> None:
        from veritas_rl.verl_plugin.reference import average_file

        save(self, local_path, *args, **kwargs)
        file = average_file(local_path, self.rank, self.world_size)
        if self._weight_average is not None:
            self._weight_average.save(self.actor.engine.module, file)
        else:
            file.unlink(missing_ok=True)  # of a run with other settings that saved this step before

    @functools.wraps(load)
    def load_checkpoint(self: Any, local_path: str, *args: Any, **kwargs: Any) -> None:
        from veritas_rl.verl_plugin.reference import average_file

        load(self, local_path, *args, **kwargs)
        file = average_file(local_path, self.rank, self.world_size)
        self._saved_average = file if file.is_file() else None

    # An average is loaded when it is first needed: a run with another reference does not need it.
    worker._weight_average = None
    worker._saved_average = None
    worker.compute_ref_log_prob = compute_ref_log_prob
    worker.save_checkpoint = save_checkpoint
    worker.load_checkpoint = load_checkpoint


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
