#!/usr/bin/env bash
# Set up what is missing, and print the path of the Python that has it all.
#
#   bash train/scripts/setup.sh          # what training needs
#   bash train/scripts/setup.sh dev      # and what the tests need
#
# An active environment that has the pinned verl is used as it is. Otherwise a virtual environment is made in .venv
# (VENV=folder makes it elsewhere, PYTHON=interpreter makes it with another Python); where that interpreter has vLLM or
# SGLang already, as in verl's container images, the environment is laid over it instead of installing torch again.
# Everything but the path goes to standard error. Run again at will: it is quick when nothing is missing.
set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd)
extra=${1:-}
cd "$root"

say() { printf '%s\n' "$*" >&2; }
fail() {
    say "error: $*"
    exit 2
}

required=$(sed -n 's/^verl==//p' train/verl/REQUIRED_VERL.txt)
mkdir -p train/artifacts train/outputs train/models train/parquet

version_of() { "$1" -c "import importlib.metadata as m; print(m.version('$2'))" 2>/dev/null; }

if command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1; then hardware=gpu; else hardware=cpu; fi

# What generates in an environment that is there: vllm, sglang or nothing.
backend_of() {
    for backend in vllm sglang; do
        if [ -n "$(version_of "$1" $backend)" ]; then
            echo $backend
            return
        fi
    done
}

# What was installed is remembered as a hash of the pins, one line for each extra.
stamp_of() { printf '%s %s' "$hardware" "$1" | cat - pyproject.toml train/verl/*.txt | sha256sum | cut -d' ' -f1; }

python=$(command -v python3 || true)
if [ -z "${VENV:-}" ] && [ -n "$python" ] && [ "$(version_of "$python" verl)" = "$required" ]; then
    stamp=train/artifacts/.installed
    install() {
        say "installing this package into the active environment, which has verl $required"
        "$python" -m pip install --quiet --no-deps --editable . >&2 || return
        "$python" -m pip install --quiet --requirement train/verl/requirements.txt >&2 || return
        [ -z "$extra" ] || "$python" -m pip install --quiet --editable ".[$extra]" >&2
    }
else
    venv=${VENV:-$root/.venv}
    if [ ! -x "$venv/bin/python" ]; then
        maker=${PYTHON:-}
        for candidate in python3 python3.12 python3.11; do
            [ -z "$maker" ] || break
            if "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 13))' 2>/dev/null; then
                maker=$candidate
            fi
        done
        [ -n "$maker" ] || fail "Python 3.11 or 3.12 is needed and neither was found: install one, or set PYTHON=/path/to/python"
        layered=()
        # Nothing can be laid over an environment that is a virtual one itself.
        if [ -n "$(backend_of "$maker")" ] && "$maker" -c 'import sys; sys.exit(sys.prefix != sys.base_prefix)'; then
            layered=(--system-site-packages)
            # The images have pip, and not what venv would make another from.
            "$maker" -c 'import ensurepip' 2>/dev/null || layered+=(--without-pip)
        fi
        say "making a virtual environment in $venv"
        "$maker" -m venv "${layered[@]}" "$venv" || fail "$maker could not make a virtual environment in $venv"
    fi
    python=$venv/bin/python
    stamp=$venv/.installed
    if [ "$hardware" = gpu ] && [ "$(backend_of "$python")" = sglang ]; then hardware=sglang; fi
    install() {
        say "installing verl $required and what it needs ($hardware): some minutes the first time"
        "$python" -m pip install --editable ".[$hardware${extra:+,$extra}]" | sed -u '/^Requirement already satisfied/d' >&2
    }
fi

if ! grep -qxF "$(stamp_of "$extra")" "$stamp" 2>/dev/null; then
    install || fail "the installation failed: its last lines are above; run the same command again to go on"
    "$python" -c 'import pyspiel' 2>/dev/null || fail "OpenSpiel cannot be imported (import pyspiel): pip install open_spiel, or build it from source"
    if [ "$hardware" != cpu ]; then
        "$python" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' || fail "there is a GPU, but this torch cannot use it: the driver and torch's CUDA do not fit"
    fi
    # What serves the tests serves training too.
    { stamp_of ""; stamp_of "$extra"; } >"$stamp"
fi
printf '%s\n' "$python"
