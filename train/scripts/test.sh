#!/usr/bin/env bash
# Run the tests: the unit tests, and short end-to-end runs through verl.
#
#   bash train/scripts/test.sh                      # everything
#   bash train/scripts/test.sh -m "not training"    # the unit tests alone
set -euo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd)
python=$(bash "$root/train/scripts/setup.sh" dev)
cd "$root"
# A run through verl leaves half of two cores idle: two tests at a time take a little more than half of the time.
exec "$python" -m pytest -n 2 --dist worksteal --durations=15 "$@"
