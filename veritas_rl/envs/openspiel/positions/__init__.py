"""Chooses the state of a single-move task: a function of (case, seed, split, depth, k), the same in every process.

A small game is enumerated once per process, and tasks use each third of the game in turn. In a larger game a task draws
a few positions of one third of the game from walks by players of several skills. A few playouts estimate whether their
moves have different values, and the task uses a position where they do. A position with one legal action is used only
if a depth leaves no other.

States are split between training and validation by a hash of their symmetry class, for any seed. So no state and no
mirror image of it is in both splits.
"""

from veritas_rl.envs.openspiel.positions.tasks import VALIDATION_SHARE, count, decision_of, is_split, split_of
from veritas_rl.envs.openspiel.positions.walks import moves_left, walk

__all__ = ["VALIDATION_SHARE", "count", "decision_of", "is_split", "moves_left", "split_of", "walk"]
