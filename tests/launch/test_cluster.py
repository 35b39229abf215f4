"""A cluster of two nodes on this machine: joining, status, checks before a run, watching during a run, and stopping."""

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest
from ray._raylet import AuthenticationTokenLoader  # pyright: ignore[reportAttributeAccessIssue]

from veritas_rl.checkpoints.layout import step_of
from veritas_rl.launch.cluster import name_interface
from veritas_rl.launch.configuration import compose_configuration
from veritas_rl.launch.node_watch import NodeWatch
from veritas_rl.verl_plugin.dataset import DynamicEnvDataset

ROOT = Path(__file__).resolve().parents[2]

# A driver with an actor on the cluster's node with the resource "second".
DRIVER = """
import sys
import ray

ray.init(address="auto", log_to_driver=False)

@ray.remote(num_cpus=0, resources={"second": 1})
class Actor:
    def ready(self):
        return True

actor = Actor.remote()
ray.get(actor.ready.remote())
print("ready", flush=True)
sys.stdin.read()
"""


class Cluster:
    """A cluster whose token and files are in its own folder."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder, self.port, self.address = folder, port, ""
        self.joining = ""
        """The command for other nodes, as the head prints it."""
        self.nodes: dict[str, str] = {}
        """The address of each node that has joined, by its resource."""
        self.variables = {**os.environ, "HOME": str(folder), "RAY_AUTH_MODE": "token", "RAY_USAGE_STATS_ENABLED": "0"}

    def type(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run the command of `ray-cluster.sh`."""
        command = [sys.executable, "-m", "veritas_rl.launch.cluster", *words]
        environment = {**self.variables, "RAY_ADDRESS": self.address, **variables}
        return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)

    def refused(self, *words: str, **variables: str) -> str:
        """Run a command, which must fail; return its one-line error."""
        done = self.type(*words, **variables)
        assert done.returncode == 2, done.stdout + done.stderr
        (line,) = done.stderr.strip().splitlines()
        return line

    def join(self, resource: str) -> None:
        """Join another node with an address of its own, a logical GPU and a logical resource."""
        self.nodes[resource] = f"127.0.0.{len(self.nodes) + 2}"
        given = ["--num-cpus=32", "--num-gpus=1", f'--resources={{"{resource}": 1}}']
        given += [f"--node-ip-address={self.nodes[resource]}"]
        command = ["bash", "-c", f"{self.joining} {shlex.join(given)}"]
        done = subprocess.run(command, cwd=ROOT, env=self.variables, capture_output=True, text=True, check=False)
        assert done.stdout.strip() == f"joined {self.address}", done.stderr

    def kill(self, resource: str) -> None:
        """Kill the node with this resource; its Ray processes end too."""
        (raylet,) = (
            process
            for process in self.processes()
            if process.name() == "raylet" and f"{resource},1" in " ".join(process.cmdline())
        )
        raylet.kill()

    def processes(self) -> list[psutil.Process]:
        return [
            process
            for process in psutil.process_iter(["cmdline"])
            if f"--gcs-address={self.address}" in (process.info["cmdline"] or [])
        ]


@contextmanager
def running() -> Iterator[Cluster]:
    """A new cluster of two nodes."""
    # The folder's path is short, because it contains Ray's sockets, whose paths have a limited length.
    folder = Path(tempfile.mkdtemp(prefix="ray", dir="/tmp"))
    with socket.socket() as probe:
        probe.bind(("", 0))
        made = Cluster(folder, probe.getsockname()[1])
    done = made.type("head", f"--port={made.port}", f"--temp-dir={folder}", "--num-cpus=32", "--num-gpus=1")
    assert done.returncode == 0, done.stderr
    found = re.search(r"the head is at (\S+:\d+)\. .* run: (.+)", done.stdout)
    assert found is not None, done.stdout
    made.address, made.joining = found.groups()
    try:
        made.join("second")
        yield made
    finally:
        made.type("stop")
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with running() as made:
        yield made


def other_torch(folder: Path) -> str:
    """A PYTHONPATH with which a different version of torch appears installed."""
    info = folder / "torch-9.9.9.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 9.9.9\n")
    return f"{folder}:{os.environ.get('PYTHONPATH', '')}"


def test_the_token_of_a_cluster_is_private_and_never_printed(cluster: Cluster) -> None:
    token = cluster.folder / ".ray/auth_token"
    assert token.stat().st_mode & 0o077 == 0
    assert token.read_text() not in cluster.type("status").stdout
    said = cluster.refused("status", RAY_AUTH_TOKEN="0" * 64)
    assert said.startswith(
        f"error: the Ray cluster at {cluster.address} requires another token: copy ~/.ray/auth_token"
    )


def test_nodes_that_are_missing_are_counted(cluster: Cluster) -> None:
    said = cluster.refused("submit", "--nodes", "3", "true")
    assert said.startswith(f"error: the Ray cluster at {cluster.address} has 2 of 3 nodes")


