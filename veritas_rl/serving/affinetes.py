"""The HTTP protocol of affinetes' clients: /health, /methods and /call, with evaluate and sessions.

A call names one of the methods below, and nothing else is looked up. A client that finds /methods posts every call to
/call, as {"method": ..., "args": [...], "kwargs": {...}}. Arguments that a method does not know are ignored, and the
result says so.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from veritas_rl.envs.base import Reply
from veritas_rl.players.server import check_url
from veritas_rl.serving.episodes import Episode, Refused
from veritas_rl.serving.evaluation import evaluate
from veritas_rl.serving.model_client import Asked
from veritas_rl.serving.offer import Start
from veritas_rl.serving.room import Room, described

MOST_REPLY = 200_000
"""The most characters of a reply in a step."""


class Call(BaseModel):
    """One call of a method."""

    method: str = Field(max_length=100)
    args: list[Any] = []
    kwargs: dict[str, Any] = {}


class Result(BaseModel):
    """What a call gives."""

    status: str
    result: Any = None
    error: str | None = None


class ResetArguments(Start):
    """What `reset` takes: see `Start`."""


class StepArguments(BaseModel):
    """What `step` takes."""

    model_config = ConfigDict(strict=True)

    action: str = Field(max_length=MOST_REPLY)
    episode_id: str = Field(max_length=100)


class SessionArguments(BaseModel):
    """What `state` and `stop` take."""

    model_config = ConfigDict(strict=True)

    episode_id: str = Field(max_length=100)


class EvaluateArguments(Start):
    """What `evaluate` takes: a task as `reset` takes it, and the model.

    Attributes:
        model: Its name.
        base_url: The OpenAI-compatible address where it is.
        api_key: Its key, where it wants one.
        temperature: Of its replies; None for the server's own.
        max_tokens: The most tokens of a reply; None for the server's own limit.
        timeout: The most seconds of the whole evaluation.
    """

    # Only here may a whole number stand for a fraction, and a seed also seeds the model.
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
"""The arguments that may be given by position, as affinetes' environments order them."""


class Methods:
    """The methods that can be called.

    Args:
        room: What is played.
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
            Refused: No such method, or its arguments are wrong.
            UserError: The method's own.
        """
        if call.method not in self.known:
            raise Refused(HTTPStatus.NOT_FOUND, f"Method not found: {call.method}; there are {', '.join(self.known)}")
        kind, method = self.known[call.method]
        names = POSITIONS[kind]
        if len(call.args) > len(names):
            raise Refused(
                HTTPStatus.UNPROCESSABLE_ENTITY,
                f"{call.method} takes {', '.join(names)} by position, {len(call.args)} arguments were given",
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
            given.temperature,
            None if given.seed is None else given.seed % 2**31,
            given.max_tokens,
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
        """Look at a session."""
        return response(given.episode_id, self._room.episodes.look(given.episode_id))

    async def stop(self, given: SessionArguments, notes: list[str]) -> dict[str, Any]:
        """End a session; that it is ended already is no error."""
        return {
            "status": "ok",
            "stopped": self._room.episodes.drop(given.episode_id),
            "episode_id": given.episode_id,
        }


def response(name: str, episode: Episode) -> dict[str, Any]:
    """What a session shows, as affinetes' clients read it."""
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
    """The paths of the protocol."""
    router, methods = APIRouter(tags=["affinetes"]), Methods(room)

    @router.get("/methods")
    async def list_methods() -> dict[str, Any]:
        """The methods that /call knows."""
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
