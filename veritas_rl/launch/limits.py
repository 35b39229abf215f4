"""The numbers and names of verl's settings that change an update or a reply, checked before a run starts.

verl computes with whatever is given: a `clip_grad` of 0 zeroes every gradient, a negative one turns its sign, and a
temperature of 0 makes every ratio wrong. It ignores some settings, which stay where an older version has read them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from omegaconf import DictConfig, OmegaConf

from veritas_rl.errors import UserError, unknown

ACTOR, CRITIC, ROLLOUT = "actor_rollout_ref.actor", "critic", "actor_rollout_ref.rollout"
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
    f"{CRITIC}.ppo_epochs": Limit("an integer of 1 or more", 1, below=True, whole=True),
}
"""The limits of the settings of PPO's critic."""

OF_GROUPS = (
    *("grpo", "grpo_passk", "grpo_vectorized", "rloo", "rloo_vectorized", "reinforce_plus_plus_baseline", "opo", "gpg"),
    *("gdpo", "optimal_token_baseline", "tir_optimal_token_baseline"),
)
"""The estimators of advantages that compare the samples of one task."""

ESTIMATORS = (*OF_GROUPS, "gae", "rae", "reinforce_plus_plus", "remax")
"""This package's and verl's estimators of advantages."""

WITHOUT_EFFECT = {
    f"{ACTOR}.grad_clip": f"{ACTOR}.optim.clip_grad",
    f"{CRITIC}.grad_clip": f"{CRITIC}.optim.clip_grad",
    f"{ROLLOUT}.do_sample": f"{ROLLOUT}.temperature",
    f"{ACTOR}.use_torch_compile": f"{ACTOR}.fsdp_config.use_torch_compile",
    f"{CRITIC}.ulysses_sequence_parallel_size": f"{CRITIC}.fsdp.ulysses_sequence_parallel_size",
}
"""Settings that verl has and does not read here, each with the setting that it reads."""


def check_rl(configuration: DictConfig) -> None:
    """Check the numbers of a run of reinforcement learning.

    Raises:
        UserError: A number is outside of its limits.
    """
    table = {**RL, **_of_optimizer(f"{ACTOR}.optim")}
    if configuration.algorithm.adv_estimator == "gae":
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
    if estimator not in ESTIMATORS:
        raise unknown("algorithm.adv_estimator", estimator, ESTIMATORS)
    if estimator in OF_GROUPS and samples == 1:
        named = "ALGORITHM=grpo" if estimator == "grpo" else f"algorithm.adv_estimator={estimator}"
        raise UserError(f"{named} compares several samples of one task: set {ROLLOUT}.n to 2 or more")
    if estimator != "gae" and (steps := configuration.trainer.critic_warmup):
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
                f"every ratio would be biased: leave {' and '.join(biased)} out"
            )
    if not cut:
        return None
    return (
        f"note: with {' and '.join(cut)}, replies are sampled from a part of the tokens, and updates use the "
        "probabilities of all tokens: rare tokens are never learned from, so the update is biased"
    )


def _of_optimizer(node: str) -> dict[str, Limit]:
    return {f"{node}.{name}": limit for name, limit in OPTIMIZER.items()}


def _check(configuration: DictConfig, table: dict[str, Limit]) -> None:
    for key, limit in table.items():
        given = OmegaConf.select(configuration, key)
        if not limit.allows(given):
            shown = "null" if given is None else f"'{given}'" if isinstance(given, str) else given
            raise UserError(f"{key}={shown} cannot be used: set it to {limit.words}")


def check_names(configuration: DictConfig, overrides: Sequence[str]) -> None:
    """Check that verl reads each setting of its own that the user has named.

    A plus in an override adds any key. verl's classes have fields with fixed names. Only added keys are looked up,
    because the import of verl takes seconds.

    Args:
        configuration: The resolved configuration.
        overrides: The overrides of recipe, environment variables and command line.

    Raises:
        UserError: verl does not know a key, or does not read it.
    """
    for override in overrides:
        key, assigned, _ = override.partition("=")
        name = key.lstrip("+~")
        if not assigned:
            continue
        if name in WITHOUT_EFFECT:
            raise UserError(f"{name} has no effect in verl 0.9.1: set {WITHOUT_EFFECT[name]}")
        if name.endswith("optim.grad_clip"):
            raise UserError(f"{name} is an old name: set {name.removesuffix('grad_clip')}clip_grad")
        if key.startswith("+"):
            _check_field(configuration, name)


def _check_field(configuration: DictConfig, key: str) -> None:
    """Raise `UserError` if a part of a key is no field of the class that verl makes of its node."""
    node: Any = configuration
    parts = key.split(".")
    for depth, part in enumerate(parts):
        if not isinstance(node, DictConfig):
            return
        if (target := str(node.get("_target_", ""))).startswith("verl."):
            from hydra.utils import get_class

            made = get_class(target)
            if is_dataclass(made) and part not in (known := {field.name for field in fields(made)}):
                place = ".".join(parts[:depth])
                raise unknown(f"setting of {place}", part, {name for name in known if not name.startswith("_")})
        node = node.get(part)
