"""CISPO (MiniMax 2025, arXiv 2506.13585).

GRPO in which a ratio above 5 is cut to 5, where GRPO leaves its token out of the update.
"""

from veritas_rl.verl_plugin.algorithms.grpo import ALGORITHM as ALGORITHM
