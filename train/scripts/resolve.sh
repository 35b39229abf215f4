#!/usr/bin/env bash
# Check for each set of packages that it can be installed together with bitsandbytes (for a 4-bit base) on Linux with
# glibc 2.34 or newer. Nothing is installed, and no GPU is needed.
#
#   bash train/scripts/resolve.sh            # cpu, gpu and sglang; some seconds each the first time
#   bash train/scripts/resolve.sh sglang
set -euo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd)
python=$(bash "$root/train/scripts/setup.sh" dev)
cd "$root"
if ! "$python" -m uv pip compile --quiet - <<<packaging >/dev/null 2>&1; then
    echo "skipped: no package index answers"
    exit 0
fi
if [ $# -eq 0 ]; then set -- cpu gpu sglang; fi
for extra; do
    overrides=()
    if [ "$extra" = sglang ]; then overrides=(--override train/verl/overrides.txt); fi
    found=$("$python" -m uv pip compile --quiet pyproject.toml --extra "$extra" --extra nf4 "${overrides[@]}" --no-annotate --no-header \
        --python-version 3.12 --python-platform x86_64-manylinux_2_34)
    named=$(grep -E '^(torch|transformers|verl|vllm|sglang|bitsandbytes)==' <<<"$found" | tr '\n' ' ')
    echo "$extra: $(grep -c == <<<"$found") packages, $named"
done
