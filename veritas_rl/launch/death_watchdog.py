"""Name a process of a run that has died, where the run would wait for it for ever or end without saying why.

A caller learns that an actor is dead only when it asks that actor for something. The queues of verl ask in a way that
waits, so a run may hang. Ray's control service (the GCS) knows of each actor that died and why.
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
"""How long a run may go on after a death: mostly verl ends by itself, and its error says more."""

DAEMONS = ("raylet", "gcs_server")
"""The processes of Ray itself that a run cannot do without."""


class DeathWatchdog(Deaths):
    """Finds actors and daemons that have died although nobody ended them.

    Args:
        driver: The process id of verl.
        ray_init: The arguments of its `ray.init`.
        patience: Seconds that the run may go on after a death.
        poll: Seconds between two looks.

    Attributes:
        dead: When each death was found first, in seconds of the monotonic clock, by what died.
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
        """Look, if it is time to; what died longer than `patience` ago in one line, or None."""
        now = time.monotonic()
        if now < self._next:
            return None
        self._next = now + self.poll
        with suppress(psutil.NoSuchProcess):
            if psutil.Process(self.driver).status() == psutil.STATUS_ZOMBIE:
                return None  # the run has ended, and with it all of its processes
            family = family_of(self.driver)
            for name in (*self._dead_daemons(family), *self._dead_actors(family)):
                self.dead.setdefault(name, now)
        if any(now - since >= self.patience for since in self.dead.values()):
            return f"{self.named()}, and verl waits for it: the same command goes on from the last checkpoint"
        return None

    def named(self) -> str | None:
        """What has died, in a clause; None if nothing has."""
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
                if child.name() in DAEMONS and child.status() != psutil.STATUS_ZOMBIE:
                    running.add(process)
                    self._daemons[process] = child.name()
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
                        yield f"{_name_of(actor)}, which Ray ended for lack of memory,"
                        continue
                    died = cause.HasField("actor_died_error_context")
                    if died and cause.actor_died_error_context.reason in unexpected:
                        yield _name_of(actor)
        except (grpc.RpcError, AuthenticationError):
            return  # Ray is starting, ending or busy; that its daemons are gone is found by itself


def _name_of(actor: Any) -> str:
    return f"the actor {actor.class_name} (process {actor.pid})"
