#!/usr/bin/env bash
# Run the tests: the unit tests, and short end-to-end runs through verl.
#
#   bash train/scripts/test.sh                      # everything
#   bash train/scripts/test.sh -m "not training"    # the unit tests alone
set -euo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd)
python=$(bash "$root/train/scripts/setup.sh" dev)
cd "$root"
exec "$python" -m pytest --durations=15 "$@"
