"""OpenAI's chat completions by the project's generation engine: /v1/models and /v1/chat/completions.

It serves models on a CPU; on GPUs vLLM does (serving/vllm.py). Replies are streamed or sent in one piece. Concurrent
requests share one batch. A client that disconnects ends its request.
"""

import asyncio
import json
import secrets
import threading
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from veritas_rl.chat_template import prompt_ids
from veritas_rl.envs.base import Message
from veritas_rl.errors import UserError
from veritas_rl.players.generation import GenerationEngine
from veritas_rl.players.loading import LoadedModel
from veritas_rl.players.reply_text import reply_text
from veritas_rl.players.sampling import Completion, SamplingParams
from veritas_rl.serving.episodes import Refused

MOST_WAITING = 1000
"""The maximum number of requests that run or wait at once."""

MOST_STOPS, LONGEST_STOP = 16, 200
"""The maximum number of stop texts of a request, and the maximum length of each in characters."""

LOOK_SECONDS = 0.5
"""Seconds between two checks whether a client that waits for a whole reply is still connected."""


Stop = Annotated[str, Field(max_length=LONGEST_STOP)]


class TextPart(BaseModel):
    """A part of a message."""

    type: Literal["text"]
    text: str


class ChatMessage(BaseModel):
    """A message; fields other than role and text are ignored."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[TextPart] | None = None

    def plain(self) -> Message:
        """The message in the form of chat templates."""
        content = self.content or ""
        text = content if isinstance(content, str) else "".join(part.text for part in content)
        return {"role": "system" if self.role == "developer" else self.role, "content": text}


class StreamOptions(BaseModel):
    """Options of a stream."""

    include_usage: bool = False


class ChatRequest(BaseModel):
    """A request for one chat completion; other fields are ignored."""

    model_config = ConfigDict(extra="ignore")

    model: str = Field(default="", max_length=500)
    messages: list[ChatMessage] = Field(min_length=1, max_length=10_000)
    max_tokens: int | None = Field(default=None, ge=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)
    temperature: float | None = Field(default=None, ge=0, le=100)
    top_p: float | None = Field(default=None, gt=0, le=1)
    seed: int | None = Field(default=None, ge=-(2**63), lt=2**63)
    stop: Stop | Annotated[list[Stop], Field(max_length=MOST_STOPS)] | None = None
    n: Literal[1] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    chat_template_kwargs: dict[str, Any] | None = None


class _Writing:
    """A reply during generation: the engine's thread adds tokens, and the server's loop takes text.

    Args:
        tokenizer: The model's tokenizer.
        stops: Texts that end the reply and are not part of it.
        notify: Called on the engine's thread after each change.
    """

    def __init__(self, tokenizer: Any, stops: Sequence[str], notify: Any) -> None:
        self._tokenizer = tokenizer
        self._stops = [stop for stop in stops if stop]
        self._held = max((len(stop) for stop in self._stops), default=1) - 1
        self._notify = notify
        self._lock = threading.Lock()
        self._tokens: list[int] = []
        self.wanted = True
        self.stopped = False

    def add(self, token: int) -> bool:
        """Add a token; return whether generation continues."""
        with self._lock:
            self._tokens.append(token)
            # A character has at most four bytes and a token has at least one, so a stop text that ends with the new
            # token begins in these tokens.
            tokens = self._tokens[-4 * (self._held + 2) :] if self._stops else []
        if self._stops and _stop_in(self._decode(tokens), self._stops) is not None:
            self.stopped = True
        self._notify()
        return self.wanted and not self.stopped

    def text(self, over: bool) -> str:
        """The part of the reply that can no longer change; at the end the complete reply."""
        with self._lock:
            tokens = list(self._tokens)
        text = self._decode(tokens)
        place = _stop_in(text, self._stops)
        if place is not None:
            return text[:place]
        if over:
            return text
        # The last characters may be the start of a stop text or of a character with more bytes.
        return text[: len(text) - self._held].rstrip("\ufffd")

    def _decode(self, tokens: list[int]) -> str:
        return reply_text(self._tokenizer, tokens)


def _stop_in(text: str, stops: Sequence[str]) -> int | None:
    """The position of the first stop text in a text."""
    places = [place for stop in stops if (place := text.find(stop)) >= 0]
    return min(places, default=None)


@dataclass(frozen=True)
class Ended:
    """A finished reply.

    Attributes:
        text: The complete reply.
        reason: "stop" or "length".
        prompt_tokens: The number of prompt tokens.
        tokens: The number of generated tokens.
    """

    text: str
    reason: str
    prompt_tokens: int
    tokens: int

    @property
    def usage(self) -> dict[str, int]:
        """The token counts in the form of OpenAI's clients."""
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.tokens,
            "total_tokens": self.prompt_tokens + self.tokens,
        }


