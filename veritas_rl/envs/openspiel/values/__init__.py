"""The value of a single move for a player, in [0, 1], from the best source that the position allows.

The sources form a ladder. `ladder.py` uses the first rung that can value a position, and each score names its source:

1. "exact" (`minimax.py`): the minimax value, in a game that is solved as a whole.
2. "solved": the minimax value of a late position, where a search of limited size reaches every end.
3. "equilibrium" (`equilibrium.py`): in a small game with hidden information, the expected return if all players then
   follow the equilibrium found by CFR+, in proportion to the range of returns.
4. "engine": the probability of winning, as estimated by a program that is installed and configured, see `engines`.
5. "search" (`search.py`): Monte Carlo tree search, in games without hidden information, chance and margins, if the
   position is small enough.
6. "playouts" (`playouts.py`): the mean over uniformly random playouts, each valued by `Game.graded`: an unbiased
   estimate of the value against random play, with its standard error. With hidden information each playout starts from
   a state drawn from the mover's information, so the value depends on no hidden information.

The reward "outcome" pays the value of a move, and "optimal" pays 1 minus its loss against the best move, on the scale
of `Game.loss_unit` for equilibria and playouts. On the first five rungs a move succeeds if it is as good as the best
move. With playouts a move succeeds if it is better than the average legal move by two standard errors of the
difference. So success depends on the move, not only on the position.

Means of playouts improve over visits: visit v of a task, counted from 0, is paid by the playouts of the visits 0 to v,
and all samples of a group belong to one visit. So the pay depends only on the position and the visit, not on the caches
of a process. The caches are bounded and may be dropped without other effects.
"""

from veritas_rl.envs.openspiel.values.ladder import Estimate, MoveValues, move_values, result, state_value

__all__ = ["Estimate", "MoveValues", "move_values", "result", "state_value"]
