"""The engine gives the same tokens and log-probabilities as plain transformers, whatever else is in the batch."""

import math
import threading
import time
from collections import Counter
from concurrent.futures import Future, wait
from dataclasses import replace
from random import Random
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM, Qwen3Config, Qwen3ForCausalLM

from veritas_rl.players import generation
from veritas_rl.players.generation import GenerationEngine
from veritas_rl.players.sampling import Completion, Sampler, SamplingParams

VOCABULARY, PAD, MAX_LEN = 64, 0, 96


@pytest.fixture(autouse=True)
def one_thread():
    """Use one thread: two threads slow down small models, especially on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def model() -> Any:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        config = Qwen3Config(
            vocab_size=VOCABULARY,
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=8,
            initializer_range=0.3,  # large, so that attention decides the next token
            tie_word_embeddings=True,
        )
        return Qwen3ForCausalLM(config).eval()


@pytest.fixture
def engine(model: Any):
    engine = GenerationEngine(model, [], PAD, max_batch_size=16, max_model_len=MAX_LEN)
    yield engine
    engine.close()


def prompts(count: int, low: int = 1, high: int = 40, seed: int = 0) -> list[list[int]]:
    random = Random(seed)
    return [[random.randrange(1, VOCABULARY) for _ in range(random.randint(low, high))] for _ in range(count)]


def alone(model: Any, prompt: list[int], tokens: int) -> list[int]:
    """The greedy completion of one prompt by `model.generate`."""
    ids = torch.tensor([prompt])
    made = model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=tokens,
        do_sample=False,
        eos_token_id=None,
        pad_token_id=0,
    )
    return made[0, len(prompt) :].tolist()


def forward_logprobs(model: Any, prompt: list[int], completion: list[int], temperature: float) -> list[float]:
    with torch.no_grad():
        logits = model(torch.tensor([prompt + completion])).logits[0, len(prompt) - 1 : -1].float()
    logprobs = torch.log_softmax(logits / temperature, dim=-1)
    return logprobs.gather(1, torch.tensor(completion).unsqueeze(1)).squeeze(1).tolist()


def slowed(model: Any, monkeypatch: pytest.MonkeyPatch, seconds: float = 0.005) -> list[int]:
    """Slow the model down so that a test can act while it runs; the returned list gets the rows of each forward."""
    forward, calls = model.base_model.forward, []  # also called without the head, for prompts

    def slow(*args: Any, **kwargs: Any) -> Any:
        calls.append(kwargs["input_ids"].shape[0])
        time.sleep(seconds)
        return forward(*args, **kwargs)

    monkeypatch.setattr(model.base_model, "forward", slow)
    return calls


def until(condition: Any) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_greedy_equals_generate_one_by_one(model: Any, engine: GenerationEngine) -> None:
    # There are more requests than rows, so some join when others finish. Lengths of prompts and completions vary.
    asked = [(prompt, 1 + index * 7 % 15) for index, prompt in enumerate(prompts(32))]
    got = engine.generate([(prompt, SamplingParams(tokens, temperature=0.0)) for prompt, tokens in asked])
    for (prompt, tokens), completion in zip(asked, got, strict=True):
        assert completion.token_ids == alone(model, prompt, tokens)
        assert completion.stop_reason == "length"


def test_logprobs_are_those_of_a_forward_pass(model: Any, engine: GenerationEngine) -> None:
    kinds = [
        SamplingParams(12),
        SamplingParams(9, temperature=0.7),
        SamplingParams(15, temperature=1.5, top_k=5),
        SamplingParams(11, temperature=1.2, top_p=0.6),
        SamplingParams(10, temperature=0.0),
    ]
    asked = [(prompt, kinds[index % len(kinds)]) for index, prompt in enumerate(prompts(30, seed=1))]
    for (prompt, params), completion in zip(asked, engine.generate(asked), strict=True):
        assert len(completion.token_ids) == params.max_new_tokens == len(completion.logprobs)
        expected = forward_logprobs(model, prompt, completion.token_ids, params.temperature or 1.0)
        assert completion.logprobs == pytest.approx(expected, abs=1e-4)
        if params.temperature == 0:
            assert completion.token_ids == alone(model, prompt, params.max_new_tokens)


def test_requests_that_join_midway_are_right(
    model: Any, engine: GenerationEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = prompts(20, seed=2)
    expected = [alone(model, prompt, 12) for prompt in asked]
    slowed(model, monkeypatch, 0.002)
    futures = []
    for prompt in asked:
        futures.append(engine.submit(prompt, SamplingParams(12, temperature=0.0)))
        time.sleep(0.004)
    assert [future.result(30).token_ids for future in futures] == expected


def test_long_completions_grow_their_slots(
    model: Any, engine: GenerationEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generation, "LOOKAHEAD_TOKENS", 3)
    asked = prompts(4, seed=3)
    got = engine.generate([(prompt, SamplingParams(40, temperature=0.0)) for prompt in asked])
    assert [completion.token_ids for completion in got] == [alone(model, prompt, 40) for prompt in asked]


def test_a_wave_is_cut_into_prefills_of_bounded_size(
    model: Any, engine: GenerationEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generation, "PREFILL_TOKENS", 50)
    asked = prompts(12, seed=4)
    got = engine.generate([(prompt, SamplingParams(5, temperature=0.0)) for prompt in asked])
    assert [completion.token_ids for completion in got] == [alone(model, prompt, 5) for prompt in asked]


def test_a_short_reply_ends_before_a_long_one(
    model: Any, engine: GenerationEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    slowed(model, monkeypatch)
    long = engine.submit([5, 6, 7], SamplingParams(60))
    short = engine.submit([5, 6, 8], SamplingParams(2))
    assert len(short.result(10).token_ids) == 2
    assert not long.done()
    assert len(long.result(10).token_ids) == 60


def test_identical_prompts_are_prefilled_once(
    model: Any, engine: GenerationEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = prompts(2, low=20, high=30, seed=5)
    expected = [alone(model, first, 3), alone(model, second, 3)]
    calls = slowed(model, monkeypatch, 0.0)
    got = engine.generate([(prompt, SamplingParams(3, temperature=0.0)) for prompt in [first, second] * 4])
    assert [completion.token_ids for completion in got] == expected * 4
    assert calls == [2, 2, 2, 2]  # one prefill of two rows, and three steps, because all replies to a prompt are equal


def test_equal_requests_are_one_row_until_their_tokens_differ(
    model: Any, engine: GenerationEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each seeded request draws what it draws alone, while rows divide, end and are joined by others."""
    asked = [
        (prompt, SamplingParams(3 + seed % 5, temperature=3.0 if seed % 3 else 0.7, seed=seed))
        for prompt in prompts(4, seed=8)
        for seed in range(12)
    ]
    expected = [engine.generate([request])[0] for request in asked]
    calls = slowed(model, monkeypatch, 0.0)
    got = engine.generate(asked[:30])
    assert calls[1] == 4  # the first 16 requests, of two prompts at two temperatures
    assert max(calls) <= 16
    futures = [engine.submit(*request) for request in asked[30:]]
    got += [future.result(20) for future in futures]
    assert [one.token_ids for one in got] == [one.token_ids for one in expected]
    for one, other in zip(got, expected, strict=True):
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-4)


