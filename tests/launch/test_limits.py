"""The limits of numbers."""

import re
from typing import Any

import pytest
from omegaconf import DictConfig, OmegaConf
from verl.trainer.ppo.core_algos import AdvantageEstimator

from veritas_rl.errors import UserError
from veritas_rl.launch import limits
from veritas_rl.launch.configuration import compose_configuration

NAN, INF = float("nan"), float("inf")
ACTOR, OPTIM, CRITIC = "actor_rollout_ref.actor", "actor_rollout_ref.actor.optim", "critic.optim"
ROLLOUT = "actor_rollout_ref.rollout"


def changed(configuration: DictConfig, **values: object) -> DictConfig:
    copied = configuration.copy()
    for key, value in values.items():
        OmegaConf.update(copied, key, value, force_add=True)
    return copied


@pytest.fixture(scope="module")
def ppo() -> DictConfig:
    return compose_configuration(["hardware=cpu", "start=made", "rollout=transformers", "lora=off"])


@pytest.fixture(scope="module")
def vllm() -> DictConfig:
    return compose_configuration(["hardware=h200x1", "algorithm=grpo"])


@pytest.mark.parametrize(
    ("key", "values", "advice"),
    [
        *(
            (f"{optim}.clip_grad", [0, 0.0, -1, NAN, -INF, None, "1.0", True], "or inf to turn clipping off")
            for optim in (OPTIM, CRITIC)
        ),
        *((f"{optim}.lr", [-1e-6, NAN, INF, None, "1e-6", [1e-6]], "0 or more") for optim in (OPTIM, CRITIC)),
        (f"{OPTIM}.weight_decay", [-0.1, NAN, INF], "0 or more"),
        (f"{OPTIM}.betas", [[0.9, 1], [-0.1, 0.9], [0.9, NAN], [0.9], 0.9], "two numbers from 0 to less than 1"),
        (f"{OPTIM}.lr_warmup_steps", [-2, 1.5, None, NAN], "-1 for lr_warmup_steps_ratio"),
        (f"{OPTIM}.lr_warmup_steps_ratio", [-0.1, 1.1, NAN], "from 0 to 1"),
        (f"{ACTOR}.clip_ratio", [0, -0.2, NAN, None], "to turn clipping off"),
        (f"{ACTOR}.clip_ratio_low", [0, -0.2, NAN], "above 0"),
        (f"{ACTOR}.clip_ratio_high", [0, -0.2, NAN], "above 0"),
        (f"{ACTOR}.clip_ratio_c", [1, 0, NAN, INF], "above 1"),
        (f"{ACTOR}.ppo_epochs", [0, -1, 1.5], "1 or more"),
        (f"{ACTOR}.entropy_coeff", [NAN, INF, -INF, "0.01"], "a finite number"),
        (f"{ACTOR}.kl_loss_coef", [-0.1, NAN, INF], "0 or more"),
        ("critic.cliprange_value", [0, -0.5, NAN], "to turn clipping off"),
        (f"{ROLLOUT}.temperature", [0, 0.0, -1, NAN, INF, None], "val_kwargs.temperature may be 0"),
        (f"{ROLLOUT}.val_kwargs.temperature", [-1, NAN, INF], "0 or more"),
        (f"{ROLLOUT}.top_p", [0, 1.1, -0.5, NAN], "at most 1"),
        (f"{ROLLOUT}.top_k", [0, -2, 2.5], "-1 for off"),
        ("algorithm.gamma", [-0.1, 1.01, NAN], "from 0 to 1"),
        ("algorithm.lam", [-0.1, 1.01, NAN], "from 0 to 1"),
        ("algorithm.kl_ctrl.kl_coef", [-0.1, NAN, INF], "0 or more"),
        ("trainer.critic_warmup", [-1, 1.5, None], "an integer of 0 or more"),
        ("actor_rollout_ref.model.lora_alpha", [0, -1, "x"], "above 0"),
        ("critic.model.lora_alpha", [0], "above 0"),
    ],
)
def test_a_number_that_makes_no_sense_is_refused(ppo: DictConfig, key: str, values: list[object], advice: str) -> None:
    for value in values:
        with pytest.raises(UserError) as error:
            limits.check_rl(changed(ppo, **{key: value}))
        said = str(error.value)
        assert said.startswith(f"{key}="), said
        assert advice in said
        assert "\n" not in said


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (f"{OPTIM}.clip_grad", INF),
        (f"{OPTIM}.lr", 0),
        (f"{OPTIM}.betas", [0, 0.999]),
        (f"{ACTOR}.clip_ratio_low", None),
        (f"{ACTOR}.clip_ratio_high", INF),
        (f"{ACTOR}.entropy_coeff", -0.01),
        (f"{ROLLOUT}.temperature", 1e-3),
        (f"{ROLLOUT}.val_kwargs.temperature", 0),
        ("critic.cliprange_value", INF),
        ("trainer.critic_warmup", 20),
    ],
)
def test_a_number_that_turns_something_off_is_allowed(ppo: DictConfig, key: str, value: object) -> None:
    limits.check_rl(changed(ppo, **{key: value}))