def test_a_command_that_does_not_exist_is_not_submitted(cluster: Cluster) -> None:
    assert cluster.refused("submit", "no-such-program").startswith("error: submit needs a command that exists, not no-")


def test_a_command_gets_the_cluster(cluster: Cluster) -> None:
    done = cluster.type("submit", "--address", cluster.address, "--nodes", "2", "--", "printenv", "RAY_ADDRESS")
    assert done.stdout.strip() == cluster.address, done.stderr


def test_a_port_that_is_taken_and_an_address_where_nobody_is_are_named(cluster: Cluster) -> None:
    assert cluster.refused("head", f"--port={cluster.port}").startswith(f"error: port {cluster.port} cannot be used")
    said = cluster.refused("status", RAY_ADDRESS="127.0.0.1:1")
    assert said.startswith("error: no Ray cluster answers at 127.0.0.1:1: start its head")


def test_a_worker_with_another_version_is_refused_by_name(cluster: Cluster, tmp_path: Path) -> None:
    said = cluster.refused("worker", cluster.address, PYTHONPATH=other_torch(tmp_path))
    assert f"differs from the head {cluster.address} (torch 9.9.9 instead of " in said


@pytest.mark.parametrize(("given", "other"), [(["--node-ip-address=127.0.0.1"], "8.8.8.8"), ([], "127.0.0.1")])
def test_gloo_takes_the_interface_of_the_nodes_address(
    monkeypatch: pytest.MonkeyPatch, given: list[str], other: str
) -> None:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "ib0")
    name_interface(given, other)
    assert os.environ["GLOO_SOCKET_IFNAME"] == "ib0"
    monkeypatch.delenv("GLOO_SOCKET_IFNAME")
    name_interface(given, other)
    assert os.environ.pop("GLOO_SOCKET_IFNAME") == "lo"
    name_interface(["--node-ip-address=203.0.113.1"], other)  # no address of this machine
    assert "GLOO_SOCKET_IFNAME" not in os.environ


def data_set(folder: Path) -> list[str]:
    """The command of a tool that shares its work."""
    given = ["--env", "lgc-v2", "--num-samples", "40", "--workers", "2", "--out-dir", str(folder)]
    return [sys.executable, "train/tools/generate_dataset.py", *given]


