"""A request to the generation engine, and the tokens that it has so far."""

from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from veritas_rl.players.sampling import Completion, SamplingParams


@dataclass(eq=False)
class Request:
    """A request, which changes while its completion grows.

    Attributes:
        prompt: The tokens of the prompt.
        params: The sampling parameters.
        limit: The number of new tokens that fit.
        stops: The tokens that end the completion.
        future: The future of the completion.
        on_token: Called with each new token; if it returns False, the completion ends.
        token_ids: The new tokens.
        logprobs: Their log-probabilities.
    """

    prompt: tuple[int, ...]
    params: SamplingParams
    limit: int
    stops: frozenset[int]
    future: Future[Completion]
    on_token: Callable[[int], bool] | None = None
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)

    @property
    def length(self) -> int:
        """The number of tokens of the prompt and of the completion so far."""
        return len(self.prompt) + len(self.token_ids)

    @property
    def likeness(self) -> tuple[Any, ...]:
        """What requests have in common whose next token has the same distribution."""
        return self.prompt, self.params.temperature, self.params.top_p, self.params.top_k

    def add(self, token: int, logprob: float) -> str | None:
        """Add a token, and return the stop reason if the completion ends with it."""
        self.token_ids.append(token)
        self.logprobs.append(logprob)
        go_on = self.on_token is None or self.on_token(token)
        if token in self.stops:
            return "stop"
        if len(self.token_ids) >= self.limit:
            return "length"
        return None if go_on else "aborted"

    def finish(self, stop_reason: str) -> None:
        with suppress(InvalidStateError):  # the caller cancelled the future
            self.future.set_result(Completion(self.token_ids, self.logprobs, stop_reason))

    def fail(self, error: Exception) -> None:
        with suppress(InvalidStateError):
            self.future.set_exception(error)
