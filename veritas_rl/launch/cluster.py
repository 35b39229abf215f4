"""Start a Ray cluster of several machines, inspect it, start a run on it, and stop it.

    bash train/scripts/ray-cluster.sh head                       # on the first node; prints the command for the others
    bash train/scripts/ray-cluster.sh worker FIRST:6379          # on each other node
    bash train/scripts/ray-cluster.sh status
    bash train/scripts/ray-cluster.sh submit --nodes 2 bash train/scripts/openspiel-ppo-trainer.sh hardware=multinode
    bash train/scripts/ray-cluster.sh stop

A worker is refused if its packages or code differ from the head's, and `submit` checks each node again. Other options
of `head` and `worker`, such as --num-gpus=4, go to `ray start`. The cluster requires a token: `head` writes one to
~/.ray/auth_token, and each node needs the same file. docs/scaling.md covers SLURM, Kubernetes and SkyPilot.
"""

import argparse
import json
import logging
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

import grpc
import psutil
from ray.exceptions import AuthenticationError
from rich.console import Console
from rich.table import Table

from veritas_rl import node_versions
from veritas_rl.errors import UserError, exit_on_user_error, last_line
from veritas_rl.launch.ray_control import SILENT, connected, messages, running_address
from veritas_rl.paths import ROOT, has_token

PORT = 6379
SCRIPT = "bash train/scripts/ray-cluster.sh"
VERSIONS = "versions"
"""The cluster stores the versions of its head under this key."""

ANSWER_SECONDS = 5.0
NODE_SECONDS = 60.0
"""Seconds that Ray may take to start on a node."""

Found = TypeVar("Found")
UNKNOWN_TOKEN = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED)


@dataclass(frozen=True)
class Node:
    """A node of the cluster.

    Attributes:
        identity: Ray's id, in hexadecimal digits.
        address: Its IP address.
        alive: Whether Ray considers it alive.
        total: Its resources.
        free: Its unused resources.
    """

    identity: str
    address: str
    alive: bool
    total: Mapping[str, float]
    free: Mapping[str, float]


def nodes_of(address: str, seconds: float = ANSWER_SECONDS) -> list[Node]:
    """All nodes of the cluster, including nodes that have left.

    Args:
        address: HOST:PORT of the head.
        seconds: The timeout.

    Raises:
        UserError: No Ray answers at the address, or it requires another token.
    """
    dead = messages("autoscaler_pb2").DEAD
    try:
        with connected(address, seconds) as control:
            states = control.status().cluster_resource_state.node_states
    except (grpc.RpcError, AuthenticationError) as error:
        raise _refused(address, error) from None
    return [
        Node(
            state.node_id.hex(),
            state.node_ip_address,
            state.status != dead,
            dict(state.total_resources),
            dict(state.available_resources),
        )
        for state in states
    ]


def _refused(address: str, error: Exception) -> UserError:
    code = error.code() if isinstance(error, grpc.Call) else None
    if code in UNKNOWN_TOKEN or isinstance(error, AuthenticationError):
        return UserError(
            f"the Ray cluster at {address} requires another token: copy ~/.ray/auth_token from its head to this node, "
            "and run chmod 600 ~/.ray/auth_token"
        )
    if code in SILENT:
        return UserError(
            f"no Ray cluster answers at {address}: start its head ({SCRIPT} head), or set RAY_ADDRESS=HOST:PORT to "
            "another one"
        )
    return UserError(
        f"the Ray cluster at {address} returned an error ({code or type(error).__name__}): check it on its head with "
        f"{SCRIPT} status"
    )


def current(typed: str | None = None) -> str:
    """HOST:PORT of the cluster: `typed`, else `RAY_ADDRESS`, else the cluster that this machine has joined.

    Raises:
        UserError: There is no cluster, or the address is malformed.
    """
    address = typed or running_address({})
    if address is None:
        raise UserError(f"this machine has not joined a Ray cluster: run {SCRIPT} head, or set RAY_ADDRESS=HOST:PORT")
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise UserError(f"{address} is not the address of a Ray cluster: use HOST:PORT, such as 10.0.0.1:{PORT}")
    return address


def head(port: int, given: Sequence[str], block: bool) -> int:
    """Start the first node.

    Args:
        port: The port of the control service.
        given: Further arguments for `ray start`.
        block: Whether to wait until the node ends.

    Raises:
        UserError: The port is taken, or Ray did not start.
    """
    with socket.socket() as asked:
        asked.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            asked.bind(("", port))
        except OSError as error:
            raise UserError(f"port {port} cannot be used ({error.strerror}): choose another one with --port") from None
    if os.environ.get("RAY_AUTH_MODE") == "token" and not has_token():
        # Ray's default permissions let all users read the token.
        _ray("get-auth-token", "--generate", umask=0o077)
    # Ray takes the address from which it would reach this one.
    name_interface(given, "8.8.8.8")
    found: list[str] = []

    def up() -> bool:
        address = next(filter(None, (_listening(process, port) for process in psutil.process_iter())), None)
        if address is None:
            return False
        with suppress(grpc.RpcError), connected(address) as control:
            control.put(VERSIONS, node_versions.encoded())
            found.append(address)
        return bool(found)

    process = _start(["--head", f"--port={port}", "--include-dashboard=false", *given], block, up)
    print(
        f"the head is at {found[0]}. On each other node, in its checkout, run: {SCRIPT} worker {found[0]}", flush=True
    )
    return process.wait() if process else 0