def test_a_tool_shares_its_work_with_the_nodes_of_a_cluster(cluster: Cluster, tmp_path: Path) -> None:
    made = []
    for address in (cluster.address, "local"):
        folder = tmp_path / address.replace(":", "-")
        environment = {**cluster.variables, "RAY_ADDRESS": address}
        done = subprocess.run(data_set(folder), cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        made.append({file.name: file.read_bytes() for file in folder.iterdir()})
    assert made[0] == made[1] != {}


@pytest.mark.long
def test_a_node_that_joined_without_being_asked_is_found_before_a_run(cluster: Cluster, tmp_path: Path) -> None:
    before = {process.pid for process in cluster.processes()}
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", f"--address={cluster.address}", "--num-cpus=2"]
    environment = {**cluster.variables, "PYTHONPATH": other_torch(tmp_path)}
    subprocess.run(command, env=environment, check=True, capture_output=True)
    try:
        said = cluster.refused("submit", "--nodes", "3", "--wait", "30", "true")
        assert "differs from this node (torch 9.9.9 instead of " in said
        environment = {**cluster.variables, "RAY_ADDRESS": cluster.address}
        command = data_set(tmp_path / "data")
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert "differs from this node (torch 9.9.9 instead of " in done.stderr
    finally:
        for process in cluster.processes():
            if process.pid not in before:
                process.kill()


def gcs_of(process: psutil.Process) -> str:
    """The port of Ray's control service, as ":PORT", if a process is one."""
    with suppress(psutil.Error):
        if process.name() == "gcs_server":
            return "".join(f":{word.partition('=')[2]}" for word in process.cmdline() if "gcs_server_port=" in word)
    return ""


@contextmanager
def watched(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[NodeWatch]:
    """The watch over a run with an actor on the second node."""
    for name in ("HOME", "RAY_AUTH_MODE"):
        monkeypatch.setenv(name, cluster.variables[name])
    # Ray caches the first token that a process reads, which may be that of another cluster.
    AuthenticationTokenLoader.instance().reset_cache()
    try:
        with subprocess.Popen(
            [sys.executable, "-c", DRIVER],
            env={**cluster.variables, "RAY_ADDRESS": cluster.address},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as driver:
            assert driver.stdout is not None
            assert driver.stdout.readline() == "ready\n"
            watch = NodeWatch(driver.pid, {"address": cluster.address}, poll=0.5)
            assert watch.look() is None
            yield watch
            driver.kill()
    finally:
        AuthenticationTokenLoader.instance().reset_cache()  # for later tests in this process


def said_within(watch: NodeWatch, seconds: float) -> str:
    """What the watch says."""
    end, said = time.monotonic() + seconds, None
    while said is None:
        assert time.monotonic() < end
        said = watch()
        time.sleep(0.1)
    return said


@pytest.mark.long
def test_a_node_that_leaves_during_a_run_is_named(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    with watched(cluster, monkeypatch) as watch:
        cluster.kill("second")
        lost = cluster.nodes["second"]
        assert said_within(watch, 60).startswith(f"node {lost} left the Ray cluster {cluster.address} during the run")
    assert "left" in cluster.type("status").stdout


@pytest.mark.long
def test_a_head_that_is_gone_during_a_run_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with running() as cluster, watched(cluster, monkeypatch) as watch:
        (head,) = (process for process in psutil.process_iter() if f":{cluster.port}" in gcs_of(process))
        head.kill()
        said = said_within(watch, 60)
        assert said.startswith(f"the head of the Ray cluster at {cluster.address} has not answered for 3")
        assert "type the same command to resume" in said


@pytest.mark.long
@pytest.mark.training
def test_a_run_on_two_nodes_loses_one_and_goes_on_with_other_ranks(cluster: Cluster, tmp_path: Path) -> None:
    cluster.join("lost")
    folder = tmp_path / "first"
    settings = ["data.custom_cls.config.curriculum=null", "data.custom_cls.config.failure_replay=null"]
    common = [
        *("hardware=cpu", "veritas_rl.warm_up.steps=5", "veritas_rl.evaluation=null", "veritas_rl.critic_warmup=0"),
        *("data.train_batch_size=32", "trainer.save_freq=1", *settings),
    ]
    joining = [f"ray_kwargs.ray_init.{key}" for key in ("address=auto", "num_cpus=null", "num_gpus=null")]
    two = ["trainer.nnodes=2", "trainer.n_gpus_per_node=1", *joining, "trainer.total_training_steps=50"]

    def command(place: Path, *more: str) -> list[str]:
        own = [f"trainer.default_local_dir={place}", f"+trainer.rollout_data_dir={place}/rollouts"]
        return ["bash", "train/scripts/openspiel-ppo-trainer.sh", *common, *own, *more]

    # The run uses two nodes until one is lost.
    environment = {**cluster.variables, "RAY_ADDRESS": cluster.address}
    printed = tmp_path / "printed"
    with printed.open("wb") as log:
        run = subprocess.Popen(command(folder, *two), cwd=ROOT, env=environment, stdout=log, stderr=log)
        while not (folder / "global_step_2/checkpoint.json").exists():
            assert run.poll() is None, printed.read_text()
            time.sleep(0.2)
        cluster.kill("lost")
        killed = time.monotonic()
        code = run.wait(timeout=300)
        seconds = time.monotonic() - killed
    said = printed.read_text().strip().splitlines()[-1]
    assert code == 2
    lost = cluster.nodes["lost"]
    assert said.startswith(f"error: node {lost} left the Ray cluster {cluster.address} during the run")
    assert seconds < 60
    last = max(step_of(path.parent) for path in folder.glob("*/checkpoint.json"))
    start = folder / f"global_step_{last}"
    before = {file.name: file.read_bytes() for file in (start / "actor").glob("*_world_size_2_*")}

    # The run resumes on one node, with the same number of ranks and with fewer.
    for ranks in (2, 1):
        place = tmp_path / f"ranks-{ranks}"
        more = [f"trainer.n_gpus_per_node={ranks}", f"trainer.total_training_steps={last + 1}"]
        done = subprocess.run(
            command(place, *more),
            cwd=ROOT,
            env={**os.environ, "RESUME_FROM": str(start)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert f"resuming from step {last} of {last + 1}" in done.stdout
        assert ("2 ranks wrote the checkpoint: resharding it for 1" in done.stdout) == (ranks == 1)
        shards = sorted(path.name for path in (place / f"global_step_{last + 1}/actor").glob("model_*.pt"))
        assert shards == [f"model_world_size_{ranks}_rank_{rank}.pt" for rank in range(ranks)]
    assert {file.name: file.read_bytes() for file in (start / "actor").glob("*_world_size_2_*")} == before

    # The tasks are those of an uninterrupted run.
    data = compose_configuration(["hardware=cpu", "start=made", "data.train_batch_size=32", *settings]).data
    dataset = DynamicEnvDataset("train", None, data)
    drawn = [[dataset[row]["reward_model"]["ground_truth"] for row in range(32)] for _ in range(last + 1)]
    for step, tasks in enumerate(drawn, start=1):
        # Replies of the last step before the loss may be missing, because they are written after its checkpoint.
        before_loss = [folder] if step < last else []
        for place in before_loss if step <= last else [tmp_path / "ranks-2", tmp_path / "ranks-1"]:
            replies = (place / f"rollouts/{step}.jsonl").read_text().splitlines()
            assert {json.loads(reply)["gts"] for reply in replies} == set(tasks)


def test_stopping_leaves_nothing_of_it(cluster: Cluster) -> None:
    done = cluster.type("stop")
    assert re.fullmatch(rf"ended \d+ processes of the cluster {cluster.address} on this machine\n", done.stdout)
    assert not cluster.processes()
    assert "no Ray cluster answers" in cluster.refused("status")
