#!/usr/bin/env bash
# Gather what a container of the environments is built from: a folder that stands alone.
#
#   bash integrations/pack.sh openenv FOLDER      # then: cd FOLDER && openenv validate && openenv build
#   bash integrations/pack.sh affinetes FOLDER    # then: affinetes.build_image_from_env("FOLDER", "veritas-rl")
#
# The folder must not exist yet. It holds the package, veritas_rl, and the pinned requirements that serving needs.
set -euo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
kind=${1:-} folder=${2:-}
if [ $# -ne 2 ] || [ ! -d "$root/integrations/$kind" ] || [ "$kind" = verifiers ]; then
    echo "error: give openenv or affinetes, and the folder to make" >&2
    exit 2
fi
if [ -e "$folder" ]; then
    echo "error: $folder is there already: give another folder" >&2
    exit 2
fi
mkdir -p "$folder"
cp -r "$root/integrations/$kind/." "$folder"
cp -r "$root/veritas_rl" "$folder/veritas_rl"
# Nothing here trains.
rm -rf "$folder/veritas_rl/verl_plugin" "$folder/veritas_rl/launch"
find "$folder" -name __pycache__ -prune -exec rm -rf {} +
grep -E '^(cachetools|markdown-it-py|open_spiel|numpy|rich|fastapi|uvicorn|httpx|websockets)[=>]' "$root/train/verl/requirements.txt" \
    >"$folder/requirements.txt"
echo "$folder"
