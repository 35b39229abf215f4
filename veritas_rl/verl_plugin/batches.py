"""Compute moves, values of listed answers, groups that vary, outcomes of rows and mini-batch sizes of a step."""

import dataclasses
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from operator import itemgetter
from statistics import fmean
from typing import Any

from omegaconf import DictConfig, open_dict
from transfer_queue import KVBatchMeta

from veritas_rl.envs.registry import get_environment
from veritas_rl.errors import UserError
from veritas_rl.verl_plugin.algorithms import Move
from veritas_rl.verl_plugin.sample_key import SampleKey


def moves_of(
    keys: Sequence[str], fields: Sequence[dict[str, Any]], rewards: Sequence[float], *, custom: bool = False
) -> list[Move]:
    """The samples of a batch as moves of games, in their order.

    Args:
        keys: The key of each sample, see `SampleKey`.
        fields: The agent loop's extra fields of each sample.
        rewards: The reward of each sample.
        custom: Whether a custom reward function made the rewards. They may have another scale than the score, and
            nobody knows their discount, so the value of a seat is then the mean of its rewards.
    """
    parsed = [SampleKey.parse(key) for key in keys]
    turns: dict[tuple[tuple[str, int], int], list[int]] = defaultdict(list)
    paid: dict[tuple[tuple[str, int], int], list[float]] = defaultdict(list)
    for key, said, reward in zip(parsed, fields, rewards, strict=True):
        turns[key.session, said["move"]["seat"]].append(key.reply)
        paid[key.session, said["move"]["seat"]].append(reward)
    return [
        Move(
            task=key.uid,
            game=key.session_name,
            name=said["reward_extra_info"]["group"],
            opponent=said["move"]["opponent"],
            seat=said["move"]["seat"],
            turn=sorted(turns[key.session, said["move"]["seat"]]).index(key.reply),
            reward=reward,
            value=fmean(paid[key.session, said["move"]["seat"]]) if custom else said["reward_extra_info"]["value"],
            discount=1.0 if custom else said["move"]["discount"],
            decision=said["move"].get("decision", 0),
        )
        for key, said, reward in zip(parsed, fields, rewards, strict=True)
    ]


@dataclass(frozen=True)
class VariedGroups:
    """The dynamic sampling of DAPO (Yu et al. 2025): a batch consists of groups whose replies differ.

    Attributes:
        metric: What must differ: a number of `reward_info` such as "success", or "reward".
        batches: How many batches of groups a step may draw. A step that has drawn so many takes groups that do not
            vary, which have no advantage.
        order: The number of each group's draw, by verl's uid.
    """

    metric: str
    batches: int
    order: Mapping[str, int]

    def uids(self, keys: Sequence[str], fields: Sequence[dict[str, Any]], rewards: Sequence[float]) -> set[str]:
        """The groups in which the replies of one seat to one turn differ. A reply without the metric does not count.

        Args:
            keys: As for `moves_of`.
            fields: As for `moves_of`.
            rewards: As for `moves_of`.

        Raises:
            UserError: No reply has the metric.
        """
        found: dict[tuple[str, int, int], set[float]] = defaultdict(set)
        for move, said in zip(moves_of(keys, fields, rewards), fields, strict=True):
            value = (said["reward_extra_info"] | {"reward": move.reward}).get(self.metric)
            if isinstance(value, float):
                found[move.task, move.seat, move.turn].add(value)
        if keys and not found:
            infos = (said["reward_extra_info"].items() for said in fields)
            numbers = {name for info in infos for name, value in info if isinstance(value, float)}
            raise UserError(
                f"algorithm.filter_groups.metric={self.metric} is no number of a reply: set it to one of "
                + ", ".join(sorted({*numbers, "reward"}))
            )
        return {uid for (uid, _, _), values in found.items() if len(values) > 1}


