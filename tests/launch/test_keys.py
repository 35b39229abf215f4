"""Keys that nothing reads are refused with the key that works, and verl's keys are known with their effect."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
from omegaconf import DictConfig, OmegaConf

from veritas_rl.errors import UserError
from veritas_rl.launch import dead_keys, keys, rl, sft
from veritas_rl.launch.configuration import compose_configuration, with_or_without_plus
from veritas_rl.launch.hardware import Hardware

ACTOR, OPTIM, ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.actor.optim", "actor_rollout_ref.rollout"
CPU = ("hardware=cpu", "start=made", "rollout=transformers", "lora=off")


@cache
def composed(*overrides: str) -> DictConfig:
    return compose_configuration(overrides)


def check(*typed: str) -> None:
    overrides = [*CPU, *map(with_or_without_plus, typed)]
    keys.check(composed(*overrides), overrides, lambda others: composed(*others))


def leaves(node: Mapping[str, Any], prefix: str) -> Iterator[str]:
    for name, value in node.items():
        if isinstance(value, Mapping) and value:
            yield from leaves(value, f"{prefix}{name}.")
        elif name != "_target_":
            yield f"{prefix}{name}"


def within(key: str, node: str) -> bool:
    return f"{key}.".startswith(f"{node}.")


def test_the_effect_of_every_key_of_rewards_algorithms_and_data_is_known() -> None:
    plain: Any = OmegaConf.to_container(composed(*CPU))
    for root in ("reward", "algorithm", "data"):
        found = list(leaves(plain[root], f"{root}."))
        assert len(found) > 10
        for key in found:
            named = [node for node in (*dead_keys.WITHOUT_EFFECT, *dead_keys.READ) if within(key, node)]
            assert len(named) == 1, f"{key} must be in one of WITHOUT_EFFECT and READ, and is in {named}"


def test_every_key_of_the_lists_is_one_of_verl() -> None:
    configuration, missing = composed(*CPU), object()
    for key in (*dead_keys.WITHOUT_EFFECT, *dead_keys.READ):
        assert OmegaConf.select(configuration, key, default=missing) is not missing, key


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("reward.reward_manager.name=dapo", "scores each reply in its environment: name a function of your own by"),
        ("reward.reward_model.enable=true", "reward.reward_model.enable=true has no effect here"),
        ("reward_model.reward_manager=dapo", "name a function of your own by reward.custom_reward_function.path"),
        ("reward.sandbox_fusion.url=http://x", "has no effect here"),
        ("custom_reward_function={path: x}", "set reward.custom_reward_function.path and .name"),
        ("algorithm.filter_groups.max_inflight_gen_batches=2", "set algorithm.filter_groups.max_num_gen_batches"),
        ("algorithm.filter_groups={max_inflight_gen_batches: 2}", "has no effect here"),
        ("data.dataloader_num_workers=4", "needs one process: leave it out"),
        ("algorithm.rollout_correction.rollout_is=token", "set algorithm.rollout_correction.bypass_mode=false"),
        (f"{ACTOR}.ppo_micro_batch_size_per_gpu=4", f"set {ACTOR}.ppo_max_token_len_per_gpu"),
        (
            f"{ROLLOUT}.agent.default_agent_loop=tool_agent",
            "default_agent_loop=tool_agent is not supported here, because only this package's agent loop plays games",
        ),
        ("trainer.val_only=true", "not supported here, because a run trains: train/tools/evaluate.py judges a model"),
        ("trainer.balance_batch=false", "trainer.balance_batch=false has no effect here"),
        ("trainer.max_critic_ckpt_to_keep=1", "set trainer.max_actor_ckpt_to_keep"),
        (f"{ACTOR}.grad_clip=0.5", f"{ACTOR}.grad_clip=0.5 has no effect here"),
        (f"+{ACTOR}.grad_clip=0.5", f"set {ACTOR}.optim.clip_grad"),
        ("++critic.grad_clip=0.5", "set critic.optim.clip_grad"),
        (f"+{OPTIM}.grad_clip=0.5", f"is an old name: set {OPTIM}.clip_grad"),
        (f"+{OPTIM}.clip_gradient=1", f"unknown configuration key {OPTIM}.clip_gradient: type {OPTIM}.clip_grad=1;"),
        (f"+{OPTIM}.learning_rate=1", f"unknown configuration key {OPTIM}.learning_rate: type {OPTIM}.lr=1;"),
        (f"++{ACTOR}.entropy_coef=0", f"type {ACTOR}.entropy_coeff=0;"),
        ("+critic.clip_range_value=1", "type critic.cliprange_value=1;"),
        (f"+{ROLLOUT}.tempature=1", f"type {ROLLOUT}.temperature=1;"),
        ("+algorithm.gama=1", "type algorithm.gamma=1;"),
        ("+lr=1e-5", f"type {OPTIM}.lr=1e-5 or critic.optim.lr=1e-5"),
        ("+data.train_batchsize=8", "type data.train_batch_size=8"),
        ("+data.chat_template_func=f", "unknown configuration key data.chat_template_func"),
        ("+veritas_rl.sed=1", "type veritas_rl.seed=1"),
        ("+trainer.remove_previous_ckpt_in_save=true", "unknown configuration key trainer.remove_previous"),
    ],
)
def test_a_key_without_effect_is_refused_with_the_one_that_has(typed: str, said: str) -> None:
    with pytest.raises(UserError) as error:
        check(typed)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("reward: {reward_manager: {name: dapo}}", "reward.reward_manager.name=dapo has no effect here"),
        ("lr: 1.0", f"unknown configuration key lr: type {OPTIM}.lr=1.0"),
        ("algorithm: {gama: 1}", "unknown configuration key algorithm.gama: type algorithm.gamma=1;"),
    ],
)
def test_a_key_of_a_recipe_is_refused_as_a_typed_one(written: str, said: str, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "config.yaml").write_text(f"{written}\n")
    with pytest.raises(UserError) as error:
        rl.plan([f"recipe={folder}"], {}, Hardware(cores=2, gpus=0, gpu_bytes=0), datetime(2026, 1, 1))
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (
            ("algorithm=grpo", "critic.optim.lr=1"),
            "critic.optim.lr=1 has no effect here with algorithm.adv_estimator=grpo, because no critic is trained: "
            "leave it out, or set algorithm=ppo",
        ),
        (("algorithm=rae", "+critic.ppo_epochs=9"), "because no critic is trained"),
        (("algorithm=grpo", "critic.enable=true"), "leave it out, or set algorithm=ppo"),
        (("algorithm=grpo", "algorithm.lam=0.9"), "algorithm.lam=0.9 has no effect here with algorithm.adv_estimator="),
        (("algorithm=grpo", "algorithm.gamma=0.9"), "because these advantages are not discounted"),
        (("algorithm=ppo", "algorithm.norm_adv_by_std_in_grpo=false"), "leave it out, or set algorithm=grpo"),
        (("algorithm.kl_ctrl.kl_coef=0.1",), "no effect here with algorithm.use_kl_in_reward=false"),
        (("algorithm.kl_penalty=mse",), "leave it out, or set algorithm.use_kl_in_reward=true"),
        ((f"{ACTOR}.kl_loss_coef=0.1",), f"no effect here with {ACTOR}.use_kl_loss=false, because the loss has no KL"),
        ((f"{ACTOR}.kl_loss_type=mse",), f"leave it out, or set {ACTOR}.use_kl_loss=true"),
    ],
)
def test_a_key_that_needs_another_setting_is_refused_without_it(typed: tuple[str, ...], said: str) -> None:
    with pytest.raises(UserError) as error:
        check(*typed)
    assert said in str(error.value)


def test_what_turns_off_a_part_of_a_recipe_does_not_refuse_the_rest_of_that_part() -> None:
    machine, now = Hardware(cores=2, gpus=0, gpu_bytes=0), datetime(2026, 1, 1)
    typed = ["algorithm=rae", "veritas_rl.reference=start", f"{ACTOR}.use_kl_loss=false"]
    made = rl.plan(["recipe=kuhn_self_play", *typed], {}, machine, now).configuration
    assert (made.algorithm.adv_estimator, made.actor_rollout_ref.actor.kl_loss_coef) == ("rae", 0.3)
    with pytest.raises(UserError, match=r"^critic\.optim\.lr=1 has no effect here"):
        rl.plan(["recipe=kuhn_self_play", *typed, "critic.optim.lr=1"], {}, machine, now)


def test_only_settings_with_an_effect_are_proposed() -> None:
    with pytest.raises(UserError, match=r"unknown setting of reward 'foo': known: custom_reward_function$"):
        check("+reward.foo=1")


@pytest.mark.parametrize(
    "typed",
    [
        ("data.shuffle=false", "+reward.reward_manager.name=naive", "reward.num_workers=0"),  # the defaults
        (f"{OPTIM}.clip_grad=2", f"++{OPTIM}.lr=1", "~data.shuffle"),
        ("+actor_rollout_ref.model.override_config.rope_theta=1", f"+{OPTIM}.override_optimizer_config.eps=1"),
        (f"+{ACTOR}.fsdp_config.wrap_policy.transformer_layer_cls_to_wrap=[LlamaDecoderLayer]",),
        (f"+{ROLLOUT}.engine_kwargs.vllm.seed=1", "+ray_kwargs.ray_init.num_cpus=4"),
        ("+data.custom_cls.config.adapter_config.cases=[go]", "+reward.custom_reward_function.reward_kwargs.x=1"),
        ("veritas_rl.warm_up.steps=30", f"+{ACTOR}.use_rollout_log_probs=true"),
        ("algorithm.rollout_correction.rollout_is=token", "algorithm.rollout_correction.bypass_mode=false"),
        (f"{ACTOR}.ppo_micro_batch_size_per_gpu=4", f"{ACTOR}.use_dynamic_bsz=false"),
        ("data.custom_cls.path=my_dataset.py", "data.truncation=left"),
        ("critic.optim.lr=1", "algorithm.lam=0.9", "algorithm.gamma=0.9"),
        ("algorithm.adv_estimator=reinforce_plus_plus", "algorithm.gamma=0.9"),
        ("algorithm=grpo", "algorithm.norm_adv_by_std_in_grpo=false", f"{ACTOR}.kl_loss_coef=0.0"),
        ("algorithm.use_kl_in_reward=true", "algorithm.kl_ctrl.kl_coef=0.1", "algorithm.kl_penalty=mse"),
        (f"{ACTOR}.use_kl_loss=true", f"{ACTOR}.kl_loss_coef=0.1", "algorithm.kl_ctrl.kl_coef=0"),
    ],
)
def test_keys_that_are_read_pass(typed: tuple[str, ...]) -> None:
    check(*typed)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("lr=1e-5", f"unknown configuration key lr: type {OPTIM}.lr=1e-5 or critic.optim.lr=1e-5; docs/"),
        ("prompt=full", "type data.custom_cls.config.adapter_config.prompt=full;"),
        ("game_types=hex", "type data.custom_cls.config.adapter_config.game_types=hex;"),
        ("batch_size=4", "type data.train_batch_size=4;"),
        ("max_new_tokens=8", "type data.max_response_length=8;"),
        ("actor.optim.lr=1", f"type {OPTIM}.lr=1;"),
        ("temperature=0.5", f"type {ROLLOUT}.temperature=0.5;"),
        ("lora_rank=8", "type actor_rollout_ref.model.lora_rank=8 or critic.model.lora_rank=8;"),
        ("hardware=b9000x8", "unknown hardware 'b9000x8': did you mean h200x8"),
        ("hardware=h100x8", "hardware=h100x8 has no settings of its own: type hardware=h200x8"),
        ("hardware=a100-40gx4", "hardware=a100-40gx4 has no settings of its own: type hardware=h200x4"),
        ("hardware=rtx4090x4", "type hardware=rtx24g trainer.n_gpus_per_node=4"),
        ("hardware=l40sx1", "type hardware=rtx24g"),
        ("algorithm=rollout_correction", "unknown algorithm 'rollout_correction'"),  # verl has such a file
        ("trainer.experiment_name=a=b", "needs quotes: type \"trainer.experiment_name='a=b'\""),
        ("trainer.experiment_name=$a=b", "needs quotes: type 'trainer.experiment_name='\"'\"'$a=b'\"'\"''"),
        ("trainer.logger=console,file", "type 'trainer.logger=[console,file]' for a list"),
        ("trainer.save_freq", "trainer.save_freq is no setting: type key=value"),
    ],
)
def test_what_hydra_refuses_is_one_line_with_what_to_type(typed: str, said: str) -> None:
    with pytest.raises(UserError) as error:
        rl.plan([typed], {}, Hardware(cores=2, gpus=0, gpu_bytes=0), datetime(2026, 1, 1))
    assert said in str(error.value)


def test_keys_of_the_critic_are_named_if_there_is_one() -> None:
    for algorithm, both in (("grpo", ""), ("ppo", " or critic.optim.lr=1e-5")):
        with pytest.raises(UserError, match=rf"type {OPTIM}\.lr=1e-5{both};"):
            check(f"algorithm={algorithm}", "+lr=1e-5")


@pytest.mark.parametrize("typed", ["lr=1e-5", "+lr=1e-5", "+learning_rate=1e-5"])
def test_fine_tuning_names_its_own_key(typed: str) -> None:
    with pytest.raises(UserError, match=r"type optim\.lr=1e-5;"):
        sft.plan([typed], {}, Hardware(cores=2, gpus=0, gpu_bytes=0), datetime(2026, 1, 1), dry=True)


def test_fine_tuning_hands_on_what_the_model_reads() -> None:
    overrides = ["sft_hardware=cpu", "++model.override_config.rope_theta=1", "++optim.override_optimizer_config.eps=1"]
    overrides.append("data.truncation=left")  # in RL no dataset reads it
    compose = partial(compose_configuration, name="sft")
    keys.check(compose(overrides), overrides, compose)


def test_the_page_lists_every_key_once() -> None:
    listed = [key for named, _, _ in dead_keys.table() for key in named]
    assert sorted(listed) == sorted(dead_keys.WITHOUT_EFFECT)
