"""The advantages of a batch: those of this package's algorithms, and whether a batch has any."""

from dataclasses import replace
from math import exp
from statistics import fmean
from typing import Any

import torch
import transfer_queue as tq
from omegaconf import DictConfig
from tensordict import TensorDict
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY, register_adv_est

from veritas_rl.verl_plugin import algorithms
from veritas_rl.verl_plugin.batches import moves_of, with_values

ROUNDING = 1e-6
"""A smaller advantage is 0 except for rounding."""


def _reward_of_reply(
    token_level_rewards: torch.Tensor, response_mask: torch.Tensor, **_: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """What verl computes for an estimator that it does not have. `with_estimate` replaces it."""
    rewards = token_level_rewards.sum(dim=-1, keepdim=True) * response_mask
    return rewards, rewards


for _algorithm in algorithms.known().values():
    if _algorithm.estimator not in ADV_ESTIMATOR_REGISTRY:
        register_adv_est(_algorithm.estimator)(_reward_of_reply)


def with_estimate(
    batch: KVBatchMeta,
    algorithm: algorithms.Algorithm,
    settings: DictConfig,
    memory: dict[str, float],
    *,
    custom: bool,
) -> tuple[KVBatchMeta, dict[str, float]]:
    """Replace the advantages of a batch by those of an algorithm.

    Args:
        batch: The batch.
        algorithm: An algorithm with advantages of its own.
        settings: verl's node `algorithm` of the configuration.
        memory: The algorithm's memory, which may be changed.
        custom: Whether rewards are custom.

    Returns:
        The batch, and metrics of the policy if answers are listed.
    """
    assert algorithm.advantages is not None
    columns = ["extra_fields", "rm_scores", "response_mask"]
    if algorithm.lists:
        columns += ["old_log_probs", *(["token_level_rewards"] if settings.use_kl_in_reward else [])]
    data = tq.kv_batch_get(keys=batch.keys, partition_id=str(batch.partition_id), select_fields=columns)
    masks = data.get("response_mask").unbind()
    rewards = _totals(data, "rm_scores")
    fields = data.get("extra_fields").tolist()
    # Padding rows are not compared.
    real = [index for index, tag in enumerate(batch.tags) if not tag.get("is_padding", False)]
    moves = moves_of(
        [batch.keys[index] for index in real],
        [fields[index] for index in real],
        [rewards[index] for index in real],
        custom=custom,
    )
    metrics: dict[str, float] = {}
    if algorithm.lists:
        logs = _totals(data, "old_log_probs")
        moves = [replace(move, probability=exp(logs[index])) for index, move in zip(real, moves, strict=True)]
        moves, metrics = with_values(moves, [fields[index] for index in real])
        if settings.use_kl_in_reward:
            left = _totals(data, "token_level_rewards")
            moves = [
                replace(move, reward=move.reward - (rewards[index] - left[index]))
                for index, move in zip(real, moves, strict=True)
            ]
    found = dict(zip(real, algorithm.advantages(moves, settings, memory), strict=True))
    rows = [mask * found.get(index, 0.0) for index, mask in enumerate(masks)]
    nested = torch.nested.as_nested_tensor(rows, layout=torch.jagged)
    made = TensorDict({"advantages": nested, "returns": nested}, batch_size=len(rows))
    return tq.kv_batch_put(keys=batch.keys, partition_id=str(batch.partition_id), fields=made), metrics


def _totals(data: TensorDict, column: str) -> list[float]:
    """The sum of each row of a jagged column."""
    return [row.sum().item() for row in data.get(column).unbind()]


def signal(batch: KVBatchMeta) -> tuple[float, bool]:
    """What a batch says about the policy, without padding.

    Returns:
        The share of replies whose learned tokens all have the advantage 0, and whether a reward is other than 0.
    """
    real = [key for key, tag in zip(batch.keys, batch.tags, strict=True) if not tag.get("is_padding", False)]
    columns = ["advantages", "response_mask", "rm_scores"]
    data = tq.kv_batch_get(keys=real, partition_id=str(batch.partition_id), select_fields=columns)
    advantages, masks, scores = (data.get(column).unbind() for column in columns)
    # A NaN does not count as 0, so that the update is made, and its check reports the NaN.
    moves = ~(torch.cat(advantages).abs() * torch.cat(masks) < ROUNDING)
    return fmean(not bool(row.any()) for row in moves.split([*map(len, masks)])), bool(torch.cat(scores).any())


def without_advantages(batch: KVBatchMeta) -> KVBatchMeta:
    """Write columns of zeros, which verl's metrics read, instead of advantages, returns and values."""
    data = tq.kv_batch_get(keys=batch.keys, partition_id=str(batch.partition_id), select_fields=["response_mask"])
    zeros = 0.0 * data.get("response_mask")
    made = TensorDict(dict.fromkeys(("advantages", "returns", "values"), zeros), batch_size=len(batch))
    return tq.kv_batch_put(keys=batch.keys, partition_id=str(batch.partition_id), fields=made)


def nothing_for_the_actor(config: DictConfig, *, zero_advantages: float, earned: bool) -> bool:
    """Whether a step must not update the actor, because its batch says nothing about the policy.

    Args:
        config: verl's full configuration.
        zero_advantages: The share of replies with the advantage 0.
        earned: Whether a reward of the batch is other than 0.
    """
    algorithm = config.algorithm
    if config.actor_rollout_ref.actor.use_kl_loss:
        # The KL term has a gradient without advantages.
        return False
    # verl gives the advantages of `gae` a standard deviation of 1, even if they are the critic's noise alone.
    noise = algorithm.adv_estimator == "gae" and not algorithm.use_kl_in_reward and not earned
    return zero_advantages == 1 or noise
