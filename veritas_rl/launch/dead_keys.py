"""verl's keys that have no effect here, each with why and with what to type instead.

verl accepts every key of its YAML files, also those that only its own agent loop, dataset, reward loop and replay
buffer read, which this package replaces.
"""

from dataclasses import dataclass
from typing import Any

from omegaconf import DictConfig, OmegaConf

from veritas_rl.checkpoints.origin import TASKS
from veritas_rl.verl_plugin import algorithms

ACTOR, CRITIC, ROLLOUT, REF = (
    *("actor_rollout_ref.actor", "critic"),
    *("actor_rollout_ref.rollout", "actor_rollout_ref.ref"),
)
CORRECTION = "algorithm.rollout_correction"
REWARD = "reward.custom_reward_function"
DATASET = "data.custom_cls.path"
OWN_DATASET = "train/tools/dataset-manager.py"
ADAPTER = f"{TASKS}.adapter_config"
DEFAULTS = f"{TASKS}.defaults"


@dataclass(frozen=True)
class Dead:
    """Why a key of verl, or a node with all its keys, has no effect here.

    Attributes:
        why: What takes its place, as a clause.
        instead: What to type, as a clause.
        needs: The setting, and its values, with which the key has an effect; None if it never has one.
        allowed: Values that say what is so without the key, as a coefficient of 0 does.
        verb: How it is said. verl would obey some keys, and the run would not work.
    """

    why: str
    instead: str
    needs: tuple[str, tuple[Any, ...]] | None = None
    allowed: tuple[Any, ...] = ()
    verb: str = "has no effect here"

    def applies(self, configuration: DictConfig) -> bool:
        """Whether the key has no effect in a configuration."""
        return self.needs is None or OmegaConf.select(configuration, self.needs[0]) not in self.needs[1]

    def message(self, typed: str, configuration: DictConfig) -> str:
        """The error for a user who typed the key."""
        given = f" with {self.needs[0]}={shown(OmegaConf.select(configuration, self.needs[0]))}" if self.needs else ""
        return f"{typed} {self.verb}{given}, because {self.why}: {self.instead}"


NORMALIZE = "norm_adv_by_std_in_grpo"
_REWARDS = "the agent loop scores each reply in its environment"
_OWN_REWARD = f"name a function of your own by {REWARD}.path"
_ROWS = "the rows are made of tasks and not read from files"
_TEXT = "the tasks are text"
_TOOLS = "no environment has tools"
_MICRO = "micro-batches are cut by tokens"
_LOOP = "only this package's agent loop plays games"
_BYPASS = "the rollout's log-probabilities are the old ones, so there is nothing to correct"
_PPO = "leave it out, or set algorithm=ppo"


def _estimator(*names: str) -> tuple[str, tuple[Any, ...]]:
    return "algorithm.adv_estimator", names


def _reads(key: str) -> Dead:
    return Dead("verl 0.9.1 reads another key", f"set {key}")


def _micro(role: str, limit: str) -> Dead:
    return Dead(_MICRO, f"set {limit}", needs=(f"{role}.use_dynamic_bsz", (False,)))


def _log_probs(role: str) -> Dead:
    limit = f"set {role}.log_prob_max_token_len_per_gpu"
    return Dead(_MICRO, limit, needs=(f"{role}.log_prob_use_dynamic_bsz", (False,)))


