"""The transformers rollout in a real Ray actor: generation, log-probabilities, and new weights."""

import asyncio
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import ray
import torch
from ray.exceptions import RayTaskError
from transformers import AutoModelForCausalLM
from verl.utils.config import omega_conf_to_dataclass

from veritas_rl.launch.hardware import Hardware
from veritas_rl.launch.rl import plan
from veritas_rl.launch.tiny_model import build_tiny_model
from veritas_rl.verl_plugin.cpu.client import BatchingClient, server_name
from veritas_rl.verl_plugin.cpu.rollout import GenerationServer

PROMPTS = [list(range(10 + index, 30 + 2 * index)) for index in range(6)]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two models with different weights."""
    return [build_tiny_model(tmp_path_factory.mktemp("models") / f"model{seed}", seed=seed) for seed in (0, 1)]


@pytest.fixture(scope="module")
def servers(folders: list[Path]) -> Iterator[list[Any]]:
    """Two generation servers of the first model."""
    typed = [f"actor_rollout_ref.model.path={folders[0]}"]
    made = plan(typed, {}, Hardware(2, 0, 0), datetime(2026, 1, 2, 3, 4, 5)).configuration.actor_rollout_ref
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        remote: Any = ray.remote(GenerationServer)
        both = [remote.options(name=server_name(rank)).remote() for rank in range(2)]
        rollout = omega_conf_to_dataclass(made.rollout)
        ray.get([server.begin.remote(rollout, made.model, "cpu", rank) for rank, server in enumerate(both)])
        yield both
    finally:
        ray.shutdown()


@pytest.fixture
def server(servers: list[Any]) -> Any:
    """The first server."""
    return servers[0]


def load(server: Any, folder: Path, global_steps: int) -> None:
    """Send a model's weights to the server in two buckets."""
    weights = list(AutoModelForCausalLM.from_pretrained(folder).state_dict().items())
    middle = len(weights) // 2
    ray.get(server.load_weights.remote(weights[:middle], last=False))
    ray.get(server.load_weights.remote(weights[middle:], last=True))
    ray.get(server.set_global_steps.remote(global_steps))


def generate(server: Any, limits: list[int], temperature: float) -> list[Any]:
    return ray.get(
        [
            server.generate.remote(
                str(index), prompt_ids=prompt, sampling_params={"temperature": temperature, "max_tokens": limit}
            )
            for index, (prompt, limit) in enumerate(zip(PROMPTS, limits, strict=True))
        ]
    )


def plain_logprobs(folder: Path, prompt: list[int], reply: list[int], temperature: float) -> torch.Tensor:
    """The log-probabilities of a reply from one forward pass, as in the trainer."""
    model = AutoModelForCausalLM.from_pretrained(folder)
    with torch.no_grad():
        logits = model(torch.tensor([prompt + reply])).logits[0, len(prompt) - 1 : -1] / temperature
    return torch.log_softmax(logits, -1).gather(1, torch.tensor(reply)[:, None])[:, 0]


def greedy(folder: Path, prompt: list[int], length: int) -> list[int]:
    model: Any = AutoModelForCausalLM.from_pretrained(folder)
    reply = model.generate(torch.tensor([prompt]), max_new_tokens=length, do_sample=False)[0, len(prompt) :]
    return reply.tolist()


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_log_probabilities_are_the_trainers(server: Any, folders: list[Path], temperature: float) -> None:
    for prompt, output in zip(PROMPTS, generate(server, [8, 1, 3, 8, 2, 5], temperature), strict=True):
        expected = plain_logprobs(folders[0], prompt, output.token_ids, temperature)
        assert torch.tensor(output.log_probs) == pytest.approx(expected, abs=1e-4)


def test_each_request_has_its_own_limit(server: Any) -> None:
    limits = [8, 1, 3, 8, 2, 5]
    outputs = generate(server, limits, 1.0)
    assert all(1 <= len(output.token_ids) <= limit for output, limit in zip(outputs, limits, strict=True))
    assert {output.stop_reason for output in outputs} == {"completed"}


def test_new_weights_in_buckets_make_it_the_other_model(server: Any, folders: list[Path]) -> None:
    load(server, folders[1], 7)
    outputs = generate(server, [6] * len(PROMPTS), 0)
    assert [output.token_ids for output in outputs] == [greedy(folders[1], prompt, 6) for prompt in PROMPTS]
    assert {output.extra_fields["global_steps"] for output in outputs} == {7}


