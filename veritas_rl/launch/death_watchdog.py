"""Report dead processes of a run that would otherwise hang, or end without a cause.

A caller notices a dead Ray actor only when it calls the actor. verl's queues use calls that wait, so a run may hang.
Ray's control service (the GCS) knows each dead actor and the cause.
"""

import time
from collections.abc import Iterator, Mapping, Set
from contextlib import suppress
from typing import Any

import grpc
import psutil
from ray.exceptions import AuthenticationError

from veritas_rl.launch.ray_control import connected, family_of, messages, own_cluster, running_address
from veritas_rl.launch.run import Deaths

POLL_SECONDS = 1.0

PATIENCE = 20.0
"""Seconds that a run may continue after a death. Usually verl ends by itself, with a more detailed error."""

DAEMONS = ("raylet", "gcs_server")
"""The processes of Ray itself that a run needs."""


class DeathWatchdog(Deaths):
    """Finds actors and daemons that died unexpectedly.

    Args:
        driver: The process id of verl.
        ray_init: The arguments of its `ray.init`.
        patience: Seconds that the run may continue after a death.
        poll: Seconds between two polls.

    Attributes:
        dead: The time of each first report in seconds of the monotonic clock, by process name.
    """

    def __init__(
        self, driver: int, ray_init: Mapping[str, Any], patience: float = PATIENCE, poll: float = POLL_SECONDS
    ) -> None:
        self.driver, self.ray_init, self.patience, self.poll = driver, ray_init, patience, poll
        self.dead: dict[str, float] = {}
        self._next = time.monotonic() + poll
        self._daemons: dict[int, str] = {}
        self._address: str | None = None

    def __call__(self) -> str | None:
        """Poll if a poll is due. Returns a process that died more than `patience` seconds ago in one line, or None."""
        now = time.monotonic()
        if now < self._next:
            return None
        self._next = now + self.poll
        with suppress(psutil.NoSuchProcess):
            if psutil.Process(self.driver).status() == psutil.STATUS_ZOMBIE:
                return None  # the run has ended with all its processes
            family = family_of(self.driver)
            for name in (*self._dead_daemons(family), *self._dead_actors(family)):
                self.dead.setdefault(name, now)
        if any(now - since >= self.patience for since in self.dead.values()):
            return f"{self.named()}, and verl waits for it: type the same command to resume from the last checkpoint"
        return None

    def named(self) -> str | None:
        if not self.dead:
            return None
        first, *others = self.dead
        more = f" (and {len(others)} more)" if others else ""
        return f"{first} died{more}"

    def _dead_daemons(self, family: Set[int]) -> Iterator[str]:
        running = set()
        for process in family:
            with suppress(psutil.NoSuchProcess):
                child = psutil.Process(process)
                name = child.name()
                if name not in DAEMONS or child.status() == psutil.STATUS_ZOMBIE:
                    continue
                running.add(process)
                # A worker has the name of the raylet between its fork and its exec.
                if psutil.Process(child.ppid()).name() != name:
                    self._daemons[process] = name
        for process, name in self._daemons.items():
            if process not in running:
                yield f"Ray's {name} (process {process})"

    def _dead_actors(self, family: Set[int]) -> Iterator[str]:
        self._address = self._address or own_cluster(self.driver) or running_address(self.ray_init)
        if self._address is None:
            return
        reasons = messages("common_pb2").ActorDiedErrorContext
        unexpected = (reasons.WORKER_DIED, reasons.NODE_DIED)
        try:
            with connected(self._address) as control:
                job = control.job_of(family)
                for actor in control.actors(job, messages("gcs_pb2").ActorTableData.DEAD) if job is not None else ():
                    cause = actor.death_cause
                    if cause.HasField("oom_context"):
                        yield f"{_name_of(actor)}, which Ray ended because memory ran out,"
                        continue
                    died = cause.HasField("actor_died_error_context")
                    if died and cause.actor_died_error_context.reason in unexpected:
                        yield _name_of(actor)
        except (grpc.RpcError, AuthenticationError):
            return  # Ray is starting, ending or busy. `_dead_daemons` finds dead daemons.


def _name_of(actor: Any) -> str:
    return f"the actor {actor.class_name} (process {actor.pid})"
