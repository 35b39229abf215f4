"""What OpenSpiel tasks teach: whether the legal moves of a task are worth different values, and whether the reward
orders them as the truth does.

    python train/tools/learning_signal.py --cases "tic_tac_toe,leduc_poker" --tasks 200

`measure.py` measures one task, `statistics.py` has the test and the estimates, `summary.py` sums up the tasks of a
case, `report.py` prints, writes and reads the results. What each number means:

- forced: the task has one legal move.
- values: what the moves of a task are worth on the scale of the reward, in [0, 1]. Where the reward itself pays exact,
  solved or equilibrium values, these, without an error. Elsewhere the means of playouts of uniformly random moves.
  Their dice follow from the task and the move; neither the choice of positions nor the reward has seen them. No two
  moves share dice, as they do in the reward: that would make some differences easier to see, but moves that lead to the
  same state would then have the same noise, and the test would err more often than it says.
- spread: the standard deviation of the values over the legal moves of a task, each move counted once; see
  `statistics.spread_of` for how the noise of the playouts is taken out.
- differ: tasks whose moves really differ. The spread is at least 0.02 and, where the values are means of playouts, a
  permutation test at 5% rejects that all moves have the same results. The test says so of at most 5% of the tasks whose
  moves are all the same: the false-positive rate. How often it misses a real difference is not bounded; more playouts
  miss fewer.
- error: the standard error of the share of tasks that differ, for drawing so many tasks from the case; see
  `statistics.error_of_share`. Tasks count as independent draws. That is cautious in a small game, whose tasks are all
  its positions, each several times.
- false: how many of the tasks that differ are false positives, as far as can be expected; see
  `statistics.expected_false`.
- halves: the correlation, within tasks, of what the first and the second half of the playouts say about the same move.
  1: no noise; 0: nothing but noise.
- mistakes: among the unforced tasks whose true values are known, the share whose best-paid move is not among the best.
  Where several moves are paid best, the share of them. True values are minimax values (of the whole game, or of this
  position if a search of limited size reaches every end), or expected returns against the CFR+ equilibrium.
- regret: what the best-paid move loses against the best one by those values, on average, in units of the game's return.
- fixed: tasks in which every legal move has the same `success`: the position decides it alone. Forced tasks are among
  them.
- thirds: where in the game a task lies: m / (m + l) for m decisions made before and l to come, where l is the mean over
  8 games that go on from there between players as those who led to the position, see `positions.walks`.
- seconds: CPU time of one task on one core: start its session, answer with one random legal move, get the score.
  What is made once per process and case, such as a solution of the game, is not counted. They alone differ from run to
  run.
"""
