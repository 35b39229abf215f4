"""Puts debug prints into a program: `print(f"__DBG_0__ {total=} {name=}")` prints `__DBG_0__ total=3 name='kim'`.

`insert` chooses the places and writes the prints. `bindings` finds the names that are bound at each place, and `values`
those that print the same in every run.
"""

from veritas_rl.envs.trace.injection.insert import MOST_PRINTS, inject, without_debug

__all__ = ["MOST_PRINTS", "inject", "without_debug"]
