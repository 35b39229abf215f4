"""What a single move is worth to a player: a value in [0, 1], from the best source that the position allows.

The sources form a ladder. `ladder.py` takes the first rung that bears a position, and each score says which one paid:

1. "exact" (`minimax.py`): the minimax value, in a game that is solved as a whole.
2. "solved": the minimax value of a late position, where a search of limited size reaches every end.
3. "equilibrium" (`equilibrium.py`): in a small game with hidden information, the expected return where everybody plays
   the equilibrium that CFR+ finds from then on, in proportion to the range of returns.
4. "engine": the probability of winning by a program that is installed and asked for, see `engines`.
5. "search" (`search.py`): Monte Carlo tree search, where nothing is hidden and random games say who won, and where the
   position is small enough for it.
6. "playouts" (`playouts.py`): the mean over uniformly random playouts, each valued by `Game.graded`: an unbiased
   estimate of the value against random play, with its standard error. With hidden information each playout starts from
   a state drawn from what the mover knows: the value does not peek.

The reward "outcome" pays a move its value, "optimal" pays 1 less what it loses against the best one. A move succeeds if
it is as good as the best one by the first five rungs, and by playouts if it is better than the average legal move by
two standard errors of the difference; so success says something about the move, and not about the position.

Means of playouts sharpen over visits: visit v of a task, counted from 0, is paid by the playouts of the visits 0 to v,
and all samples of a group are of one visit. So pay depends on the position and the visit alone, whatever a process has
kept. What is kept is bounded; nothing else is lost when it is dropped.
"""

from veritas_rl.envs.openspiel.values.ladder import Estimate, MoveValues, move_values, result, state_value

__all__ = ["Estimate", "MoveValues", "move_values", "result", "state_value"]
