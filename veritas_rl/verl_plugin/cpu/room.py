"""Register everything that verl needs to run without a GPU.

The rollout `transformers` is registered on every platform, because it also works on a CUDA device without vLLM.
Platform, FSDP engines, corrections and speed patches apply only with VERL_PLATFORM=cpu. `switch` can turn speed patches
off.
"""

import os
from types import ModuleType
from typing import TYPE_CHECKING

from omegaconf import DictConfig
from wrapt import when_imported

from veritas_rl.verl_plugin.patching import patches_in

if TYPE_CHECKING:
    from veritas_rl.verl_plugin.cpu.separate_critic import SeparateCritic


def register() -> None:
    """Register everything with verl. Heavy parts wait for the import of their module of verl.

    Raises:
        UserError: VERITAS_RL_CPU_PATCHES is malformed.
    """
    when_imported("verl.workers.rollout.base")(_register_rollout)
    when_imported("verl.workers.rollout.replica")(_register_replica)
    if os.environ.get("VERL_PLATFORM") != "cpu":
        return
    from veritas_rl.verl_plugin.cpu import corrections, patches, platform, switch

    platform.register()
    when_imported("verl.workers.engine.fsdp.transformer_impl")(_register_engines)
    off = switch.left_off()
    for patch in (*patches_in(corrections), *patches_in(patches)):
        if patch.name not in off:
            patch.register()


def start_servers(config: DictConfig) -> None:
    """Start the servers of the rollout `transformers`, if the run uses it, in parallel with the trainer's other work.

    Args:
        config: verl's full configuration.
    """
    if config.actor_rollout_ref.rollout.name == "transformers":
        from veritas_rl.verl_plugin.cpu.rollout import TransformersReplica

        TransformersReplica.start_servers(config)


def separate_critic(config: DictConfig) -> "SeparateCritic | None":
    """The critic in processes of its own, if that makes the run faster; None if it stays with the actor.

    Args:
        config: verl's full configuration.
    """
    if os.environ.get("VERL_PLATFORM") != "cpu":
        return None
    from veritas_rl.verl_plugin.cpu.separate_critic import SeparateCritic, has_cores

    return SeparateCritic() if has_cores(config) else None


def _register_engines(module: ModuleType) -> None:
    from veritas_rl.verl_plugin.cpu import engine  # noqa: F401 (it registers itself)


def _register_rollout(module: ModuleType) -> None:
    module._ROLLOUT_REGISTRY[("transformers", "async")] = "veritas_rl.verl_plugin.cpu.rollout.TransformersRollout"


def _register_replica(module: ModuleType) -> None:
    def load() -> type:
        from veritas_rl.verl_plugin.cpu.rollout import TransformersReplica

        return TransformersReplica

    module.RolloutReplicaRegistry.register("transformers", load)
