"""The numbers of verl's settings that change an update or a reply, checked before a run starts.

verl computes with whatever is given: a `clip_grad` of 0 zeroes every gradient, a negative one turns its sign, and a
temperature of 0 makes every ratio wrong.
"""

import math
from dataclasses import dataclass
from typing import Any

from omegaconf import DictConfig, OmegaConf

from veritas_rl.errors import UserError, unknown
from veritas_rl.launch.dead_keys import ACTOR, CRITIC, ROLLOUT
from veritas_rl.verl_plugin import algorithms

VALIDATION = f"{ROLLOUT}.val_kwargs"


@dataclass(frozen=True)
class Limit:
    """The values that a setting may have.

    Attributes:
        words: The values, in words.
        low: The lower limit, which is included unless `above`.
        high: The upper limit, which is included unless `below`.
        above: Whether the lower limit itself is excluded.
        below: Whether the upper limit itself is excluded.
        whole: Whether the value must be an integer.
        other: Values outside of the limits that are allowed as well.
        count: How many numbers the setting has: 1, or the length of a list.
    """

    words: str
    low: float = -math.inf
    high: float = math.inf
    above: bool = False
    below: bool = False
    whole: bool = False
    other: tuple[float | None, ...] = ()
    count: int = 1

    def allows(self, given: Any) -> bool:
        """Whether the value is allowed. nan, text and booleans never are."""
        if self.count == 1:
            return self._allows(given)
        return OmegaConf.is_list(given) and len(given) == self.count and all(map(self._allows, given))

    def _allows(self, value: Any) -> bool:
        if isinstance(value, bool):
            return False
        if value in self.other:
            return True
        if not isinstance(value, int if self.whole else int | float):
            return False
        low = self.low < value if self.above else self.low <= value
        return low and (value < self.high if self.below else value <= self.high)


FINITE = Limit("a finite number", above=True, below=True)
RATE = Limit("a finite number of 0 or more", 0, below=True)
SHARE = Limit("a number from 0 to 1", 0, 1)
ABOVE = Limit("a finite number above 0", 0, above=True, below=True)
COUNT = Limit("an integer of 0 or more", 0, below=True, whole=True)
CLIP = Limit("a number above 0, or inf to turn clipping off", 0, above=True)
RANGE = Limit("a number above 0, or null for clip_ratio", 0, above=True, other=(None,))
TEMPERATURE = Limit(
    f"a finite number above 0, because a reply that is not sampled has no probability to learn from "
    f"({VALIDATION}.temperature may be 0)",
    0,
    above=True,
    below=True,
)
TOP_P = Limit("a number above 0 and at most 1, which is off", 0, 1, above=True)
TOP_K = Limit("an integer of 1 or more, or -1 for off", 1, below=True, whole=True, other=(-1,))

OPTIMIZER = {
    "lr": RATE,
    "weight_decay": RATE,
    "clip_grad": CLIP,
    "lr_warmup_steps": Limit("an integer, or -1 for lr_warmup_steps_ratio", -1, below=True, whole=True),
    "lr_warmup_steps_ratio": SHARE,
    "betas": Limit("two numbers from 0 to less than 1", 0, 1, below=True, count=2),
    "min_lr_ratio": Limit("a number from 0 to 1, or null for 0", 0, 1, other=(None,)),
    "num_cycles": RATE,
}
"""The limits of an optimizer's settings."""

RL = {
    f"{ACTOR}.clip_ratio": CLIP,
    f"{ACTOR}.clip_ratio_low": RANGE,
    f"{ACTOR}.clip_ratio_high": RANGE,
    f"{ACTOR}.clip_ratio_c": Limit("a finite number above 1", 1, above=True, below=True),
    f"{ACTOR}.ppo_epochs": Limit("an integer of 1 or more", 1, below=True, whole=True),
    f"{ACTOR}.entropy_coeff": FINITE,
    f"{ACTOR}.kl_loss_coef": RATE,
    "actor_rollout_ref.model.lora_alpha": ABOVE,
    "veritas_rl.length_penalty": Limit("a number above 0 and at most 1, or null", 0, 1, above=True, other=(None,)),
    f"{ROLLOUT}.temperature": TEMPERATURE,
    f"{ROLLOUT}.top_p": TOP_P,
    f"{ROLLOUT}.top_k": TOP_K,
    f"{VALIDATION}.temperature": RATE,
    f"{VALIDATION}.top_p": TOP_P,
    f"{VALIDATION}.top_k": TOP_K,
    "algorithm.gamma": SHARE,
    "algorithm.lam": SHARE,
    "algorithm.kl_ctrl.kl_coef": RATE,
    "trainer.critic_warmup": COUNT,
}
"""The limits of the settings of reinforcement learning."""

