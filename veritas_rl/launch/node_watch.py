"""Report a lost node of a run.

A run on several nodes cannot continue if a node leaves. verl then reports a dead actor, a collective that timed out
after minutes, or nothing. Ray knows the node within seconds.
"""

import logging
import math
import time
from collections.abc import Mapping
from typing import Any

import grpc
from ray.exceptions import AuthenticationError

from veritas_rl.launch.ray_control import SILENT, Control, connected, family_of, messages, running_address

POLL_SECONDS = 5.0
HEAD_SECONDS = 30.0
"""Seconds without an answer after which the head counts as lost."""


LOOKS_AFTER_END = 30
"""One poll per second. Ray needs about 15 seconds of missed health checks to count a node as lost."""


class NodeWatch:
    """Finds a node that a run used and that has left its cluster. Not used for runs that start their own Ray.

    Args:
        driver: The process id of verl, or of its parent.
        ray_init: The arguments of its `ray.init`.
        poll: Seconds between two polls.
    """

    def __init__(self, driver: int, ray_init: Mapping[str, Any], poll: float = POLL_SECONDS) -> None:
        self.driver = driver
        self.ray_init = ray_init
        self.poll = poll
        self._next = time.monotonic() + poll
        self._used: dict[bytes, str] = {}
        self._answered: float | None = None

    def __call__(self) -> str | None:
        """Poll if the next poll is due. Returns the lost node in one line, or None."""
        if time.monotonic() < self._next:
            return None
        self._next = time.monotonic() + self.poll
        return self.look()

    def look(self) -> str | None:
        """Poll now. Returns the lost node in one line, or None."""
        address = running_address(self.ray_init)
        if address is None:
            return None
        now = time.monotonic()
        try:
            with connected(address) as control:
                states = control.status().cluster_resource_state.node_states
                alive = {node.node_id: node for node in states if node.status != messages("autoscaler_pb2").DEAD}
                for node_id in _nodes_of_actors(control, self.driver) & alive.keys():
                    self._used[node_id] = alive[node_id].node_ip_address
        except (grpc.RpcError, AuthenticationError) as error:
            reason = error.code() if isinstance(error, grpc.Call) else error
            if reason not in SILENT:
                # The run may be healthy: warn once, and stop polling.
                logging.getLogger(__name__).warning("Ray's nodes cannot be read (%s)", reason)
                self._next = math.inf
                return None
            if self._answered is not None and now - self._answered > HEAD_SECONDS:
                return (
                    f"the head of the Ray cluster at {address} has not answered for {now - self._answered:.0f} s: "
                    "start the cluster again (bash train/scripts/ray-cluster.sh head), and type the same command to "
                    "resume"
                )
            return None
        self._answered = now
        lost = sorted({name for node_id, name in self._used.items() if node_id not in alive})
        if not lost:
            return None
        named = "node " + lost[0] if len(lost) == 1 else "nodes " + ", ".join(lost)
        return (
            f"{named} left the Ray cluster {address} during the run: join it again (bash train/scripts/ray-cluster.sh "
            f"worker {address}) and type the same command to resume, or resume with fewer nodes (docs/scaling.md)"
        )

    def after_end(self) -> str | None:
        """The lost node after the run has failed. Ray may notice the loss later than verl."""
        for _ in range(LOOKS_AFTER_END):
            if running_address(self.ray_init) is None:
                return None
            if lost := self.look():
                return lost
            time.sleep(1)
        return None


def _nodes_of_actors(control: Control, driver: int) -> set[bytes]:
    job = control.job_of(family_of(driver))
    if job is None:
        return set()
    return {actor.node_id for actor in control.actors(job) if actor.node_id}
