#!/usr/bin/env bash
# Join machines to one Ray cluster, look at it, start a run on it, and end it.
#
#   bash train/scripts/ray-cluster.sh head                       # on the first node; it says what to type on the others
#   bash train/scripts/ray-cluster.sh worker FIRST:6379          # on each other node
#   bash train/scripts/ray-cluster.sh status
#   bash train/scripts/ray-cluster.sh submit --nodes 2 bash train/scripts/openspiel-ppo-trainer.sh hardware=multinode
#   bash train/scripts/ray-cluster.sh stop
#
# docs/scaling.md says more; --help lists every argument.
set -euo pipefail
python=$(bash "$(dirname -- "${BASH_SOURCE[0]}")/setup.sh")
# Anybody who reaches the port of a cluster without a token runs what they like on it.
export RAY_AUTH_MODE=${RAY_AUTH_MODE:-token} RAY_USAGE_STATS_ENABLED=0
exec "$python" -m veritas_rl.launch.cluster "$@"
