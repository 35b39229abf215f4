#!/usr/bin/env bash
# Serve a taskset of verifiers to veritas-rl, in an environment of its own: the packages of verifiers and of veritas-rl do not
# fit together. The environment is made on first use, in .venv-verifiers (VERIFIERS_VENV=folder sets another folder).
#
#   bash integrations/verifiers_tasksets/serve.sh TASKSET [PACKAGE ...] [-- OPTIONS of serve.py]
#
# PACKAGE is what has the taskset, as pip installs it: a name, a folder or an address. Ctrl-C stops the server.
set -euo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd)
if [ $# -eq 0 ]; then
    echo "error: give the id of a taskset, and the packages that have it" >&2
    exit 2
fi
taskset=$1
shift
packages=("$(grep '^verifiers==' "$root/integrations/clients.txt")")
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    packages+=("$1")
    shift
done
if [ $# -gt 0 ]; then shift; fi
folder=${VERIFIERS_VENV:-$root/.venv-verifiers}
if [ ! -x "$folder/bin/python" ]; then "${PYTHON:-python3}" -m venv "$folder" >&2; fi
"$folder/bin/python" -m pip install --quiet --disable-pip-version-check "${packages[@]}" >&2
exec "$folder/bin/python" "$root/integrations/verifiers_tasksets/serve.py" "$taskset" "$@"
