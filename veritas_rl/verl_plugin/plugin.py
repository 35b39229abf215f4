"""What verl loads at `import verl`: it registers what we add to verl, and the patches.

Nothing heavy is imported here, because every Ray process of a run pays for it. Each registration waits for the module
that holds the table (`wrapt.when_imported`), so a process that never trains never imports the training engines.
"""

import ctypes
import os
import signal
from types import ModuleType

from wrapt import when_imported

from veritas_rl.verl_plugin import patches
from veritas_rl.verl_plugin.cpu import room

if os.environ.get("VERITAS_RL_DIE_WITH_PARENT") == "1":
    # torchrun leaves its processes running when it is killed: two runs would then write to one folder. This is
    # PR_SET_PDEATHSIG of prctl(2).
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


@when_imported("verl.experimental.agent_loop.agent_loop")
def _register_agent_loop(module: ModuleType) -> None:
    module._agent_loop_registry["game_agent"] = {"_target_": "veritas_rl.verl_plugin.agent_loop.TaskAgentLoop"}


@when_imported("verl.trainer.ppo.v1")
def _register_trainer(module: ModuleType) -> None:
    from veritas_rl.verl_plugin import trainer  # noqa: F401 (it registers itself)


for patch in patches.patches_in(patches):
    patch.register()

room.register()
