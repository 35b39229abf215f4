#!/usr/bin/env bash
# Start a Ray cluster of several machines, inspect it, start a run on it, and stop it.
#
#   bash train/scripts/ray-cluster.sh head                       # on the first node; prints the command for the others
#   bash train/scripts/ray-cluster.sh worker FIRST:6379          # on each other node
#   bash train/scripts/ray-cluster.sh status
#   bash train/scripts/ray-cluster.sh submit --nodes 2 bash train/scripts/openspiel-ppo-trainer.sh hardware=multinode
#   bash train/scripts/ray-cluster.sh stop
#
# docs/scaling.md has the details, --help lists every argument.
set -euo pipefail
python=$(bash "$(dirname -- "${BASH_SOURCE[0]}")/setup.sh")
# Without a token, anybody who reaches the cluster's port can run code on it.
export RAY_AUTH_MODE=${RAY_AUTH_MODE:-token} RAY_USAGE_STATS_ENABLED=0
exec "$python" -m veritas_rl.launch.cluster "$@"
