"""A model behind an OpenAI-compatible chat server, such as vLLM or SGLang, as a player.

    vllm serve Qwen/Qwen3-4B-Instruct-2507          ->  http://localhost:8000/v1

All waiting turns are requested at once, up to `concurrency` at a time. A request that fails because the server is busy
or restarting is repeated; any other failure ends with one line. If the server needs a key, it is read from an
environment variable of `KEYS`.
"""

import asyncio
import os
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any
from urllib.parse import urldefrag, urlsplit

import httpx

from veritas_rl.chat_template import with_limit
from veritas_rl.envs.base import Reply, Turn
from veritas_rl.errors import UserError
from veritas_rl.players.cost import Purse
from veritas_rl.progress import GENERATED
from veritas_rl.seeding import digest

CONNECT_SECONDS = 10.0
"""The maximum seconds for a connection. A running server accepts connections at once, even when it is busy."""

POOL = 32
"""The number of connections of one client. It is small, because each request searches all of them."""

PASSING = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
"""HTTP codes after which the same request may succeed."""

LONGEST_WAIT = 60.0
"""The maximum number of seconds between two tries, even if the server asks for more."""

KEYS = ("OPENAI_API_KEY", "CHUTES_API_KEY")
"""The environment variables that may contain a key; the first one that is set is sent."""

TOO_LONG = ("context length", "context_length", "max_model_len", "maximum model length", "too long", "is longer than")
"""Messages of servers for a prompt that is too long, with HTTP code 400."""


class ServerPlayer:
    """A player that requests its replies from a chat server.

    Args:
        url: The server's address, see `check_url`. If the server has several models, a # and the model's name follow.
        max_tokens: The maximum number of tokens of a reply.
        temperature: The sampling temperature; 0 is greedy.
        top_p: The probability of nucleus sampling.
        seed: Seeds each reply together with the turn's dice, on servers that accept a seed.
        concurrency: The maximum number of requests that run at once.
        timeout: The maximum number of seconds for one reply.
        tries: The maximum number of tries of a request.
        wait: Seconds before the second try; the wait doubles with each try.
        say_limit: Whether each prompt states the token limit of the reply.
        purse: The counter of costs, with or without a budget; None counts nothing.

    Raises:
        UserError: No server answers at the address, or the server lacks the model, or there is a budget and no price.
    """

    def __init__(
        self,
        url: str,
        *,
        max_tokens: int,
        temperature: float = 0.0,
        top_p: float = 1.0,
        seed: int | str = 0,
        concurrency: int = 64,
        timeout: float = 600.0,
        tries: int = 4,
        wait: float = 1.0,
        say_limit: bool = False,
        purse: Purse | None = None,
    ) -> None:
        if concurrency < 1 or tries < 1 or timeout <= 0:
            raise UserError(
                f"concurrency and tries must be at least 1 and timeout above 0 seconds, got {concurrency}, {tries} and "
                f"{timeout}"
            )
        whole, named = urldefrag(url)
        self.url = check_url(whole)
        self.model = _model_of(self.url, named)
        self._sampling = {"max_tokens": max_tokens, "temperature": temperature, "top_p": top_p}
        self._seed = seed
        self._concurrency = concurrency
        self._timeout = timeout
        self._tries = tries
        self._wait = wait
        self._said_limit = max_tokens if say_limit else 0
        self._purse = purse
        if purse:
            purse.open(self.model)

    def act(self, turns: Sequence[Turn]) -> list[Reply]:
        """One reply for each turn, in order. It is truncated if a token limit cut it, and overlong if the prompt is too
        long.

        Raises:
            UserError: The server is down or too slow, or refuses a request, or the budget is spent.
        """
        try:
            return asyncio.run(self._act(turns))
        finally:
            if self._purse:
                self._purse.save()

    async def _act(self, turns: Sequence[Turn]) -> list[Reply]:
        questions = [self._question(turn) for turn in turns]
        # At temperature 0 equal prompts have equal replies, so they are requested once.
        alike = self._sampling["temperature"] == 0
        keys = [str(question["messages"]) if alike else str(index) for index, question in enumerate(questions)]
        first = {key: question for key, question in reversed(list(zip(keys, questions, strict=True)))}
        patience = httpx.Timeout(self._timeout, connect=min(CONNECT_SECONDS, self._timeout))
        limits, trusted = httpx.Limits(max_connections=POOL), httpx.create_ssl_context()
        free: asyncio.Queue[httpx.AsyncClient] = asyncio.Queue()
        at_once = min(self._concurrency, len(first))
        async with AsyncExitStack() as stack:
            for start in range(0, at_once, POOL):
                client = httpx.AsyncClient(headers=bearer(), timeout=patience, limits=limits, verify=trusted)
                await stack.enter_async_context(client)
                for _ in range(min(POOL, at_once - start)):
                    free.put_nowait(client)  # once for each of its connections
            said = await asyncio.gather(*(self._ask(free, question) for question in first.values()))
        answers = dict(zip(first, said, strict=True))
        return [answers[key] for key in keys]

    def _question(self, turn: Turn) -> dict[str, Any]:
        # Servers store a seed as a signed 64-bit integer.
        seed = digest("reply", self._seed, *turn.dice) >> 1
        messages = (
            with_limit(turn.messages, self._said_limit, turn.opening) if self._said_limit else list(turn.messages)
        )
        return {"model": self.model, "messages": messages, "seed": seed, **self._sampling}

    async def _ask(self, free: asyncio.Queue[httpx.AsyncClient], question: dict[str, Any]) -> Reply:
        why, wait = "", self._wait
        for attempt in range(self._tries):
            if attempt:
                await asyncio.sleep(min(wait, LONGEST_WAIT))
                wait *= 2
            client = await free.get()
            try:
                response = await self._post(client, question)
            except httpx.ConnectTimeout:
                why = "it takes no connection"
                continue
            except httpx.TimeoutException:
                why = f"it did not answer within {self._timeout:g} s; ask less at once, or raise the timeout"
                continue
            except httpx.TransportError as error:
                why = _described(error)
                continue
            finally:
                free.put_nowait(client)
            if response.status_code == httpx.codes.OK:
                reply = _reply(response, self.url)
                GENERATED.add(1, reply.tokens)
                return reply
            if response.status_code == httpx.codes.BAD_REQUEST and any(word in response.text for word in TOO_LONG):
                return Reply("", overlong=True)
            why = f"HTTP {response.status_code}: {_short(response.text)}"
            if response.status_code not in PASSING:
                raise UserError(f"the server at {self.url} refused a request ({why})")
            asked = response.headers.get("retry-after", "")
            wait = max(wait, float(asked)) if asked.isdigit() else wait
        raise UserError(f"the server at {self.url} failed {self._tries} times in a row ({why}); check its log")

    async def _post(self, client: httpx.AsyncClient, question: dict[str, Any]) -> httpx.Response:
        address = f"{self.url}/chat/completions"
        if self._purse is None:
            return await client.post(address, json=question)
        async with self._purse.asked(self.model, question["messages"], question["max_tokens"]) as request:
            try:
                response = await client.post(address, json=question)
            except (httpx.ConnectError, httpx.ConnectTimeout):
                request.free = True
                raise
            request.free = response.status_code != httpx.codes.OK
            request.said = _usage(response)
            return response


