"""The settings of an environment behind a server."""

from typing import Annotated, ClassVar

from pydantic import BeforeValidator

from veritas_rl.envs.affinetes.task import AffinetesParameters, AffinetesPay
from veritas_rl.envs.remote import RemoteConfig, RemoteManner
from veritas_rl.envs.settings import at_least


class AffinetesConfig(RemoteConfig):
    """The settings of the sessions of a server.

    Attributes:
        cases: The addresses of servers, as a list or a text with commas.
        seed: The seed that is sent with each reset. It may determine deals, dice and the seat.
        prompt: Only "full", because the server writes the prompts.
        context: "conversation" is one growing chat; "turn" trains each reply separately, with the earlier chat as its
            prompt.
        first_task_id: The server's first task number. Training uses this number and every second number after it;
            validation uses the numbers between them.
        rival: The opponent that is sent with each reset as `opponent`; "" for the server's default.
        seconds: The most seconds for one call of the server.
        most_steps: The most steps of a session; a longer session ends as unfinished and pays 0.
        reward: Only "outcome", the server's last reward clipped to [0, 1].
        gamma: The discount of the reward for each later reply.

    Raises:
        UserError: A value is invalid; the message names a valid one.
    """

    protocol: ClassVar[str] = "affinetes"
    part_types = (AffinetesParameters, RemoteManner, AffinetesPay)

    first_task_id: Annotated[int, at_least(0)] = 0
    rival: Annotated[str, BeforeValidator(str)] = ""
