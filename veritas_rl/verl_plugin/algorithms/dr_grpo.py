"""Dr. GRPO (Liu et al. 2025, arXiv 2503.20783).

GRPO without the group's standard deviation, so that easy tasks count no more, and with the sum of a reply's tokens,
where the first paper's mean lets short replies count more.
"""

from veritas_rl.verl_plugin.algorithms.grpo import ALGORITHM as ALGORITHM
