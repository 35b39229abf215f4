"""train/clusters/slurm.sh, started by an `sbatch` that does what SLURM's does with one job, on one machine.

SLURM's commands, the trainer and the cluster's script are programs of the test, which write down how they were called.
The real ones parse the arguments.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from veritas_rl.launch import cluster
from veritas_rl.launch.configuration import compose_configuration, overrides_for
from veritas_rl.launch.hardware import Hardware

SCRIPT = Path(__file__).resolve().parents[2] / "train/clusters/slurm.sh"

SBATCH = r"""
log=$(sed -n 's/^#SBATCH --output=//p' "$script" | sed "s/%j/$SLURM_JOB_ID/")
signal=$(sed -n 's/^#SBATCH --signal=B:\([A-Z]*\)@.*/\1/p' "$script")
cp "$script" "$CALLS/job"  # SLURM runs a copy
for restart in 0 1 2; do
    rm -f "$CALLS/requeued"
    # SLURM does not create the folder of a log.
    SLURM_RESTART_COUNT=$restart bash "$CALLS/job" "$@" >>"$log" 2>&1 &
    job=$!
    if [ -n "${ENDS:-}" ] && [ $restart = 0 ]; then
        until [ -e "$CALLS/training" ]; do sleep 0.02; done
        echo "$ENDS" >"$CALLS/state"
        kill -"$signal" $job
    fi
    wait $job
    code=$?
    [ -e "$CALLS/requeued" ] || exit $code
    echo RUNNING >"$CALLS/state"
done
"""

PROGRAMS = {
    "sbatch": f"script=$1\nshift\n{SBATCH}",
    "srun": 'echo "srun $*" >>"$CALLS/calls"',
    "scontrol": 'echo "scontrol $*" >>"$CALLS/calls"\ntouch "$CALLS/requeued"',
    "squeue": 'cat "$CALLS/state"',
    "hostname": 'echo "$ADDRESSES"',
    "getent": '[ "$2" = gpu-1.cluster.example ] && [ -n "$RESOLVED" ] && echo "$RESOLVED STREAM gpu-1"',
    "apptainer": 'echo "apptainer $*" >>"$CALLS/calls"\nshift 2\nexec "$@"',
}

# The real `submit` waits for the workers, too.
CLUSTER = """
echo "ray-cluster $*" >>"$CALLS/calls"
if [ "$1" = submit ]; then
    for _ in {1..500}; do grep -q ^srun "$CALLS/calls" && break; sleep 0.02; done
    shift 7
    exec "$@"
