#!/usr/bin/env bash
# Train several settings with several seeds, one after another, and compare them in a table.
#
#   bash train/scripts/sweep.sh --name rates --seeds 1,2,3 actor_rollout_ref.actor.optim.lr=1e-3,3e-4 algorithm=grpo
#
# A value with commas is varied. The same command resumes an interrupted sweep. --help has the details.
set -euo pipefail
python=$(bash "$(dirname -- "${BASH_SOURCE[0]}")/setup.sh")
exec "$python" -m veritas_rl.launch.sweep "$@"
