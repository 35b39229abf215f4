#!/usr/bin/env bash
# The whole pipeline: demonstrations, SFT, RL, evaluation, merge, and evaluation of the merged model.
#
#   bash train/scripts/journey.sh
#   GAME_TYPES="hex(board_size=5)" bash train/scripts/journey.sh veritas_rl.recipe.values.expert=mcts:200
#   DRY_RUN=1 bash train/scripts/journey.sh          # print the commands
#
# It is the recipe train/recipes/pipeline. docs/tutorial.md explains each stage and lists the settings.
if (return 0 2>/dev/null); then
    # Sourced: run in a child process, so that this shell does not change.
    bash "${BASH_SOURCE[0]}" "$@"
    return
fi
set -euo pipefail
for name in "${!JOURNEY_@}"; do
    printf 'error: %s has no effect: docs/tutorial.md lists the settings that replace it\n' "$name" >&2
    exit 2
done
exec bash "$(dirname -- "${BASH_SOURCE[0]}")/openspiel-ppo-trainer.sh" recipe=pipeline "$@"