def _listening(process: psutil.Process, port: int) -> str | None:
    with suppress(psutil.Error):
        if process.name() == "gcs_server":
            named = dict(word.lstrip("-").split("=", 1) for word in process.cmdline() if "=" in word)
            if named.get("gcs_server_port") == str(port):
                return f"{named['node-ip-address']}:{port}"
    return None


def worker(address: str, given: Sequence[str], block: bool, wait: float) -> int:
    """Join this machine to a cluster.

    Args:
        address: HOST:PORT of the head.
        given: Further arguments for `ray start`.
        block: Whether to wait until the node ends.
        wait: Seconds to wait for the head.

    Raises:
        UserError: The head does not answer or has other versions, or Ray did not start.
    """
    address = current(address)
    before = _until(lambda: {node.identity for node in nodes_of(address)}, wait)
    with connected(address, ANSWER_SECONDS) as control:
        theirs = control.get(VERSIONS)
    if theirs is not None and (different := node_versions.differences(node_versions.installed(), json.loads(theirs))):
        raise UserError(
            f"this node, {socket.gethostname()}, differs from the head {address} ({', '.join(different)}): use the "
            "same checkout, and run bash train/scripts/setup.sh"
        )
    name_interface(given, address.rpartition(":")[0])

    def up() -> bool:
        with suppress(UserError):
            return any(node.alive and node.identity not in before for node in nodes_of(address))
        return False

    process = _start([f"--address={address}", *given], block, up)
    print(f"joined {address}", flush=True)
    return process.wait() if process else 0


def name_interface(given: Sequence[str], other: str) -> None:
    """Let gloo use the interface of the node's address, unless `GLOO_SOCKET_IFNAME` names one.

    By default gloo takes the address of the host's name. That is often 127.0.1.1, where no other node finds it. Ray's
    processes inherit the variable.

    Args:
        given: The arguments for `ray start`, which may name the address.
        other: The host that the node reaches from its address.
    """
    named = [word.partition("=")[2] for word in given if word.startswith("--node-ip-address=")]
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        asked.connect((other, 1))  # this sends nothing
        named.append(asked.getsockname()[0])
    for name, addresses in psutil.net_if_addrs().items():
        if named and any(address.address == named[0] for address in addresses):
            os.environ.setdefault("GLOO_SOCKET_IFNAME", name)


def _until(look: Callable[[], Found], wait: float) -> Found:
    end = time.monotonic() + wait
    while True:
        try:
            return look()
        except UserError:
            if time.monotonic() > end:
                raise
            time.sleep(1)


def _ray(*arguments: str, umask: int = -1) -> None:
    command = [*_RAY, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, umask=umask)
    if done.returncode:
        raise UserError(f"ray {arguments[0]} failed: {last_line(done.stderr or done.stdout, 'it printed nothing')}")


_RAY = (sys.executable, "-m", "ray.scripts.scripts")


def _start(arguments: Sequence[str], block: bool, up: Callable[[], bool]) -> subprocess.Popen[bytes] | None:
    """Run `ray start` until the node is up. Returns the blocking process, or None without `block`."""
    if not block:
        _ray("start", "--disable-usage-stats", *arguments)
        process = None
    else:
        command = [*_RAY, "start", "--disable-usage-stats", "--block", *arguments]
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    end = time.monotonic() + NODE_SECONDS
    while not up():
        if process is not None and process.poll() is not None:
            raise UserError(f"ray start ended with exit code {process.returncode}: its output is above")
        if time.monotonic() > end:
            raise UserError(f"Ray did not start within {NODE_SECONDS:.0f} s: see its logs in /tmp/ray/session_latest")
        time.sleep(0.5)
    return process


def status(address: str, console: Console) -> int:
    """Print the nodes. The exit code is 1 if a node has left."""
    nodes = nodes_of(address)
    table = Table("node", "state", "GPUs free", "GPUs", "CPUs free", "CPUs", title=f"Ray at {address}")
    for node in sorted(nodes, key=lambda node: (not node.alive, node.address)):
        numbers = [f"{part.get(kind, 0):g}" for kind in ("GPU", "CPU") for part in (node.free, node.total)]
        table.add_row(node.address, "alive" if node.alive else "has left", *numbers)
    console.print(table)
    return 0 if all(node.alive for node in nodes) else 1