def test_an_interrupted_reply_continues_with_the_new_weights(server: Any, folders: list[Path]) -> None:
    load(server, folders[0], 1)
    # The old weights would give an empty reply to the first prompt.
    first, *prompts = PROMPTS

    async def cut_off() -> list[Any]:
        client = BatchingClient(1)
        params = {"temperature": 0, "max_tokens": 200}
        # One request arrives while generation is paused, like that of a game whose opponent has just moved.
        asked = [asyncio.ensure_future(client.generate("", prompt_ids=ids, sampling_params=params)) for ids in prompts]
        await asyncio.sleep(0.1)
        await server.abort_all_requests.remote()
        asked.append(asyncio.ensure_future(client.generate("", prompt_ids=first, sampling_params=params)))
        await asyncio.sleep(0.05)
        assert not any(reply.done() for reply in asked)
        await asyncio.to_thread(load, server, folders[1], 2)
        await server.resume_generation.remote()
        return await asyncio.gather(*asked)

    *cut, late = asyncio.run(cut_off())
    assert late.token_ids == greedy(folders[1], first, 200)
    assert {late.extra_fields[name] for name in ("min_global_steps", "max_global_steps")} == {2}
    for prompt, output in zip(prompts, cut, strict=True):
        assert (output.extra_fields["min_global_steps"], output.extra_fields["max_global_steps"]) == (1, 2)
        assert len(output.token_ids) == len(output.log_probs) == 200
        old = greedy(folders[0], prompt, 200)
        split = next(place for place, (a, b) in enumerate(zip(old, output.token_ids, strict=True)) if a != b)
        # The first tokens of the new weights may equal those of the old weights.
        assert any(
            output.token_ids[place:] == greedy(folders[1], prompt + old[:place], 200 - place)
            for place in range(split, 0, -1)
        )


def asked_together(servers: int, seeds: list[int | None], tokens: int = 12) -> list[list[int]]:
    """The replies to copies of one prompt."""

    async def ask() -> list[Any]:
        client = BatchingClient(servers)
        params = [{"max_tokens": tokens, **({} if seed is None else {"seed": seed})} for seed in seeds]
        asked = [client.generate("", prompt_ids=PROMPTS[0], sampling_params=some) for some in params]
        return await asyncio.gather(*asked)

    return [reply.token_ids for reply in asyncio.run(ask())]


def test_copies_of_a_prompt_on_two_servers_have_different_replies(servers: list[Any], folders: list[Path]) -> None:
    for one in servers:
        load(one, folders[0], 1)
    without = asked_together(2, [None] * 4)
    assert len({tuple(reply) for reply in without}) == 4
    seeded = asked_together(2, [3, 4, 5, 6])
    assert len({tuple(reply) for reply in seeded}) == 4
    # A seed gives the same reply on any server, next to any other request.
    assert asked_together(1, [6, 5, 4, 3, 9]) == [*seeded[::-1], *asked_together(1, [9])]


def test_an_interrupted_reply_does_not_repeat_its_random_numbers(server: Any, folders: list[Path]) -> None:
    """All tokens are about equally likely, so a token is about proportional to its random number."""
    load(server, folders[0], 1)
    seeds = range(24)
    whole = asked_together(1, list(seeds), 200)

    async def cut_off(after: float) -> list[Any]:
        params = [{"max_tokens": 200, "seed": seed} for seed in seeds]
        client = BatchingClient(1)
        asked = [client.generate("", prompt_ids=PROMPTS[0], sampling_params=some) for some in params]
        waiting = asyncio.gather(*asked)
        await asyncio.sleep(after)
        await server.abort_all_requests.remote()
        await server.resume_generation.remote()
        return await waiting

    pairs: list[tuple[int, int]] = []
    for after in (0.1, 0.2, 0.4, 0.8, 1.6):  # a busy machine starts later
        for reply, other in zip(asyncio.run(cut_off(after)), whole, strict=True):
            said = reply.token_ids
            same = next((place for place, (a, b) in enumerate(zip(said, other, strict=False)) if a != b), len(said))
            pairs += zip(said[:same], said[same:], strict=False)
        if len(pairs) > 200:
            break
    assert abs(torch.corrcoef(torch.tensor(pairs).double().T)[0, 1]) < 4 / len(pairs) ** 0.5


def test_weights_that_are_not_the_models_are_refused(server: Any) -> None:
    with pytest.raises(RayTaskError, match="unknown nonsense"):
        ray.get(server.load_weights.remote([("nonsense", torch.ones(1))], last=True))
