"""A model behind an OpenAI-compatible chat server, such as vLLM or SGLang, as a player.

    vllm serve Qwen/Qwen3-4B-Instruct-2507          ->  http://localhost:8000/v1

All waiting turns are requested at once, up to `concurrency` at a time. `chat_client` says how failures count.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urldefrag, urlsplit

import httpx

from veritas_rl.chat_template import with_limit
from veritas_rl.envs.base import Message, Reply, Turn
from veritas_rl.errors import UserError
from veritas_rl.http_clients import http_client, short
from veritas_rl.players.api_keys import bearer, hide
from veritas_rl.players.chat_client import (
    CONNECT_SECONDS,
    Asked,
    ChatClient,
    Learnt,
    ServerFailure,
    check_url,
)
from veritas_rl.players.cost import Purse
from veritas_rl.progress import GENERATED
from veritas_rl.seeding import digest


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
        request: Further parameters of each request, see `Asked.more`.
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
        request: Mapping[str, Any] | None = None,
        purse: Purse | None = None,
    ) -> None:
        if concurrency < 1 or tries < 1 or timeout <= 0:
            raise UserError(
                f"concurrency and tries must be at least 1 and timeout above 0 seconds, got {concurrency}, {tries} and "
                f"{timeout}"
            )
        whole, named = urldefrag(url)
        self.url = check_url(whole)
        if "@" in urlsplit(self.url).netloc:
            raise UserError(
                "a server's address with a password would stand in every report; set OPENAI_API_KEY instead"
            )
        self.model = _model_of(self.url, named)
        self._asked = Asked(
            self.url, self.model, temperature=temperature, top_p=top_p, max_tokens=max_tokens, more=request or {}
        )
        self._seed = seed
        self._said_limit = max_tokens if say_limit else 0
        self._purse = purse
        self._concurrency = concurrency
        self._settings: dict[str, Any] = {
            "seconds": timeout,
            "tries": tries,
            "wait": wait,
            "purse": purse,
            "learnt": Learnt(),
        }
        if purse:
            purse.open(self.model)
            if purse.budget is not None and not self._asked.most_tokens:
                raise UserError("--budget needs a limit of tokens, so --request max_tokens= cannot be used with it")

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
        limit = self._said_limit
        chats = [with_limit(turn.messages, limit, turn.opening) if limit else turn.messages for turn in turns]
        # At temperature 0 equal prompts have equal replies, so they are requested once.
        alike = self._asked.parameters.get("temperature") == 0
        keys = [str(list(chat)) if alike else str(index) for index, chat in enumerate(chats)]
        first = {key: index for index, key in reversed(list(enumerate(keys)))}
        async with ChatClient(min(self._concurrency, len(first)), **self._settings) as client:
            said = await asyncio.gather(*(self._ask(client, turns[index], chats[index]) for index in first.values()))
        answers = dict(zip(first, said, strict=True))
        return [answers[key] for key in keys]

    async def _ask(self, client: ChatClient, turn: Turn, chat: Sequence[Message]) -> Reply:
        # Servers store a seed as a signed 64-bit integer.
        seed = digest("reply", self._seed, *turn.dice) >> 1
        try:
            reply = await client.ask(replace(self._asked, seed=seed), chat)
        except ServerFailure as error:
            raise UserError(str(error)) from error
        GENERATED.add(1, reply.tokens)
        return reply


def _model_of(url: str, named: str) -> str:
    """The model that the server serves. A server that lists no models is asked for the named one."""
    listed = f"the server at {url} does not list its models"
    try:
        with http_client(httpx.Client, timeout=CONNECT_SECONDS) as client:
            response = client.get(f"{url}/models", headers=bearer())
        response.raise_for_status()
        served = [str(model["id"]) for model in response.json()["data"]]
    except httpx.HTTPStatusError as error:
        code = error.response.status_code
        if code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
            hint = "" if bearer() else ": set OPENAI_API_KEY"
            raise UserError(f"{listed} (HTTP {code}){hint}") from None
        explained = "json" in error.response.headers.get("content-type", "")
        served, why = [], f"HTTP {code}" + (f": {short(hide(error.response.text))}" if explained else "")
    except httpx.HTTPError as error:
        said = short(hide(str(error))) or type(error).__name__
        raise UserError(f"no server answers at {url} ({said}); start it, or check the address") from None
    except (ValueError, KeyError, TypeError):
        served, why = [], "the answer is no list"
    else:
        why = "the list is empty"
    if named and named not in served and served:
        raise UserError(f"the server at {url} does not serve {named!r}; it serves {', '.join(served)}")
    if not served and not named:
        raise UserError(f"{listed} ({why}); name one as {url}#NAME")
    if not named and len(served) > 1:
        raise UserError(f"the server at {url} serves {', '.join(served)}; name one as {url}#NAME")
    return named or served[0]
