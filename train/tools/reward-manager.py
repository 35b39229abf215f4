"""The file of `reward.custom_reward_function.path`. verl loads it by path. The package contains the functions."""

from veritas_rl.verl_plugin.reward import compute_lgc_v2_score, compute_score

__all__ = ["compute_lgc_v2_score", "compute_score"]
