#!/usr/bin/env bash
# Set up what is missing, and print the path of the Python that has it all.
#
#   bash train/scripts/setup.sh          # what training needs
#   bash train/scripts/setup.sh dev      # and what the tests need
#
# An active environment that has the pinned verl, as in the container, is used as it is. Otherwise a virtual
# environment is made in .venv (VENV=folder makes it elsewhere, PYTHON=interpreter makes it with another Python).
# Everything but the path goes to standard error. Run again at will: it is quick when nothing is missing.
set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd)
extras=${1:-}
cd "$root"

say() { printf '%s\n' "$*" >&2; }
fail() {
    say "error: $*"
    exit 2
}

required=$(sed -n 's/^verl==//p' train/verl/REQUIRED_VERL.txt)
mkdir -p train/artifacts train/outputs train/models train/parquet

has_verl() { [ "$("$1" -c 'import importlib.metadata as m; print(m.version("verl"))' 2>/dev/null)" = "$required" ]; }

has_gpu() { command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1; }

# What is installed is remembered by the pins and the extras; a change of either installs again.
if has_gpu; then hardware=gpu; else hardware=cpu; fi
wanted=$(printf '%s,%s\n' "$hardware" "$extras" | cat - pyproject.toml train/verl/REQUIRED_VERL.txt train/verl/requirements.txt | sha256sum | cut -d' ' -f1)

python=$(command -v python3 || true)
if [ -z "${VENV:-}" ] && [ -n "$python" ] && has_verl "$python"; then
    stamp=train/artifacts/.installed
    install() { "$python" -m pip install --no-deps --editable . >&2 && { [ -z "$extras" ] || "$python" -m pip install ".[$extras]" >&2; }; }
else
    venv=${VENV:-$root/.venv}
    if [ ! -x "$venv/bin/python" ]; then
        maker=${PYTHON:-}
        for candidate in python3.12 python3.11 python3; do
            [ -n "$maker" ] || ! "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 13))' 2>/dev/null || maker=$candidate
        done
        [ -n "$maker" ] || fail "Python 3.11 or 3.12 is needed and neither was found: install one, or set PYTHON=/path/to/python"
        say "making a virtual environment in $venv"
        "$maker" -m venv "$venv" || fail "$maker could not make a virtual environment in $venv"
    fi
    python=$venv/bin/python
    stamp=$venv/.installed
    install() {
        say "installing verl $required and what it needs ($hardware): some minutes the first time"
        "$python" -m pip install --quiet --upgrade pip >&2 && "$python" -m pip install --editable ".[$hardware${extras:+,$extras}]" >&2
    }
fi

if [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ]; then
    install || fail "the installation failed: its last lines are above; run the same command again to go on"
    "$python" -c 'import pyspiel' 2>/dev/null || fail "OpenSpiel cannot be imported (import pyspiel): pip install open_spiel, or build it from source"
    if [ "$hardware" = gpu ]; then
        "$python" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' || fail "there is a GPU, but this torch cannot use it: the driver and torch's CUDA do not fit"
    fi
    printf '%s\n' "$wanted" >"$stamp"
fi
printf '%s\n' "$python"