class ServedModel:
    """A served model.

    Args:
        loaded: The engine and tokenizer of the model.
    """

    def __init__(self, loaded: LoadedModel) -> None:
        self.engine: GenerationEngine = loaded.engine
        self._tokenizer = loaded.tokenizer

    async def prepare(self, asked: ChatRequest) -> tuple[list[int], SamplingParams]:
        """The prompt tokens of a request, and its sampling parameters.

        Raises:
            Refused: The prompt is too long, or the model's chat template does not accept the messages.
        """
        messages = [message.plain() for message in asked.messages]
        thinking = (asked.chat_template_kwargs or {}).get("enable_thinking") is True

        def encode() -> list[int]:
            return prompt_ids(self._tokenizer, messages, enable_thinking=thinking)

        try:
            prompt = await asyncio.to_thread(encode)
        except UserError as error:
            raise Refused(HTTPStatus.BAD_REQUEST, str(error)) from error
        longest = self.engine.max_model_len
        wanted = asked.max_completion_tokens or asked.max_tokens
        if len(prompt) + (wanted or 1) > longest:
            raise Refused(
                HTTPStatus.BAD_REQUEST,
                f"This model's maximum context length is {longest} tokens: the messages have {len(prompt)}, and "
                f"{wanted or 1} are asked for",
            )
        temperature = 1.0 if asked.temperature is None else asked.temperature
        seed = None if asked.seed is None else asked.seed % 2**63
        return prompt, SamplingParams(wanted or longest - len(prompt), temperature, asked.top_p or 1.0, seed=seed)

    async def write(self, asked: ChatRequest, prompt: list[int], params: SamplingParams) -> AsyncIterator[str | Ended]:
        """The chunks of the reply, and at the end the finished reply. Closing the generator ends the request."""
        loop, changed = asyncio.get_running_loop(), asyncio.Event()

        def notify(*ignored: object) -> None:
            loop.call_soon_threadsafe(changed.set)

        stops = [asked.stop] if isinstance(asked.stop, str) else asked.stop or []
        writing = _Writing(self._tokenizer, stops, notify)
        future = self.engine.submit(prompt, params, writing.add)
        future.add_done_callback(notify)
        sent = ""
        try:
            while True:
                await changed.wait()
                changed.clear()
                over = future.done()
                text = await asyncio.to_thread(writing.text, over)
                if text.startswith(sent) and len(text) > len(sent):
                    yield text[len(sent) :]
                    sent = text
                if over:
                    completion: Completion = future.result()
                    if completion.stop_reason == "aborted" and not writing.stopped:
                        raise RuntimeError("the engine was closed during the generation of a reply")
                    reason = "length" if completion.stop_reason == "length" else "stop"
                    yield Ended(text, reason, len(prompt), len(completion.token_ids))
                    return
        finally:
            writing.wanted = False
            future.cancel()


def routes(models: Mapping[str, ServedModel]) -> APIRouter:
    """The routes of the protocol.

    Args:
        models: The models by name. A request without a model's name uses the first.
    """
    router = APIRouter(prefix="/v1", tags=["OpenAI"])
    begun = int(time.time())
    running = 0

    @router.get("/models")
    async def list_models() -> dict[str, Any]:
        """The served models."""
        data = [{"id": name, "object": "model", "created": begun, "owned_by": "veritas-rl"} for name in models]
        return {"object": "list", "data": data}

    @router.post("/chat/completions")
    async def chat_completions(asked: ChatRequest, request: Request) -> Response:
        """One chat completion."""
        nonlocal running
        name = asked.model or next(iter(models))
        if name not in models:
            raise Refused(HTTPStatus.NOT_FOUND, f"the model {name} is not served; served are {', '.join(models)}")
        if running >= MOST_WAITING:
            raise Refused(
                HTTPStatus.SERVICE_UNAVAILABLE, f"{MOST_WAITING} requests are already waiting; try again later"
            )
        prompt, params = await models[name].prepare(asked)
        head = {"id": f"chatcmpl-{secrets.token_hex(12)}", "created": int(time.time()), "model": name}

        async def counted() -> AsyncIterator[str | Ended]:
            nonlocal running
            running += 1
            try:
                async for piece in models[name].write(asked, prompt, params):
                    yield piece
            finally:
                running -= 1

        if asked.stream:
            usage = bool(asked.stream_options and asked.stream_options.include_usage)
            return StreamingResponse(_events(counted(), head, usage), media_type="text/event-stream")
        ended = await _whole(counted(), request)
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": ended.text},
            "finish_reason": ended.reason,
            "logprobs": None,
        }
        body = {**head, "object": "chat.completion", "choices": [choice], "usage": ended.usage}
        return Response(json.dumps(body), media_type="application/json")

    return router


async def _events(
    pieces: AsyncIterator[str | Ended], head: Mapping[str, Any], with_usage: bool
) -> AsyncIterator[bytes]:
    """The chunks of a reply as server-sent events."""

    def event(delta: Mapping[str, str], reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return _event({**head, "object": "chat.completion.chunk", "choices": [choice]})

    yield event({"role": "assistant", "content": ""})
    async for piece in pieces:
        if isinstance(piece, str):
            yield event({"content": piece})
        else:
            yield event({}, piece.reason)
            if with_usage:
                yield _event({**head, "object": "chat.completion.chunk", "choices": [], "usage": piece.usage})
    yield b"data: [DONE]\n\n"


def _event(body: Mapping[str, Any]) -> bytes:
    return f"data: {json.dumps(body)}\n\n".encode()


async def _whole(pieces: AsyncIterator[str | Ended], request: Request) -> Ended:
    """The finished reply. The generation ends if the client disconnects."""

    async def last() -> Ended:
        ended = None
        async for piece in pieces:
            if isinstance(piece, Ended):
                ended = piece
        assert ended is not None
        return ended

    writing = asyncio.ensure_future(last())
    try:
        while not writing.done():
            await asyncio.wait({writing}, timeout=LOOK_SECONDS)
            if not writing.done() and await request.is_disconnected():
                raise Refused(HTTPStatus.REQUEST_TIMEOUT, "the client disconnected")
        return writing.result()
    finally:
        writing.cancel()
