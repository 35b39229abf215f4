#!/usr/bin/env bash
# lgc-v2-RL-GRPO-trainer.sh under another name. The script can also be sourced.
if (return 0 2>/dev/null); then
    # Sourced: run in a child process, so that this shell does not change.
    bash "${BASH_SOURCE[0]}" "$@"
    return
fi
# exec, so that a signal to this shell reaches the run.
exec bash "$(dirname -- "${BASH_SOURCE[0]}")/lgc-v2-RL-GRPO-trainer.sh" "$@"
