"""Settings of a pretrained model on a CPU that follow from the model and the machine.

`start_on_hardware/pretrained_cpu.yaml` has the value `auto` for them. They are forecast, not measured, so that the same
command composes the same run.
"""

import dataclasses
from collections.abc import Mapping, Sequence

from omegaconf import DictConfig, OmegaConf

from veritas_rl.errors import UserError, unknown
from veritas_rl.launch.configuration import MODEL as RL_MODEL
from veritas_rl.launch.configuration import compose_configuration, context_tokens
from veritas_rl.launch.start import MADE, PRETRAINED
from veritas_rl.planning.compose import AnyPlan, multiplies_bf16, plan_of, plan_of_known, sft_plan_of
from veritas_rl.planning.forecast import JUDGING
from veritas_rl.planning.models import UnknownShape, find_shape
from veritas_rl.planning.plan import Plan
from veritas_rl.verl_plugin import algorithms

AUTO = "auto"
PRECISION, AT_ONCE, TOKENS = (f"veritas_rl.{name}" for name in ("precision", "replies_at_once", "micro_batch_tokens"))
PROMPT = "data.max_prompt_length"
POSITIONS = "veritas_rl.evaluation.positions"

FULL = "float32"
HALF = "bfloat16"

MEMORY = 0.8
"""The share of the machine's memory that a run may be forecast to need."""

CACHE = 0.15
"""The share of the machine's memory for keys and values of the rollout."""

MOST_TOKENS = 8192
"""The largest micro-batch. A larger one is no faster on a CPU."""

REPLIES = 32
"""Replies at once if the model's shape is not known."""

LEAST_POSITIONS = 32

# The weights of actor and critic.
TRAINED_WEIGHTS = ("actor_rollout_ref.actor.fsdp_config.model_dtype", "critic.fsdp.model_dtype")


def prompt_overrides(configuration: DictConfig, wanted: Sequence[str]) -> list[str]:
    """The override that shortens the longest prompt to the context of the model, if the run is sized here.

    Args:
        configuration: The resolved configuration.
        wanted: The overrides of the user. A length among them is kept.
    """
    if _precision(configuration.veritas_rl) is None:
        return []
    try:
        context = find_shape(OmegaConf.select(configuration, RL_MODEL), ask_hub=False).context
    except UnknownShape:
        return []
    longest = context - (context_tokens(configuration) - configuration.data.max_prompt_length)
    if not 0 < longest < configuration.data.max_prompt_length:
        return []
    return _untyped({PROMPT: longest}, wanted)


