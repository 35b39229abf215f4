"""Which attention actor and critic compute with on GPUs: the setting `veritas_rl.attention`."""

from functools import cache

from omegaconf import DictConfig

from veritas_rl.errors import UserError, unknown

AUTO, FLASH, TORCH = "auto", "flash_attention_2", "sdpa"


@cache
def flash_attention_fault() -> str | None:
    """Why flash_attn cannot be imported, in one line; None where it can.

    One that was built for another torch is there and fails with an undefined symbol.
    """
    try:
        import flash_attn  # pyright: ignore[reportMissingImports]  # noqa: F401
    except ModuleNotFoundError:
        return "it is not installed"
    except (ImportError, OSError) as error:
        return " ".join(str(error).split())
    return None


def resolved(configuration: DictConfig) -> str:
    """The attention that the setting means on this machine.

    Args:
        configuration: The resolved configuration.

    Raises:
        UserError: There is no such attention.
    """
    asked = configuration.veritas_rl.attention
    if asked not in (AUTO, FLASH, TORCH):
        raise unknown("veritas_rl.attention", asked, (AUTO, FLASH, TORCH))
    return asked if asked != AUTO else TORCH if flash_attention_fault() else FLASH


def overrides(configuration: DictConfig) -> list[str]:
    """The override that puts what `auto` means in its place, for verl, on GPUs.

    Raises:
        UserError: There is no such attention.
    """
    if configuration.trainer.device == "cpu":
        return []
    return [f"veritas_rl.attention={resolved(configuration)}"]


def check(configuration: DictConfig) -> None:
    """flash_attn can be imported where it was asked for.

    Raises:
        UserError: It cannot.
    """
    if resolved(configuration) == FLASH and (fault := flash_attention_fault()):
        raise UserError(
            f"veritas_rl.attention={FLASH} needs flash_attn, which cannot be imported ({fault}): "
            f"veritas_rl.attention={TORCH} needs none, or install the flash_attn that was built for this torch"
        )


def described(configuration: DictConfig) -> str:
    """The attention of a run in one line, for its log.

    Args:
        configuration: The resolved configuration, with the override of `overrides`.
    """
    used, fault = configuration.veritas_rl.attention, flash_attention_fault()
    return f"attention of actor and critic: {used}" + (f" (flash_attn: {fault})" if used == TORCH and fault else "")