WITHOUT_EFFECT: dict[str, Dead] = {
    "reward.num_workers": Dead(_REWARDS, "leave it out"),
    "reward.reward_manager": Dead(_REWARDS, _OWN_REWARD),
    "reward.reward_model": Dead(_REWARDS, f"{_OWN_REWARD}, which may ask a served model"),
    "reward.sandbox_fusion": Dead(_REWARDS, f"{_OWN_REWARD}; environment=trace has a sandbox of its own"),
    # verl 0.9.1's main_ppo never reads these old nodes. The launcher reads custom_reward_function.KEY.
    "custom_reward_function": Dead("verl 0.9.1 has moved it", f"set {REWARD}.path and .name"),
    "reward_model": Dead(_REWARDS, _OWN_REWARD),
    "sandbox_fusion": Dead(_REWARDS, _OWN_REWARD),
    "algorithm.filter_groups.max_inflight_gen_batches": Dead(
        "a step plays all groups that it draws at once", "set algorithm.filter_groups.max_num_gen_batches"
    ),
    "algorithm.gamma": Dead(
        "these advantages are not discounted", _PPO, needs=_estimator(*algorithms.reading("gamma"))
    ),
    "algorithm.lam": Dead("only advantages with a critic use it", _PPO, needs=_estimator(*algorithms.reading("lam"))),
    f"algorithm.{NORMALIZE}": Dead(
        "these advantages are not divided by a standard deviation",
        "leave it out, or set algorithm=grpo",
        needs=_estimator(*algorithms.reading(NORMALIZE), "grpo_vectorized", "grpo_passk"),
    ),
    **dict.fromkeys(
        ("algorithm.kl_penalty", "algorithm.kl_ctrl"),
        Dead(
            "rewards have no KL term",
            "leave it out, or set algorithm.use_kl_in_reward=true",
            needs=("algorithm.use_kl_in_reward", (True,)),
            allowed=(0,),
        ),
    ),
    "algorithm.use_pf_ppo": Dead("verl's v1 trainer would mix up its rows", "leave it out"),
    "algorithm.pf_ppo": Dead("verl's v1 trainer does not use it", "leave it out"),
    f"{CORRECTION}.loss_type": Dead("verl's v1 trainer does not read it", f"set {ACTOR}.policy_loss.loss_mode"),
    **{
        f"{CORRECTION}.{name}": Dead(
            _BYPASS, f"set {CORRECTION}.bypass_mode=false", (f"{CORRECTION}.bypass_mode", (False,))
        )
        for name in (
            *("rollout_is", "rollout_is_threshold", "rollout_is_batch_normalize"),
            *("rollout_rs", "rollout_rs_threshold"),
        )
    },
    **dict.fromkeys(
        ("data.prompt_key", "data.reward_fn_key", "data.use_shm", "data.return_raw_input_ids", "data.return_raw_chat"),
        Dead(_ROWS, "leave it out"),
    ),
    "data.return_full_prompt": Dead(_ROWS, "leave it out; train/tools/show_batch.py shows the prompts of a batch"),
    "data.tokenizer": Dead("the model brings its tokenizer", "set actor_rollout_ref.model.tokenizer_path"),
    "data.trust_remote_code": _reads("actor_rollout_ref.model.trust_remote_code"),
    "data.gen_batch_size": Dead("a step draws its tasks at once", "set data.train_batch_size"),
    "data.shuffle": Dead("the dataset draws its own order", "set data.seed to another number for another order"),
    "data.dataloader_num_workers": Dead(
        "the dataset learns from the outcomes of its tasks, so it needs one process", "leave it out"
    ),
    **dict.fromkeys(
        ("data.filter_overlong_prompts", "data.filter_overlong_prompts_workers", "data.truncation"),
        Dead(
            "a prompt that is too long is not asked, and counts as task/overlong", "set data.max_prompt_length to more"
        ),
    ),
    **dict.fromkeys(
        (
            *("data.image_patch_size", "data.image_key", "data.video_key", "data.audio_key"),
            *("data.return_multi_modal_inputs", "data.mm_processor_kwargs"),
        ),
        Dead(_TEXT, "leave it out"),
    ),
    **dict.fromkeys(("data.tool_config_path", "data.function_tool_path"), Dead(_TOOLS, "leave it out")),
    "distillation": Dead(
        "the agent loop asks no teacher",
        "train/tools/generate_demonstrations.py --expert asks one for rows to fine-tune on",
    ),
    f"{ROLLOUT}.disaggregation": Dead(
        "one engine reads prompts and generates", "leave it out", verb="is not supported here"
    ),
    f"{ROLLOUT}.multi_turn": Dead(_LOOP, "play=episode plays games of many turns"),
    **{
        f"{ROLLOUT}.agent.{name}": Dead(_LOOP, "leave it out", verb="is not supported here")
        for name in ("default_agent_loop", "agent_loop_config_path", "agent_loop_manager_class", "custom_async_server")
    },
    f"{ROLLOUT}.do_sample": _reads(f"{ROLLOUT}.temperature"),
    f"{ROLLOUT}.val_kwargs.do_sample": _reads(f"{ROLLOUT}.val_kwargs.temperature"),
    f"{ROLLOUT}.over_sample_rate": Dead("verl 0.9.1 does not read it", "leave it out"),
    f"{ROLLOUT}.log_prob_micro_batch_size": _log_probs(ROLLOUT),
    f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu": _log_probs(ROLLOUT),
    f"{REF}.log_prob_micro_batch_size": _log_probs(REF),
    f"{REF}.log_prob_micro_batch_size_per_gpu": _log_probs(REF),
    **dict.fromkeys(
        (f"{ACTOR}.kl_loss_coef", f"{ACTOR}.kl_loss_type"),
        Dead(
            "the loss has no KL term",
            f"leave it out, or set {ACTOR}.use_kl_loss=true",
            needs=(f"{ACTOR}.use_kl_loss", (True,)),
            allowed=(0,),
        ),
    ),
    f"{ACTOR}.grad_clip": _reads(f"{ACTOR}.optim.clip_grad"),
    f"{ACTOR}.use_torch_compile": _reads(f"{ACTOR}.fsdp_config.use_torch_compile"),
    f"{ACTOR}.ppo_micro_batch_size": _micro(ACTOR, f"{ACTOR}.ppo_max_token_len_per_gpu"),
    f"{ACTOR}.ppo_micro_batch_size_per_gpu": _micro(ACTOR, f"{ACTOR}.ppo_max_token_len_per_gpu"),
    CRITIC: Dead("no critic is trained", _PPO, needs=_estimator("gae")),
    f"{CRITIC}.grad_clip": _reads(f"{CRITIC}.optim.clip_grad"),
    f"{CRITIC}.ulysses_sequence_parallel_size": _reads(f"{CRITIC}.fsdp.ulysses_sequence_parallel_size"),
    f"{CRITIC}.ppo_micro_batch_size": _micro(CRITIC, f"{CRITIC}.ppo_max_token_len_per_gpu"),
    f"{CRITIC}.ppo_micro_batch_size_per_gpu": _micro(CRITIC, f"{CRITIC}.ppo_max_token_len_per_gpu"),
    f"{CRITIC}.forward_max_token_len_per_gpu": _reads(f"{CRITIC}.ppo_max_token_len_per_gpu"),
    "trainer.val_only": Dead(
        "a run trains",
        "train/tools/evaluate.py judges a model",
        allowed=(False,),
        verb="is not supported here",
    ),
    "trainer.balance_batch": Dead("verl's v1 trainer always balances", "leave it out", allowed=(True,)),
    "trainer.max_critic_ckpt_to_keep": Dead(
        "a step's checkpoint has actor and critic", "set trainer.max_actor_ckpt_to_keep"
    ),
    "trainer.use_v1": Dead("this package's trainers are of verl's v1", "leave it out"),
    "trainer.esi_redundant_time": Dead("verl's v1 trainer does not read it", "send SIGTERM, which saves and ends"),
    "trainer.v1.separate_async": Dead("no trainer here has devices for the rollout alone", "leave it out"),
    "trainer.v1.sampler.custom_sampler": Dead("the trainers need their own replay buffer", "leave it out"),
    "trainer.v1.sampler.sync_refill_failed_groups": Dead("a game that fails ends the run", "leave it out"),
}
"""verl's keys and nodes that do nothing here."""

