"""The name of a player opens the right model or bot, or gives a one-line error."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from veritas_rl.envs.base import Turn
from veritas_rl.errors import UserError
from veritas_rl.players.loading import NamedPlayer, ReplySettings, check_player, open_player, players_in

SETTINGS = ReplySettings(max_tokens=6)
TURNS = [Turn(0, ({"role": "user", "content": text},), (), dice=(text,)) for text in ("one", "two", "three")]


def said(player: NamedPlayer) -> list[str]:
    texts = [reply.text for reply in player.player.act(TURNS)]
    player.close()
    return texts


def moved(base: Path) -> Any:
    """The model of a folder with changed weights."""
    model: Any = AutoModelForCausalLM.from_pretrained(base)
    with torch.no_grad():
        model.lm_head.weight.mul_(-1.0)
    return model


@pytest.fixture
def adapter(tiny_model: Path, tmp_path: Path) -> Path:
    """The folder of a peft adapter that changes the model's output."""
    model = get_peft_model(AutoModelForCausalLM.from_pretrained(tiny_model), LoraConfig(r=4, target_modules=["o_proj"]))
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "lora_B" in name:
                weight.copy_(torch.randn(weight.shape, generator=generator))
    model.save_pretrained(str(tmp_path / "adapter"))
    return tmp_path / "adapter"


@pytest.fixture
def step(tiny_model: Path, tmp_path: Path) -> Path:
    """A trainer's checkpoint of one rank."""
    actor = tmp_path / "experiment/global_step_3/actor"
    actor.mkdir(parents=True)
    torch.save(moved(tiny_model).state_dict(), actor / "model_world_size_1_rank_0.pt")
    own = shutil.copytree(tiny_model, actor / "huggingface")
    (own / "model.safetensors").unlink()
    return actor.parent


def test_a_model_folder_is_a_player(tiny_model: Path, tmp_path: Path) -> None:
    player = open_player(str(tiny_model), "openspiel", SETTINGS, tmp_path)
    copy = open_player(str(shutil.copytree(tiny_model, tmp_path / "copy")), "openspiel", SETTINGS, tmp_path)
    moved(tiny_model).save_pretrained(tmp_path / "copy")
    other = open_player(str(tmp_path / "copy"), "openspiel", SETTINGS, tmp_path)
    # The identity depends on the weights and the sampling settings, not on the folder.
    assert player.identity == copy.identity != other.identity
    assert player.identity != open_player(str(tiny_model), "openspiel", ReplySettings(max_tokens=7), tmp_path).identity
    assert said(player) == said(copy) != said(other)
    assert player.is_model


@pytest.mark.parametrize("whole", [True, False])
def test_a_raw_checkpoint_is_merged_once(step: Path, tiny_model: Path, tmp_path: Path, whole: bool) -> None:
    name = str(step if whole else step.parent)
    first = open_player(name, "openspiel", SETTINGS, tmp_path / "models")
    (merged,) = (tmp_path / "models").iterdir()
    written = (merged / "model.safetensors").stat().st_mtime_ns
    expected = tmp_path / "expected"
    shutil.copytree(tiny_model, expected)
    moved(tiny_model).save_pretrained(expected)
    assert said(first) == said(open_player(str(expected), "openspiel", SETTINGS, tmp_path))
    assert open_player(name, "openspiel", SETTINGS, tmp_path / "models").identity == first.identity
    assert (merged / "model.safetensors").stat().st_mtime_ns == written


def test_the_last_checkpoints_of_an_experiment_play_as_their_mean(step: Path, tiny_model: Path, tmp_path: Path) -> None:
    # Step 3 has the head -w, and step 4 the head 3w: the mean is the tiny model's own head w.
    later = shutil.copytree(step, step.parent / "global_step_4")
    model: Any = AutoModelForCausalLM.from_pretrained(tiny_model)
    with torch.no_grad():
        model.lm_head.weight.mul_(3.0)
    torch.save(model.state_dict(), later / "actor/model_world_size_1_rank_0.pt")
    shutil.copytree(step, step.parent / "global_step_2")  # not among the last two
    name = f"{step.parent}@mean:2"
    check_player(name, "openspiel")
    mean = open_player(name, "openspiel", SETTINGS, tmp_path / "models")
    assert said(mean) == said(open_player(str(tiny_model), "openspiel", SETTINGS, tmp_path))
    folders = [folder for folder in (tmp_path / "models").iterdir() if "-mean-2-" in folder.name]
    assert len(json.loads((folders[0] / "mean.json").read_text())) == 2
    assert open_player(name, "openspiel", SETTINGS, tmp_path / "models").identity == mean.identity
    with pytest.raises(UserError, match="has 3 complete checkpoints, and the mean needs 4"):
        open_player(f"{step.parent}@mean:4", "openspiel", SETTINGS, tmp_path / "models")


