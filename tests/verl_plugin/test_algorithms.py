"""Advantages of whole games, compared by turn and seat without more weight for long games; and updates of every
algorithm."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
import torch
from omegaconf import DictConfig
from verl.trainer.ppo.core_algos import get_adv_estimator_fn, get_policy_loss_fn
from verl.utils.config import omega_conf_to_dataclass

from veritas_rl.composition import CONFIG_DIR
from veritas_rl.launch.configuration import compose_configuration
from veritas_rl.verl_plugin.algorithms import Algorithm, Move, all_actions, grpo, known, name_of, neurd, rae, rloo

PLAIN = {"norm_adv_by_std_in_grpo": False}


def game(task: str, name: str, seat: int, length: int, value: float, gamma: float = 1.0) -> list[Move]:
    """The moves of one seat in one game, with `length` replies."""
    return [
        Move(task, name, "hex", "self", seat, turn, value * gamma**left, value, gamma**left)
        for turn, left in enumerate(reversed(range(length)))
    ]


def total(moves: list[Move], advantages: list[float], name: str) -> float:
    return sum(abs(advantage) for move, advantage in zip(moves, advantages, strict=True) if move.game == name)


def test_winner_and_loser_of_one_task_are_compared() -> None:
    moves = game("t", "a", 0, 2, 1.0) + game("t", "b", 0, 2, 0.0)
    assert grpo.advantages(moves, PLAIN, {}) == pytest.approx([0.5, 0.5, -0.5, -0.5])
    assert grpo.advantages(moves, {}, {}) == pytest.approx([0.5**0.5] * 2 + [-(0.5**0.5)] * 2, abs=1e-4)


def test_the_baseline_of_a_left_out_reply_is_the_mean_of_the_others() -> None:
    moves = [game("t", name, 0, 1, value)[0] for name, value in (("a", 1.0), ("b", 0.0), ("c", 0.5))]
    assert rloo.advantages(moves, {}, {}) == pytest.approx([0.75, -0.75, 0.0])
    assert rloo.advantages(game("t", "long", 0, 3, 1.0) + game("t", "short", 0, 1, 0.0), {}, {})[1:3] == [0.0, 0.0]


def test_seats_and_tasks_are_not_compared_with_each_other() -> None:
    """Each seat of a two-player game is compared only with the same seat in the other games of the task."""
    moves = (
        game("t", "a", 0, 1, 1.0) + game("t", "a", 1, 1, 0.0) + game("t", "b", 0, 1, 1.0) + game("t", "b", 1, 1, 0.0)
    )
    assert grpo.advantages(moves, {}, {}) == [0.0] * 4
    assert grpo.advantages(game("t", "a", 0, 1, 1.0) + game("u", "b", 0, 1, 0.0), {}, {}) == [0.0, 0.0]


def test_a_turn_that_only_one_game_has_is_not_compared() -> None:
    moves = game("t", "long", 0, 3, 1.0) + game("t", "short", 0, 1, 0.0)
    advantages = grpo.advantages(moves, PLAIN, {})
    assert advantages[1:3] == [0.0, 0.0]
    assert advantages[0] > 0 > advantages[3]


def test_a_long_game_weighs_no_more_than_a_short_one() -> None:
    moves = (game("t", "long", 0, 6, 1.0) + game("t", "also long", 0, 6, 0.0) + game("u", "short", 0, 2, 1.0)) + game(
        "u", "also short", 0, 2, 0.0
    )
    advantages = grpo.advantages(moves, PLAIN, {})
    assert total(moves, advantages, "long") == pytest.approx(total(moves, advantages, "short"))
    assert sum(map(abs, advantages)) == pytest.approx(0.5 * len(moves))  # the weight of the whole batch is unchanged


def test_early_turns_of_a_long_game_are_discounted() -> None:
    moves = game("t", "a", 0, 4, 1.0, 0.5) + game("t", "b", 0, 4, 0.0, 0.5)
    advantages = grpo.advantages(moves, PLAIN, {})[:4]
    assert advantages == pytest.approx([0.5 * 0.5**left for left in (3, 2, 1, 0)])


def test_the_advantage_of_a_seat_is_no_merit() -> None:
    """If the first seat always wins a game, the advantages vanish as the baselines adapt."""
    means: dict[str, float] = {}
    advantages = []
    for step in range(200):
        moves = game("t", f"{step}", 0, 2, 1.0) + game("t", f"{step}", 1, 2, 0.0)
        advantages = rae.advantages(moves, {}, means)
    assert advantages == pytest.approx([0.0] * 4, abs=1e-3)
    assert means == pytest.approx({"hex/self/0": 1.0, "hex/self/1": 0.0}, abs=1e-3)
    lost = rae.advantages(game("t", "last", 0, 1, 0.0), {}, means)
    assert lost == pytest.approx([-0.95], abs=1e-2)


def test_in_self_play_a_reply_weighs_the_same_whatever_it_led_to() -> None:
    means = {"hex/self/0": 0.5}
    moves = game("t", "long", 0, 4, 1.0) + game("t", "short", 0, 1, 1.0)
    assert rae.advantages(moves, {}, means) == pytest.approx([1.0 - means["hex/self/0"]] * 5)


def test_a_mistake_is_compared_like_a_loss() -> None:
    means = {"hex/self/0": 0.5}
    good, bad = game("t", "a", 0, 1, 1.0)[0], Move("t", "a", "hex", "self", 0, 1, 0.0, 1.0, 1.0)
    advantages = rae.advantages([good, bad], {}, means)
    assert advantages[0] > 0 > advantages[1]


def listed(probabilities: Sequence[float], values: Sequence[float], decision: int = 0) -> list[Move]:
    """All answers to one decision."""
    return [
        Move("t", "g", "kuhn", "self", 0, turn, value, value, 1.0, decision, probability)
        for turn, (probability, value) in enumerate(zip(probabilities, values, strict=True))
    ]


def test_the_all_action_gradient_is_that_of_the_expected_value() -> None:
    logits, values = torch.randn(5, generator=torch.manual_seed(0)), torch.tensor([0.1, 0.9, 0.4, 0.7])
    logits.requires_grad_()
    # The last reply is no legal answer: it is worth 0, and not in the batch.
    expected = logits.softmax(-1)[:4] @ values
    (wanted,) = torch.autograd.grad(expected, logits)
    chosen = all_actions.advantages(listed(logits.softmax(-1)[:4].tolist(), values.tolist()), {}, {})
    objective = (torch.tensor(chosen) * logits.log_softmax(-1)[:4]).mean()
    (gradient,) = torch.autograd.grad(objective, logits)
    assert gradient == pytest.approx(wanted, abs=1e-6)


def test_each_decision_has_the_same_weight_however_many_answers_it_has() -> None:
    moves = listed([0.5, 0.5], [1.0, 0.0]) + listed([0.5, 0.5, 0.0, 0.0], [1.0, 0.0, 0.5, 0.5], decision=1)
    assert all_actions.advantages(moves, {}, {}) == pytest.approx([1.5, 0.0, 1.5, 0.0, 0.0, 0.0])


def test_replicator_dynamics_move_the_logit_of_a_rare_answer_as_far_as_that_of_a_common_one() -> None:
    logits = torch.tensor([4.0, -4.0, 1.0, 3.0], requires_grad=True)
    # The last reply is no legal answer, and keeps its logit.
    moves = listed(logits.softmax(-1)[:3].tolist(), [0.2, 0.8, 0.5])
    chosen = neurd.advantages(moves, {}, {})
    assert chosen == pytest.approx([-0.3, 0.3, 0.0])
    (gradient,) = torch.autograd.grad((torch.tensor(chosen) * logits.log_softmax(-1)[:3]).sum(), logits)
    assert gradient == pytest.approx(torch.tensor([-0.3, 0.3, 0.0, 0.0]), abs=1e-6)


def test_an_algorithm_is_a_file_and_its_settings() -> None:
    assert sorted(known()) == sorted(file.stem for file in (CONFIG_DIR / "algorithm").glob("*.yaml"))
    assert {name: one.estimator for name, one in known().items() if one.critic} == {"ppo": "gae"}
    assert (name_of("grpo"), name_of("gae"), name_of("opo")) == ("grpo", "ppo", None)


def advantages_of(algorithm: Algorithm, settings: DictConfig, rewards: torch.Tensor, groups: list[str]) -> torch.Tensor:
    """The advantages of replies of one token, as the trainer gets them: the algorithm's own, or verl's."""
    if algorithm.advantages is not None:
        moves = [
            Move(group, str(number), "bandit", "", 0, 0, paid, paid, 1.0)
            for number, (group, paid) in enumerate(zip(groups, rewards.tolist(), strict=True))
        ]
        return torch.tensor(algorithm.advantages(moves, settings, {}))[:, None]
    estimate: Any = get_adv_estimator_fn(algorithm.estimator)
    if algorithm.critic:  # which says nothing here
        estimate = partial(estimate, values=torch.zeros(len(rewards), 1), lam=torch.tensor(settings.lam))
    else:
        estimate = partial(estimate, config=settings)
    return estimate(
        token_level_rewards=rewards[:, None],
        response_mask=torch.ones(len(rewards), 1),
        gamma=torch.tensor(settings.gamma),
    )[0]


@pytest.mark.parametrize("name", sorted(known()))
def test_updates_make_rewarded_replies_more_likely(name: str) -> None:
    """With the advantages and the loss that its settings choose, on a bandit of four actions, of which one pays."""
    made = compose_configuration(
        ["hardware=cpu", "start=made", "rollout=transformers", "lora=off", f"algorithm={name}"]
    )
    actor: Any = omega_conf_to_dataclass(made.actor_rollout_ref.actor)
    loss: Any = get_policy_loss_fn(actor.policy_loss.loss_mode)
    torch.manual_seed(0)
    logits = torch.zeros(4, requires_grad=True)
    optimizer = torch.optim.Adam([logits], lr=0.02)
    groups = [str(reply // 8) for reply in range(64)]
    for _ in range(40):
        old = logits.detach().log_softmax(-1)
        if known()[name].lists:
            actions, answers = torch.arange(4), listed(old.exp().tolist(), [0, 0, 1, 0])
            estimate: Any = known()[name].advantages
            estimated = torch.tensor(estimate(answers, {}, {}))[:, None]
        else:
            actions = torch.multinomial(old.exp(), 64, replacement=True)
            estimated = advantages_of(known()[name], made.algorithm, (actions == 2).float(), groups)
        for _ in range(2):
            log_probs = logits.log_softmax(-1)[actions][:, None]
            objective, _ = loss(
                old_log_prob=old[actions][:, None],
                log_prob=log_probs,
                advantages=estimated,
                response_mask=torch.ones(len(actions), 1),
                loss_agg_mode=actor.loss_agg_mode,
                config=actor,
            )
            optimizer.zero_grad()
            objective.backward()
            optimizer.step()
    assert logits.softmax(-1)[2] > 0.5
