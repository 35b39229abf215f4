"""The plugin that verl loads at `import verl`. It registers this package's extensions and patches.

Imports stay light here, because every Ray process of a run loads this module. Each registration waits for the import of
the module that contains the registry (`wrapt.when_imported`), so a process that never trains never imports the
training engines.
"""

import ctypes
import os
import signal
from types import ModuleType

from wrapt import when_imported

from veritas_rl.verl_plugin import patches
from veritas_rl.verl_plugin.cpu import room
from veritas_rl.verl_plugin.patching import patches_in

if os.environ.get("VERITAS_RL_DIE_WITH_PARENT") == "1":
    # A killed torchrun leaves its processes running, and two runs would write to one folder. Sets PR_SET_PDEATHSIG of
    # prctl(2).
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


@when_imported("verl.experimental.agent_loop.agent_loop")
def _register_agent_loop(module: ModuleType) -> None:
    module._agent_loop_registry["game_agent"] = {"_target_": "veritas_rl.verl_plugin.agent_loop.TaskAgentLoop"}


@when_imported("verl.workers.engine.fsdp.transformer_impl")
def _register_engines(module: ModuleType) -> None:
    from veritas_rl.verl_plugin import shared_prompts  # noqa: F401 (it registers itself, and `engines`)


@when_imported("verl.trainer.ppo.v1")
def _register_trainer(module: ModuleType) -> None:
    from veritas_rl.verl_plugin import trainer  # noqa: F401 (it registers itself)


@when_imported("verl.workers.rollout.replica")
def _register_replica(module: ModuleType) -> None:
    def load() -> type:
        from veritas_rl.verl_plugin.vllm.server import VllmReplica

        return VllmReplica

    module.RolloutReplicaRegistry.register("vllm", load)


for patch in patches_in(patches):
    patch.register()

room.register()
