"""Chooses the state of a single-move task: a function of (case, seed, split, depth, k), the same in every process.

A small game is enumerated once per process, and tasks use each third of the game in turn. In a larger game a task draws
a few positions of one third of the game from walks by players of several skills. A few playouts estimate whether their
moves have different values, and the task uses a position where they do. A position with one legal action is used only
if the depth allows no other position.

A hash of a state's symmetry class assigns the state to training or validation, independently of the seed. So a state
and its mirror image are never in different splits. `is_split` describes the exceptions. The tasks of the part `ALL`
use the states of both splits, and in a small game also those with one legal action.
"""

from veritas_rl.envs.openspiel.positions.tasks import ALL, VALIDATION_SHARE, count, decision_of, is_split, split_of
from veritas_rl.envs.openspiel.positions.walks import moves_left, walk

__all__ = ["ALL", "VALIDATION_SHARE", "count", "decision_of", "is_split", "moves_left", "split_of", "walk"]