def overrides(configuration: DictConfig, composed: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """The overrides that replace `auto`, and the number of held-out tasks that can be judged in time.

    Args:
        configuration: The resolved configuration.
        composed: The overrides that it was composed from.
        wanted: The overrides of the user among them.

    Raises:
        UserError: A setting of this module has a wrong value.
    """
    settings = configuration.veritas_rl
    if (precision := _precision(settings)) is None:
        return []
    longest = context_tokens(configuration)
    models = (configuration.actor_rollout_ref.model, configuration.critic.model)
    # In bf16 most steps of trained weights would be rounded away.
    whole = [key for key, model in zip(TRAINED_WEIGHTS, models, strict=True) if model.lora_rank == 0]
    found = {PRECISION: precision, **dict.fromkeys(whole, FULL)}
    guess = {
        AT_ONCE: REPLIES if settings.replies_at_once == AUTO else settings.replies_at_once,
        TOKENS: max(longest, MOST_TOKENS // 2) if settings.micro_batch_tokens == AUTO else settings.micro_batch_tokens,
    }
    made = compose_configuration([*composed, *_written({**found, **guess})])
    plan = _within(plan_of_known(plan_of, made, made.actor_rollout_ref.model.path, "cpu"))
    if plan is not None:
        if settings.replies_at_once == AUTO:
            guess[AT_ONCE] = replies_at_once(plan)
            plan = plan.with_settings(
                dataclasses.replace(
                    plan.settings, rollout=dataclasses.replace(plan.settings.rollout, sequences=guess[AT_ONCE])
                )
            )
        if settings.micro_batch_tokens == AUTO:
            guess[TOKENS] = max(longest, min(plan.largest_tokens() or longest, MOST_TOKENS))
        seconds, judged = plan.run_seconds().get(JUDGING), settings.evaluation
        if seconds and judged.get("minutes"):
            most = int(judged.positions * judged.minutes * 60 / (seconds / 2))
            found[POSITIONS] = min(judged.positions, max(most, LEAST_POSITIONS))
    return _untyped({**found, **guess}, wanted)


def sft_overrides(configuration: DictConfig, composed: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """As `overrides`, for fine-tuning."""
    settings = configuration.veritas_rl
    if (precision := _precision(settings)) is None:
        return []
    longest, tokens = configuration.data.max_length, settings.micro_batch_tokens
    found: dict[str, object] = {PRECISION: precision, TOKENS: max(longest, MOST_TOKENS // 2)}
    made = compose_configuration([*composed, *_written(found)], "sft")
    plan = _within(plan_of_known(sft_plan_of, made, made.model.path, "cpu"))
    if plan is not None:
        found[TOKENS] = max(longest, min(plan.largest_tokens() or longest, MOST_TOKENS))
    if tokens != AUTO:
        found[TOKENS] = tokens
    return _untyped(found, wanted)


def _precision(settings: DictConfig) -> str | None:
    """The dtype of a run that is sized here; None for other runs.

    Raises:
        UserError: A setting of this module has a wrong value.
    """
    asked = settings.get("precision")
    if asked is None or "micro_batch_tokens" not in settings:
        return None
    if asked not in (AUTO, HALF, FULL):
        raise unknown(PRECISION, str(asked), (AUTO, HALF, FULL))
    for name in ("replies_at_once", "micro_batch_tokens"):
        value = settings.get(name, AUTO)
        if value != AUTO and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise UserError(f"veritas_rl.{name}={value} must be {AUTO} or a positive integer")
    return precision_here() if asked == AUTO else asked


def precision_here() -> str:
    """The faster dtype of matrix products on this machine's processor."""
    return HALF if multiplies_bf16() else FULL


def replies_at_once(plan: Plan) -> int:
    """The replies that are generated together: those of a step, or as many as the cache may hold."""
    settings, server = plan.settings, plan.server
    fit = int(plan.device.memory * CACHE) // (server.token * server.longest)
    return max(1, min(settings.prompts * settings.samples, fit))


def _within(plan: AnyPlan | None) -> AnyPlan | None:
    """A plan on a part of the machine's memory."""
    if plan is None:
        return None
    return dataclasses.replace(plan, device=dataclasses.replace(plan.device, memory=int(plan.device.memory * MEMORY)))


def _untyped(settings: Mapping[str, object], wanted: Sequence[str]) -> list[str]:
    """Settings as overrides, without those that the user has typed. `auto` may have been typed too."""
    typed = {item.lstrip("+").partition("=")[0] for item in wanted if not item.endswith(f"={AUTO}")}
    return [item for item in _written(settings) if item.partition("=")[0] not in typed]


def _written(settings: Mapping[str, object]) -> list[str]:
    return [f"{key}={value}" for key, value in settings.items()]


def described(configuration: DictConfig) -> str:
    """Say in one line which kind of settings the run has, and what to type for others.

    Args:
        configuration: The resolved configuration, with the overrides of `overrides`.
    """
    rl, settings = configuration.actor_rollout_ref, configuration.veritas_rl
    estimator = configuration.algorithm.adv_estimator
    said = [*_named(settings, rl.model), settings.algorithm if algorithms.of_estimator(estimator) else estimator]
    if settings.get("precision"):
        said += [
            f"{settings.precision}, {rl.rollout.max_num_seqs} replies at once",
            f"micro-batches of {rl.actor.ppo_max_token_len_per_gpu} tokens",
        ]
        if not algorithms.has_critic(configuration):
            said.append("ALGORITHM=ppo adds a critic, which doubles the work")
    return _said(settings, said)


def described_sft(configuration: DictConfig) -> str:
    """As `described`, for fine-tuning."""
    settings = configuration.veritas_rl
    said = _named(settings, configuration.model)
    if settings.get("precision"):
        said.append(f"{settings.precision}, micro-batches of {configuration.data.max_token_len_per_gpu} tokens")
    return _said(settings, said)


def _named(settings: DictConfig, model: DictConfig) -> list[str]:
    trained = f"LoRA of rank {model.lora_rank}" if model.lora_rank else "all parameters"
    return [trained] if settings.start == MADE else [model.path, trained]


def _said(settings: DictConfig, said: Sequence[str]) -> str:
    other = "a pretrained model" if settings.start == MADE else "a small model that was made here"
    choice = PRETRAINED if settings.start == MADE else MADE
    return f"start={settings.start}: {', '.join(said)} (start={choice} has the settings of {other})"
