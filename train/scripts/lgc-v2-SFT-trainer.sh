#!/usr/bin/env bash
# Fine-tune a language model on worked answers to logic puzzles: openspiel-SFT-trainer.sh with recipe=lgc-v2-sft.
#
#   bash train/scripts/lgc-v2-SFT-trainer.sh
#   bash train/scripts/lgc-v2-SFT-trainer.sh data.train_files=mine/train.parquet data.val_files=mine/val.parquet
#   DRY_RUN=1 bash train/scripts/lgc-v2-SFT-trainer.sh             # print the command and the configuration
#
# It reads train/parquet/{train,val}.parquet, and makes them where they are not there:
# train/recipes/lgc-v2-sft/README.md. It can be sourced too.
if (return 0 2>/dev/null); then
    # Sourced: run in a child, and leave this shell, its options and its variables alone.
    bash "${BASH_SOURCE[0]}" "$@"
    return
fi
# In place of this shell, so that a signal to it reaches the run.
exec bash "$(dirname -- "${BASH_SOURCE[0]}")/openspiel-SFT-trainer.sh" recipe=lgc-v2-sft "$@"
