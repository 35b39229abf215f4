"""The setting `veritas_rl.attention`: the attention implementation of actor and critic on GPUs."""

from functools import cache

from omegaconf import DictConfig

from veritas_rl.errors import UserError, unknown

AUTO, FLASH, TORCH = "auto", "flash_attention_2", "sdpa"


@cache
def flash_attention_fault() -> str | None:
    """Why flash_attn cannot be imported, in one line; None if it can.

    A build for another torch fails with an undefined symbol.
    """
    try:
        import flash_attn  # pyright: ignore[reportMissingImports]  # noqa: F401
    except ModuleNotFoundError:
        return "it is not installed"
    except (ImportError, OSError) as error:
        return " ".join(str(error).split())
    return None


def resolved(configuration: DictConfig) -> str:
    """The attention implementation on this machine, with `auto` resolved.

    Args:
        configuration: The resolved configuration.

    Raises:
        UserError: The setting is unknown.
    """
    asked = configuration.veritas_rl.attention
    if asked not in (AUTO, FLASH, TORCH):
        raise unknown("veritas_rl.attention", asked, (AUTO, FLASH, TORCH))
    if asked != AUTO:
        return asked
    # flash_attn has no products of fp32, in which made models are trained.
    exact = configuration.actor_rollout_ref.actor.fsdp_config.dtype == "float32"
    return TORCH if exact or flash_attention_fault() else FLASH


def overrides(configuration: DictConfig) -> list[str]:
    """The override that replaces `auto` on GPUs.

    Raises:
        UserError: The setting is unknown.
    """
    if configuration.trainer.device == "cpu":
        return []
    return [f"veritas_rl.attention={resolved(configuration)}"]


def check(configuration: DictConfig) -> None:
    """Check that flash_attn can be imported if the run uses it.

    Raises:
        UserError: flash_attn cannot be imported.
    """
    if resolved(configuration) == FLASH and (fault := flash_attention_fault()):
        raise UserError(
            f"veritas_rl.attention={FLASH} needs flash_attn, which cannot be imported ({fault}): set "
            f"veritas_rl.attention={TORCH}, or install the flash_attn build for this torch"
        )


def described(configuration: DictConfig) -> str:
    """Describe the attention implementation in one line.

    Args:
        configuration: The resolved configuration, with the override of `overrides`.
    """
    used, fault = configuration.veritas_rl.attention, flash_attention_fault()
    return f"attention of actor and critic: {used}" + (f" (flash_attn: {fault})" if used == TORCH and fault else "")
