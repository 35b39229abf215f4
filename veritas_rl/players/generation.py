"""Continuous batching over a Hugging Face causal language model: token ids in, token ids and log-probabilities out.

The requests of a rollout differ in length and arrive at any time. In one `model.generate` call each request would wait
for the longest one. In this engine a background thread runs one batch. Requests join the batch between two steps. A
request leaves the batch at the step that ends it, and its future resolves. The engine needs only torch and
transformers, so it also works without an inference server: on a CPU, in an evaluation, in a test.

Why the engine is fast:

- Each row owns a slot of one key-value buffer with its own length. No step concatenates, shifts or left-pads rows. The
  last row takes the slot of a row that left.
- Prefill stops one token before the end of a prompt; the last token is the row's first decode step. So prefill needs no
  logits, and no mask, because padding is on the right, where causal attention never reads.
- Equal requests that join in the same step, as a group of rollouts does, are one row until their tokens differ. Then
  each part has a copy of the slot.
- A decode step reads the buffer in place, without repeating it for each query head (`slot_kv_cache`).
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import torch
from transformers import DynamicCache

from veritas_rl.chat_template import end_tokens
from veritas_rl.lengths import parts_of_similar_length
from veritas_rl.players.generation_request import Request
from veritas_rl.players.processor import one_thread
from veritas_rl.players.sampling import Completion, Sampler, SamplingParams
from veritas_rl.players.slot_kv_cache import SlotKVCache, read_slots_in_place
from veritas_rl.progress import GENERATED

GATHER_SECONDS = 0.003
"""Seconds that an idle engine waits after a first request, so that requests sent together are prefilled together."""

PREFILL_TOKENS = 4096
"""The maximum number of tokens of a prefill pass, with padding. It bounds memory."""

LOOKAHEAD_TOKENS = 256
"""The number of tokens that are allocated in a slot beyond the row's length. More are allocated later if needed."""


