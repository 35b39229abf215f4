"""A reward linter: plays an environment through the protocol of `envs/base.py` and looks for misleading rewards.

`checks` holds the checks, `hostile` the replies that must never pay, `processes` what is played twice in processes with
different hash seeds, `findings` what comes out, `run` puts these together, and `report` shows it. Nothing here knows
any environment: what only the environment knows, such as whose turn it truly is, it reports through its `Audit`.

    python train/tools/lint_env.py --env openspiel --cases "hex(board_size=5),leduc_poker" --tasks 8
"""

from veritas_rl.envs.lint.findings import Finding, Row, Verdict
from veritas_rl.envs.lint.run import lint

__all__ = ["Finding", "Row", "Verdict", "lint"]
