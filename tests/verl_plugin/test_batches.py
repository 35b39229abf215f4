"""The data that the trainer reads from the replies of a step."""

import dataclasses
import math
import random
from itertools import groupby
from typing import Any

import pytest
from omegaconf import OmegaConf

from veritas_rl.envs.openspiel.env import OpenSpielEnvironment
from veritas_rl.errors import UserError
from veritas_rl.launch.configuration import compose_configuration
from veritas_rl.verl_plugin.algorithms import rae
from veritas_rl.verl_plugin.batches import (
    VariedGroups,
    bound_losses,
    even_mini_batches,
    moves_of,
    outcomes,
    whole_groups,
    with_values,
)


def info(value: float, success: float) -> dict[str, float]:
    return {"value": value, "success": success}


def test_an_outcome_is_the_mean_over_the_games_of_a_row_each_by_its_last_reply() -> None:
    replies = [
        ("a-1_0_10", info(1.0, 1.0)),
        ("a-1_0_9", info(0.0, 0.0)),
        ("b-2_0_0", info(0.5, 0.0)),
        ("a-1_1_0", info(0.5, 0.0)),
        ("a-1_0_2", info(0.0, 0.0)),
    ]
    expected = {"a-1": (0.75, 0.5), "b-2": (0.5, 0.0)}
    assert outcomes(replies) == expected
    # verl balances the ranks, so a batch can have any order.
    assert outcomes(replies[::-1]) == expected


@pytest.mark.parametrize(("sizes", "copies", "ranks"), [([128, 128], 1, 1), ([32, 128], 1, 2), ([64, 64], 8, 4)])
def test_the_batches_of_single_moves_are_divided_as_they_were_configured(
    sizes: list[int], copies: int, ranks: int
) -> None:
    assert even_mini_batches(128 * copies, sizes, copies, ranks) == sizes


@pytest.mark.parametrize("replies", [1, 127, 193, 430, 565, 1000])
@pytest.mark.parametrize(("sizes", "copies", "ranks"), [([128, 128], 1, 1), ([64, 128], 1, 2), ([16, 16], 8, 4)])
def test_replies_of_whole_games_are_divided_evenly(replies: int, sizes: list[int], copies: int, ranks: int) -> None:
    made = even_mini_batches(replies, sizes, copies, ranks)
    filled = math.ceil(replies / math.lcm(*(size * copies for size in made))) * math.lcm(*(n * copies for n in made))
    unit = math.lcm(copies, ranks) * 2
    for size, wanted in zip(made, sizes, strict=True):
        assert size * copies % ranks == 0
        assert filled % (size * copies) == 0
        # There are fewer padding rows than `unit` per mini-batch of the larger size.
        assert filled - replies < max(1, round(replies / (max(sizes) * copies))) * unit
        if replies > max(sizes) * copies:
            assert wanted / 2 < size < 2 * wanted


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_ranks_have_whole_groups_and_similar_numbers_of_tokens(ranks: int) -> None:
    dice = random.Random(ranks)
    sizes = [8] * 12 + [3, 5] * 4
    groups = [f"task {number}" for number, size in enumerate(sizes) for _ in range(size)]
    dice.shuffle(groups)
    tokens = {group: dice.randint(10, 200) for group in sorted(set(groups))}
    order = whole_groups(groups, [tokens[group] for group in groups], ranks)
    assert sorted(order) == list(range(len(groups)))
    share = len(groups) // ranks
    parts = [order[rank * share : (rank + 1) * share] for rank in range(ranks)]
    runs = [[group for group, _ in groupby(groups[row] for row in part)] for part in parts]
    for run in runs:
        # The rows of a group follow each other, so mini-batches and micro-batches keep them together.
        assert len(set(run)) == len(run)
    divided = [group for group in tokens if sum(group in run for run in runs) > 1]
    assert len(divided) < ranks
    work = [sum(tokens[groups[row]] for row in part) for part in parts]
    assert max(work) < 1.3 * min(work)


@pytest.mark.parametrize(
    ("mode", "given", "used"),
    [("token-mean", "null", None), ("seq-mean-token-sum-norm", "null", 48), ("seq-mean-token-sum-norm", "7", 7)],
)
def test_a_sum_of_tokens_is_divided_by_a_constant(mode: str, given: str, used: int | None) -> None:
    learners = ("actor_rollout_ref.actor", "critic")
    settings = [f"{learner}.loss_agg_mode={mode}" for learner in learners]
    settings += [f"actor_rollout_ref.actor.loss_scale_factor={given}", "data.max_response_length=48"]
    config = compose_configuration(["hardware=cpu", "start=made", "rollout=transformers", *settings])
    bound_losses(config)
    assert [OmegaConf.select(config, learner).loss_scale_factor for learner in learners] == [used, used]


