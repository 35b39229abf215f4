"""Rows and mini-batches from which nothing is learned change no update, however they are spread over ranks."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from on_ranks import printed
from verl.trainer.ppo import core_algos
from verl.trainer.ppo.rollout_corr_helper import compute_rollout_correction_and_rejection_mask as correct
from verl.utils import torch_functional
from verl.workers.config import ActorConfig

PROGRAM = Path(__file__).with_name("learn_rows.py")
REAL = [0, 1, 2, 3, 4, 5]


def updates(ranks: int, cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The program's measurements of each case."""
    return printed(PROGRAM, ranks, json.dumps(cases))


def overrides(model: Path, mode: str, *more: str) -> list[str]:
    role = "actor_rollout_ref.actor"
    return [
        *("hardware=cpu", "start=made", "rollout=transformers", "lora=off", f"actor_rollout_ref.model.path={model}"),
        *(f"{learner}.loss_agg_mode={mode}" for learner in (role, "critic")),
        *(f"{learner}.loss_scale_factor=10" for learner in (role, "critic")),
        *(f"{learner}.optim.weight_decay=0.1" for learner in (role, "critic")),
        *(f"{learner}.optim.lr=1e-3" for learner in (role, "critic")),
        *(f"{role}.use_kl_loss=true", f"{role}.kl_loss_coef=0.05", f"{role}.entropy_coeff=0.01"),
        *more,
    ]


LEARNERS = (
    ("token-mean", "actor"),
    ("seq-mean-token-sum-norm", "actor"),
    ("seq-mean-token-mean", "actor"),
    ("seq-mean-token-mean", "critic"),
)


@pytest.fixture(scope="module")
def found(tiny_model: Path) -> dict[str, list[dict[str, Any]]]:
    """The updates of each of `LEARNERS`, by the rows. Those on two ranks are of the last two learners."""

    def cases(learners: Sequence[tuple[str, str]], **rows: Any) -> list[dict[str, Any]]:
        return [{"role": role, "overrides": overrides(tiny_model, mode), **rows} for mode, role in learners]

    one = updates(
        1,
        [
            *cases(LEARNERS, ranks=[REAL]),
            # Each micro-batch has one row, and half of them learn nothing.
            *cases(LEARNERS, ranks=[[*REAL, *[None] * 6]], fixed=1),
            *cases(LEARNERS, ranks=[[None] * 4], mini_batches=2),
        ],
    )
    # The second rank has no real row, and the second mini-batch has none on either rank.
    two = updates(
        2,
        [
            *cases(LEARNERS[2:], ranks=[[*REAL, *[None] * 6], [None] * 12], mini_batches=2),
            *cases(LEARNERS[:1], ranks=[REAL, [*REAL[1:], None]], mini_batches=2, leave_out=True),
        ],
    )
    return {"real": one[:4], "padded": one[4:8], "nothing": one[8:], "two ranks": two[:2], "left out": two[2:]}


def agree(found: dict[str, Any], expected: dict[str, Any]) -> None:
    names = {name for name in expected["metrics"] if not name.startswith(("perf/", "waste", "mfu"))}
    assert {name: found["metrics"][name] for name in names} == pytest.approx(
        {name: expected["metrics"][name] for name in names}, rel=1e-3, abs=1e-5
    )
    assert found["weights"] == pytest.approx(expected["weights"], rel=1e-3, abs=1e-2)
    assert all(map(math.isfinite, found["metrics"].values()))


@pytest.mark.parametrize("number", range(len(LEARNERS)))
def test_the_loss_is_the_mean_over_real_rows(found: dict[str, list[dict[str, Any]]], number: int) -> None:
    agree(found["padded"][number], found["real"][number])
    assert "skipped_updates" not in found["padded"][number]["metrics"]


@pytest.mark.parametrize("number", range(2))
def test_a_rank_and_a_mini_batch_from_which_nothing_is_learned_change_nothing(
    found: dict[str, list[dict[str, Any]]], number: int
) -> None:
    update = found["two ranks"][number]
    agree(update, found["real"][2 + number])
    assert (update["metrics"]["skipped_updates"], update["adam"]) == (1, 1)