class GenerationEngine:
    """Serves generation requests from one model, on the model's device.

    Every method may be called from any thread. Methods that wait for the engine (`generate`, `exclusive`, `abort_all`,
    `load_weights`, `close`) may not be called from a callback of one of its futures, which runs inside the engine.

    Args:
        model: A transformers causal language model with full attention in every layer. It is put in eval mode. The
            attention implementation "sdpa" is replaced by an equivalent one.
        eos_token_ids: Tokens that end every completion.
        pad_token_id: Any token of the vocabulary, as padding is never attended to; None for an end token.
        max_batch_size: The maximum number of requests that run at once; others wait.
        max_model_len: The maximum number of tokens of prompt and completion together.
        seed: The seed of the engine's random generator. The same requests in the same batches give the same tokens;
            requests in another order do not.

    Raises:
        ValueError: The model's attention is not supported, or a number is out of range.
    """

    def __init__(
        self,
        model: Any,
        eos_token_ids: Iterable[int],
        pad_token_id: int | None,
        *,
        max_batch_size: int = 256,
        max_model_len: int,
        seed: int = 0,
    ) -> None:
        if max_batch_size < 1 or max_model_len < 2:
            raise ValueError(
                f"max_batch_size must be at least 1 and max_model_len 2, got {max_batch_size} and {max_model_len}"
            )
        _check_attention(model.config)
        read_slots_in_place(model)
        self.model = model.eval()
        self.max_batch_size = max_batch_size
        self.max_model_len = max_model_len
        self.eos_token_ids = frozenset(eos_token_ids)
        self._pad = min(self.eos_token_ids) if pad_token_id is None else pad_token_id
        self._sampler = Sampler(model.device, seed)
        self._state = threading.Condition()
        """Guards all fields below except `_rows` and `_slots`, which belong to the holder of the engine."""
        self._queue: deque[Request] = deque()
        self._held = False
        """Whether a step or an `exclusive` block holds the engine."""
        self._claims = 0
        """The number of callers that wait for or are in an `exclusive` block; the loop yields to them."""
        self._paused = False
        self._closed = False
        self._thread: threading.Thread | None = None
        self._threads = torch.get_num_threads()
        self._rows: list[list[Request]] = []
        """The running batch; row i has slot i. Requests of a row have equal likeness and equal tokens so far."""
        self._slots = SlotKVCache(max_batch_size)

    @classmethod
    def of(cls, model: Any, tokenizer: Any, **settings: int) -> "GenerationEngine":
        """The engine of a model with its tokenizer, whose replies end as `end_tokens` says.

        Args:
            model: The model, with its generation config.
            tokenizer: The model's tokenizer.
            settings: max_batch_size, max_model_len and seed.

        Raises:
            UserError: No token ends a reply.
            ValueError: As for the class.
        """
        return cls(model, end_tokens(tokenizer, model.generation_config), tokenizer.pad_token_id, **settings)

    def submit(
        self, prompt_ids: Sequence[int], params: SamplingParams, on_token: Callable[[int], bool] | None = None
    ) -> Future[Completion]:
        """Request one completion, without waiting for it.

        Args:
            prompt_ids: The tokens of the prompt, at least one.
            params: The sampling parameters. `max_new_tokens` is cut to what `max_model_len` leaves.
            on_token: Called with each new token on the engine's thread. It must be fast and must not raise. If it
                returns False, the completion ends there as "aborted".

        Returns:
            A future of the completion. A prompt of `max_model_len` tokens or more gives an empty completion at once,
            with the stop reason "length". An error in the model is set as the future's exception.

        Raises:
            ValueError: The prompt is empty.
            RuntimeError: The engine is closed.
        """
        future: Future[Completion] = Future()
        self._submit([self._request(prompt_ids, params, future, on_token)])
        return future

    def generate(self, requests: Sequence[tuple[Sequence[int], SamplingParams]]) -> list[Completion]:
        """Complete many prompts, in order, and wait for all. Raises as `submit`, or the model's error."""
        made = [self._request(prompt, params, Future()) for prompt, params in requests]
        self._submit(made)
        return [request.future.result() for request in made]

    def pause(self) -> None:
        """Stop after the current step until `resume`. Running requests are kept, and new ones wait."""
        with self._state:
            self._paused = True

    def resume(self) -> None:
        """Continue after `pause`."""
        with self._state:
            self._paused = False
            self._state.notify_all()

    def abort_all(self) -> int:
        """Resolve every running and waiting request with the tokens it has, as "aborted".

        Returns:
            The number of these requests.
        """
        with self.exclusive():
            with self._state:
                requests = self._running + list(self._queue)
                self._queue.clear()
            self._drop_rows()
        for request in requests:
            request.finish("aborted")
        return len(requests)

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the engine between two steps. Within the block the model does not run and may be changed.

        Running requests continue afterwards with the keys and values of the previous weights. Call `abort_all` first if
        that matters.
        """
        if threading.current_thread() is self._thread:
            raise RuntimeError("a callback of a future cannot hold its own engine; call this from another thread")
        with self._state:
            self._claims += 1
            self._state.wait_for(lambda: not self._held)
            self._held = True
        try:
            yield
        finally:
            with self._state:
                self._held = False
                self._claims -= 1
                self._state.notify_all()

    def load_weights(
        self, weights: Iterable[tuple[str, torch.Tensor]], wanted: Callable[[str], bool] = lambda name: True
    ) -> int:
        """Copy weights into the model in place while the engine is held.

        Each tensor is copied when it arrives, so a sender may reuse its buffer. After an error the model contains a
        mixture of old and new weights, and must be loaded again.

        Args:
            weights: Pairs of a name of `model.state_dict()` and a tensor of that shape, of any dtype and device. One
                name of a set of tied weights is enough.
            wanted: Whether the weight of a name must arrive; other names are rejected. By default every weight
                must arrive.

        Returns:
            The number of copied tensors.

        Raises:
            ValueError: Names are unknown or missing, or a shape differs; the message names them.
        """
        targets = {name: weight for name, weight in self.model.state_dict(keep_vars=True).items() if wanted(name)}
        covered: set[int] = set()
        unknown: list[str] = []
        count = 0
        with self.exclusive(), one_thread(), torch.no_grad():
            for name, tensor in weights:
                target = targets.get(name)
                if target is None:
                    unknown.append(name)
                    continue
                if target.shape != tensor.shape:
                    raise ValueError(f"weight {name} needs shape {tuple(target.shape)}, got {tuple(tensor.shape)}")
                target.copy_(tensor)
                covered.add(id(target))
                count += 1
        missing = [name for name, target in targets.items() if id(target) not in covered]
        if unknown or missing:
            raise ValueError(f"weights do not fit the model: unknown {_few(unknown)}; missing {_few(missing)}")
        return count

    def close(self) -> None:
        """End the engine. Running and waiting requests resolve as "aborted". Closing twice is harmless."""
        with self._state:
            self._closed = True
            self._state.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join()

    def _request(
        self,
        prompt_ids: Sequence[int],
        params: SamplingParams,
        future: Future[Completion],
        on_token: Callable[[int], bool] | None = None,
    ) -> Request:
        if not len(prompt_ids):
            raise ValueError("the prompt is empty; it must have at least one token")
        limit = min(params.max_new_tokens, self.max_model_len - len(prompt_ids))
        stops = self.eos_token_ids | frozenset(params.stop_token_ids)
        return Request(tuple(prompt_ids), params, limit, stops, future, on_token)

    def _submit(self, requests: Sequence[Request]) -> None:
        with self._state:
            if self._closed:
                raise RuntimeError("the engine is closed")
            self._queue.extend(request for request in requests if request.limit > 0)
            if self._thread is None:
                self._thread = threading.Thread(target=self._loop, name="generation-engine", daemon=True)
                self._thread.start()
            self._state.notify_all()
        for request in requests:
            if request.limit <= 0:
                request.finish("length")

    # The methods below run on the engine's thread, or while the engine is held.

    def _loop(self) -> None:
        torch.set_num_threads(self._threads)  # another thread may be in `one_thread`
        with torch.inference_mode():
            while True:
                with self._state:
                    self._state.wait_for(lambda: self._closed or self._may_step())
                    if self._closed:
                        break
                    idle = not self._rows
                if idle:
                    time.sleep(GATHER_SECONDS)
                with self._state:
                    if self._closed:
                        break
                    if not self._may_step():  # the engine was held, or requests were aborted, in the meantime
                        continue
                    self._held = True
                    free = self.max_batch_size - len(self._running)
                    joining = [self._queue.popleft() for _ in range(min(free, len(self._queue)))]
                self._step(joining)
        self._end()

    @property
    def _running(self) -> list[Request]:
        return [request for row in self._rows for request in row]

    def _may_step(self) -> bool:
        return not (self._paused or self._claims or self._held) and bool(self._queue or self._rows)

    def _step(self, joining: list[Request]) -> None:
        """Admit `joining`, decode a token for every request, resolve those that end, and release the engine."""
        concerned = self._running + joining
        done: dict[Request, str] = {}
        error: Exception | None = None
        try:
            self._admit([request for request in joining if request.future.set_running_or_notify_cancel()])
            if self._rows:
                self._decode(done)
        except Exception as caught:
            # The buffer may be half written, so all running requests fail. Waiting requests are kept.
            error = caught
            self._drop_rows()
        finally:
            with self._state:
                self._held = False
                self._state.notify_all()
        # Futures resolve after the engine is released, so that a callback may submit the next request.
        for request, stop_reason in done.items():
            request.finish(stop_reason)
        if error is not None:
            for request in concerned:
                if request not in done:
                    request.fail(error)

    def _admit(self, joining: list[Request]) -> None:
        """Prefill all but the last token of each distinct prompt, and give each row of alike requests a slot."""
        if not joining:
            return
        alike: dict[tuple[Any, ...], list[Request]] = {}
        for request in joining:
            alike.setdefault(request.likeness, []).append(request)
        groups: dict[tuple[int, ...], list[list[Request]]] = {}
        for row in alike.values():
            groups.setdefault(row[0].prompt[:-1], []).append(row)
        prefixes = list(groups)
        lengths = [max(len(prefix), 1) for prefix in prefixes]
        rows, total = self._rows, len(self._rows) + len(alike)
        columns = self._columns([*self._running, *joining])
        for part in parts_of_similar_length(lengths, max(PREFILL_TOKENS, *lengths)):
            wave, width = [prefixes[index] for index in part], max(lengths[index] for index in part)
            ids = torch.tensor([(*prefix, *[self._pad] * (width - len(prefix))) for prefix in wave])
            cache = DynamicCache(config=self.model.config)
            # The model without its head, because nothing is drawn yet.
            self.model.base_model(input_ids=ids.to(self.model.device), past_key_values=cache, use_cache=True)
            source = [index for index, prefix in enumerate(wave) for _ in groups[prefix]]
            self._slots.write(cache, source, len(rows), total, columns)
            rows = [*rows, *(row for prefix in wave for row in groups[prefix])]
        self._set_rows(rows)

    def _set_rows(self, rows: list[list[Request]]) -> None:
        """Make these the running batch, whose keys and values are in their slots."""
        self._rows = rows
        self._sampler.set_rows([[request.params for request in row] for row in rows])
        first = [request for request, *_ in rows]
        self._slots.set_rows(
            [request.token_ids[-1] if request.token_ids else request.prompt[-1] for request in first],
            [request.length - 1 for request in first],
        )

    def _columns(self, requests: Sequence[Request]) -> int:
        """The length of slots with space for the next `LOOKAHEAD_TOKENS` tokens of every request."""
        return max(
            len(request.prompt) + min(request.limit, len(request.token_ids) + LOOKAHEAD_TOKENS) for request in requests
        )

    def _decode(self, done: dict[Request, str]) -> None:
        """Decode a token for every request. Those that end leave the batch and enter `done` with their stop reasons."""
        slots, running = self._slots, self._running
        span = max(row[0].length for row in self._rows)
        if span > slots.columns:
            slots.reserve(len(self._rows), self._columns(running))
        logits = self.model(**slots.decode_inputs(span), use_cache=True).logits[:, -1]
        tokens, logprobs = self._sampler.sample(logits, [len(row[0].token_ids) for row in self._rows])
        for request, token, logprob in zip(running, tokens.tolist(), logprobs.tolist(), strict=True):
            if (stop_reason := request.add(token, logprob)) is not None:
                done[request] = stop_reason
        kept: list[tuple[int, list[Request]]] = []
        for slot, row in enumerate(self._rows):
            branches: dict[int, list[Request]] = {}
            for request in row:
                if request not in done:
                    branches.setdefault(request.token_ids[-1], []).append(request)
            kept += [(slot, branch) for branch in branches.values()]
        GENERATED.add(len(done), len(running))
        if not kept:
            self._drop_rows()
        elif done or len(kept) > len(self._rows):
            self._place(kept)
        else:
            slots.advance([row[0].token_ids[-1] for row in self._rows])

    def _place(self, kept: list[tuple[int, list[Request]]]) -> None:
        """Make the rows after a step the running batch.

        Args:
            kept: The slot of each row before the step, ascending, and its requests. The first row of a slot stays in it
                unless it is beyond the new end. The others go to the free slots.
        """
        self._slots.reserve(len(kept), self._slots.columns)
        stay: dict[int, list[Request]] = {}
        movers: list[tuple[int, list[Request]]] = []
        for slot, row in kept:
            if slot < len(kept) and slot not in stay:
                stay[slot] = row
            else:
                movers.append((slot, row))
        holes = [slot for slot in range(len(kept)) if slot not in stay]
        self._slots.copy([slot for slot, _ in movers], holes)
        stay |= zip(holes, (row for _, row in movers), strict=True)
        self._set_rows([stay[slot] for slot in range(len(kept))])

    def _drop_rows(self) -> None:
        """Empty the batch and free its memory, because a trainer may share the device."""
        self._rows = []
        self._slots.clear()

    def _end(self) -> None:
        with self._state:
            self._state.wait_for(lambda: not self._held)
            requests = self._running + list(self._queue)
            self._queue.clear()
            self._drop_rows()
        for request in requests:
            request.finish("aborted")


def _check_attention(config: Any) -> None:
    # A slot contains all past tokens of a row, so sliding-window or other attention would give wrong results.
    text = config.get_text_config(decoder=True)
    kinds = set(getattr(text, "layer_types", None) or ["full_attention"])
    window = getattr(text, "sliding_window", None) if getattr(text, "layer_types", None) is None else None
    if kinds != {"full_attention"} or window is not None:
        raise ValueError(
            f"the engine supports only full attention, got layers {sorted(kinds)} and sliding window {window}; "
            "serve this model with vLLM"
        )


def _few(names: Sequence[str]) -> str:
    return (", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")) or "none"
