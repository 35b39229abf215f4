#!/usr/bin/env bash
# Fine-tune a language model on worked answers to logic puzzles: openspiel-SFT-trainer.sh with recipe=lgc-v2-sft.
#
#   bash train/scripts/lgc-v2-SFT-trainer.sh
#   bash train/scripts/lgc-v2-SFT-trainer.sh data.train_files=mine/train.parquet data.val_files=mine/val.parquet
#   DRY_RUN=1 bash train/scripts/lgc-v2-SFT-trainer.sh             # print the command and the configuration
#
# The script reads train/parquet/{train,val}.parquet, and generates them if they do not exist, see
# train/recipes/lgc-v2-sft/README.md. The script can also be sourced.
if (return 0 2>/dev/null); then
    # Sourced: run in a child process, so that this shell does not change.
    bash "${BASH_SOURCE[0]}" "$@"
    return
fi
# exec, so that a signal to this shell reaches the run.
exec bash "$(dirname -- "${BASH_SOURCE[0]}")/openspiel-SFT-trainer.sh" recipe=lgc-v2-sft "$@"