def test_a_critic_that_is_not_trained_is_not_checked(vllm: DictConfig) -> None:
    limits.check_rl(changed(vllm, **{f"{CRITIC}.clip_grad": 0}))


def test_fine_tuning_has_the_same_limits() -> None:
    settings = compose_configuration(["sft_hardware=cpu", "sft_start=made"], "sft")
    limits.check_sft(settings)
    limits.check_sft(changed(settings, **{"optim.clip_grad": INF}))
    for key, value in (("optim.clip_grad", 0), ("optim.lr", NAN), ("optim.betas", [0.9, 2])):
        with pytest.raises(UserError, match=f"{key}="):
            limits.check_sft(changed(settings, **{key: value}))


def test_every_estimator_that_verl_can_compute_is_known() -> None:
    assert {*limits.ESTIMATORS, *limits.LACKING} == {
        *(one.value for one in AdvantageEstimator),
        "rae",
        "all_actions",
        "neurd",
    }


@pytest.mark.parametrize(
    ("estimator", "said"),
    [
        ("grpo", "algorithm.adv_estimator=grpo compares several samples of one task"),
        ("rloo", "algorithm.adv_estimator=rloo compares several samples of one task"),
        ("opo", "algorithm.adv_estimator=opo compares several samples of one task"),
        ("GRPO", "unknown algorithm.adv_estimator 'GRPO'"),
        ("remax", "adv_estimator=remax needs a greedy reply to each task, which verl's v1 trainer lacks"),
    ],
)
def test_an_estimator_that_has_nothing_to_compare_is_refused(ppo: DictConfig, estimator: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        limits.check_rl(changed(ppo, **{"algorithm.adv_estimator": estimator}))


@pytest.mark.parametrize("estimator", ["opo", "vtrace"])
def test_an_estimator_without_settings_of_its_own_composes_and_is_judged(estimator: str) -> None:
    configuration = compose_configuration(
        ["hardware=cpu", "start=made", "rollout=transformers", f"algorithm.adv_estimator={estimator}"]
    )
    with pytest.raises(UserError, match=r"compares several samples|unknown algorithm\.adv_estimator 'vtrace'"):
        limits.check_rl(configuration)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"algorithm.adv_estimator": "gae"}, "needs groups, and gae has none: set algorithm=dapo"),
        ({"algorithm.filter_groups.metric": None}, r"needs algorithm\.filter_groups\.metric: set it to success"),
        ({"algorithm.filter_groups.max_num_gen_batches": 0}, "needs algorithm.filter_groups.max_num_gen_batches of 1"),
        ({"trainer.v1.trainer_mode": "game_async"}, r"needs trainer\.v1\.trainer_mode=game"),
    ],
)
def test_dynamic_sampling_needs_groups_a_metric_and_steps_that_wait(values: dict[str, Any], said: str) -> None:
    dapo = compose_configuration(["hardware=cpu", "start=made", "rollout=transformers", "algorithm=dapo"])
    limits.check_rl(dapo)
    with pytest.raises(UserError, match=f"^algorithm.filter_groups.enable=true {said}"):
        limits.check_rl(changed(dapo, **values))


@pytest.mark.parametrize("estimator", limits.OTHERS_OF_GROUPS)
def test_replies_of_other_seats_and_turns_are_not_compared(ppo: DictConfig, estimator: str) -> None:
    asked = changed(ppo, **{"algorithm.adv_estimator": estimator, f"{ROLLOUT}.n": 4, "trainer.critic_warmup": 0})
    limits.check_rl(asked)
    with pytest.raises(UserError, match="set algorithm=grpo or algorithm=rloo, which compare those of one seat"):
        limits.check_rl(changed(asked, **{"veritas_rl.play": "episode"}))


