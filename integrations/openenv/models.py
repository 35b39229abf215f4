"""What a client sends and sees."""

from typing import Any

from pydantic import Field

from openenv.core.env_server.types import Action, Observation, State


class GameAction(Action):
    """A whole reply, as a model would write it, with the answer as the prompt asks for it: "\\\\boxed{4}"."""

    text: str = Field(..., description="The whole reply")


class GameObservation(Observation):
    """What the seat that is asked may know."""

    text: str = Field(default="", description="The prompt; at the end the result")
    messages: list[dict[str, Any]] = Field(default_factory=list, description="The prompt as chat messages")
    seat: int = Field(default=0, description="Whose turn it is")
    answers: list[str] = Field(default_factory=list, description="A whole reply for each legal answer, where listed")


class GameState(State):
    """The session, and the id of its task."""

    task: str | None = None
