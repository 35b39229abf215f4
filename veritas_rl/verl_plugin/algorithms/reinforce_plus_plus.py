"""REINFORCE++ (Hu et al. 2025, arXiv 2501.03262), in the form without groups.

One reply to each task. The baseline is the mean of the batch's returns, which are then divided by their standard
deviation, by token, as verl computes them.
"""

from veritas_rl.verl_plugin.algorithms import Algorithm

ALGORITHM = Algorithm(estimator="reinforce_plus_plus", reads=("gamma",))
