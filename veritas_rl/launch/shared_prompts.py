"""The setting `actor_rollout_ref.actor.use_prefix_grouper`: a group's prompt is computed once, see
`verl_plugin.shared_prompts`."""

from omegaconf import DictConfig

from veritas_rl.errors import UserError
from veritas_rl.planning.models import UnknownShape, find_shape
from veritas_rl.shared_prompts import KEY, VENDOR
from veritas_rl.verl_plugin import algorithms

AUTO = "auto"

FAMILIES = ("llama", "qwen2", "qwen3")
"""The model types whose results have been compared with those of whole rows."""

ATTENTION = ("sdpa", "eager")
"""The attention implementations that take a mask of pairs of tokens."""

STRATEGIES = ("fsdp", "fsdp2")


def overrides(configuration: DictConfig) -> list[str]:
    """The override that replaces `auto`: on for groups of replies and for listed answers, if the model allows it.

    Args:
        configuration: The resolved configuration.
    """
    asked = configuration.actor_rollout_ref.actor.use_prefix_grouper
    if asked != AUTO or configuration.trainer.device != "cpu":
        return []
    several = configuration.actor_rollout_ref.rollout.n > 1 or algorithms.lists_answers(configuration)
    shares = several and _fault(configuration) is None
    return [f"{KEY}={str(shares).lower()}"]


def environment(configuration: DictConfig) -> dict[str, str]:
    """The variable of verl's processes that chooses the engines."""
    return {"VERL_ENGINE_VENDOR": VENDOR} if configuration.actor_rollout_ref.actor.use_prefix_grouper else {}


def check(configuration: DictConfig) -> None:
    """Check that prompts can be shared if the run asks for it.

    Raises:
        UserError: They cannot, or the setting has a wrong value.
    """
    asked = configuration.actor_rollout_ref.actor.use_prefix_grouper
    if not isinstance(asked, bool):
        raise UserError(f"{KEY}={asked} must be true, false, or {AUTO} with hardware=cpu")
    if asked and (fault := _fault(configuration)):
        raise UserError(f"{KEY}=true shares prompts, but {fault}: set {KEY}=false")


def _fault(configuration: DictConfig) -> str | None:
    """Why prompts cannot be shared; None if they can."""
    rl = configuration.actor_rollout_ref
    attention = rl.model.override_config.get("attn_implementation")
    if attention not in ATTENTION:
        return f"the attention {attention} has no mask for it (those of {' and '.join(ATTENTION)} have)"
    if rl.actor.strategy not in STRATEGIES:
        return f"actor_rollout_ref.actor.strategy={rl.actor.strategy} has no engine for it"
    if rl.model.use_fused_kernels:
        return "actor_rollout_ref.model.use_fused_kernels=true makes no logits"
    if rl.actor.ulysses_sequence_parallel_size > 1:
        return "actor_rollout_ref.actor.ulysses_sequence_parallel_size divides sequences"
    if rl.model.path is None:
        return None  # the launcher makes a model of the type llama
    try:
        shape = find_shape(rl.model.path, ask_hub=False)
    except UnknownShape:
        return f"the configuration of {rl.model.path} is not here, or its type is not one of {', '.join(FAMILIES)}"
    if shape.family not in FAMILIES:
        return f"{rl.model.path} has the type {shape.family}, not one of {', '.join(FAMILIES)}"
    if shape.windows:
        return f"{rl.model.path} has sliding windows"
    return None
