#!/usr/bin/env bash
# Run the tests: the unit tests, and short end-to-end runs through verl. Other arguments go to pytest.
#
#   bash train/scripts/test.sh                      # what CI runs: all but the tests marked "long"
#   bash train/scripts/test.sh --all                # everything
#   bash train/scripts/test.sh -m "not training"    # without the runs through verl; your own -m takes precedence
set -euo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd)
selection=(-m "not long")
arguments=()
for argument in "$@"; do
    if [[ $argument == --all ]]; then selection=(); else arguments+=("$argument"); fi
done
python=$(bash "$root/train/scripts/setup.sh" dev)
cd "$root"
# A run through verl uses one of two cores, so two tests run at a time.
exec "$python" -m pytest -n 2 --dist worksteal --durations=15 "${selection[@]}" "${arguments[@]}"