READ = (
    *(f"{REWARD}.path", f"{REWARD}.name"),
    *("algorithm.adv_estimator", "algorithm.use_kl_in_reward", f"{CORRECTION}.bypass_mode"),
    *(f"algorithm.filter_groups.{name}" for name in ("enable", "metric", "max_num_gen_batches")),
    *("data.train_files", "data.val_files", "data.train_max_samples", "data.val_max_samples", "data.custom_cls"),
    *("data.max_prompt_length", "data.max_response_length", "data.train_batch_size", "data.val_batch_size"),
    *("data.seed", "data.validation_shuffle", "data.apply_chat_template_kwargs"),
)
"""The keys and nodes below `reward`, `algorithm` and `data` that always have an effect here."""


def shown(value: object) -> str:
    """A value as YAML writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def table() -> list[tuple[list[str], str, str]]:
    """`WITHOUT_EFFECT` as rows of a page: the keys, why they have no effect, and what to do instead."""
    same: dict[Dead, list[str]] = {}
    for key, dead in WITHOUT_EFFECT.items():
        same.setdefault(dead, []).append(key)
    return [
        (
            named,
            dead.why + (f" (unless {dead.needs[0]} is {' or '.join(map(shown, dead.needs[1]))})" if dead.needs else ""),
            dead.instead,
        )
        for dead, named in same.items()
    ]
