#!/usr/bin/env bash
# lgc-v2-RL-GRPO-trainer.sh by another name; it can be sourced too.
if (return 0 2>/dev/null); then
    # Sourced: run in a child, and leave this shell, its options and its variables alone.
    bash "${BASH_SOURCE[0]}" "$@"
    return
fi
# In place of this shell, so that a signal to it reaches the run.
exec bash "$(dirname -- "${BASH_SOURCE[0]}")/lgc-v2-RL-GRPO-trainer.sh" "$@"
