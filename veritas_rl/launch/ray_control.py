"""A direct client of Ray's control service (the GCS).

Ray's own client waits 40 seconds for a dead service, and then may end this process.
"""

import importlib
import os
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import grpc
import psutil
from ray._private.authentication.authentication_utils import is_token_auth_enabled
from ray._private.grpc_utils import init_grpc_channel
from ray._private.ray_constants import GLOBAL_GRPC_OPTIONS
from ray._private.utils import read_ray_address
from ray._raylet import AuthenticationTokenLoader  # pyright: ignore[reportAttributeAccessIssue]
from ray.exceptions import AuthenticationError

ANSWER_SECONDS = 1.0
"""The timeout of a request. The progress bar does not move while a request waits."""

SILENT = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
"""The errors of a Ray that is starting, ending or busy."""

NAMESPACE = b"veritas_rl"
"""The namespace of this project's values in Ray's key-value store."""


def messages(module: str) -> Any:
    """A module of Ray's messages and services, which pyright cannot see."""
    return importlib.import_module(f"ray.core.generated.{module}")


@dataclass(frozen=True)
class Control:
    """An open connection. Each method raises `grpc.RpcError` if Ray does not answer.

    Attributes:
        channel: The connection.
        ask: The timeout and metadata of every request.
    """

    channel: Any
    ask: Mapping[str, Any]

    def status(self) -> Any:
        """Ray's `GetClusterStatusReply`."""
        stub = messages("autoscaler_pb2_grpc").AutoscalerStateServiceStub(self.channel)
        return stub.GetClusterStatus(messages("autoscaler_pb2").GetClusterStatusRequest(), **self.ask)

    def job_of(self, drivers: Set[int]) -> bytes | None:
        """The live job whose driver is one of these processes of this machine, or None."""
        services, asked = messages("gcs_service_pb2_grpc"), messages("gcs_service_pb2")
        every = asked.GetAllJobInfoRequest(skip_submission_job_info_field=True, skip_is_running_tasks_field=True)
        jobs = services.JobInfoGcsServiceStub(self.channel).GetAllJobInfo(every, **self.ask).job_info_list
        return next((job.job_id for job in jobs if job.driver_pid in drivers and not job.is_dead), None)

    def actors(self, job: bytes, state: int | None = None) -> list[Any]:
        """Ray's `ActorTableData` of a job's actors in one state, or in any state."""
        services, asked = messages("gcs_service_pb2_grpc"), messages("gcs_service_pb2")
        filters = {"job_id": job} if state is None else {"job_id": job, "state": state}
        every = asked.GetAllActorInfoRequest(filters=filters)
        return list(services.ActorInfoGcsServiceStub(self.channel).GetAllActorInfo(every, **self.ask).actor_table_data)

    def get(self, key: str) -> bytes | None:
        """The value that `put` has stored; None if no value is stored."""
        asked = messages("gcs_service_pb2").InternalKVGetRequest(namespace=NAMESPACE, key=key.encode())
        return self._values().InternalKVGet(asked, **self.ask).value or None

    def put(self, key: str, value: bytes) -> None:
        """Store a value in the cluster."""
        asked = messages("gcs_service_pb2").InternalKVPutRequest(
            namespace=NAMESPACE, key=key.encode(), value=value, overwrite=True
        )
        self._values().InternalKVPut(asked, **self.ask)

    def _values(self) -> Any:
        return messages("gcs_service_pb2_grpc").InternalKVGcsServiceStub(self.channel)


@contextmanager
def connected(address: str, seconds: float = ANSWER_SECONDS) -> Iterator[Control]:
    """Connect to the control service at HOST:PORT.

    Args:
        address: The control service.
        seconds: The timeout of each request.

    Raises:
        AuthenticationError: The token cannot be read.
    """
    token = {}
    if not is_token_auth_enabled():
        # A Ray that verl has started requires its token, but only verl's own process has the switch that sends it.
        token = AuthenticationTokenLoader.instance().get_token_for_http_header(ignore_auth_mode=True)
    channel: Any = init_grpc_channel(address, options=GLOBAL_GRPC_OPTIONS)
    with channel:
        yield Control(channel, {"timeout": seconds, "metadata": tuple(token.items())})


def family_of(driver: int) -> set[int]:
    """A process and all its children. On a CPU verl's driver is a child of the fork server."""
    with suppress(psutil.NoSuchProcess):
        return {driver, *(child.pid for child in psutil.Process(driver).children(recursive=True))}
    return {driver}


def own_cluster(driver: int) -> str | None:
    """The address of the Ray that the driver has started; None if it has started none."""
    try:
        family = psutil.Process(driver).children(recursive=True)
    except psutil.NoSuchProcess:
        return None
    for child in family:
        with suppress(psutil.NoSuchProcess):  # Workers may end during the loop.
            if child.name() == "raylet":
                for argument in child.cmdline():
                    if argument.startswith("--gcs-address="):
                        return argument.partition("=")[2]
    return None


def running_address(ray_init: Mapping[str, Any]) -> str | None:
    """The address of the running Ray that `ray.init` would join, found as by `ray.init`; None if there is none."""
    address = ray_init.get("address")
    if address in (None, "auto"):
        address = os.environ.get("RAY_ADDRESS") or "auto"
    if address == "auto":
        address = read_ray_address(ray_init.get("_temp_dir"))
    # Addresses with ray:// belong to Ray's client protocol, which does not expose the control service.
    return None if not address or address == "local" or "://" in address else address


def actors_here(driver: int, ray_init: Mapping[str, Any]) -> set[int]:
    """The process ids of a driver's actors on this machine, if the driver has joined a running Ray; else empty.

    Args:
        driver: The process id of verl or of its parent.
        ray_init: The arguments of its `ray.init`.
    """
    address = running_address(ray_init)
    if address is None:
        return set()
    own = {found.address for addresses in psutil.net_if_addrs().values() for found in addresses}
    with suppress(grpc.RpcError, AuthenticationError), connected(address) as control:
        job = control.job_of(family_of(driver))
        actors = control.actors(job, messages("gcs_pb2").ActorTableData.ALIVE) if job is not None else []
        return {actor.pid for actor in actors if actor.address.ip_address in own}
    return set()
