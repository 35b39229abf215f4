"""Samples the next tokens for a batch whose rows have one or several requests, and parameters of their own."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from veritas_rl.seeding import digest


@dataclass(frozen=True)
class SamplingParams:
    """The sampling parameters of a completion.

    Attributes:
        max_new_tokens: The maximum number of new tokens, at least 1.
        temperature: The divisor of the logits; 0 is greedy.
        top_p: The probability of the smallest set of most likely tokens to sample from, in (0, 1]; 1 is off.
        top_k: The number of most likely tokens to sample from; -1 is off.
        stop_token_ids: Tokens that end the completion, in addition to the model's own.
        seed: The seed of this completion. With it, tokens depend on the prompt and the seed alone, not on other
            requests.
    """

    max_new_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = -1
    stop_token_ids: tuple[int, ...] = ()
    seed: int | None = None

    def __post_init__(self) -> None:
        if self.max_new_tokens < 1:
            raise ValueError(f"max_new_tokens must be at least 1, got {self.max_new_tokens}")
        if not 0 <= self.temperature < float("inf"):
            raise ValueError(f"temperature must be at least 0, got {self.temperature}")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must be in (0, 1], got {self.top_p}")
        if self.top_k != -1 and self.top_k < 1:
            raise ValueError(f"top_k must be at least 1, or -1 for off, got {self.top_k}")


@dataclass(frozen=True)
class Completion:
    """A generated completion.

    Attributes:
        token_ids: The new tokens. If `stop_reason` is "stop", the last one is the stop token.
        logprobs: For each token log_softmax(logits / temperature) in float32, before top-k and top-p, as a trainer
            computes it at that temperature. Greedy counts as temperature 1.
        stop_reason: "stop", "length" or "aborted".
    """

    token_ids: list[int]
    logprobs: list[float]
    stop_reason: str


class Sampler:
    """Samples a token for each request of a batch, with its own random generator."""

    def __init__(self, device: torch.device, seed: int) -> None:
        self._device = device
        self._generator = torch.Generator(device).manual_seed(seed)

    def set_rows(self, rows: Sequence[Sequence[SamplingParams]]) -> None:
        """Set the parameters of the requests of each row. Those of a row have one temperature, top_p and top_k."""

        def column(values: list[float]) -> torch.Tensor:
            return torch.tensor(values, device=self._device).unsqueeze(1)

        first = [params for params, *_ in rows]
        self._greedy = torch.tensor([params.temperature == 0 for params in first], device=self._device)
        self._all_greedy = all(params.temperature == 0 for params in first)
        self._any_greedy = any(params.temperature == 0 for params in first)
        self._temperature = column([params.temperature or 1.0 for params in first])
        self._tempered = any(params.temperature not in (0, 1) for params in first)
        self._truncated = any(params.temperature and (params.top_p < 1 or params.top_k != -1) for params in first)
        self._top_p = column([params.top_p for params in first])
        # A k above every vocabulary size is off.
        self._top_k = column([params.top_k if params.top_k != -1 else 2**31 for params in first])
        self._requests = [(row, params.seed) for row, of_row in enumerate(rows) for params in of_row]
        self._rows = torch.tensor([row for row, _ in self._requests], device=self._device)

    def sample(self, logits: torch.Tensor, written: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
        """Sample one token for each request.

        Args:
            logits: [rows, vocabulary], of any float dtype.
            written: The number of tokens that the requests of each row have generated.

        Returns:
            Token ids and their log-probabilities (see `Completion`), both [requests], row by row.
        """
        logits = logits.float()
        if self._tempered:
            logits = logits / self._temperature
        logprobs = torch.log_softmax(logits, dim=-1)
        if self._all_greedy:
            tokens = logits.argmax(dim=-1)[self._rows]
        elif self._truncated:
            tokens = self._draw_truncated(logprobs, written)
        else:
            tokens = self._draw(logprobs.exp(), written)
        if self._any_greedy and not self._all_greedy:
            tokens = torch.where(self._greedy[self._rows], logits.argmax(dim=-1)[self._rows], tokens)
        return tokens, logprobs[self._rows, tokens]

    def _draw(self, probs: torch.Tensor, written: Sequence[int]) -> torch.Tensor:
        """Sample a column for each request, in proportion to the weights of its row: [requests]."""
        sums = probs.double().cumsum(dim=-1)
        totals = sums[:, -1:].clone()
        number = torch.arange(len(sums), device=self._device).unsqueeze(1)
        # Row r has the numbers from r to r + 1, so that one search serves all requests.
        sums = sums.div_(totals).add_(number)
        if not bool(totals.isfinite().all()):
            # The search needs sorted numbers. These rows draw the first token.
            sums = torch.where(totals.isfinite(), sums, number + 1)
        found = torch.searchsorted(sums.flatten(), self._rows + self._dice(written), right=True)
        return found - self._rows * sums.shape[1]

    def _dice(self, written: Sequence[int]) -> torch.Tensor:
        """A number in [0, 1) for each request: [requests]."""
        # 32 bits, so that a sum with the number of a row stays below the next.
        seeded = [-1.0 if seed is None else (digest(seed, written[row]) >> 32) / 2**32 for row, seed in self._requests]
        dice = torch.tensor(seeded, dtype=torch.float64, device=self._device)
        if any(seed is None for _, seed in self._requests):
            drawn = torch.randint(2**32, dice.shape, generator=self._generator, device=self._device)
            dice = torch.where(dice < 0, drawn.double() / 2**32, dice)
        return dice

    def _draw_truncated(self, logprobs: torch.Tensor, written: Sequence[int]) -> torch.Tensor:
        """Sample from the tokens that top-k and then top-p leave, as `_draw`."""
        probs, order = logprobs.exp().sort(dim=-1, descending=True, stable=True)
        rank = torch.arange(probs.shape[1], device=probs.device)
        probs = probs.masked_fill(rank >= self._top_k, 0.0)
        # top_p is a share of the probability that top-k left. A token is kept if the tokens before it have less than
        # this share, so the first token is always kept.
        before = probs.cumsum(dim=-1) - probs
        share = self._top_p * probs.sum(dim=-1, keepdim=True)
        # top_p 1 keeps every token, despite rounding in the cumulative sum.
        probs = probs.masked_fill((before >= share) & (rank > 0) & (self._top_p < 1), 0.0)
        return order[self._rows, self._draw(probs, written)]