def test_each_role_compares_a_custom_reward_with_the_mean_of_custom_rewards() -> None:
    said = {"group": "openspiel/hex", "value": 1.0}
    fields = [
        {"reward_extra_info": said, "move": {"seat": seat, "discount": 0.5, "opponent": "self"}} for seat in (0, 1, 0)
    ]
    moves = moves_of([f"u_3_{index}" for index in range(3)], fields, [10.0, -4.0, 30.0], custom=True)
    assert rae.advantages(moves, {}, {}) == [-10.0, 0.0, 10.0]


def said(success: float, seat: int) -> dict[str, Any]:
    """The extra fields of a reply."""
    info = {"group": "openspiel/hex", "value": 1, "success": success}
    return {"reward_extra_info": info, "move": {"seat": seat, "discount": 1.0, "opponent": "self"}}


def varied(metric: str, rows: list[tuple[str, dict[str, Any], float]]) -> set[str]:
    """The groups that vary, of replies with key, extra fields and reward."""
    keys, fields, rewards = zip(*rows, strict=True)
    return VariedGroups(metric, 10, {}).uids(keys, fields, rewards)


def test_a_group_varies_if_the_replies_of_one_seat_differ() -> None:
    """By the metric: two replies that fail with different rewards teach nothing of success."""
    rows = [
        (f"{group}_{copy}_{seat}", said(success, seat), reward)
        for group, copy, seat, success, reward in (
            *(("won", 0, 0, 1.0, 1.0), ("won", 1, 0, 1.0, 1.0)),
            *(("shaped", 0, 0, 0.0, 0.0), ("shaped", 1, 0, 0.0, 0.5)),
            *(("mixed", 0, 0, 1.0, 1.0), ("mixed", 1, 0, 0.0, 0.0)),
            *(
                ("seats", 0, 0, 1.0, 1.0),
                ("seats", 0, 1, 0.0, 0.0),
                ("seats", 1, 0, 1.0, 1.0),
                ("seats", 1, 1, 0.0, 0.0),
            ),
        )
    ]
    assert varied("success", rows) == {"mixed"}
    assert varied("reward", rows) == {"mixed", "shaped"}
    # The turns of a game have different rewards, so replies to the same turn are compared.
    turns = [
        (f"won_{copy}_{turn}", said(1.0, 0), 0.9 ** (2 - turn))
        for copy, order in enumerate(((2, 0, 1), (0, 1, 2)))
        for turn in order
    ]
    assert varied("reward", turns) == set()
    # A reply without text has no number of a custom reward function.
    turns[0][1]["reward_extra_info"]["acc"] = 1.0
    assert varied("acc", turns) == set()
    with pytest.raises(UserError, match=r"metric=acc is no number of a reply: set it to one of reward, success$"):
        varied("acc", rows)


def test_replies_are_numbered_by_seat() -> None:
    said = {"group": "openspiel/hex", "value": 1.0}
    fields = [
        {"reward_extra_info": said, "move": {"seat": seat, "discount": discount, "opponent": "mcts:50"}}
        for seat, discount in ((0, 0.9), (1, 1.0), (0, 1.0))
    ]
    moves = moves_of([f"u_3_{index}" for index in range(3)], fields, [0.9, 0.0, 1.0])
    assert [(move.task, move.game, move.seat, move.turn, move.discount) for move in moves] == [
        ("u", "u_3", 0, 0, 0.9),
        ("u", "u_3", 1, 0, 1.0),
        ("u", "u_3", 0, 1, 1.0),
    ]
    assert {(move.name, move.opponent) for move in moves} == {("openspiel/hex", "mcts:50")}


def test_listed_answers_to_whole_games_are_worth_what_the_policy_makes_of_them() -> None:
    places = [(decision, answer) for decision in range(12) for answer in range(2)]
    fields = [
        {
            "reward_extra_info": {"group": "openspiel/kuhn_poker", "value": 1.0},
            "move": {"seat": 0, "discount": 1.0, "opponent": "self", "decision": decision, "case": "kuhn_poker"},
        }
        for decision, _ in places
    ]
    moves = moves_of([f"u_0_{index}" for index in range(24)], fields, [1.0] * 24)
    # Illegal answers have a tenth of the probability, which does not count in the policy that plays.
    moves = [dataclasses.replace(move, probability=0.45) for move in moves]
    order = random.Random(0).sample(range(24), 24)
    found, measures = with_values([moves[index] for index in order], [fields[index] for index in order])
    assert measures == {"openspiel/kuhn_poker/nash_conv": pytest.approx(11 / 12)}
    values, _ = OpenSpielEnvironment().valued("kuhn_poker", [[0.5, 0.5]] * 12)
    assert [move.reward for move in found] == [values[places[index][0]][places[index][1]] for index in order]
    single = [{**said, "move": {**said["move"], "case": None}} for said in fields]
    assert with_values(moves, single) == (moves, {})