OF_CRITIC = {
    f"{CRITIC}.cliprange_value": CLIP,
    f"{CRITIC}.model.lora_alpha": ABOVE,
    f"{CRITIC}.ppo_epochs": Limit("an integer of 1 or more", 1, below=True, whole=True),
}
"""The limits of the settings of PPO's critic."""

OTHERS_OF_GROUPS = ("grpo_passk", "grpo_vectorized", "rloo_vectorized", "reinforce_plus_plus_baseline", "opo", "gpg")
"""verl's other estimators of advantages that compare the samples of one task."""

ESTIMATORS = (*dict.fromkeys(one.estimator for one in algorithms.known().values()), *OTHERS_OF_GROUPS)
"""This package's and verl's estimators of advantages."""

LACKING = {
    "remax": "a greedy reply to each task",
    "gdpo": "scores by name",
    **dict.fromkeys(("optimal_token_baseline", "tir_optimal_token_baseline"), "the sums of squared probabilities"),
}
"""verl's estimators that fail in verl's v1 trainer, with what they need."""

FROM_THE_LAST_TOKEN = ("gae", "reinforce_plus_plus")
"""The estimators that read a reply's reward at its last token, and not if that token is rejected."""


def check_rl(configuration: DictConfig) -> None:
    """Check the numbers of a run of reinforcement learning.

    Raises:
        UserError: A number is outside of its limits.
    """
    table = {**RL, **_of_optimizer(f"{ACTOR}.optim")}
    if algorithms.has_critic(configuration):
        table |= {**OF_CRITIC, **_of_optimizer(f"{CRITIC}.optim")}
    _check(configuration, table)
    _check_estimator(configuration)
    truncation(configuration)


def check_sft(configuration: DictConfig) -> None:
    """Check the numbers of a run of supervised fine-tuning.

    Raises:
        UserError: A number is outside of its limits.
    """
    _check(configuration, _of_optimizer("optim"))


def _check_estimator(configuration: DictConfig) -> None:
    estimator, samples = configuration.algorithm.adv_estimator, configuration.actor_rollout_ref.rollout.n
    if estimator in LACKING:
        raise UserError(
            f"algorithm.adv_estimator={estimator} needs {LACKING[estimator]}, which verl's v1 trainer lacks"
        )
    if estimator not in ESTIMATORS:
        raise unknown("algorithm.adv_estimator", estimator, ESTIMATORS)
    known = algorithms.of_estimator(estimator)
    compares = known.groups if known else estimator in OTHERS_OF_GROUPS
    if compares and samples == 1:
        said = f"algorithm.adv_estimator={estimator} compares several samples of one task"
        raise UserError(f"{said}: set {ROLLOUT}.n to 2 or more")
    if estimator in OTHERS_OF_GROUPS and configuration.veritas_rl.play == "episode":
        said = (
            f"algorithm.adv_estimator={estimator} compares the replies of all seats and turns of a game with each other"
        )
        raise UserError(f"{said}: set algorithm=grpo or algorithm=rloo, which compare those of one seat and turn")
    if (filtered := configuration.algorithm.filter_groups) and filtered.enable:
        said = "algorithm.filter_groups.enable=true needs"
        if not compares:
            raise UserError(f"{said} groups, and {estimator} has none: set algorithm=dapo")
        if not filtered.metric:
            raise UserError(f"{said} algorithm.filter_groups.metric: set it to success")
        if not Limit("", 1, below=True, whole=True).allows(filtered.max_num_gen_batches):
            raise UserError(f"{said} algorithm.filter_groups.max_num_gen_batches of 1 or more: set it to 10")
        if configuration.trainer.v1.trainer_mode != "game":
            raise UserError(f"{said} trainer.v1.trainer_mode=game, whose steps wait for their games")
    critic = algorithms.has_critic(configuration)
    rejected = str(configuration.algorithm.rollout_correction.rollout_rs or "")
    if estimator in FROM_THE_LAST_TOKEN and "token_" in rejected:
        said = (
            f"algorithm.rollout_correction.rollout_rs={rejected} may reject a reply's last token, which has the reward"
        )
        raise UserError(
            f"{said} that {estimator} reads: set {rejected.replace('token_', 'seq_mean_')}, or algorithm=grpo"
        )
    if critic and configuration.critic.enable is False:
        raise UserError("critic.enable=false leaves PPO without its critic: leave it out, or set algorithm=grpo")
    if not critic and (steps := configuration.trainer.critic_warmup):
        raise UserError(
            f"in the {steps} steps of trainer.critic_warmup only a critic would learn, and {estimator} has none: set "
            "trainer.critic_warmup=0"
        )


