"""verl's workers of actor, reference, rollout and critic, with what verl's own lack. The trainer chooses them."""

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

import ray
import torch
from verl.trainer.ppo.utils import Role
from verl.utils import tensordict_utils as tu
from verl.utils.metric import AggregationType, Metric
from verl.workers.engine_workers import ActorRolloutRefWorker, TrainingWorker
from verl.workers.utils.losses import ppo_loss

from veritas_rl.verl_plugin.adapter_delivery import AdapterWatch
from veritas_rl.verl_plugin.adapter_shards import peft_model
from veritas_rl.verl_plugin.columns import row_sums
from veritas_rl.verl_plugin.learning_watch import LEAVE_OUT, SKIPPED
from veritas_rl.verl_plugin.patching import mends
from veritas_rl.verl_plugin.reference import AVERAGE, REFRESH, WeightAverage, average_file, copy_weights

MEANS = ("critic/vf_clipfrac", "critic/vpred_mean")
"""Metrics of the critic's loss that are means over the tokens of a micro-batch."""


def sent_as(method: Callable[..., Any]) -> Callable[[Callable[..., Any]], Any]:
    """Let verl send the calls of an overriding method to ranks as those of its own method."""
    # verl keeps how it sends a method's calls in an attribute of the method.
    return wraps(method, assigned=())


def mean_of_tokens(loss: Callable[..., Any]) -> Callable[..., Any]:
    """A loss of verl whose metrics, such as `ppo_kl`, are averaged over all learned tokens.

    verl averages over micro-batches, and counts a micro-batch of padding as one of replies.

    Args:
        loss: verl's loss of actor or critic, with its configuration.
    """

    def loss_of(*, model_output: Any, data: Any, dp_group: Any) -> Any:
        found, metrics = loss(model_output=model_output, data=data, dp_group=dp_group)
        # Sums over micro-batches are averaged over ranks.
        share = float(data["response_mask"].sum()) * data["dp_size"] / data["batch_num_tokens"]
        for name, value in metrics.items():
            if isinstance(value, Metric) and value.aggregation is AggregationType.MEAN:
                metrics[name] = Metric(AggregationType.SUM, value.aggregate() * share)
            elif name in MEANS:
                metrics[name] = Metric(AggregationType.SUM, value * share)
        return found, metrics

    return loss_of


class LearnerWorker(TrainingWorker):
    """The worker of a model that learns, and of the reference."""

    @mends(ppo_loss, "pg_metrics = Metric.from_dict(pg_metrics, aggregation=AggregationType.MEAN)")
    @sent_as(TrainingWorker.set_loss_fn)
    def set_loss_fn(self, loss_fn: Callable[..., Any]) -> None:
        """verl averages the metrics of a loss over micro-batches of unequal size: average over all learned tokens."""
        super().set_loss_fn(mean_of_tokens(loss_fn))

    @mends(TrainingWorker.train_batch, "output = self.engine.train_batch(data, loss_function=self.loss_fn)")
    @sent_as(TrainingWorker.train_batch)
    def train_batch(self, data: Any) -> Any:
        """verl divides losses by padding and rejected tokens, by 0 if no token is learned: count what is learned.

        The counts are of a mini-batch on all ranks. A row without a learned token is no sequence in the mean of
        `loss_agg_mode=seq-mean-...`: padding, a prompt that was too long, a rejected reply. A mini-batch without a
        learned token is left out: no forward pass, no step of the optimizer, so weights and moments stay as they are.
        So is every mini-batch of a batch with the key `LEAVE_OUT`. They are counted in `skipped_updates`. The rate
        schedule counts steps of training and goes on.
        """
        learned = row_sums(data["response_mask"])
        counts = torch.stack([(learned > 0).sum(), learned.sum()]).to(self.device_name)
        torch.distributed.all_reduce(counts, group=self.engine.get_data_parallel_group())
        rows, tokens = counts.tolist()
        if tokens and not tu.get(data, key=LEAVE_OUT, default=False):
            data["loss_mask"] = data["response_mask"]  # without the tokens that `rollout_correction` has rejected
            tu.assign_non_tensor(data, global_batch_size=rows)
            return super().train_batch(data)
        metrics = {"mfu": 0.0, SKIPPED: Metric(AggregationType.SUM, 1)}
        if tu.get(data, key="update_lr_scheduler", default=False):
            metrics["lr"] = self.engine.lr_scheduler_step()
        return tu.get_tensordict({}, non_tensor_dict={"metrics": metrics})


