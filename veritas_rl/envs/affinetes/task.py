"""The task of an environment behind a server."""

from dataclasses import dataclass
from typing import ClassVar

from veritas_rl.envs.remote import RemoteManner
from veritas_rl.envs.task import Parameters, Pay, Task, check_least


@dataclass(frozen=True)
class AffinetesParameters(Parameters):
    """The environment's own part of the identity.

    Attributes:
        first_task_id: The server's number of the first task.
        rival: The opponent that is requested from the server; "" for the server's default.
    """

    first_task_id: int = 0
    rival: str = ""

    def __post_init__(self) -> None:
        check_least("first_task_id", self.first_task_id, 0)


@dataclass(frozen=True)
class AffinetesPay(Pay):
    """The pay of a session, which the server decides."""

    rewards: ClassVar[tuple[str, ...]] = ("outcome",)


@dataclass(frozen=True)
class AffinetesTask(Task):
    """One session of a server; its case is the server's address."""

    parameters: AffinetesParameters = AffinetesParameters()
    manner: RemoteManner = RemoteManner()
    pay: AffinetesPay = AffinetesPay()

    @property
    def task_id(self) -> int:
        """The server's number of the task. Training and validation never use the same number."""
        return self.parameters.first_task_id + 2 * self.k + (self.split == "val")
