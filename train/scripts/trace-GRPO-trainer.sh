#!/usr/bin/env bash
# Train a language model to predict what Python programs print, with verl's GRPO: openspiel-ppo-trainer.sh with
# recipe=trace.
#
#   bash train/scripts/trace-GRPO-trainer.sh
#   ALGORITHM=ppo bash train/scripts/trace-GRPO-trainer.sh         # PPO with a critic instead
#   DRY_RUN=1 bash train/scripts/trace-GRPO-trainer.sh             # print the command and the configuration
#
# train/recipes/trace/README.md describes the expected results. GAME_TYPES is ignored. The script can also be sourced.
if (return 0 2>/dev/null); then
    # Sourced: run in a child process, so that this shell does not change.
    bash "${BASH_SOURCE[0]}" "$@"
    return
fi
# exec, so that a signal to this shell reaches the run.
GAME_TYPES='' exec bash "$(dirname -- "${BASH_SOURCE[0]}")/openspiel-ppo-trainer.sh" recipe=trace "$@"
