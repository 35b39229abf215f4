"""A reward linter: plays an environment through the protocol of `envs/base.py` and looks for misleading rewards.

`checks`, `answers` and `readings` contain the checks, `hostile` the replies that must never pay, `processes` the
replays in processes with other hash seeds, `findings` the results, `run` the complete run, `record` the file with which
a run resumes, and `report` the output. The linter has no code for a specific environment: facts such as whose turn it
is come from the environment's `Audit`.

    python train/tools/lint_env.py --env openspiel --cases "hex(board_size=5),leduc_poker" --tasks 8
"""

from veritas_rl.envs.lint.findings import Finding, Row, Verdict
from veritas_rl.envs.lint.run import lint

__all__ = ["Finding", "Row", "Verdict", "lint"]
