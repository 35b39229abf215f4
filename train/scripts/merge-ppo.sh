#!/usr/bin/env bash
# Make a Hugging Face model folder of a training checkpoint, and prove that something was merged.
#
#   bash train/scripts/merge-ppo.sh               # the newest whole checkpoint, into train/models
#   CHECKPOINT_BASE=train/artifacts/RL/checkpoints/<experiment> GLOBAL_STEP=50 TARGET_DIR=/some/folder \
#       bash train/scripts/merge-ppo.sh
#
# The target appears whole, with merge.json, or not at all; under LoRA lora_adapter/ is the adapter alone. The variables
# stand in .env.example, and .env is loaded. AGENT_MODEL_REPO_ID names the base where the checkpoint does not.
if (return 0 2>/dev/null); then
    # Sourced: run in a child, and leave this shell, its options and its variables alone.
    bash "${BASH_SOURCE[0]}" "$@"
    return
fi
set -euo pipefail
python=$(bash "$(dirname -- "${BASH_SOURCE[0]}")/setup.sh")
exec "$python" -m veritas_rl.checkpoints.merge "$@"
