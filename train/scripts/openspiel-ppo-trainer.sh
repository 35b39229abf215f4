#!/usr/bin/env bash
# Train a language model to play OpenSpiel games with verl's PPO.
#
#   bash train/scripts/openspiel-ppo-trainer.sh
#   GAME_TYPES="hex,go,chess" bash train/scripts/openspiel-ppo-trainer.sh trainer.total_training_steps=200
#   DRY_RUN=1 bash train/scripts/openspiel-ppo-trainer.sh          # print the command and the configuration
#
# The script installs missing packages. Without a GPU it trains a small model in minutes with the same verl. All
# arguments are Hydra overrides. .env.example lists the variables, and .env is loaded.
if (return 0 2>/dev/null); then
    # Sourced: run in a child process, so that this shell does not change.
    bash "${BASH_SOURCE[0]}" "$@"
    return
fi
set -euo pipefail
python=$(bash "$(dirname -- "${BASH_SOURCE[0]}")/setup.sh")
"$python" "$(dirname -- "${BASH_SOURCE[0]}")/../tools/doctor.py" --fast -- "$@"
# Waiting threads spin for about a millisecond, and then sleep. On a busy machine spinning longer costs a factor of ten,
# and threads that sleep at once wake slowly.
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-PASSIVE} GOMP_SPINCOUNT=${GOMP_SPINCOUNT:-30000}
exec "$python" -m veritas_rl.launch.main "$@"
