"""Which state a single-move task asks about: a function of (case, seed, split, depth, k), the same in every process.

A small game is enumerated once per process, and tasks ask each third of the game in turn. In a larger game a task
draws a few positions of one third of the game, from walks by players of several skills. With a few playouts it looks
whether their moves seem to be worth different values, and it asks about one where they do. A position with one legal
action is no task, unless a depth leaves nothing else.

States are split between training and validation by a hash of their symmetry class, whatever the seed: no state, nor its
mirror image, is ever on both sides.
"""

from veritas_rl.envs.openspiel.positions.tasks import VALIDATION_SHARE, count, decision_of, is_split, split_of
from veritas_rl.envs.openspiel.positions.walks import moves_left, walk

__all__ = ["VALIDATION_SHARE", "count", "decision_of", "is_split", "moves_left", "split_of", "walk"]