fi
"""

TRAINER = """
echo "train $*" >>"$CALLS/calls"
if [ -e "$CALLS/checkpoint" ]; then echo "goes on from $(cat "$CALLS/checkpoint")" >>"$CALLS/calls"; exit 0; fi
if [ -z "${ENDS:-}" ]; then exit "${CODE:-0}"; fi
trap 'sleep 0.3; echo step 7 >"$CALLS/checkpoint"; exit 143' TERM
touch "$CALLS/training"
while :; do sleep 0.05; done
"""


class Slurm:
    """A SLURM of one machine with a fresh clone of the repository."""

    def __init__(self, folder: Path) -> None:
        self.folder, tools, self.calls = folder / "clone", folder / "bin", folder / "calls"
        for made in (self.folder / "train/scripts", self.folder / "train/clusters", tools, self.calls):
            made.mkdir(parents=True)
        shutil.copy(SCRIPT, self.folder / "train/clusters")
        for name, text in PROGRAMS.items():
            (tools / name).write_text(f"#!/bin/bash\n{text}\n")
            (tools / name).chmod(0o755)
        (self.folder / "train/scripts/ray-cluster.sh").write_text(CLUSTER)
        (self.folder / "train/scripts/openspiel-ppo-trainer.sh").write_text(TRAINER)
        (self.calls / "state").write_text("RUNNING\n")
        self.variables = {
            **{key: value for key, value in os.environ.items() if not key.startswith("SLURM_")},
            "PATH": f"{tools}:{os.environ['PATH']}",
            "CALLS": str(self.calls),
            "SLURM_JOB_ID": "41",
            "SLURM_SUBMIT_DIR": str(self.folder),
            "SLURMD_NODENAME": "gpu-1.cluster.example",
            "ADDRESSES": "",
            "RESOLVED": "10.1.0.7",
        }

    def runs(self, nodes: int, *command: str, **variables: str) -> tuple[int, list[str]]:
        """Submit the job; return its exit code, and the calls of the programs in their order."""
        done = subprocess.run(
            ["sbatch", "train/clusters/slurm.sh", *command],
            cwd=self.folder,
            env={**self.variables, "SLURM_JOB_NUM_NODES": str(nodes), **variables},
            check=False,
            timeout=30,
        )
        calls = self.calls / "calls"
        return done.returncode, calls.read_text().splitlines() if calls.exists() else []

    @property
    def log(self) -> str:
        """What the job printed."""
        return (self.folder / "slurm-41.log").read_text()


@pytest.fixture
def slurm(tmp_path: Path) -> Slurm:
    return Slurm(tmp_path)


def test_one_node_trains_without_a_cluster(slurm: Slurm) -> None:
    assert slurm.runs(1) == (0, ["train "])
    assert slurm.log == ""


def test_several_nodes_join_a_cluster_that_ends_with_the_run(slurm: Slurm) -> None:
    code, calls = slurm.runs(3)
    assert code == 0
    worker = "train/scripts/ray-cluster.sh worker 10.1.0.7:6379 --block --wait 300"
    options = "--overlap --cpu-bind=none --nodes=2 --ntasks=2 --exclude=gpu-1.cluster.example"
    calls.remove(f"srun {options} bash {worker}")
    trainer = "train/scripts/openspiel-ppo-trainer.sh hardware=multinode trainer.nnodes=3"
    assert calls == [
        "ray-cluster head --node-ip-address=10.1.0.7",
        f"ray-cluster submit --address 10.1.0.7:6379 --nodes 3 --wait 600 bash {trainer}",
        "train hardware=multinode trainer.nnodes=3",
        "ray-cluster stop --address 10.1.0.7:6379",
    ]
    for words in (worker.split(), *(call.split() for call in calls if call.startswith("ray-cluster"))):
        given, further = cluster.parse(words[1:])
        assert further == ["--node-ip-address=10.1.0.7"] * (given.command == "head")
    made = compose_configuration(overrides_for(calls[2].split()[1:], {}, Hardware(64, 8, 80 << 30)))
    assert (made.trainer.nnodes, made.ray_kwargs.ray_init.address) == (3, "auto")


@pytest.mark.parametrize(
    ("resolved", "addresses", "used"),
    [
        ("10.1.0.7", "172.17.0.1 10.1.0.7", "10.1.0.7"),
        ("127.0.1.1", "10.1.0.7 fd00::7", "10.1.0.7"),
        ("fd00::7", "fd00::7 10.1.0.7", "10.1.0.7"),
        ("", "10.1.0.7 172.17.0.1", "10.1.0.7"),
        ("127.0.1.1", "fd00::7", None),
    ],
)
def test_the_head_has_an_address_that_others_reach(
    slurm: Slurm, resolved: str, addresses: str, used: str | None
) -> None:
    code, calls = slurm.runs(2, RESOLVED=resolved, ADDRESSES=addresses)
    if used is None:
        assert (code, calls) == (2, [])
        assert slurm.log == "error: gpu-1.cluster.example has no IPv4 address that other nodes can reach\n"
    else:
        assert (code, calls[0]) == (0, f"ray-cluster head --node-ip-address={used}")


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_run_that_saved_before_the_end_of_its_time_goes_on_in_the_same_job(slurm: Slurm, nodes: int) -> None:
    code, calls = slurm.runs(nodes, ENDS="RUNNING")
    assert code == 0
    assert calls.count("scontrol requeue 41") == 1
    assert [call for call in calls if "goes on" in call] == ["goes on from step 7"]
    first, again = [call for call in calls if call.startswith("train ")]
    assert first == again  # and the same command resumes


def test_a_cancelled_job_saves_and_does_not_come_back(slurm: Slurm) -> None:
    code, calls = slurm.runs(1, ENDS="COMPLETING")
    assert (code, calls) == (143, ["train "])
    assert (slurm.calls / "checkpoint").exists()


def test_a_run_that_fails_ends_the_job_with_its_code(slurm: Slurm) -> None:
    code, calls = slurm.runs(2, CODE="2")
    assert code == 2
    assert "scontrol requeue 41" not in calls
    assert calls[-1].startswith("ray-cluster stop")


def test_every_command_runs_in_the_container(slurm: Slurm) -> None:
    code, calls = slurm.runs(2, CONTAINER="apptainer exec image.sif")
    assert code == 0
    assert sum(call.startswith("apptainer exec image.sif bash train/scripts/") for call in calls) == 3
    (worker,) = [call for call in calls if call.startswith("srun")]
    assert " apptainer exec image.sif bash train/scripts/ray-cluster.sh worker " in worker


def test_the_signal_leaves_time_for_a_step_and_a_checkpoint() -> None:
    """Forecasts of a step reach 189 s (docs/planning.md), and a checkpoint of 45 GiB takes 225 s at 0.2 GiB/s."""
    directives = [line.removeprefix("#SBATCH ") for line in SCRIPT.read_text().splitlines()]
    (seconds,) = [line.rpartition("@")[2] for line in directives if line.startswith("--signal=B:TERM@")]
    assert int(seconds) >= 2 * (189 + 225)
    assert {"--requeue", "--open-mode=append"} <= {*directives}
