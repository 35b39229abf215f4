#!/usr/bin/env bash
# Train a language model to predict what Python programs print, with verl's GRPO: openspiel-ppo-trainer.sh with
# recipe=trace.
#
#   bash train/scripts/trace-GRPO-trainer.sh
#   ALGORITHM=ppo bash train/scripts/trace-GRPO-trainer.sh         # PPO with a critic instead
#   DRY_RUN=1 bash train/scripts/trace-GRPO-trainer.sh             # print the command and the configuration
#
# train/recipes/trace/README.md says what to expect. GAME_TYPES names games, so it is not read. It can be sourced too.
GAME_TYPES='' bash "$(dirname -- "${BASH_SOURCE[0]}")/openspiel-ppo-trainer.sh" recipe=trace "$@"