def test_a_divided_row_has_no_more_slots_than_requests(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = GenerationEngine(model, [], PAD, max_batch_size=7, max_model_len=MAX_LEN)
    calls = slowed(model, monkeypatch, 0.0)
    asked = [([5, 6, 7], SamplingParams(6, temperature=2.0, seed=seed)) for seed in range(40)]
    got = engine.generate(asked)
    engine.close()
    assert len({tuple(one.token_ids) for one in got}) > 30
    assert max(calls) == 7


def test_requests_of_one_row_end_each_on_its_own(
    model: Any, engine: GenerationEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompt, (first, second, third, *_) = [5, 6, 8], alone(model, [5, 6, 8], 6)
    assert len({first, second, third}) == 3
    calls = slowed(model, monkeypatch)
    greedy = SamplingParams(6, temperature=0.0)
    engine.pause()
    whole, left = (engine.submit(prompt, greedy) for _ in range(2))
    refused = engine.submit(prompt, greedy, lambda token: token != second)
    short = engine.submit(prompt, SamplingParams(1, temperature=0.0))
    stopped = engine.submit(prompt, SamplingParams(6, temperature=0.0, stop_token_ids=(third,)))
    assert left.cancel()
    engine.resume()
    ends = [(one.result(20).stop_reason, len(one.result().token_ids)) for one in (whole, refused, short, stopped)]
    assert ends == [("length", 6), ("aborted", 2), ("length", 1), ("stop", 3)]
    assert set(calls) == {1}
    futures = [engine.submit(prompt, SamplingParams(60, temperature=0.0)) for _ in range(5)]
    until(lambda: len(calls) > 10)
    assert engine.abort_all() == 5
    assert {one.result(20).stop_reason for one in futures} == {"aborted"}


def test_sampled_tokens_follow_the_model(model: Any) -> None:
    engine = GenerationEngine(model, [], PAD, max_batch_size=500, max_model_len=MAX_LEN, seed=3)
    prompt = [3, 1, 4, 1, 5]
    drawn = Counter(c.token_ids[0] for c in engine.generate([(prompt, SamplingParams(1, temperature=1.5))] * 4000))
    engine.close()
    with torch.no_grad():
        probs = torch.softmax(model(torch.tensor([prompt])).logits[0, -1] / 1.5, dim=-1).tolist()
    for token, prob in enumerate(probs):
        assert drawn[token] / 4000 == pytest.approx(prob, abs=5 * math.sqrt(prob * (1 - prob) / 4000) + 1e-3)


def test_a_seed_fixes_a_batch(model: Any) -> None:
    def draw(seed: int) -> list[Completion]:
        engine = GenerationEngine(model, [], PAD, max_model_len=MAX_LEN, seed=seed)
        state = torch.get_rng_state()
        got = engine.generate([(prompt, SamplingParams(8)) for prompt in [*prompts(10), *prompts(3) * 5]])
        assert torch.equal(torch.get_rng_state(), state)
        engine.close()
        return got

    assert draw(1) == draw(1)
    assert draw(1) != draw(2)


def test_top_k_and_top_p_cut_the_tail() -> None:
    sampler = Sampler(torch.device("cpu"), 0)
    logits = torch.log(torch.tensor([0.5, 0.3, 0.15, 0.05])).repeat(6, 1)
    rows = [
        SamplingParams(1, top_k=1),
        SamplingParams(1, top_k=2),
        SamplingParams(1, top_p=0.4),
        SamplingParams(1, top_p=0.81),
        SamplingParams(1, top_k=3, top_p=0.8),  # top-p applies after top-k: 0.5/0.95 + 0.3/0.95 > 0.8
        SamplingParams(1),
    ]
    sampler.set_rows([[row] for row in rows])
    seen: list[set[int]] = [set() for _ in rows]
    for _ in range(300):
        for row, token in zip(seen, sampler.sample(logits, [0] * len(seen))[0].tolist(), strict=True):
            row.add(token)
    assert seen == [{0}, {0, 1}, {0}, {0, 1, 2}, {0, 1}, {0, 1, 2, 3}]


@pytest.mark.parametrize("cut", [{}, {"top_p": 0.81}, {"top_k": 3}])
def test_seeded_sampling_follows_the_distribution(cut: dict[str, Any]) -> None:
    weights = torch.tensor([0.5, 0.3, 0.15, 0.05])
    count = 4000
    rows = [SamplingParams(1, seed=seed, **cut) for seed in range(count)]
    sampler = Sampler(torch.device("cpu"), 0)
    sampler.set_rows([[row] for row in rows])
    tokens = sampler.sample(torch.log(weights).repeat(count, 1), [3] * count)[0]
    allowed = weights.clone()
    allowed[3 if cut else 4 :] = 0
    expected = allowed / allowed.sum()
    # The tolerance is four standard deviations of a share of 4000 draws.
    assert torch.allclose(torch.bincount(tokens, minlength=4) / count, expected, atol=4 * 0.5 / count**0.5)
    # In another batch, next to a row without a seed, seed 7 draws the same token.
    other = Sampler(torch.device("cpu"), 5)
    other.set_rows([[SamplingParams(1)], [rows[7]]])
    assert other.sample(torch.log(weights).repeat(2, 1), [0, 3])[0][1] == tokens[7]
    # The requests of one row draw the same tokens, and those without a seed follow the distribution too.
    mixed = [row for pair in zip(rows, [SamplingParams(1, **cut)] * count, strict=True) for row in pair]
    other.set_rows([[SamplingParams(1, temperature=0.0)] * 2, mixed])
    together = other.sample(torch.log(weights).repeat(2, 1), [3, 3])[0]
    assert together[:2].tolist() == [0, 0]
    assert together[2::2].equal(tokens)
    assert torch.allclose(torch.bincount(together[3::2], minlength=4) / count, expected, atol=4 * 0.5 / count**0.5)
    # A row that is not finite disturbs no other.
    logits = torch.log(weights).repeat(2, 1)
    logits[0] = torch.nan
    other.set_rows([[SamplingParams(1, seed=1, **cut)], rows])
    assert other.sample(logits, [3, 3])[0].equal(torch.cat([torch.tensor([0]), tokens]))


def test_random_numbers_of_seeds_and_of_tokens_are_independent() -> None:
    """A pair of draws from 16 equal tokens has 256 equal cells, for neighbouring seeds and for neighbouring tokens."""
    seeds, length = 400, 100
    sampler = Sampler(torch.device("cpu"), 0)
    sampler.set_rows([[SamplingParams(1, seed=seed)] for seed in range(seeds)])
    equal = torch.zeros(seeds, 16)
    drawn = torch.stack([sampler.sample(equal, [count] * seeds)[0] for count in range(length)])
    for first, second in ((drawn[:, 1:], drawn[:, :-1]), (drawn[1:], drawn[:-1]), (drawn[1:, 1:], drawn[:-1, :-1])):
        cells = torch.bincount((first * 16 + second).flatten(), minlength=256).double()
        expected = cells.sum() / 256
        statistic = float(((cells - expected) ** 2 / expected).sum())
        # Chi-square with 255 degrees of freedom: mean 255, standard deviation 22.6.
        assert 255 - 4 * 22.6 < statistic < 255 + 4 * 22.6


def test_stop_tokens_end_a_completion_and_are_its_last(model: Any) -> None:
    prompt = prompts(1, low=10, seed=7)[0]
    free = alone(model, prompt, 20)
    end = next(token for index, token in enumerate(free) if index >= 4 and token not in free[:index])
    cut = free[: free.index(end) + 1]
    asks = SamplingParams(20, temperature=0.0)
    with_eos = GenerationEngine(model, [end], PAD, max_model_len=MAX_LEN)
    without = GenerationEngine(model, [], PAD, max_model_len=MAX_LEN)
    by_eos, by_request, unstopped = (
        with_eos.generate([(prompt, asks)])[0],
        *without.generate([(prompt, replace(asks, stop_token_ids=(end,))), (prompt, asks)]),
    )
    with_eos.close()
    without.close()
    assert by_eos.token_ids == by_request.token_ids == cut
    assert by_eos.stop_reason == by_request.stop_reason == "stop"
    assert unstopped.token_ids == free


def test_a_reply_is_cut_where_the_context_ends(model: Any, engine: GenerationEngine) -> None:
    over = engine.submit([1] * MAX_LEN, SamplingParams(5))
    assert over.done()
    assert over.result() == Completion([], [], "length")
    prompt = prompts(1, low=MAX_LEN - 3, high=MAX_LEN - 3)[0]
    got = engine.generate([(prompt, SamplingParams(50, temperature=0.0))])[0]
    assert (got.token_ids, got.stop_reason) == (alone(model, prompt, 3), "length")
    with pytest.raises(ValueError, match="at least one token"):
        engine.submit([], SamplingParams(1))


def test_pause_resume_and_abort(model: Any, engine: GenerationEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = alone(model, [9, 8, 7], 60)
    calls = slowed(model, monkeypatch)
    running = engine.submit([9, 8, 7], SamplingParams(60, temperature=0.0))
    until(lambda: len(calls) >= 5)
    engine.pause()
    waiting = engine.submit([1, 2], SamplingParams(3))
    time.sleep(0.05)
    steps = len(calls)
    time.sleep(0.05)
    assert len(calls) == steps
    assert not running.done()
    engine.resume()
    assert len(waiting.result(10).token_ids) == 3
    until(lambda: len(calls) >= steps + 5)
    assert engine.abort_all() == 1
    stopped = running.result(0)
    assert stopped.stop_reason == "aborted"
    assert 0 < len(stopped.token_ids) == len(stopped.logprobs) < 60
    assert stopped.token_ids == expected[: len(stopped.token_ids)]
    assert engine.generate([([9, 8, 7], SamplingParams(4, temperature=0.0))])[0].token_ids == expected[:4]


def test_no_step_runs_while_the_engine_is_held_exclusively(
    model: Any, engine: GenerationEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = slowed(model, monkeypatch)
    future = engine.submit([1, 2, 3], SamplingParams(40))
    until(lambda: len(calls) >= 3)
    with engine.exclusive():
        steps = len(calls)
        time.sleep(0.05)
        assert len(calls) == steps
        assert not future.done()
    assert len(future.result(10).token_ids) == 40


def test_callbacks_may_submit_and_cancelled_requests_vanish(
    model: Any, engine: GenerationEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    slowed(model, monkeypatch, 0.001)
    second: list[Future[Completion]] = []
    chained = threading.Event()

    def follow(future: Future[Completion]) -> None:
        second.append(engine.submit([1, *future.result().token_ids], SamplingParams(2)))
        chained.set()

    engine.pause()
    first = engine.submit([1], SamplingParams(3))
    first.add_done_callback(follow)
    dropped = engine.submit([2], SamplingParams(3))
    assert dropped.cancel()
    engine.resume()
    assert chained.wait(10)
    assert len(second[0].result(10).token_ids) == 2


def test_an_error_fails_the_requests_and_not_the_engine(model: Any, engine: GenerationEngine) -> None:
    expected = alone(model, [4, 5], 3)
    with pytest.raises(IndexError):
        engine.generate([([VOCABULARY + 7, 1], SamplingParams(3)), ([4, 5], SamplingParams(3))])
    assert engine.generate([([4, 5], SamplingParams(3, temperature=0.0))])[0].token_ids == expected


def test_loaded_weights_replace_those_of_the_engine(model: Any) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        other = Qwen3ForCausalLM(model.config).eval()
        target = Qwen3ForCausalLM(model.config).eval()
    engine = GenerationEngine(target, [], PAD, max_model_len=MAX_LEN)
    weights = {name: tensor.clone() for name, tensor in other.state_dict().items()}
    untied = {name: tensor for name, tensor in weights.items() if name != "lm_head.weight"}
    assert engine.load_weights((name, tensor.double()) for name, tensor in untied.items()) == len(untied)
    got = engine.generate([([1, 2, 3], SamplingParams(8, temperature=0.0))])[0].token_ids
    assert got == alone(other, [1, 2, 3], 8)
    assert engine.load_weights(weights.items()) == len(weights)
    with pytest.raises(ValueError, match=r"unknown nonsense; missing model\.norm\.weight$"):
        engine.load_weights([(k, v) for k, v in weights.items() if k != "model.norm.weight"] + [("nonsense", got)])
    with pytest.raises(ValueError, match=r"model\.norm\.weight needs shape \(32,\), got \(31,\)"):
        engine.load_weights([("model.norm.weight", torch.zeros(31))])
    engine.close()


def test_close_ends_what_runs(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = GenerationEngine(model, [], PAD, max_batch_size=1, max_model_len=MAX_LEN)
    calls = slowed(model, monkeypatch)
    futures = [engine.submit([1, 2], SamplingParams(80)) for _ in range(3)]
    until(lambda: len(calls) >= 3)
    engine.close()
    engine.close()
    assert not wait(futures, timeout=10).not_done
    assert {future.result().stop_reason for future in futures} == {"aborted"}
    with pytest.raises(RuntimeError, match="closed"):
        engine.submit([1], SamplingParams(1))


def test_other_models_and_half_precision() -> None:
    shape: Any = {
        "vocab_size": VOCABULARY,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
    }
    eager: Any = {"attn_implementation": "eager"}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        llama = LlamaForCausalLM(LlamaConfig(**shape, **eager)).eval()
        mistral = MistralForCausalLM(MistralConfig(**shape, sliding_window=8))
    asked = prompts(5)
    engine = GenerationEngine(llama, [], PAD, max_model_len=MAX_LEN)
    got = engine.generate([(prompt, SamplingParams(6, temperature=0.0)) for prompt in asked])
    engine.close()
    assert [completion.token_ids for completion in got] == [alone(llama, prompt, 6) for prompt in asked]
    engine = GenerationEngine(llama.bfloat16(), [], PAD, max_model_len=MAX_LEN)
    assert all(len(c.token_ids) == 6 for c in engine.generate([(prompt, SamplingParams(6)) for prompt in asked]))
    engine.close()
    with pytest.raises(ValueError, match="full attention"):
        GenerationEngine(mistral, [], PAD, max_model_len=MAX_LEN)


@pytest.mark.parametrize(
    "bad", [{"max_new_tokens": 0}, {"temperature": -1.0}, {"top_p": 0.0}, {"top_p": 1.5}, {"top_k": 0}]
)
def test_bad_parameters_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(bad))):
        SamplingParams(**{"max_new_tokens": 1, **bad})