class ActorWorker(ActorRolloutRefWorker):
    """The worker of actor, reference and rollout."""

    actor_worker_cls = LearnerWorker
    ref_worker_cls = LearnerWorker
    actor: Any
    ref: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._adapter_watch: AdapterWatch | None = None
        self._weight_average: WeightAverage | None = None
        self._saved_average: Any = None

    @mends(
        ActorRolloutRefWorker.update_weights, "peft_config=peft_config, base_sync_done=True, global_steps=global_steps"
    )
    @sent_as(ActorRolloutRefWorker.update_weights)
    async def update_weights(self, global_steps: Any = None, mode: str = "auto") -> Any:
        """verl does not check that a rollout has the sent adapter: compare digests after each weight sync.

        If they differ, the run ends with a one-line error.
        """
        sent = await super().update_weights(global_steps, mode)
        engine = self.actor.engine
        backend = mode if mode != "auto" else self.config.rollout.checkpoint_engine.backend
        if peft_model(engine.module) is not None and not self.peft_merge and backend == "naive":
            if self._adapter_watch is None:
                self._adapter_watch = AdapterWatch(self.rollout)
            await self._adapter_watch.check(engine, global_steps, self.rank)
        return sent

    @mends(ActorRolloutRefWorker.compute_ref_log_prob, "output = self.ref.infer_batch(data=data)")
    @sent_as(ActorRolloutRefWorker.compute_ref_log_prob)
    def compute_ref_log_prob(self, data: Any) -> Any:
        """verl's reference of the KL term keeps its first weights: let it follow the actor's if a batch requests it.

        The trainer requests a copy with the key `REFRESH` in the batch, and an average with `AVERAGE`, see
        `veritas_rl.reference`. Checkpoints then contain the average.
        """
        actor, reference = self.actor.engine.module, self.ref.engine.module
        # The keys of a batch, whose columns verl's method fetches.
        if data.extra_info.pop(REFRESH, False):
            copy_weights(actor, reference)
        if decay := data.extra_info.pop(AVERAGE, None):
            if self._weight_average is None:
                saved = self._saved_average
                self._weight_average = WeightAverage.load(saved) if saved is not None else WeightAverage()
            self._weight_average.update(actor, reference, decay)
        return super().compute_ref_log_prob(data)

    @sent_as(ActorRolloutRefWorker.save_checkpoint)
    def save_checkpoint(self, local_path: str, *args: Any, **kwargs: Any) -> None:
        super().save_checkpoint(local_path, *args, **kwargs)
        file = average_file(local_path, self.rank, self.world_size)
        if self._weight_average is not None:
            self._weight_average.save(self.actor.engine.module, file)
        else:
            file.unlink(missing_ok=True)  # of a run with other settings that saved this step before

    @sent_as(ActorRolloutRefWorker.load_checkpoint)
    def load_checkpoint(self, local_path: str, *args: Any, **kwargs: Any) -> None:
        super().load_checkpoint(local_path, *args, **kwargs)
        # It is loaded when it is first needed: a run with another reference does not need it.
        file = average_file(local_path, self.rank, self.world_size)
        self._saved_average = file if file.is_file() else None


def of_roles(mapping: Mapping[Role, Any]) -> dict[Role, Any]:
    """These workers for the roles of verl's mapping: the critic, and the other models of a run in one worker."""
    return {role: ray.remote(LearnerWorker if role is Role.Critic else ActorWorker) for role in mapping}
