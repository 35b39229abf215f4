#!/usr/bin/env bash
# The whole pipeline: demonstrations, SFT, RL, evaluation, merge, and evaluation of the merged model.
#
#   bash train/scripts/journey.sh
#   JOURNEY_GAMES="hex(board_size=5)" JOURNEY_EXPERT=mcts:200 JOURNEY_FOLDER=my-folder bash train/scripts/journey.sh
#   DRY_RUN=1 bash train/scripts/journey.sh          # print the commands
#
# Each stage prints its command and its time. The same command resumes an interrupted run and skips complete stages.
# AGENT_MODEL_REPO_ID names the model. Without it and without a GPU the launcher makes a small model. All arguments
# are Hydra overrides of the RL stage. docs/tutorial.md explains each stage and lists all variables.
if (return 0 2>/dev/null); then
    # Sourced: run in a child process, so that this shell does not change.
    bash "${BASH_SOURCE[0]}" "$@"
    return
fi
set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd)
fail() {
    printf 'error: %s\n' "$*" >&2
    exit 2
}

python=$(bash "$root/train/scripts/setup.sh")
folder=$(realpath -m -- "${JOURNEY_FOLDER:-$root/train/outputs/journey}")
folder=${folder#"$root"/}
# A variable of the shell, or else of .env, as the launchers read it.
reader='import dotenv, os, sys; dotenv.load_dotenv(sys.argv[1]); print(os.environ.get(sys.argv[2], "").strip())'
named() { "$python" -c "$reader" "$root/.env" "$1"; }
model=$(named AGENT_MODEL_REPO_ID)
if [ -d "$model" ]; then model=$(realpath -- "$model"); fi
# The commands are printed as this shell takes them.
typed=python
if [ "$(command -v python || true)" != "${python%/*}/python" ]; then typed=${python#"$root"/}; fi
if ! [ . -ef "$root" ]; then printf 'cd %q\n' "$root"; fi
cd "$root"
# On a CPU: a small model if none is named, otherwise few and short answers of the named one.
small='' few=''
if ! nvidia-smi -L >/dev/null 2>&1; then
    if [ -z "$model" ]; then small=1; else few=1; fi
fi
games=${JOURNEY_GAMES:-$(named GAME_TYPES)}
games=${games:-tic_tac_toe}
expert=${JOURNEY_EXPERT:-exact}
demonstrations=${JOURNEY_DEMONSTRATIONS:-${few:+1000}}
demonstrations=${demonstrations:-3000}
epochs=${JOURNEY_SFT_EPOCHS:-${few:+1}}
epochs=${epochs:-8}
steps=${JOURNEY_RL_STEPS:-${few:+20}}
steps=${steps:-60}
opponents=${JOURNEY_OPPONENTS:-random,mcts:50}
episodes=${JOURNEY_EPISODES:-${few:+40}}
episodes=${episodes:-400}
shown=${JOURNEY_GAMES_TO_SHOW:-${few:+20}}
shown=${shown:-100}
# The small model has a byte tokenizer, so its prompts and replies must be short.
prompt=${JOURNEY_PROMPT:-${small:+brief}}
prompt=${prompt:-full}
tokens=${JOURNEY_REPLY_TOKENS:-${small:+16}${few:+32}}
tokens=${tokens:-1024}
# In whole games each seat's running mean is a free baseline. A critic would take as long as the model.
algorithm=$(named ALGORITHM)
algorithm=${algorithm:-rae}
# Adapters of a small model need a higher learning rate than full training. On GPUs lora=on sets a higher rate.
rl=(${small:+actor_rollout_ref.actor.optim.lr=0.001} "$@")

dry=${DRY_RUN:-}
if [ "$dry" = 0 ]; then dry=; fi
# Ignore variables of other runs, also those in .env. An empty variable counts as unset.
export DRY_RUN='' GAME_TYPES='' ENABLE_LORA='' LORA_ADAPTER_PATH='' RESUME_FROM='' CHECKPOINT_BASE='' GLOBAL_STEP='' TARGET_DIR=''

settings=$(printf '%s\n' "model=$model" "games=$games" "expert=$expert" "demonstrations=$demonstrations" \
    "epochs=$epochs" "steps=$steps" "opponents=$opponents" "episodes=$episodes" "shown=$shown" \
    "prompt=$prompt" "tokens=$tokens" "algorithm=$algorithm" "rl=${rl[*]}")
if [ -z "$dry" ]; then
    mkdir -p "$folder" || fail "$folder cannot be created: set JOURNEY_FOLDER to another folder"
    if [ ! -e "$folder/settings.txt" ]; then printf '%s\n' "$settings" >"$folder/settings.txt"; fi
    changed=$(diff "$folder/settings.txt" - <<<"$settings" | sed -n 's/^> //p') || true
    [ -z "$changed" ] || fail "$folder was started with different settings (${changed//$'\n'/, }): set JOURNEY_FOLDER to another folder"
fi

# A stage is complete if its last file exists, or if the record of its run is marked as finished.
whole() {
    case $1 in
        */run.json) grep -qs '"finished": true' "$1" ;;
        *) [ -e "$1" ] ;;
    esac
}

