#!/usr/bin/env bash
# Train a language model to play OpenSpiel games with verl's PPO.
#
#   bash train/scripts/openspiel-ppo-trainer.sh
#   GAME_TYPES="hex,go,chess" bash train/scripts/openspiel-ppo-trainer.sh trainer.total_training_steps=200
#   DRY_RUN=1 bash train/scripts/openspiel-ppo-trainer.sh          # print the command and the configuration
#
# It sets up what is missing. Without a GPU it trains a small model in minutes, through the same verl. Every argument
# goes to Hydra; the variables that are read stand in .env.example, and .env is loaded.
if (return 0 2>/dev/null); then
    # Sourced: run in a child, and leave this shell, its options and its variables alone.
    bash "${BASH_SOURCE[0]}" "$@"
    return
fi
set -euo pipefail
python=$(bash "$(dirname -- "${BASH_SOURCE[0]}")/setup.sh")
"$python" "$(dirname -- "${BASH_SOURCE[0]}")/../tools/doctor.py" --fast -- "$@"
# Threads that wait for each other spin for about a millisecond, and then sleep: on a busy machine spinning costs a
# factor of ten, and a thread that sleeps at once is slow to wake.
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-PASSIVE} GOMP_SPINCOUNT=${GOMP_SPINCOUNT:-30000}
exec "$python" -m veritas_rl.launch.main "$@"
