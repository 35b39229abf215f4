"""DAPO (Yu et al. 2025, arXiv 2503.14476): GRPO with four changes, of which each is a setting.

- Clip-higher: a probability may rise by more than it may fall.
- Dynamic sampling: a group whose replies all succeed or all fail teaches nothing, and others are drawn in its place.
- The mean over all tokens of a mini-batch, so that each token counts the same.
- Overlong shaping: a reply that comes near the limit of tokens loses up to 1 of its reward.
"""

from veritas_rl.verl_plugin.algorithms.grpo import ALGORITHM as ALGORITHM
