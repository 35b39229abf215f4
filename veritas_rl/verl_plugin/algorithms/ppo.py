"""Proximal policy optimization (Schulman et al. 2017, arXiv 1707.06347) with a critic.

The advantages are those of generalized advantage estimation (Schulman et al. 2016, arXiv 1506.02438), by token, as verl
computes them from the critic's values.
"""

from veritas_rl.verl_plugin.algorithms import Algorithm

ALGORITHM = Algorithm(estimator="gae", critic=True, reads=("gamma", "lam"))
