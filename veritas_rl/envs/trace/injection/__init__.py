"""Puts debug prints into a program: `print(f"__DBG_0__ {total=} {name=}")` prints `__DBG_0__ total=3 name='kim'`.

`insert` chooses the places and writes the prints. `bindings` finds the names that are bound at each place. `values`
finds the names whose values may print differently from run to run.
"""

from veritas_rl.envs.trace.injection.insert import MOST_PRINTS, inject, without_debug

__all__ = ["MOST_PRINTS", "inject", "without_debug"]
