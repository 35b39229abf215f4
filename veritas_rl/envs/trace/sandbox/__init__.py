"""Runs untrusted Python programs in a process without network or files, with limits on all resources.

Callers use `client.Sandbox`. It starts a small clean interpreter (`inside`), which confines itself once and forks a
process for each program. `outcomes` defines the result of a run. `layers` lists the active layers on this machine.
"""

from veritas_rl.envs.trace.sandbox.client import Sandbox, SandboxError
from veritas_rl.envs.trace.sandbox.layers import layers
from veritas_rl.envs.trace.sandbox.outcomes import Limits, Outcome, Status

__all__ = ["Limits", "Outcome", "Sandbox", "SandboxError", "Status", "layers"]
