"""Compute moves, outcomes of rows and mini-batch sizes from the replies of a step."""

import math
from collections import defaultdict
from collections.abc import Sequence
from operator import itemgetter
from statistics import fmean
from typing import Any

from omegaconf import DictConfig, open_dict

from veritas_rl.verl_plugin.advantages import Move
from veritas_rl.verl_plugin.sample_key import SampleKey


def moves_of(keys: Sequence[str], fields: Sequence[dict[str, Any]], rewards: Sequence[float]) -> list[Move]:
    """The samples of a batch as moves of games, in their order.

    Args:
        keys: The key of each sample, see `SampleKey`.
        fields: The agent loop's extra fields of each sample.
        rewards: The shaped reward of each sample.
    """
    parsed = [SampleKey.parse(key) for key in keys]
    turns: dict[tuple[tuple[str, int], int], list[int]] = defaultdict(list)
    for key, said in zip(parsed, fields, strict=True):
        turns[key.session, said["move"]["seat"]].append(key.reply)
    return [
        Move(
            task=key.uid,
            game=key.session_name,
            name=said["reward_extra_info"]["group"],
            opponent=said["move"]["opponent"],
            seat=said["move"]["seat"],
            turn=sorted(turns[key.session, said["move"]["seat"]]).index(key.reply),
            reward=reward,
            value=said["reward_extra_info"]["value"],
            discount=said["move"]["discount"],
        )
        for key, said, reward in zip(parsed, fields, rewards, strict=True)
    ]


def even_mini_batches(replies: int, sizes: Sequence[int], copies: int, ranks: int) -> list[int]:
    """Mini-batch sizes that divide a step with the least padding.

    Args:
        replies: The number of replies in the step.
        sizes: The configured sizes of each learner, in tasks with `copies` replies each.
        copies: The factor by which verl multiplies a size.
        ranks: The number of ranks, which must divide a mini-batch.

    Returns:
        A size close to each of `sizes`.
    """
    largest = max(sizes)
    shares = [round(largest / size) for size in sizes]
    unit = math.lcm(copies, ranks) * math.lcm(*shares)
    parts = max(1, round(replies / (largest * copies)))
    size = math.ceil(replies / (parts * unit)) * unit
    return [size // (copies * share) for share in shares]


def bound_losses(config: DictConfig) -> None:
    """Let `loss_agg_mode=seq-mean-token-sum-norm` divide by the token limit of a reply, if no divisor is set.

    verl would divide by the longest reply of each micro-batch, so that the loss depends on how rows are put together.

    Args:
        config: verl's full configuration, which is changed.
    """
    for learner in (config.actor_rollout_ref.actor, config.critic):
        if learner.loss_agg_mode == "seq-mean-token-sum-norm" and learner.loss_scale_factor is None:
            with open_dict(config):
                learner.loss_scale_factor = config.data.max_response_length


def outcomes(replies: Sequence[tuple[str, dict[str, Any]]]) -> dict[str, tuple[float, float]]:
    """Mean value and success over the games of each row, by the row's uid. A game's last reply has the outcome.

    Args:
        replies: Key and `reward_info` of each reply, in any order; see `SampleKey`.
    """
    ends: dict[tuple[str, int], tuple[int, dict[str, Any]]] = {}
    for key, info in ((SampleKey.parse(text), info) for text, info in replies):
        ends[key.session] = max(ends.get(key.session, (-1, {})), (key.reply, info), key=itemgetter(0))
    games: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for (uid, _), (_, info) in ends.items():
        games[uid].append(info)
    return {
        uid: (fmean(info["value"] for info in infos), fmean(info["success"] for info in infos))
        for uid, infos in games.items()
    }
