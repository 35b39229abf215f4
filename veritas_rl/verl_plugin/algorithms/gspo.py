"""Group sequence policy optimization (Zheng et al. 2025, arXiv 2507.18071).

GRPO whose ratio of probabilities is one number for a reply, the geometric mean of those of its tokens.
"""

from veritas_rl.verl_plugin.algorithms.grpo import ALGORITHM as ALGORITHM