def with_values(moves: Sequence[Move], fields: Sequence[dict[str, Any]]) -> tuple[list[Move], dict[str, float]]:
    """Listed answers to all decisions of whole games, with their values under the policy as rewards.

    Args:
        moves: The answers with their probabilities. Those of single moves have rewards, and are not changed.
        fields: The agent loop's extra fields of each.

    Returns:
        The moves in their order, and the mean of each measure of the policy, by environment and group.
    """
    games: dict[str, list[int]] = defaultdict(list)
    for index, said in enumerate(fields):
        if said["move"]["case"] is not None:
            games[moves[index].game].append(index)
    found, measures = list(moves), defaultdict[str, list[float]](list)
    for rows in games.values():
        rows.sort(key=lambda row: (moves[row].decision, moves[row].turn))
        answers = [list(group) for _, group in groupby(rows, key=lambda row: moves[row].decision)]
        policy = [shares([moves[row].probability for row in group]) for group in answers]
        name, case = moves[rows[0]].name, fields[rows[0]]["move"]["case"]
        environment: Any = get_environment(name.partition("/")[0])
        values, measured = environment.valued(case, policy)
        for row, value in zip(chain.from_iterable(answers), chain.from_iterable(values), strict=True):
            found[row] = dataclasses.replace(moves[row], reward=value)
        for measure, value in measured.items():
            measures[f"{name}/{measure}"].append(value)
    return found, {name: fmean(values) for name, values in measures.items()}


def shares(probabilities: Sequence[float]) -> list[float]:
    """Probabilities divided by their sum; equal ones if it is 0."""
    total = sum(probabilities)
    return [p / total if total else 1 / len(probabilities) for p in probabilities]


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


def whole_groups(groups: Sequence[str], lengths: Sequence[int], ranks: int) -> list[int]:
    """The order of a step's rows in which each rank has whole groups, where they fit, and similar numbers of tokens.

    Args:
        groups: The group of each row.
        lengths: The length of each row in tokens.
        ranks: The number of ranks. Each has an equal share of the rows, one rank after the other.
    """
    rows: dict[str, list[int]] = defaultdict(list)
    for row, group in enumerate(groups):
        rows[group].append(row)
    room, tokens = [len(groups) // ranks] * ranks, [0] * ranks
    held: list[dict[str, list[int]]] = [{} for _ in range(ranks)]
    waiting = sorted(rows.values(), key=lambda group: -sum(lengths[row] for row in group))
    while waiting:
        group = waiting.pop(0)
        fitting = [rank for rank in range(ranks) if room[rank] >= len(group)]
        if not fitting:  # No rank has room for it, so it is divided after the others.
            waiting += [[row] for row in group]
            continue
        rank = min(fitting, key=tokens.__getitem__)
        room[rank] -= len(group)
        tokens[rank] += sum(lengths[row] for row in group)
        held[rank].setdefault(groups[group[0]], []).extend(group)
    return [row for of_rank in held for group in sorted(of_rank.values()) for row in group]


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


def in_order(keys: Sequence[str], drawn: Iterable[str]) -> list[int]:
    """The rows of a batch in the order of their tasks, games and replies.

    Samples arrive as their games end, which depends on the machine. The order decides which of them share a mini-batch.
    """
    places = {uid: place for place, uid in enumerate(drawn)}
    rows = [SampleKey.parse(key) for key in keys]
    return sorted(range(len(rows)), key=lambda row: (places[rows[row].uid], *rows[row][1:]))


ENGINE_COLUMNS = (
    *("input_ids", "position_ids", "prompts", "responses", "response_mask", "loss_mask"),
    *("old_log_probs", "ref_log_prob", "rollout_is_weights", "advantages", "values", "returns"),
)
"""The columns that verl's engines read, if they exist."""


def with_tensors(batch: KVBatchMeta) -> KVBatchMeta:
    """A batch of which verl's engines read their columns."""
    return dataclasses.replace(batch, fields=list(ENGINE_COLUMNS))