# Bash handles signals only between foreground commands. Stages run in the background, and the handler forwards signals.
running=
stop() {
    if [ -n "$running" ]; then
        kill -TERM "$running" 2>/dev/null || true
        wait "$running" || true
    fi
    exit "$1"
}
trap 'stop 143' TERM
trap 'stop 130' INT

# stage NAME RESULT COMMAND...: run the command unless its result is complete.
stage() {
    local name=$1 result=$2 began=$SECONDS words
    shift 2
    printf '\n==== %s ====\n' "$name"
    words=$(printf '%q ' "$@")
    words=${words/#"$python"/$typed}
    words=${words//\\,/,}
    printf '%s\n' "${words% }"
    if [ -n "$dry" ]; then return; fi
    if whole "$result"; then
        printf '%s: already complete: %s\n' "$name" "$result"
        return
    fi
    env -- "$@" &
    running=$!
    wait "$running"
    running=
    whole "$result" || fail "$name did not write $result"
    printf '%s: %d min %d s\n' "$name" $(((SECONDS - began) / 60)) $(((SECONDS - began) % 60))
}

stage demonstrations "$folder/demonstrations/demonstrations.json" \
    "$python" train/tools/generate_demonstrations.py --games "$games" --expert "$expert" \
    --num_demonstrations "$demonstrations" --prompt "$prompt" --output "$folder/demonstrations"

stage SFT "$folder/sft/run.json" \
    ${model:+AGENT_MODEL_REPO_ID="$model"} bash train/scripts/openspiel-SFT-trainer.sh \
    "data.train_files=$folder/demonstrations/train.parquet" "data.val_files=$folder/demonstrations/val.parquet" \
    "trainer.total_epochs=$epochs" "trainer.default_local_dir=$folder/sft"
if [ -z "$dry" ]; then
    logs=$("$python" -c 'import pathlib, sys; from veritas_rl.launch.resume import Record; print(Record.read(pathlib.Path(sys.argv[1])).folder)' "$folder/sft")
    ln -sfn -- "$logs"/trained-model-global_step_* "$folder/sft-model"
fi

# Half of the games are against weaker players, because a model that meets only the strongest forgets how to beat them.
stage RL "$folder/rl/run.json" \
    AGENT_MODEL_REPO_ID="$folder/sft-model" GAME_TYPES="$games" ENABLE_LORA=1 ALGORITHM="$algorithm" \
    bash train/scripts/openspiel-ppo-trainer.sh episode "trainer.total_training_steps=$steps" \
    "data.custom_cls.config.adapter_config.prompt=$prompt" +data.custom_cls.config.curriculum.threshold=0.8 +data.custom_cls.config.curriculum.past_share=0.5 \
    "data.max_response_length=$tokens" \
    veritas_rl.evaluation=null "${rl[@]}" "trainer.default_local_dir=$folder/rl"

# evaluation NAME FOLDER CHECKPOINT OTHER: both play the same games, at the temperature of training.
evaluation() {
    stage "$1" "$2/report.html" "$python" train/tools/evaluate.py --checkpoint "$3" --compare "$4" --games "$games" \
        --opponent "$opponents" --num_episodes "$episodes" --prompt "$prompt" --max_tokens "$tokens" \
        --temperature 1 --games_to_show "$shown" --output "$2"
}

evaluation evaluation "$folder/evaluation" "$folder/rl" "$folder/sft-model"

stage merge "$folder/merged/merge.json" \
    CHECKPOINT_BASE="$folder/rl" TARGET_DIR="$folder/merged" bash train/scripts/merge-ppo.sh

evaluation "evaluation of the merged model" "$folder/merged-evaluation" "$folder/merged" "$folder/merged/lora_adapter"

stage "logits of the merged model" "$folder/agreement.json" \
    "$python" train/tools/compare_merged.py --merged "$folder/merged" --games "$folder/merged-evaluation/shown.jsonl" \
    --output "$folder/agreement.json"

if [ -n "$dry" ]; then exit; fi
printf '\n==== verdicts, after %d min %d s ====\n' $((SECONDS / 60)) $((SECONDS % 60))
"$python" -m veritas_rl.judging.verdicts "$folder/evaluation/report.json" "$folder/merged-evaluation/report.json" "$folder/agreement.json"
printf '\n'
printf '%24s  %s\n' \
    demonstrations "$folder/demonstrations" "model after SFT" "$folder/sft-model" "checkpoints of RL" "$folder/rl" \
    "RL against SFT" "$folder/evaluation/report.html" "recorded games" "$folder/evaluation/shown.html" \
    "merged model" "$folder/merged" "adapter of merged model" "$folder/merged/lora_adapter" \
    "merged against adapter" "$folder/merged-evaluation/report.html" "logits of merged model" "$folder/agreement.json"
