"""A generator of Python programs."""

from veritas_rl.envs.trace.programs.canonical import canonical
from veritas_rl.envs.trace.programs.generate import generate
from veritas_rl.envs.trace.programs.program import Program

__all__ = ["Program", "canonical", "generate"]
