"""Report missing Ray resources for which a run would wait forever.

Ray counts logical resources. An actor or a placement group that requests more than are free waits and prints nothing.
The launcher therefore polls Ray's control service (the GCS) for pending requests. A worker that starts slowly is not
pending, because it already has its resources.
"""

import logging
import math
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import grpc
from ray.exceptions import AuthenticationError

from veritas_rl.launch.ray_control import SILENT, Control, connected, family_of, messages, own_cluster, running_address

POLL_SECONDS = 2.0
PATIENCE = 30.0
"""Seconds that a demand may wait. verl creates all its actors at the start and releases none, so a longer wait never
ends."""

ADVICE = {
    "CPU": "set ray_kwargs.ray_init.num_cpus to a larger number, such as 64 (Ray's CPUs are logical and cost nothing)",
    "GPU": "lower trainer.n_gpus_per_node, or raise ray_kwargs.ray_init.num_gpus if you set it",
}
ADVICE_WHERE_OTHERS_RUN = "request less, wait until other jobs on this Ray cluster end, or add nodes to it"


@dataclass(frozen=True)
class Demand:
    """A pending request that Ray has not placed.

    Attributes:
        name: A stable name: the placement group's id, or the resources of an actor.
        bundle: The resources that must be free at once.
        count: How many such demands wait.
        one_node: Whether one node must have the entire bundle. If not, the sum over nodes counts.
    """

    name: str
    bundle: Mapping[str, float]
    count: int
    one_node: bool


class ResourceWatchdog:
    """Finds resource requests of a run that will never be granted.

    Args:
        driver: The process id of verl.
        ray_init: The arguments of its `ray.init`.
        patience: Seconds that a demand may wait.
        poll: Seconds between two polls.
    """

    def __init__(
        self, driver: int, ray_init: Mapping[str, Any], patience: float = PATIENCE, poll: float = POLL_SECONDS
    ) -> None:
        self.driver = driver
        self.ray_init = ray_init
        self.patience = patience
        self.poll = poll
        self._next = time.monotonic() + poll
        self._since: dict[str, float] = {}

    def __call__(self) -> str | None:
        """Poll if the next poll is due. Returns the missing resource in one line, or None."""
        now = time.monotonic()
        if now < self._next:
            return None
        self._next = now + self.poll
        address, advice, driver = own_cluster(self.driver), ADVICE, None
        if address is None:
            address, advice, driver = running_address(self.ray_init), {}, self.driver
        if address is None:
            return None
        try:
            status, waiting = _ask(address, driver)
        except (grpc.RpcError, AuthenticationError) as error:
            reason = error.code() if isinstance(error, grpc.Call) else error
            if reason not in SILENT:
                # The run may be healthy: warn once, and stop polling.
                logging.getLogger(__name__).warning("Ray's pending requests cannot be read (%s)", reason)
                self._next = math.inf
            return None
        lacks = {demand.name: lack for demand in waiting if (lack := lack_of(demand, status))}
        self._since = {name: self._since.get(name, now) for name in lacks}
        for name, since in self._since.items():
            if now - since >= self.patience:
                resource, message = lacks[name]
                return f"{message}: {advice.get(resource, ADVICE_WHERE_OTHERS_RUN)}"
        return None


def demands(status: Any) -> Iterator[Demand]:
    """The pending demands in Ray's `GetClusterStatusReply`.

    Demands for a part of a placement group are left out, because the group itself is listed.
    """
    state = status.cluster_resource_state
    for group in state.pending_gang_resource_requests:
        total: dict[str, float] = {}
        for request in group.requests:
            for name, amount in request.resources_bundle.items():
                total[name] = total.get(name, 0.0) + amount
        # "<id of the group>:<strategy>|<state>"
        identity, _, details = group.details.partition(":")
        yield Demand(identity, total, 1, one_node=details.startswith("STRICT_PACK"))
    for entry in state.pending_resource_requests:
        bundle = dict(entry.request.resources_bundle)
        if bundle and not any("_group_" in name for name in bundle):
            yield Demand(str(sorted(bundle.items())), bundle, entry.count, one_node=True)


def lack_of(demand: Demand, status: Any) -> tuple[str, str] | None:
    """The resource that a demand lacks, and a sentence about it; None if the resources are free or nodes are starting.

    Args:
        demand: One of `demands(status)`.
        status: Ray's `GetClusterStatusReply`.
    """
    coming = status.autoscaling_state
    if coming.pending_instance_requests or coming.pending_instances:
        return None
    dead = messages("autoscaler_pb2").DEAD
    nodes = [node for node in status.cluster_resource_state.node_states if node.status != dead]
    free = [dict(node.available_resources) for node in nodes]
    total = [dict(node.total_resources) for node in nodes]
    if not demand.one_node:
        free, total = [_sum(free)], [_sum(total)]

    def missing(place: int) -> dict[str, float]:
        """The missing share of each resource. Ray counts in steps of 0.0001."""
        asked = demand.bundle.items()
        short = {name: amount - free[place].get(name, 0.0) for name, amount in asked}
        return {name: short[name] / amount for name, amount in asked if short[name] > 1e-4}

    if not nodes:
        return None
    nearest = min(range(len(free)), key=lambda place: sum(missing(place).values()))
    if not missing(nearest):
        return None
    name = next(iter(sorted(missing(nearest))))
    has, of = free[nearest].get(name, 0.0), total[nearest].get(name, 0.0)
    where = " on one node" if len(free) > 1 else ""
    left = f"has {has:g} left" if has else "has none left"
    wanted = f"{demand.bundle[name] * demand.count:g} {name}{where}"
    return name, f"Ray waits for {wanted} and {left} ({of - has:g} of {of:g} in use)"


def _sum(places: Iterable[Mapping[str, float]]) -> dict[str, float]:
    total: dict[str, float] = {}
    for place in places:
        for name, amount in place.items():
            total[name] = total.get(name, 0.0) + amount
    return total


def _ask(address: str, driver: int | None) -> tuple[Any, list[Demand]]:
    """Ray's `GetClusterStatusReply` and its pending demands, restricted to `driver` if it is given.

    Raises:
        grpc.RpcError: Ray does not answer.
        AuthenticationError: The token cannot be read.
    """
    with connected(address) as control:
        status = control.status()
        waiting = list(demands(status))
        return status, waiting if driver is None or not waiting else _of_driver(control, driver, waiting)


def _of_driver(control: Control, driver: int, waiting: list[Demand]) -> list[Demand]:
    job = control.job_of(family_of(driver))
    if job is None:
        return []
    pending = messages("gcs_pb2").ActorTableData.PENDING_CREATION
    asked = [dict(actor.required_resources) for actor in control.actors(job, pending)]
    # The id of a placement group ends with that of its job.
    return [demand for demand in waiting if demand.bundle in asked or demand.name.endswith(job.hex())]
