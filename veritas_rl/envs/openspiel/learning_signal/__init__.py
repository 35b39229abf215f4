"""Measure what OpenSpiel tasks teach: whether the legal moves of a task have different values, and whether the reward
ranks them correctly.

    python train/tools/learning_signal.py --cases "tic_tac_toe,leduc_poker" --tasks 200

`measure.py` measures one task. `statistics.py` has the test and the estimates. `summary.py` aggregates the tasks of a
case. `report.py` prints, writes and reads the results. The terms:

- forced: the task has one legal move.
- values: the value of each move on the scale of the reward, in [0, 1]. Values are exact if the reward pays exact,
  solved or equilibrium values. Otherwise they are means of playouts with uniformly random moves. The random numbers of
  these playouts depend on the task and the move, and are used neither to choose positions nor to compute rewards. Each
  move has its own random numbers, unlike in the reward. With common random numbers, moves that lead to the same state
  would have the same noise, and the false-positive rate of the test would be higher than stated.
- spread: the standard deviation of the values over the legal moves of a task. `statistics.spread_of` subtracts the
  noise of the playouts.
- differ: the moves of the task really differ. Their spread is at least 0.02 and, if the values are means of playouts, a
  permutation test at 5% rejects the hypothesis that all moves have the same results. At most 5% of the tasks whose
  moves are all the same pass the test (the false-positive rate). The rate of false negatives is not bounded; more
  playouts lower it.
- error: the standard error of the share of tasks that differ, see `statistics.error_of_share`. Tasks count as
  independent draws. In a small game, where tasks repeat positions, this overestimates the error.
- false: the expected number of false positives among the tasks that differ, see `statistics.expected_false`.
- halves: the correlation, within tasks, between the values of the first and the second half of the playouts. 1 means no
  noise, 0 means only noise.
- mistakes: among the unforced tasks with known true values, the share whose best-paid move is not among the best. If
  several moves are paid best, the task counts with the share of them that are not among the best. True values are
  minimax values (of the whole game, or of this position if a search of limited size reaches every end), or expected
  returns against the CFR+ equilibrium.
- regret: the mean loss of the best-paid move against the best one by true values, in units of the game's return.
- fixed: every legal move of the task has the same `success`, so only the position decides it. Forced tasks are
  included.
- thirds: the third of the game that contains the position, by m / (m + l): m decisions come before the position, and l
  is the mean number of decisions after it in 8 games by players of the kind that led to it, see `positions.walks`.
- seconds: the CPU time of one task on one core: start its session, answer with one random legal move, get the score.
  What is computed once per process and case, such as the solution of a game, is not included. Only this number differs
  between runs.
"""