def test_the_token_with_the_reward_is_not_rejected(ppo: DictConfig) -> None:
    rejection = "algorithm.rollout_correction.rollout_rs"
    for estimator in limits.FROM_THE_LAST_TOKEN:
        asked = {"algorithm.adv_estimator": estimator, "trainer.critic_warmup": 0, rejection: "token_k1,seq_sum_k3"}
        with pytest.raises(UserError, match=f"that {estimator} reads: set seq_mean_k1,seq_sum_k3, or algorithm=grpo"):
            limits.check_rl(changed(ppo, **asked))
    limits.check_rl(changed(ppo, **{rejection: "seq_sum_k3"}))


def test_ppo_needs_its_critic(ppo: DictConfig) -> None:
    with pytest.raises(UserError, match=r"^critic\.enable=false leaves PPO without its critic: "):
        limits.check_rl(changed(ppo, **{"critic.enable": False}))
    limits.check_rl(changed(ppo, **{"critic.enable": True}))


def test_a_warm_up_of_a_critic_needs_a_critic(ppo: DictConfig) -> None:
    with pytest.raises(UserError, match=r"only a critic would learn, and grpo has none: set trainer\.critic_warmup=0"):
        limits.check_rl(changed(ppo, **{"algorithm.adv_estimator": "grpo", f"{ROLLOUT}.n": 4}))


def test_a_rollout_that_leaves_tokens_out_is_said_to_be_biased(ppo: DictConfig, vllm: DictConfig) -> None:
    assert limits.truncation(ppo) is limits.truncation(vllm) is None
    for settings in (ppo, changed(vllm, **{"algorithm.rollout_correction.rollout_is": None})):
        said = limits.truncation(changed(settings, **{f"{ROLLOUT}.top_p": 0.9, f"{ROLLOUT}.top_k": 20}))
        assert said is not None
        assert f"note: with {ROLLOUT}.top_p=0.9 and {ROLLOUT}.top_k=20, replies are sampled from a part" in said


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, r"the loss of each token is weighted .* at most 2.0 .*rollout_is=token\)"),
        ({"rollout_is": "sequence"}, r"the loss of each reply is weighted .*rollout_is=sequence\)"),
        ({"rollout_is": None}, r"none \(algorithm.rollout_correction.rollout_is=null\)"),
        ({"bypass_mode": True}, r"none, because .*bypass_mode=true\): the trainer does not compute or compare them"),
    ],
)
def test_what_corrects_the_rollouts_probabilities_is_said(vllm: DictConfig, changes: dict[str, Any], said: str) -> None:
    changed_keys = {f"algorithm.rollout_correction.{key}": value for key, value in changes.items()}
    assert re.fullmatch(f"rollout correction: {said}.*", limits.correction(changed(vllm, **changed_keys)))
    if changes == {"rollout_is": None}:
        asynchronous = {**changed_keys, "trainer.v1.trainer_mode": "game_async"}
        assert "rollout_is=token" in limits.correction(changed(vllm, **asynchronous))


@pytest.mark.parametrize("used", [{"bypass_mode": True}, {"rollout_is": "token"}])
def test_probabilities_of_a_part_of_the_tokens_are_not_compared(vllm: DictConfig, used: dict[str, Any]) -> None:
    used = {f"algorithm.rollout_correction.{key}": value for key, value in used.items()}
    limits.truncation(changed(vllm, **used))
    for cut in ({f"{ROLLOUT}.top_p": 0.9}, {f"{ROLLOUT}.top_k": 20}):
        with pytest.raises(UserError, match="so every ratio would be biased: leave"):
            limits.truncation(changed(vllm, **used, **cut))
    raw = {f"{ROLLOUT}.logprobs_mode": "raw_logprobs"}
    assert limits.truncation(changed(vllm, **used, **raw, **{f"{ROLLOUT}.top_p": 0.9})) is not None
    with pytest.raises(UserError, match=r"temperature=0\.7 and logprobs_mode=raw_logprobs"):
        limits.truncation(changed(vllm, **used, **raw, **{f"{ROLLOUT}.temperature": 0.7}))
    with pytest.raises(UserError, match="gives no log-probabilities"):
        limits.truncation(changed(vllm, **{f"{ROLLOUT}.logprobs_mode": "raw_logits"}))
