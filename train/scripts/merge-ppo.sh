#!/usr/bin/env bash
# Merge a training checkpoint into a Hugging Face model folder, and check the result.
#
#   bash train/scripts/merge-ppo.sh               # the newest complete checkpoint, into train/models
#   CHECKPOINT_BASE=train/artifacts/RL/checkpoints/<experiment> GLOBAL_STEP=50 TARGET_DIR=/some/folder \
#       bash train/scripts/merge-ppo.sh
#
# The target folder is written atomically. It also contains merge.json and, for LoRA, the adapter in lora_adapter/.
# .env.example lists the variables, and .env is loaded. AGENT_MODEL_REPO_ID names the base if the checkpoint does not.
if (return 0 2>/dev/null); then
    # Sourced: run in a child process, so that this shell does not change.
    bash "${BASH_SOURCE[0]}" "$@"
    return
fi
set -euo pipefail
python=$(bash "$(dirname -- "${BASH_SOURCE[0]}")/setup.sh")
exec "$python" -m veritas_rl.checkpoints.merge "$@"
