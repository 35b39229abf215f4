"""OpenEnv's protocol: sessions over a WebSocket; over HTTP, reset and step without a kept session.

/ws        {"type": "reset" | "step" | "state" | "close", "data": ...}; a connection plays sessions one after another
/reset     the first observation of a task; nothing is kept
/step      the answer to the first turn of the task that the same request names; nothing is kept
/schema, /metadata, /state, /mcp   for OpenEnv's clients and its validator

An action is {"text": REPLY} with the text that a model would write. The data of a reset may have the fields of `Start`.
"""

import json
import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, Body, WebSocket
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.websockets import WebSocketDisconnect

from veritas_rl.envs.base import Reply
from veritas_rl.errors import UserError
from veritas_rl.serving.affinetes import MOST_REPLY
from veritas_rl.serving.episodes import Episode, Refused
from veritas_rl.serving.limits import one_line
from veritas_rl.serving.offer import Start
from veritas_rl.serving.room import Room, described

LOG = logging.getLogger("veritas_rl.serving")


class Action(BaseModel):
    """An answer of a client.

    Attributes:
        text: The complete reply, as a model would write it.
        metadata: Ignored.
    """

    model_config = ConfigDict(extra="forbid")

    text: str = Field(max_length=MOST_REPLY, description="The whole reply, with the answer as the prompt asks for it")
    metadata: dict[str, Any] = Field(default_factory=dict)


class Observation(BaseModel):
    """An observation of a client.

    Attributes:
        text: The prompt, in a conversation the part that is new; at the end the result.
        messages: The prompt as chat messages; empty at the end.
        seat: The seat to move.
        answers: A complete reply for each legal answer, if the prompt lists the legal answers.
        done: Whether the session is over.
        reward: At the end, the reward of the client's seat, in [0, 1].
        metadata: Further information: the task, the opponent, a mistake, and at the end the scores of all seats.
    """

    text: str = ""
    messages: list[dict[str, str]] = []
    seat: int = 0
    answers: list[str] = []
    done: bool = False
    reward: float | None = None
    metadata: dict[str, Any] = {}


class State(BaseModel):
    """The state of a session.

    Attributes:
        episode_id: The id of the session; None before the first reset.
        step_count: The number of replies.
        task: The task's id.
    """

    episode_id: str | None = None
    step_count: int = Field(default=0, ge=0)
    task: str | None = None


class ResetRequest(Start):
    """A reset over HTTP with the fields of `Start`; `episode_id` is accepted and ignored."""

    episode_id: str | None = Field(default=None, max_length=255)


class StepRequest(Start):
    """A step over HTTP: a task as in a reset, and the answer to its first turn."""

    action: Action
    timeout_s: float | None = Field(default=None, gt=0)
    request_id: str | None = Field(default=None, max_length=255)


class Result(BaseModel):
    """The result of a reset or a step."""

    observation: dict[str, Any]
    reward: float | None = None
    done: bool = False
    metadata: dict[str, Any] | None = None


def observed(episode: Episode) -> dict[str, Any]:
    """An observation in the form of OpenEnv's clients."""
    shown, info = episode.shown, episode.describe()
    turn = shown.turn
    listed = turn is not None and episode.task.manner.prompt == "full"
    messages = info.pop("messages", [])
    observation = {
        "text": shown.text,
        "messages": messages,
        "seat": episode.seat,
        "answers": list(turn.answers) if turn is not None and listed else [],
        "metadata": info,
    }
    return {
        "observation": observation,
        "reward": shown.reward if shown.done or shown.steps else None,
        "done": shown.done,
        "metadata": info,
    }