def check(address: str, nodes: int) -> None:
    """Check that enough nodes are alive, and that each has the same versions as this one.

    Args:
        address: HOST:PORT of the head.
        nodes: The minimum number of nodes.

    Raises:
        UserError: Too few nodes are alive; or a node has other versions, lacks this code, or does not answer.
    """
    alive = [node for node in nodes_of(address) if node.alive]
    if len(alive) < nodes:
        have = ", ".join(node.address for node in alive) or "none"
        raise UserError(
            f"the Ray cluster at {address} has {len(alive)} of {nodes} nodes ({have}): join more with {SCRIPT} worker "
            f"{address}"
        )
    import ray

    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError, ValueError) as error:
        reason = last_line(str(error), type(error).__name__)
        raise UserError(f"this machine cannot connect to the Ray cluster at {address}: {reason}") from None
    try:
        node_versions.check_nodes()
    finally:
        ray.shutdown()


def submit(address: str, command: Sequence[str], nodes: int, wait: float) -> None:
    """Check the cluster, and replace this process with the command.

    Args:
        address: HOST:PORT of the head.
        command: The command and its arguments.
        nodes: The minimum number of nodes.
        wait: Seconds to wait for them.

    Raises:
        UserError: `check` refuses the cluster, or the command does not exist.
    """
    if not command or shutil.which(command[0]) is None:
        raise UserError(
            f"submit needs a command that exists, not {' '.join(command) or 'nothing'}: such as {SCRIPT} submit bash "
            "train/scripts/openspiel-ppo-trainer.sh"
        )

    def enough() -> None:
        alive = sum(node.alive for node in nodes_of(address))
        if alive < nodes:
            raise UserError(
                f"the Ray cluster at {address} has {alive} of {nodes} nodes: join more with {SCRIPT} worker {address}"
            )

    _until(enough, wait)
    check(address, nodes)
    os.environ["RAY_ADDRESS"] = address
    os.execvp(command[0], list(command))


def stop(address: str) -> int:
    """End this machine's processes of the cluster. Other Ray instances continue.

    Returns:
        The number of ended processes.
    """
    host, _, port = address.rpartition(":")
    service = {f"--gcs_server_port={port}", f"--node-ip-address={host}"}
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            words = set(process.cmdline())
            if process.pid != os.getpid() and (f"--gcs-address={address}" in words or service <= words):
                found += [process, *process.children(recursive=True)]
    every = list(dict.fromkeys(found))
    for process in every:
        with suppress(psutil.Error):
            process.terminate()
    for process in psutil.wait_procs(every, timeout=3)[1]:
        with suppress(psutil.Error):
            process.kill()
    return len(every)


def parse(typed: Sequence[str] | None = None) -> tuple[argparse.Namespace, list[str]]:
    """Parse the command line into options and further arguments for `ray start`."""
    parser = argparse.ArgumentParser(
        prog="ray-cluster.sh", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    first = commands.add_parser("head", help="start the first node (the head)")
    first.add_argument("--port", type=int, default=PORT, help=f"port of the head; default: {PORT}")
    other = commands.add_parser("worker", help="join a cluster with this machine")
    other.add_argument("address", help="HOST:PORT of the head")
    for starting in (first, other):
        starting.add_argument("--block", action="store_true", help="do not return until the node ends")
    submitted = commands.add_parser("submit", help="check the nodes, and run a command on the cluster")
    submitted.add_argument("--nodes", type=int, default=1, help="the minimum number of nodes (default: 1)")
    for waiting in (other, submitted):
        waiting.add_argument(
            "--wait", type=float, default=0.0, help="seconds to wait for the head or the nodes (default: 0)"
        )
    asked = [submitted, commands.add_parser("status", help="print the nodes")]
    for asking in [*asked, commands.add_parser("stop", help="end the cluster's processes on this machine")]:
        asking.add_argument("--address", help="HOST:PORT of the head; default: RAY_ADDRESS, or the last joined cluster")
    submitted.add_argument("words", nargs=argparse.REMAINDER, metavar="COMMAND", help="the command to run")
    given, further = parser.parse_known_args(typed)
    if further and given.command not in ("head", "worker"):
        raise UserError(f"{given.command} does not accept {' '.join(further)}: see {SCRIPT} {given.command} --help")
    return given, further


def main() -> int:
    given, further = parse()
    if given.command == "head":
        return head(given.port, further, given.block)
    if given.command == "worker":
        return worker(given.address, further, given.block, given.wait)
    address = current(given.address)
    if given.command == "status":
        return status(address, Console())
    if given.command == "submit":
        words = given.words[1:] if given.words[:1] == ["--"] else given.words
        submit(address, words, given.nodes, given.wait)
    print(f"ended {stop(address)} processes of the cluster {address} on this machine")
    return 0


if __name__ == "__main__":
    exit_on_user_error(main)