def truncation(configuration: DictConfig) -> str | None:
    """What a rollout that does not sample from all tokens does to an update, in one line; None if it does.

    Raises:
        UserError: The rollout's probabilities are used, and are of another distribution than the trainer's.
    """
    rollout, correction = configuration.actor_rollout_ref.rollout, configuration.algorithm.rollout_correction
    cut = [f"{ROLLOUT}.{key}={rollout[key]}" for key, off in (("top_p", 1), ("top_k", -1)) if rollout[key] != off]
    if rollout.name == "vllm" and rollout.logprobs_mode not in ("processed_logprobs", "raw_logprobs"):
        raise UserError(
            f"{ROLLOUT}.logprobs_mode={rollout.logprobs_mode} gives no log-probabilities to compare the trainer's "
            "with: set it to processed_logprobs"
        )
    if rollout.name == "vllm" and (correction.bypass_mode or correction.rollout_is is not None):
        raw = rollout.logprobs_mode == "raw_logprobs"
        biased = [f"{ROLLOUT}.temperature={rollout.temperature}"] if raw and rollout.temperature != 1 else []
        if biased := biased if raw else cut:
            raise UserError(
                f"with {' and '.join(biased)} and logprobs_mode={rollout.logprobs_mode}, vLLM's probabilities are of "
                "another distribution than the trainer's, and algorithm.rollout_correction would compare them, so "
                f"every ratio would be biased: leave {' and '.join(biased)} out, or set "
                "algorithm.rollout_correction.rollout_is=null and bypass_mode=false"
            )
    if not cut:
        return None
    return (
        f"note: with {' and '.join(cut)}, replies are sampled from a part of the tokens, and updates use the "
        "probabilities of all tokens: rare tokens are never learned from, so the update is biased"
    )


def correction(configuration: DictConfig) -> str:
    """What is done about probabilities that differ between rollout and trainer, in one line."""
    settings, mode = configuration.algorithm.rollout_correction, configuration.trainer.v1.trainer_mode
    level = settings.rollout_is or ("token" if mode == "game_async" else None)
    if algorithms.lists_answers(configuration):
        return "rollout correction: none, because no reply is sampled"
    if settings.bypass_mode:
        return (
            "rollout correction: none, because the rollout's log-probabilities are the old ones "
            "(algorithm.rollout_correction.bypass_mode=true): the trainer does not compute or compare them"
        )
    if level is None:
        return (
            "rollout correction: none (algorithm.rollout_correction.rollout_is=null); "
            "training/rollout_probs_diff_mean measures the difference"
        )
    return (
        f"rollout correction: the loss of each {'token' if level == 'token' else 'reply'} is weighted by the trainer's "
        f"probability over the rollout's, at most {settings.rollout_is_threshold} "
        f"(algorithm.rollout_correction.rollout_is={level})"
    )


def _of_optimizer(node: str) -> dict[str, Limit]:
    return {f"{node}.{name}": limit for name, limit in OPTIMIZER.items()}


def _check(configuration: DictConfig, table: dict[str, Limit]) -> None:
    for key, limit in table.items():
        given = OmegaConf.select(configuration, key)
        if not limit.allows(given):
            shown = "null" if given is None else f"'{given}'" if isinstance(given, str) else given
            raise UserError(f"{key}={shown} cannot be used: set it to {limit.words}")