class _Connection:
    """The session of one WebSocket."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._name = ""
        self._steps, self._task = 0, ""

    async def answer(self, text: str) -> dict[str, Any] | None:
        """The response to a message; None if the message asks to close."""
        try:
            message = json.loads(text)
        except (ValueError, RecursionError):
            return _error("INVALID_JSON", "the message is no JSON")
        if not isinstance(message, dict):
            return _error("VALIDATION_ERROR", "a message is an object with type and data")
        kind, data = message.get("type", ""), message.get("data", {})
        if not isinstance(data, dict):
            return _error("VALIDATION_ERROR", "data is an object")
        try:
            if kind == "reset":
                return {"type": "observation", "data": await self._reset(data)}
            if kind == "step":
                return {"type": "observation", "data": await self._step(data)}
            if kind == "state":
                state = State(episode_id=self._name or None, step_count=self._steps, task=self._task or None)
                return {"type": "state", "data": state.model_dump()}
            if kind == "close":
                return None
            known = "reset, step, state and close"
            return _error("UNKNOWN_TYPE", f"unknown message type {kind!r}: there are {known}")
        except ValidationError as error:
            return _error("VALIDATION_ERROR", described(error))
        except Refused as error:
            full = error.code == HTTPStatus.SERVICE_UNAVAILABLE
            return _error("CAPACITY_REACHED" if full else "SESSION_ERROR", str(error))
        except UserError as error:
            return _error("EXECUTION_ERROR", str(error))
        except Exception as error:
            LOG.error("a step failed", exc_info=error)
            return _error("EXECUTION_ERROR", "the server failed at this request; its log says why")

    async def _reset(self, data: Mapping[str, Any]) -> dict[str, Any]:
        start = ResetRequest.model_validate(data)
        unknown = sorted(data.keys() - ResetRequest.model_fields.keys())
        notes = [f"ignored: {', '.join(unknown)[:200]}, which reset does not know"] if unknown else []
        self.close()
        self._name, episode = await self._room.open(start, notes)
        self._steps, self._task = 0, episode.task.id
        return observed(episode)

    async def _step(self, data: Mapping[str, Any]) -> dict[str, Any]:
        action = Action.model_validate(data)
        if not self._name:
            raise Refused(HTTPStatus.CONFLICT, "there is no session yet; send a reset first")
        episode = await self._room.answer(self._name, Reply(action.text))
        self._steps = episode.shown.steps
        return observed(episode)

    def close(self) -> None:
        """End the session."""
        if self._name:
            self._room.episodes.drop(self._name)
            self._name = ""


def _error(code: str, message: str) -> dict[str, Any]:
    return {"type": "error", "data": {"message": one_line(message), "code": code}}


def routes(room: Room) -> APIRouter:
    """The routes of the protocol."""
    router = APIRouter(tags=["OpenEnv"])

    @router.post("/reset")
    async def reset(asked: ResetRequest = Body(default_factory=ResetRequest)) -> Result:  # noqa: B008
        """The first observation of a task."""
        return Result(**observed(await room.once(asked)))

    @router.post("/step")
    async def step(asked: StepRequest) -> Result:
        """The result of an answer to the first turn of a task."""
        return Result(**observed(await room.once(asked, Reply(asked.action.text))))

    @router.get("/state")
    async def state() -> State:
        """The state before a first reset, because HTTP keeps no session."""
        return State()

    @router.get("/schema")
    async def schema() -> dict[str, Any]:
        """The JSON schemas of actions, observations and states."""
        return {
            "action": Action.model_json_schema(),
            "observation": Observation.model_json_schema(),
            "reset_observation": Observation.model_json_schema(),
            "state": State.model_json_schema(),
        }

    @router.get("/metadata")
    async def metadata() -> dict[str, str | bool]:
        """The name and description of the environment."""
        offer = room.offer
        about = {"name": f"veritas-rl-{offer.name}", "description": offer.description, "version": "0.1.0"}
        return {**about, "games": offer.has_games}

    @router.post("/mcp")
    async def mcp() -> dict[str, Any]:
        """An empty list of tools."""
        error = {"code": -32601, "message": "this environment has no tools: play over /ws"}
        return {"jsonrpc": "2.0", "id": None, "error": error}

    @router.websocket("/ws")
    async def play(socket: WebSocket) -> None:
        """Play sessions, one after another."""
        await socket.accept()
        connection = _Connection(room)
        try:
            while True:
                answer = await connection.answer(await socket.receive_text())
                if answer is None:
                    await socket.close()
                    return
                await socket.send_text(json.dumps(answer))
        except (WebSocketDisconnect, KeyError, RuntimeError):
            return  # the client disconnected, or sent bytes
        finally:
            connection.close()

    return router
