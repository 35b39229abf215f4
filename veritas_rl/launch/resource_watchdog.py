"""Name what Ray lacks, where a run would wait for it for ever without a word.

Ray counts logical resources. An actor or a placement group that asks for more of them than are free waits until some
are, and prints nothing. So the launcher asks Ray's control service (the GCS) now and then what it has not placed yet. A
worker that is slow to start is not among that: it has got its resources already.
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
"""How long a demand may wait. verl makes all its actors at the start and gives none of them back, so what waits longer
waits for ever."""

ADVICE = {
    "CPU": "set ray_kwargs.ray_init.num_cpus to a larger number (they are logical: 64 costs nothing)",
    "GPU": "lower trainer.n_gpus_per_node, or raise ray_kwargs.ray_init.num_gpus if you set it",
}
ADVICE_WHERE_OTHERS_RUN = "ask for less, wait until others on this Ray cluster end, or let more nodes join it"


@dataclass(frozen=True)
class Demand:
    """Something that Ray has not placed yet.

    Attributes:
        name: The same at every look: the placement group's id, or what an actor asks for.
        bundle: What must be free at once.
        count: How many of them wait.
        one_node: Whether the bundle must be free on one node; else the nodes' sum counts.
    """

    name: str
    bundle: Mapping[str, float]
    count: int
    one_node: bool


class ResourceWatchdog:
    """Finds what a run waits for and will not get.

    Args:
        driver: The process id of verl.
        ray_init: The arguments of its `ray.init`.
        patience: Seconds that a demand may wait.
        poll: Seconds between two looks.
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
        """Look, if it is time to; what the run waits for in one line, or None."""
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
                # Whatever it is, it is no reason to end a run: say so once, and look no more.
                logging.getLogger(__name__).warning("Ray does not say what it waits for (%s)", reason)
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
    """What waits, in Ray's `GetClusterStatusReply`.

    What waits for a part of a placement group is left out: the group itself is named.
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
    """The resource that a demand lacks, and the sentence that says so; None if all of it is free, or soon may be.

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
        """The share of each resource that is not there. Ray counts in steps of 0.0001."""
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
    """Ray's `GetClusterStatusReply`, and what of it waits; of this driver's only, if one is given.

    Raises:
        grpc.RpcError: There is no answer.
        AuthenticationError: The token cannot be read.
    """
    with connected(address) as control:
        status = control.status()
        waiting = list(demands(status))
        return status, waiting if driver is None or not waiting else _of_driver(control, driver, waiting)


def _of_driver(control: Control, driver: int, waiting: list[Demand]) -> list[Demand]:
    """What waits for one driver, on a cluster that has others: its placement groups and actors."""
    job = control.job_of(family_of(driver))
    if job is None:
        return []
    pending = messages("gcs_pb2").ActorTableData.PENDING_CREATION
    asked = [dict(actor.required_resources) for actor in control.actors(job, pending)]
    # The id of a placement group ends with that of its job.
    return [demand for demand in waiting if demand.bundle in asked or demand.name.endswith(job.hex())]
