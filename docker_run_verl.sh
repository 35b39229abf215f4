#!/usr/bin/env bash
# Start the training container: the pinned verl image, all GPUs, and this repository at /workspace/veritas-rl.
#
#   ./docker_run_verl.sh                     # a shell in the container
#   ./docker_run_verl.sh bash train/scripts/openspiel-ppo-trainer.sh
#   ./docker_run_verl.sh --volume /data:/data -- bash      # options of docker run before --
#   ./docker_run_verl.sh --build             # build an image with all packages, from the Dockerfile, and start nothing
#   DRY_RUN=1 ./docker_run_verl.sh           # print the command and start nothing
#
# If --build has built an image for the current pins, the container uses that image, and runs as your user. Otherwise
# the container uses the pinned image, and installs its packages into a folder of the repository.
#
# IMAGE names another image to run or to build from, such as an image with SGLang. .env is in the repository, so the
# container sees it. Variables of .env.example that are set in this shell are passed by name, so that the command
# contains no secret; so are keys of APIs (*_API_KEY), proxies, CUDA_VISIBLE_DEVICES, NCCL_* and GLOO_*. Models and checkpoints that these variables name are visible in the container: those in the
# repository and in the cache at their place there, others read-only under their own path. TARGET_DIR must be in the
# repository.
set -euo pipefail

root=$(cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source=train/scripts/dotenv.sh
. "$root/train/scripts/dotenv.sh"
from_dotenv "$root/.env" IMAGE
# The image with vLLM 0.24, torch 2.11 and CUDA 13, which verl 0.9.1 pins.
image=${IMAGE:-verlai/verl:vllm024.dev2}
pins=$(cd "$root" && printf '%s\n' "$image" | cat - Dockerfile pyproject.toml train/verl/*.txt | sha256sum | cut -c1-12)
built=veritas-rl:$pins
cache=$(realpath -m -- "${HF_HOME:-$HOME/.cache/huggingface}")
inside=/workspace/veritas-rl

run() {
    if [ "${DRY_RUN:-0}" != 0 ] && [ -n "${DRY_RUN:-}" ]; then
        printf '%q ' "$@"
        printf '\n'
        exit 0
    fi
    if ! command -v docker >/dev/null; then
        echo "error: docker is not installed: install it with the NVIDIA container toolkit, or train without a container" >&2
        exit 2
    fi
    mkdir -p "$cache"
    exec "$@"
}

if [ "${1:-}" = --build ]; then
    if [ $# -gt 1 ]; then
        echo "error: --build takes no other argument, but got $2: IMAGE names the image to build from" >&2
        exit 2
    fi
    run docker build --build-arg "IMAGE=$image" --tag "$built" "$root"
fi

options=()
if [[ ${1:-} == -* ]]; then
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        options+=("$1")
        shift
    done
    if [ $# = 0 ]; then
        echo "error: ${options[*]} are options of docker run: type -- after them, and then the command" >&2
        exit 2
    fi
    shift
fi

if docker image inspect "$built" >/dev/null 2>&1; then
    image=$built
    cached=/home/trainer/.cache/huggingface
    # What is written in the repository belongs to the user that started the container.
    made=(--user "$(id -u):$(id -g)")
else
    cached=/root/.cache/huggingface
    # setup.sh layers an environment with verl over the image, in a separate folder: the host's .venv is for another
    # Python.
    made=(--env PYTHON= --env "VENV=$inside/.venv-container-${image//[^A-Za-z0-9.]/-}")
fi
command=(
    # --init passes signals on. SIGTERM lets a run end its step and save, for which it has 15 minutes.
    docker run --rm --init --stop-timeout 900
    --gpus all
    --network host
    # NCCL and the rollout exchange tensors through shared memory; Docker's default is 64 MiB.
    --ipc host
    --ulimit memlock=-1
    --ulimit stack=67108864
    --volume "$root:$inside"
    --volume "$cache:$cached"
    --workdir "$inside"
    "${made[@]}"
)
if [ -t 0 ] && [ -t 1 ]; then command+=(--interactive --tty); fi
# InfiniBand, which NCCL uses between nodes.
if [ -d /dev/infiniband ]; then command+=(--device /dev/infiniband); fi
while IFS= read -r name; do command+=(--env "$name"); done < <(
    compgen -e | grep -xE '(NCCL|GLOO)_.*|(http|https|ftp|all|no)_proxy|(HTTP|HTTPS|FTP|ALL|NO)_PROXY|.*_API_KEY|CUDA_VISIBLE_DEVICES' |
        grep -vxF WANDB_API_KEY
)
while IFS= read -r name; do
    value=${!name:-}
    if [[ $name =~ ^(AGENT_MODEL_REPO_ID|LORA_ADAPTER_PATH|RESUME_FROM|CHECKPOINT_BASE)$ && -d $value ]]; then
        folder=$(cd -- "$value" && pwd -P)
        case $folder/ in
        "$root"/*) command+=(--env "$name=$inside${folder#"$root"}") ;;
        # A model in the cache consists of links to other folders of the cache.
        "$cache"/*) command+=(--env "$name=$cached${folder#"$cache"}") ;;
        *) command+=(--env "$name=$folder" --volume "$folder:$folder:ro") ;;
        esac
    elif [ -n "$value" ]; then
        command+=(--env "$name")
    fi
done < <(sed -n 's/^#\{0,1\} \{0,1\}\([A-Z_]*\)=.*/\1/p' "$root/.env.example" | grep -vxE 'IMAGE|PYTHON|VENV|DRY_RUN')
command+=("${options[@]}" "$image")
if [ $# -gt 0 ]; then command+=("$@"); else command+=(bash); fi
run "${command[@]}"
