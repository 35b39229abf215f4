"""The settings of an environment behind a server."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Self

from pydantic import BeforeValidator, model_validator

from veritas_rl.envs.affinetes.task import AffinetesParameters, AffinetesPay
from veritas_rl.envs.remote import RemoteManner, check_address
from veritas_rl.envs.settings import Number, Settings, at_least
from veritas_rl.errors import UserError


class AffinetesConfig(Settings):
    """The settings of the sessions of a server.

    Attributes:
        cases: The addresses of servers, as a list or a text with commas. The value becomes a tuple.
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

    user_keys: ClassVar[Mapping[str, str]] = {"reward_mode": "reward"}
    part_types = (AffinetesParameters, RemoteManner, AffinetesPay)

    context: str = "conversation"
    first_task_id: Annotated[int, at_least(0)] = 0
    rival: Annotated[str, BeforeValidator(str)] = ""
    seconds: Number = 120.0
    most_steps: Annotated[int, at_least(1)] = 500
    gamma: Number = 0.99

    @model_validator(mode="after")
    def _has_servers(self) -> Self:
        urls = tuple(dict.fromkeys(check_address(case, "affinetes") for case in self.cases))
        if not urls:
            raise UserError("the address of the server is missing; set env=affinetes:http://127.0.0.1:8000")
        self._put(cases=urls)
        return self