def test_an_adapter_plays_on_its_base(adapter: Path, tiny_model: Path, tmp_path: Path) -> None:
    player, plain = (open_player(str(folder), "openspiel", SETTINGS, tmp_path) for folder in (adapter, tiny_model))
    model: Any = AutoModelForCausalLM.from_pretrained(tiny_model)
    factors = load_file(adapter / "adapter_model.safetensors")
    with torch.no_grad():
        for name, down in factors.items():
            if name.endswith("lora_A.weight"):
                module = model.get_submodule(name.removeprefix("base_model.model.").removesuffix(".lora_A.weight"))
                # The factor 2 is alpha / rank, 8 / 4 by peft's default.
                module.weight += 2 * factors[name.replace("lora_A", "lora_B")] @ down
    by_hand = shutil.copytree(tiny_model, tmp_path / "by-hand")
    model.save_pretrained(by_hand)
    assert player.identity != plain.identity
    assert said(player) == said(open_player(str(by_hand), "openspiel", SETTINGS, tmp_path)) != said(plain)


def test_an_adapter_for_another_base_is_refused(adapter: Path, tiny_model: Path, tmp_path: Path) -> None:
    other = shutil.copytree(tiny_model, tmp_path / "another-base")
    with pytest.raises(UserError, match="is an adapter for another base"):
        open_player(str(adapter), "openspiel", SETTINGS, tmp_path, base=str(other))
    settings = json.loads((adapter / "adapter_config.json").read_text())
    (adapter / "adapter_config.json").write_text(json.dumps({**settings, "base_model_name_or_path": "/gone/model"}))
    with pytest.raises(UserError, match=r"the base /gone/model cannot be read"):
        open_player(str(adapter), "openspiel", SETTINGS, tmp_path)


def test_a_server_plays_like_its_model(chat_server: Callable[..., Any], tiny_model: Path, tmp_path: Path) -> None:
    server = chat_server()
    assert said(open_player(server.url, "openspiel", SETTINGS, tmp_path)) == said(
        open_player(str(tiny_model), "openspiel", SETTINGS, tmp_path)
    )


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mtcs", r"no player 'mtcs': .*bot \(random, solution, empty, mcts, "),
        ("mcts:many", "unknown player 'mcts:many'"),
        ("/no/such/folder", "there is no such folder"),
        ("nobody/nothing", r"nobody/nothing cannot be read"),
    ],
)
def test_a_name_that_is_no_player_is_refused(name: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=message):
        open_player(name, "openspiel", SETTINGS, tmp_path)


def test_an_environment_meets_those_opponents_of_a_mixture_that_it_has() -> None:
    assert players_in("openspiel", ["random", "mcts:50"]) == ("random", "mcts:50")
    assert players_in("lgc-v2", ["mcts:50", "random", "http://host:8000/v1"]) == ("random", "http://host:8000/v1")
    assert players_in("lgc-v2", []) == ()
    with pytest.raises(UserError, match=r"no player 'mcts:50': .*bot \(random, solution, empty\)"):
        players_in("lgc-v2", ["mcts:50"])


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"is no checkpoint: it has neither config\.json"):
        open_player(str(tmp_path), "openspiel", SETTINGS, tmp_path)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(UserError, match="it lacks a tokenizer"):
        open_player(str(tmp_path), "openspiel", SETTINGS, tmp_path)
    (tmp_path / "experiment/global_step_1/actor").mkdir(parents=True)
    with pytest.raises(UserError, match="is not a checkpoint of verl's FSDP"):
        open_player(str(tmp_path / "experiment"), "openspiel", SETTINGS, tmp_path)


@pytest.mark.parametrize("wrong", [{"max_tokens": 0}, {"temperature": -1.0}, {"top_p": 0.0}, {"concurrency": 0}])
def test_reply_settings_that_contradict_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UserError):
        ReplySettings(**wrong)
