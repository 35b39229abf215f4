"""What verl loads at `import verl`: it registers the CPU platform and says what to add once verl imports a module.

Nothing heavy is imported here, because every Ray process of a run pays for it. Each registration waits for the module
that holds the table (`wrapt.when_imported`), so a process that never trains never imports the training engines.
"""

import ctypes
import os
import signal
from types import ModuleType

from wrapt import when_imported

from veritas_rl.verl_plugin import patches
from veritas_rl.verl_plugin.cpu import patches as cpu_patches
from veritas_rl.verl_plugin.cpu import platform

platform.register()

if os.environ.get("VERITAS_RL_DIE_WITH_PARENT") == "1":
    # torchrun leaves its processes running when it is killed: two runs would then write to one folder. This is
    # PR_SET_PDEATHSIG of prctl(2).
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


@when_imported("verl.workers.engine.fsdp.transformer_impl")
def _register_fsdp_engines_for_cpu(module: ModuleType) -> None:
    from veritas_rl.verl_plugin.cpu import engine  # noqa: F401 (it registers itself)


@when_imported("verl.workers.rollout.base")
def _register_rollout(module: ModuleType) -> None:
    module._ROLLOUT_REGISTRY[("transformers", "async")] = "veritas_rl.verl_plugin.cpu.rollout.TransformersRollout"


@when_imported("verl.workers.rollout.replica")
def _register_replica(module: ModuleType) -> None:
    def load() -> type:
        from veritas_rl.verl_plugin.cpu.rollout import TransformersReplica

        return TransformersReplica

    module.RolloutReplicaRegistry.register("transformers", load)


@when_imported("verl.experimental.agent_loop.agent_loop")
def _register_agent_loop(module: ModuleType) -> None:
    module._agent_loop_registry["game_agent"] = {"_target_": "veritas_rl.verl_plugin.agent_loop.GameAgentLoop"}


@when_imported("verl.trainer.ppo.v1")
def _register_trainer(module: ModuleType) -> None:
    from veritas_rl.verl_plugin import trainer  # noqa: F401 (it registers itself)


when_imported("verl.utils.distributed")(patches.gloo_process_group)
when_imported("verl.utils.distributed")(patches.gloo_process_group_of_torchrun)
when_imported("verl.utils.model")(patches.critic_head)
when_imported("verl.workers.engine.fsdp.transformer_impl")(patches.critic_adapter)
when_imported("verl.workers.engine.fsdp.transformer_impl")(patches.reference_offload)
when_imported("verl.utils.torch_functional")(patches.log_probabilities)
when_imported("verl.utils.tracking")(patches.metrics_file)

# What only a small batch on a CPU notices is left alone elsewhere.
if os.environ.get("VERL_PLATFORM") == "cpu":
    when_imported("transfer_queue.storage.managers.simple_storage_manager")(cpu_patches.small_cells)
    when_imported("transfer_queue.metadata")(cpu_patches.whole_descriptions)
    when_imported("tensordict.base")(cpu_patches.padded_tensors)
    when_imported("verl.utils.tensordict_utils")(cpu_patches.whole_batches)
    when_imported("verl.utils.seqlen_balancing")(cpu_patches.one_part)
    when_imported("verl.trainer.ppo.padding_utils")(cpu_patches.short_padding)
    when_imported("verl.workers.utils.padding")(cpu_patches.padded_responses)
    when_imported("verl.workers.utils.padding")(cpu_patches.nested_responses)
