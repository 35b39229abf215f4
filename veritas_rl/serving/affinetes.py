"""The HTTP protocol of affinetes' clients: /health, /methods and /call, with evaluate and sessions.

A call names one of the methods of `Methods`; other names are refused. A client that finds /methods posts each call
to /call, as {"method": ..., "args": [...], "kwargs": {...}}. Unknown arguments of a method are ignored, and the
result names them.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from veritas_rl.envs.base import Reply
from veritas_rl.players.chat_client import Asked, check_url
from veritas_rl.serving.episodes import Episode, Refused
from veritas_rl.serving.evaluation import evaluate
from veritas_rl.serving.offer import Start
from veritas_rl.serving.room import Room, described

MOST_REPLY = 200_000
"""The maximum length of a reply in a step, in characters."""


class Call(BaseModel):
    """One call of a method."""

    method: str = Field(max_length=100)
    args: list[Any] = []
    kwargs: dict[str, Any] = {}


class Result(BaseModel):
    """The result of a call."""

    status: str
    result: Any = None
    error: str | None = None


class ResetArguments(Start):
    """The arguments of `reset`, see `Start`."""


class StepArguments(BaseModel):
    """The arguments of `step`."""

    model_config = ConfigDict(strict=True)

    action: str = Field(max_length=MOST_REPLY)
    episode_id: str = Field(max_length=100)


class SessionArguments(BaseModel):
    """The arguments of `state` and `stop`."""

    model_config = ConfigDict(strict=True)

    episode_id: str = Field(max_length=100)


class EvaluateArguments(Start):
    """The arguments of `evaluate`: a task as for `reset`, and the model.

    Attributes:
        model: The server's name of the model.
        base_url: The OpenAI-compatible address of the model.
        api_key: The API key, if one is needed.
        temperature: The sampling temperature; None for the server's default.
        max_tokens: The token limit of a reply; None for the server's limit.
        timeout: The time limit of the evaluation in seconds.
    """

    # An integer is accepted for a float. The seed also seeds the model.
    model: str = Field(max_length=500)
    base_url: str = Field(max_length=2000)
    api_key: str | None = Field(default=None, max_length=2000, repr=False)
    temperature: float | None = Field(default=None, ge=0, le=100)
    max_tokens: int | None = Field(default=None, ge=1, le=1_000_000)
    timeout: float | None = Field(default=None, gt=0)


POSITIONS: Mapping[type[BaseModel], tuple[str, ...]] = {
    ResetArguments: ("task_id", "seed", "opponent"),
    StepArguments: ("action", "episode_id"),
    SessionArguments: ("episode_id",),
    EvaluateArguments: ("model", "base_url", "timeout", "temperature", "api_key", "task_id", "seed", "opponent"),
}
"""The positional arguments of each method, in the order of affinetes' environments."""


class Methods:
    """The methods of the protocol.

    Args:
        room: The served environment.
    """

    def __init__(self, room: Room) -> None:
        self._room = room
        self.known: dict[str, tuple[type[BaseModel], Callable[[Any, list[str]], Awaitable[Any]]]] = {
            "evaluate": (EvaluateArguments, self.evaluate),
            "reset": (ResetArguments, self.reset),
            "step": (StepArguments, self.step),
            "state": (SessionArguments, self.state),
            "stop": (SessionArguments, self.stop),
        }

    async def call(self, call: Call) -> Any:
        """The result of a call.

        Raises:
            Refused: The method does not exist, or its arguments are wrong.
            UserError: As the method.
        """
        if call.method not in self.known:
            raise Refused(
                HTTPStatus.NOT_FOUND, f"Method not found: {call.method}; the methods are {', '.join(self.known)}"
            )
        kind, method = self.known[call.method]
        names = POSITIONS[kind]
        if len(call.args) > len(names):
            raise Refused(
                HTTPStatus.UNPROCESSABLE_ENTITY,
                f"{call.method} takes {', '.join(names)} by position, got {len(call.args)} arguments",
            )
        given = dict(zip(names, call.args, strict=False))
        if twice := sorted(given.keys() & call.kwargs.keys()):
            raise Refused(HTTPStatus.UNPROCESSABLE_ENTITY, f"{call.method}: {', '.join(twice)} is given twice")
        given |= call.kwargs
        unknown = sorted(given.keys() - kind.model_fields.keys())
        notes = [f"ignored: {', '.join(unknown)[:200]}, which {call.method} does not know"] if unknown else []
        try:
            arguments = kind.model_validate({name: given[name] for name in kind.model_fields if name in given})
        except ValidationError as error:
            raise Refused(HTTPStatus.UNPROCESSABLE_ENTITY, f"{call.method}: {described(error)}") from None
        return await method(arguments, notes)

    async def evaluate(self, given: EvaluateArguments, notes: list[str]) -> dict[str, Any]:
        """Let a model play a task."""
        asked = Asked(
            check_url(given.base_url),
            given.model,
            given.api_key or "",
            temperature=given.temperature,
            seed=None if given.seed is None else given.seed % 2**31,
            max_tokens=given.max_tokens,
        )
        return await self._room.evaluate(evaluate, given, asked, given.timeout, notes)

    async def reset(self, given: ResetArguments, notes: list[str]) -> dict[str, Any]:
        """Open a session."""
        name, episode = await self._room.open(given, notes)
        return response(name, episode)

    async def step(self, given: StepArguments, notes: list[str]) -> dict[str, Any]:
        """Answer the turn of a session."""
        return response(given.episode_id, await self._room.answer(given.episode_id, Reply(given.action)))

    async def state(self, given: SessionArguments, notes: list[str]) -> dict[str, Any]:
        """The state of a session."""
        return response(given.episode_id, self._room.episodes.look(given.episode_id))

    async def stop(self, given: SessionArguments, notes: list[str]) -> dict[str, Any]:
        """End a session. Ending it twice is no error."""
        return {
            "status": "ok",
            "stopped": self._room.episodes.drop(given.episode_id),
            "episode_id": given.episode_id,
        }


def response(name: str, episode: Episode) -> dict[str, Any]:
    """An observation in the form of affinetes' clients."""
    shown = episode.shown
    return {
        "observation": shown.text,
        "reward": shown.reward,
        "done": shown.done,
        "truncated": shown.done and any(score.reason == "unfinished" for score in shown.scores.values()),
        "episode_id": name,
        "info": episode.describe(),
    }


def routes(room: Room) -> APIRouter:
    """The routes of the protocol."""
    router, methods = APIRouter(tags=["affinetes"]), Methods(room)

    @router.get("/methods")
    async def list_methods() -> dict[str, Any]:
        """The methods of /call."""
        found = [
            {"name": name, "signature": str(inspect.signature(kind)), "source": "Actor"}
            for name, (kind, _) in methods.known.items()
        ]
        return {"methods": found}

    @router.post("/call")
    async def call(call: Call) -> Result:
        """Call a method."""
        return Result(status="success", result=await methods.call(call))

    return router
