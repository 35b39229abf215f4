"""What `reward.custom_reward_function.path` names: verl loads this file by path. The functions live in the package."""

from veritas_rl.verl_plugin.reward import compute_lgc_v2_score, compute_score

__all__ = ["compute_lgc_v2_score", "compute_score"]