def check_url(url: str) -> str:
    """The base address of the server's `models` and `chat/completions`.

    Raises:
        UserError: The text is no address of a server.
    """
    try:
        parts = urlsplit(url)
        known = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        known = False
    if not known:
        raise UserError(f"{url} is no address of a server; type one such as http://localhost:8000/v1")
    url = url.rstrip("/").removesuffix("/chat/completions")
    return url if urlsplit(url).path else f"{url}/v1"


def _model_of(url: str, named: str) -> str:
    """The model that the server serves."""
    try:
        response = httpx.get(f"{url}/models", headers=bearer(), timeout=CONNECT_SECONDS)
        response.raise_for_status()
        served = [str(model["id"]) for model in response.json()["data"]]
    except httpx.HTTPStatusError as error:
        code = error.response.status_code
        hint = ": set OPENAI_API_KEY" if code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN) else ""
        raise UserError(f"the server at {url} does not list its models (HTTP {code}){hint}") from error
    except httpx.HTTPError as error:
        raise UserError(f"no server answers at {url} ({_described(error)}); start it, or check the address") from error
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"the server at {url} is not OpenAI-compatible, because it lists no models") from error
    if named and named not in served:
        raise UserError(f"the server at {url} does not serve {named!r}; it serves {', '.join(served)}")
    if not named and len(served) != 1:
        raise UserError(f"the server at {url} serves {', '.join(served) or 'no model'}; name one as {url}#NAME")
    return named or served[0]


def bearer(key: str = "") -> dict[str, str]:
    """The header with the given key, or else the key of an environment variable; empty without a key."""
    key = key or next((os.environ[name] for name in KEYS if os.environ.get(name)), "")
    return {"Authorization": f"Bearer {key}"} if key else {}


def _reply(response: httpx.Response, url: str) -> Reply:
    try:
        body = response.json()
        choice, usage = body["choices"][0], body.get("usage") or {}
        return Reply(
            choice["message"].get("content") or "",
            truncated=choice.get("finish_reason") == "length",
            prompt_tokens=int(usage.get("prompt_tokens") or 0),
            tokens=int(usage.get("completion_tokens") or 0),
        )
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise UserError(f"the reply of the server at {url} is no chat completion: {_short(response.text)}") from error


def _usage(response: httpx.Response) -> tuple[int, int] | None:
    """The numbers of prompt and reply tokens; None if the server does not report them."""
    try:
        usage = response.json()["usage"]
        read, written = int(usage["prompt_tokens"]), int(usage["completion_tokens"])
    except (ValueError, KeyError, TypeError, OverflowError):
        return None
    return (read, written) if read >= 0 and written >= 0 else None


def _described(error: Exception) -> str:
    return _short(str(error)) or type(error).__name__


def _short(text: str) -> str:
    return " ".join(text.split())[:200]
