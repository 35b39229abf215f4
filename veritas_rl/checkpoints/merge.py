"""Merge a checkpoint into a Hugging Face folder, and check the result.

    CHECKPOINT_BASE=<experiment folder> GLOBAL_STEP=<N> TARGET_DIR=<folder> python -m veritas_rl.checkpoints.merge

`bash train/scripts/merge-ppo.sh` calls it. Without CHECKPOINT_BASE and GLOBAL_STEP it merges the newest complete
checkpoint. `assemble.py` merges and `compare.py` compares. Mistakes in the settings are found before torch is imported.
"""

import os
import sys
from pathlib import Path

from dotenv import load_dotenv

from veritas_rl.checkpoints.folder import check_empty
from veritas_rl.checkpoints.layout import check_shards, find_checkpoint, step_of
from veritas_rl.errors import UserError, exit_on_user_error
from veritas_rl.paths import ROOT

VARIABLES = ("CHECKPOINT_BASE", "GLOBAL_STEP", "TARGET_DIR", "AGENT_MODEL_REPO_ID")


def main() -> None:
    load_dotenv(ROOT / ".env")
    if sys.argv[1:]:
        raise UserError(f"{sys.argv[1]} is not supported: set {', '.join(VARIABLES)} instead")
    experiment, step, named, base = (os.environ.get(name, "").strip() for name in VARIABLES)
    checkpoint = find_checkpoint(experiment, step)
    default = ROOT / "train/models" / f"{checkpoint.parent.name}-step-{step_of(checkpoint)}"
    target = Path(named).expanduser().resolve() if named else default
    check_empty(target)
    check_shards(checkpoint)
    from veritas_rl.checkpoints import assemble, compare, models

    models.quiet()
    compare.print_proof(assemble.merge_checkpoint(checkpoint, target, base or None), target)


if __name__ == "__main__":
    exit_on_user_error(main)