@pytest.mark.parametrize("number", range(len(LEARNERS)))
def test_a_step_from_which_nothing_is_learned_leaves_weights_and_moments(
    found: dict[str, list[dict[str, Any]]], number: int
) -> None:
    update = found["nothing"][number]
    assert (update["moved"], update["adam"]) == (0, 0)
    # The rate schedule goes on.
    assert update["metrics"].keys() == {"skipped_updates", "mfu", "lr"}
    assert update["metrics"]["skipped_updates"] == 2


def test_an_update_that_the_trainer_leaves_out_moves_no_weight_on_any_rank(
    found: dict[str, list[dict[str, Any]]],
) -> None:
    (update,) = found["left out"]
    assert (update["moved"], update["adam"]) == (0, 0)
    assert update["metrics"].keys() == {"skipped_updates", "mfu", "lr"}


def test_the_loss_of_geometric_means_leaves_padding_out() -> None:
    draw = torch.Generator().manual_seed(0)
    old, new = (torch.randn(4, 5, generator=draw) for _ in range(2))
    mask = torch.tensor([[1] * 5, [1, 1, 0, 0, 0], [0] * 5, [0] * 5])
    advantages = torch.randn(4, 1, generator=draw) * mask

    def loss(rows: slice, batch: int) -> float:
        config = ActorConfig(strategy="fsdp", ppo_micro_batch_size_per_gpu=1, rollout_n=1)
        config.global_batch_info.update(dp_size=2, global_batch_size=batch)
        columns = {"old_log_prob": old, "log_prob": new, "advantages": advantages, "response_mask": mask}
        rows_of = {name: column[rows] for name, column in columns.items()}
        loss_of: Any = core_algos.get_policy_loss_fn("geo_mean")
        return float(loss_of(**rows_of, config=config, loss_agg_mode="token-mean")[0])

    assert loss(slice(4), 2) == pytest.approx(loss(slice(2), 2))
    assert loss(slice(1), 2) + loss(slice(1, 3), 2) == pytest.approx(loss(slice(2), 2))


@pytest.mark.parametrize("tokens", [0, 1])
def test_advantages_of_fewer_than_two_tokens_are_zero(tokens: int) -> None:
    values, mask = torch.ones(2, 3), torch.zeros(2, 3)
    mask[0, :tokens] = 1
    assert not torch_functional.masked_whiten(values, mask).any()


def test_the_metrics_of_the_correction_leave_padding_out() -> None:
    draw = torch.Generator().manual_seed(0)
    old, rollout = (-2 + 0.1 * torch.randn(3, 4, generator=draw) for _ in range(2))
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0], [0, 0, 0, 0]])
    settings: dict[str, Any] = {"rollout_is": "sequence", "rollout_is_batch_normalize": True}
    settings |= {"rollout_rs": "token_k2", "rollout_rs_threshold": "0.005"}

    def corrected(rows: slice) -> tuple[torch.Tensor, torch.Tensor, dict[str, float]]:
        weights, kept, metrics = correct(
            old_log_prob=old[rows], rollout_log_prob=rollout[rows], response_mask=mask[rows], **settings
        )
        assert weights is not None
        return weights.batch["rollout_is_weights"], kept, metrics

    weights, kept, metrics = corrected(slice(3))
    real_weights, real_kept, real_metrics = corrected(slice(2))
    assert metrics == real_metrics
    torch.testing.assert_close(weights[:2], real_weights)
    assert kept[:2].equal(real_kept)
    assert 0 < real_kept.sum() < 6
    assert not weights[2].any()
    assert not kept[2].any()
    nothing, kept, metrics = correct(old_log_prob=old, rollout_log_prob=rollout, response_mask=0 * mask, **settings)
    assert nothing is None
    assert not kept.any()
    assert metrics.keys() == real_metrics.keys()
