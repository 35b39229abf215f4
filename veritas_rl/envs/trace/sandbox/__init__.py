"""Runs untrusted Python programs in a process without network or files, with limits on all resources.

`client.Sandbox` is what callers use. It starts a small clean interpreter (`inside`), which walls itself in once and
forks a process for each program. `outcomes` says how a run ended, `layers` which walls hold on this machine.
"""

from veritas_rl.envs.trace.sandbox.client import Sandbox, SandboxError
from veritas_rl.envs.trace.sandbox.layers import layers
from veritas_rl.envs.trace.sandbox.outcomes import Limits, Outcome, Status

__all__ = ["Limits", "Outcome", "Sandbox", "SandboxError", "Status", "layers"]
