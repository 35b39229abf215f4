"""The settings of an environment behind a server."""

from dataclasses import dataclass
from typing import Any

from veritas_rl.configs import split_list
from veritas_rl.envs.affinetes.calls import check_address
from veritas_rl.envs.affinetes.task import AffinetesManner, AffinetesParameters, AffinetesPay
from veritas_rl.envs.single import whole_number
from veritas_rl.errors import UserError


@dataclass(frozen=True)
class AffinetesConfig:
    """The settings of the sessions of a server.

    Attributes:
        cases: The addresses of servers, as a list or a text with commas. The value becomes a tuple.
        num_tasks_per_case: The number of tasks of each server.
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
        legal_share: The share of the reward that is paid for a reply that the server accepted.

    Raises:
        UserError: A value is invalid; the message names a valid one.
    """

    cases: Any = ()
    num_tasks_per_case: int = 1000
    seed: int = 42
    prompt: str = "full"
    context: str = "conversation"
    first_task_id: int = 0
    rival: str = ""
    seconds: float = 120.0
    most_steps: int = 500
    reward: str = "outcome"
    gamma: float = 0.99
    legal_share: float = 0.0

    def __post_init__(self) -> None:
        for name, least in (("num_tasks_per_case", 1), ("seed", 0), ("first_task_id", 0), ("most_steps", 1)):
            object.__setattr__(self, name, whole_number(name, getattr(self, name), least))
        urls = tuple(dict.fromkeys(check_address(url) for url in split_list(self.cases, "cases")))
        if not urls:
            raise UserError("the address of the server is missing; set env=affinetes:http://127.0.0.1:8000")
        object.__setattr__(self, "cases", urls)
        # The parts of a task check their values.
        AffinetesParameters(self.first_task_id, self.rival)
        AffinetesManner(prompt=self.prompt, context=self.context, seconds=self.seconds, most_steps=self.most_steps)
        AffinetesPay(reward=self.reward, gamma=float(self.gamma), legal_share=float(self.legal_share))
