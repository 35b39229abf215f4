#!/usr/bin/env bash
# One or several nodes of eight GPUs on SLURM. Type the command in the root of the repository. Every node must see the
# repository under the same path:
#
#   sbatch --nodes=1 train/clusters/slurm.sh
#   sbatch --nodes=2 train/clusters/slurm.sh
#   sbatch --nodes=4 train/clusters/slurm.sh bash train/scripts/openspiel-ppo-trainer.sh hardware=multinode \
#       trainer.nnodes=4 data.train_batch_size=4096
#
# CONTAINER is what runs a command in a container, such as CONTAINER="apptainer exec ..."; see docs/scaling.md.
#
#SBATCH --job-name=veritas-rl
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --time=24:00:00
#SBATCH --output=slurm-%j.log
#SBATCH --open-mode=append
# After a preemption or the loss of a node SLURM starts the job again, and the same command resumes the run.
#SBATCH --requeue
# SIGTERM 15 minutes before the end, for the step that has begun and a checkpoint. Then the job queues itself again.
#SBATCH --signal=B:TERM@900
set -euo pipefail
cd "$SLURM_SUBMIT_DIR"
nodes=$SLURM_JOB_NUM_NODES
read -ra container <<<"${CONTAINER:-}"
ray_cluster() { "${container[@]}" bash train/scripts/ray-cluster.sh "$@"; }

if [ $# -eq 0 ]; then
    set -- bash train/scripts/openspiel-ppo-trainer.sh
    if [ "$nodes" -gt 1 ]; then set -- "$@" hardware=multinode "trainer.nnodes=$nodes"; fi
fi
if [ "$nodes" -gt 1 ]; then
    # This script runs on the first node. Its name may stand for 127.0.1.1 here, or for an IPv6 address.
    ip=$(
        { getent ahostsv4 "$SLURMD_NODENAME" | cut -d' ' -f1; hostname --all-ip-addresses | tr ' ' '\n'; } |
            awk '/^[0-9]+\.[0-9]+\.[0-9]+\.[0-9]+$/ && !/^127\./ && !found++'
    ) || true
    if [ -z "$ip" ]; then
        echo "error: $SLURMD_NODENAME has no IPv4 address that other nodes can reach" >&2
        exit 2
    fi
    address=$ip:6379
    ray_cluster head --node-ip-address="$ip"
    trap 'ray_cluster stop --address "$address"' EXIT
    srun --overlap --cpu-bind=none --nodes=$((nodes - 1)) --ntasks=$((nodes - 1)) --exclude="$SLURMD_NODENAME" \
        "${container[@]}" bash train/scripts/ray-cluster.sh worker "$address" --block --wait 300 &
    set -- bash train/scripts/ray-cluster.sh submit --address "$address" --nodes "$nodes" --wait 600 "$@"
fi
"${container[@]}" "$@" &
trained=$!
trap 'kill -TERM "$trained"' TERM
# A signal ends the first wait while the run is still saving.
code=0
wait "$trained" || wait "$trained" || code=$?
# 143: the run has saved on request. A job that was cancelled is no longer running.
if [ "$code" = 143 ] && [ "$(squeue --noheader --format=%T --jobs="$SLURM_JOB_ID")" = RUNNING ]; then
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
