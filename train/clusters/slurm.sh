#!/usr/bin/env bash
# Two nodes of eight GPUs on SLURM. Type the command in the root of the repository. Every node must see the repository
# under the same path:
#
#   sbatch train/clusters/slurm.sh
#   sbatch --nodes=4 train/clusters/slurm.sh bash train/scripts/openspiel-ppo-trainer.sh hardware=multinode trainer.nnodes=4
#
#SBATCH --job-name=veritas-rl
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --time=24:00:00
#SBATCH --output=train/outputs/slurm-%j.log
# SIGTERM two minutes before the end: the run saves a checkpoint, and the same command resumes it.
#SBATCH --signal=B:TERM@120
set -euo pipefail
cd "$SLURM_SUBMIT_DIR"
nodes=$SLURM_JOB_NUM_NODES
if [ $# -eq 0 ]; then set -- bash train/scripts/openspiel-ppo-trainer.sh hardware=multinode "trainer.nnodes=$nodes"; fi
address=$(hostname --ip-address | awk '{ print $1 }'):6379

# This script runs on the first node.
bash train/scripts/ray-cluster.sh head --node-ip-address="${address%:*}"
trap 'bash train/scripts/ray-cluster.sh stop --address "$address"' EXIT
if [ "$nodes" -gt 1 ]; then
    srun --overlap --nodes=$((nodes - 1)) --ntasks=$((nodes - 1)) --exclude="$(hostname)" \
        bash train/scripts/ray-cluster.sh worker "$address" --block --wait 300 &
fi
bash train/scripts/ray-cluster.sh submit --address "$address" --nodes "$nodes" --wait 600 "$@" &
run=$!
trap 'kill -TERM "$run"' TERM
# A signal ends the first wait while the run is still saving.
wait "$run" || wait "$run"
