"""A reply ends at the same tokens in rollout, agent loop, evaluation, judgement, serving and fine-tuning.

The models are small and say one token, whatever they are asked. Their tokenizers are the published ones whose turns end
otherwise than by the tokenizer's end of sequence alone.
"""

import asyncio
import re
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import torch
from omegaconf import OmegaConf
from published_templates import PUBLISHED, generation_config_of, tokenizer_of
from scripted_loop import loop_with
from transformers import AutoTokenizer, Qwen3Config, Qwen3ForCausalLM
from verl.utils.config import omega_conf_to_dataclass

from veritas_rl.chat_template import reply_ids
from veritas_rl.checkpoints.folder import save_model_folder
from veritas_rl.envs.base import Turn
from veritas_rl.launch.hardware import Hardware
from veritas_rl.launch.rl import plan
from veritas_rl.paths import ROOT
from veritas_rl.players.generation import GenerationEngine
from veritas_rl.players.language_model import LanguageModelPlayer
from veritas_rl.players.loading import ModelFiles, load_model
from veritas_rl.players.sampling import SamplingParams
from veritas_rl.verl_plugin.cpu.rollout import GenerationServer

# A base model of Qwen, Llama 3 with three ends and no padding, and Gemma.
ENDS = {
    "chatml": {"<|endoftext|>", "<|im_end|>"},
    "llama3": {"<|end_of_text|>", "<|eom_id|>", "<|eot_id|>"},
    "gemma3": {"<eos>", "<end_of_turn>"},
}
LIMIT = 5


@pytest.fixture(scope="module", params=sorted(ENDS))
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def folder(name: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose hidden states are all ones."""
    tokenizer = tokenizer_of(name)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        max_position_embeddings=4096,
        tie_word_embeddings=False,
    )
    model = Qwen3ForCausalLM(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.model.embed_tokens.weight.fill_(1.0)
        model.model.norm.weight.fill_(1.0)
    model.generation_config = generation_config_of(name)
    return save_model_folder(model, tokenizer, tmp_path_factory.mktemp("models") / name)


def says(model: Any, token: int) -> None:
    """Let a model of `folder` say a token, whatever it is asked."""
    with torch.no_grad():
        model.lm_head.weight.zero_()
        model.lm_head.weight[token] = 10.0


def ordinary(tokenizer: Any) -> int:
    return tokenizer.encode("b", add_special_tokens=False)[0]


def test_evaluation_and_serving_end_a_reply_at_each_of_them(name: str, folder: Path) -> None:
    loaded = load_model(ModelFiles(folder), LIMIT, 4)
    assert {loaded.tokenizer.decode([token]) for token in loaded.engine.eos_token_ids} == ENDS[name]
    player = LanguageModelPlayer(loaded.engine, loaded.tokenizer, SamplingParams(LIMIT, temperature=0.0))
    turn = Turn(0, ({"role": "user", "content": "Your move."},), ())
    try:
        for token in loaded.engine.eos_token_ids:
            says(loaded.engine.model, token)
            (reply,) = player.act([turn])
            assert (reply.text, reply.truncated, reply.tokens) == ("", False, 1)
        says(loaded.engine.model, ordinary(loaded.tokenizer))
        (reply,) = player.act([turn])
        assert (reply.text, reply.truncated, reply.tokens) == ("b" * LIMIT, True, LIMIT)
    finally:
        loaded.engine.close()


def test_every_engine_of_the_package_takes_its_ends_from_there() -> None:
    made = [path for path in (ROOT / "veritas_rl").rglob("*.py") if re.search(r"GenerationEngine\(", path.read_text())]
    assert made == []
    # The rollout, the players of tools, and the launcher's.
    assert (
        len([path for path in (ROOT / "veritas_rl").rglob("*.py") if "GenerationEngine.of(" in path.read_text()]) >= 3
    )


def test_the_rollout_ends_a_reply_at_each_of_them(name: str, folder: Path) -> None:
    typed = [f"actor_rollout_ref.model.path={folder}"]
    made = plan(typed, {}, Hardware(2, 0, 0), datetime(2026, 1, 2, 3, 4, 5)).configuration.actor_rollout_ref
    server = GenerationServer()
    server.begin(omega_conf_to_dataclass(made.rollout), made.model, "cpu")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    asked = {"temperature": 0.0, "max_tokens": LIMIT}
    try:
        for end in ENDS[name]:
            token = tokenizer.convert_tokens_to_ids(end)
            says(server.engine.model, token)
            assert asyncio.run(server.generate("", prompt_ids=[1, 2], sampling_params=asked)).token_ids == [token]
        says(server.engine.model, ordinary(tokenizer))
        assert len(asyncio.run(server.generate("", prompt_ids=[1, 2], sampling_params=asked)).token_ids) == LIMIT
    finally:
        server.engine.close()


def test_the_agent_loop_asks_servers_to_end_at_each_of_them(name: str) -> None:
    tokenizer = tokenizer_of(name)
    nodes = {"rollout": {"prompt_length": 9, "response_length": 9, "agent": {"num_workers": 1}}}
    data = {"apply_chat_template_kwargs": {}}
    config = OmegaConf.create(
        {"actor_rollout_ref": nodes, "trainer": {"nnodes": 1}, "data": data, "veritas_rl": {"say_limit": False}}
    )

    async def ends() -> frozenset[int]:
        async def never(**_: Any) -> Any:
            raise AssertionError

        return loop_with(never, tokenizer, config, generation_config_of(name))._ends

    assert {tokenizer.decode([token]) for token in asyncio.run(ends())} == ENDS[name]


def test_fine_tuning_teaches_an_end_at_which_replies_end(name: str) -> None:
    tokenizer = tokenizer_of(name)
    learned = tokenizer.decode(reply_ids(tokenizer, "b2")[-1:])
    assert learned == PUBLISHED[name].end_of_turn
    assert learned in ENDS[name]


def test_a_tokenizer_without_padding_is_served(name: str, folder: Path) -> None:
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    tokenizer.pad_token = None
    model = Qwen3ForCausalLM.from_pretrained(folder)
    engine = GenerationEngine.of(model, tokenizer, max_model_len=20)
    try:
        says(engine.model, ordinary(tokenizer))
        replies = engine.generate([([1] * length, SamplingParams(3, temperature=0.0)) for length in (2, 7)])
        assert [len(reply.token_ids) for reply in replies] == [3, 3]
    finally:
        engine.close()
