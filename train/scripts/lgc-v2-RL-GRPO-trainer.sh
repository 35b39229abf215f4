#!/usr/bin/env bash
# Train a language model to solve logic puzzles, with verl's GRPO: openspiel-ppo-trainer.sh with recipe=lgc-v2.
#
#   bash train/scripts/lgc-v2-RL-GRPO-trainer.sh
#   bash train/scripts/lgc-v2-RL-GRPO-trainer.sh data.custom_cls.config.adapter_config.task_types=sudoku
#   DRY_RUN=1 bash train/scripts/lgc-v2-RL-GRPO-trainer.sh         # print the command and the configuration
#
# train/recipes/lgc-v2/README.md describes the expected results. GAME_TYPES is ignored. The script can also be sourced.
if (return 0 2>/dev/null); then
    # Sourced: run in a child process, so that this shell does not change.
    bash "${BASH_SOURCE[0]}" "$@"
    return
fi
# exec, so that a signal to this shell reaches the run.
GAME_TYPES='' exec bash "$(dirname -- "${BASH_SOURCE[0]}")/openspiel-ppo-trainer.sh" recipe=lgc-v2 "$@"
