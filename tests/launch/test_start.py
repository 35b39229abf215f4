"""Settings belong to the model: made or pretrained, on every machine."""

import json
import re
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from omegaconf import OmegaConf
from transformers import LlamaConfig

from veritas_rl.errors import UserError
from veritas_rl.launch import attention, machine_checks, rl, sft
from veritas_rl.launch import configuration as conf
from veritas_rl.launch.fitting import LEAST_POSITIONS, described, described_sft
from veritas_rl.launch.hardware import Hardware
from veritas_rl.launch.start import MADE, PRETRAINED, is_made
from veritas_rl.launch.tiny_model import build_tiny_model
from veritas_rl.paths import ROOT
from veritas_rl.planning import compose
from veritas_rl.players.language_model import load_language_model

CPU, GPU = Hardware(2, 0, 0), Hardware(16, 1, 140 << 30)
MODEL = "AGENT_MODEL_REPO_ID"


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_model(tmp_path_factory.mktemp("start") / "made", seed=1)


@pytest.fixture(scope="session")
def pretrained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The configuration of a Llama of 135M weights, without the weights, which no plan reads."""
    folder = tmp_path_factory.mktemp("start") / "pretrained"
    LlamaConfig(
        vocab_size=49152,
        hidden_size=576,
        intermediate_size=1536,
        num_hidden_layers=30,
        num_attention_heads=9,
        num_key_value_heads=3,
        max_position_embeddings=8192,
        tie_word_embeddings=True,
    ).save_pretrained(folder)
    return folder


def chosen(overrides: list[str]) -> dict[str, str]:
    return {group: item.partition("=")[2] for item in overrides if (group := conf.group_of(item))}


def start(typed: list[str], hardware: Hardware, model: Path | str = "") -> str:
    variables = {MODEL: str(model)} if model else {}
    return chosen(conf.overrides_for(typed, variables, hardware))["start"]


def test_a_made_model_and_one_saved_from_it_have_the_mark(made: Path, pretrained: Path, tmp_path: Path) -> None:
    assert is_made(str(made))
    model, tokenizer = load_language_model(made)
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    assert is_made(str(tmp_path))
    assert not is_made(str(pretrained))
    assert not is_made("Qwen/Qwen3-4B")


@pytest.mark.parametrize("content", ["", "{", "[]", json.dumps({"made_by_veritas_rl": "no"})])
def test_a_folder_whose_configuration_has_no_mark_is_pretrained(tmp_path: Path, content: str) -> None:
    (tmp_path / "config.json").write_text(content)
    assert not is_made(str(tmp_path))


def test_the_model_decides_on_every_machine(made: Path, pretrained: Path) -> None:
    assert start([], CPU) == MADE
    assert start([], GPU) == PRETRAINED
    for machine in (CPU, GPU):
        assert start([], machine, made) == MADE
        assert start([], machine, pretrained) == PRETRAINED
        assert start([], machine, "Qwen/Qwen3-4B") == PRETRAINED
        assert start([f"actor_rollout_ref.model.path={made}"], machine, pretrained) == MADE
        assert start(["actor_rollout_ref.model.path=null"], CPU, pretrained) == MADE


def test_what_the_user_types_wins(made: Path, pretrained: Path) -> None:
    groups = chosen(conf.overrides_for(["start=made"], {MODEL: str(pretrained)}, CPU))
    assert (groups["start"], groups["lora"]) == (MADE, "off")
    assert "algorithm" not in groups
    groups = chosen(conf.overrides_for(["start=pretrained", "algorithm=rae"], {MODEL: str(made)}, CPU))
    assert (groups["start"], groups["algorithm"]) == (PRETRAINED, "rae")
    assert "lora" not in groups


def test_a_recipe_for_a_cpu_has_the_settings_of_its_model_on_a_machine_with_gpus(pretrained: Path) -> None:
    assert start(["recipe=hex_5"], GPU) == start(["recipe=hex_5"], CPU) == MADE
    assert start(["recipe=hex_5"], CPU, pretrained) == PRETRAINED
    assert start(["recipe=qwen3_4b_h200x1"], GPU) == PRETRAINED


def test_fine_tuning_decides_alike(made: Path, pretrained: Path) -> None:
    for typed, variables, hardware, group in (
        ([], {}, CPU, MADE),
        ([], {}, GPU, PRETRAINED),
        ([], {MODEL: str(made)}, GPU, MADE),
        ([], {MODEL: str(pretrained)}, CPU, PRETRAINED),
        ([f"model.path={pretrained}"], {}, CPU, PRETRAINED),
        (["start=made"], {MODEL: str(pretrained)}, CPU, MADE),
        (["hardware=cpu"], {}, GPU, MADE),
    ):
        assert f"sft_start={group}" in sft.overrides_for(typed, variables, hardware)


@pytest.mark.parametrize(
    ("of_recipe", "typed", "hardware", "start"),
    [
        (["sft_hardware: cpu"], [], "cpu", MADE),
        (["sft_hardware: h200x1"], [], "h200x1", PRETRAINED),
        (["sft_hardware: cpu"], ["hardware=h200x1"], "h200x1", PRETRAINED),
        (["sft_hardware: cpu", "sft_start: pretrained"], [], "cpu", PRETRAINED),
        (["sft_start: pretrained"], ["start=made", "hardware=cpu"], "cpu", MADE),
    ],
)
@pytest.mark.parametrize("machine", [CPU, GPU], ids=["cpu", "gpu"])
def test_fine_tuning_sees_the_choices_of_its_recipe(
    of_recipe: list[str], typed: list[str], hardware: str, start: str, machine: Hardware, tmp_path: Path
) -> None:
    recipe = tmp_path / "mine"
    recipe.mkdir()
    (recipe / "config.yaml").write_text("defaults:\n" + "".join(f"  - override /{choice}\n" for choice in of_recipe))
    wanted = sft.overrides_for([f"recipe={recipe}", *typed], {}, machine)
    made = conf.compose_configuration(wanted, sft.SFT_CONFIG)
    assert made.trainer.device == ("cpu" if hardware == "cpu" else "cuda")
    assert made.veritas_rl.start == start


def planned(typed: list[str], monkeypatch: pytest.MonkeyPatch, model: Path) -> rl.RlRun:
    # The configuration reads the variable by itself.
    monkeypatch.setenv(MODEL, str(model))
    return rl.plan(typed, {MODEL: str(model)}, CPU, datetime(2026, 1, 2))


def test_runs_from_before_the_group_are_found_by_the_same_command(monkeypatch: pytest.MonkeyPatch, made: Path) -> None:
    assert planned([], monkeypatch, made).record.command == (
        "hardware=cpu",
        "lora=off",
        "rollout=transformers",
        f"{MODEL}={made}",
    )


def memory_of(monkeypatch: pytest.MonkeyPatch, gib: int) -> None:
    for module in (compose, machine_checks):
        monkeypatch.setattr(module, "this_machine", lambda width=4: compose.cpu(gib << 30, 2, width))


@pytest.mark.parametrize("gib", [8, 16, 32])
@pytest.mark.parametrize(
    "typed",
    [
        [],
        ["algorithm=ppo"],
        ["algorithm=rae", "play=episode", "data.custom_cls.config.adapter_config.opponent=self"],
        ["play=episode"],
        ["lora=off"],
        ["environment=lgc-v2"],
        ["environment=trace", "algorithm=ppo"],
    ],
    ids=lambda typed: " ".join(typed) or "default",
)
def test_no_default_for_a_pretrained_model_on_a_cpu_is_refused(
    monkeypatch: pytest.MonkeyPatch, pretrained: Path, typed: list[str], gib: int
) -> None:
    memory_of(monkeypatch, gib)
    run = planned(typed, monkeypatch, pretrained)
    machine_checks.check_memory(
        run.configuration, machine_checks.forecast(run.configuration, run.overrides, CPU), run.hardware
    )
    rollout = run.configuration.actor_rollout_ref.rollout
    assert 1 <= rollout.max_num_seqs <= run.configuration.data.train_batch_size * rollout.n
    assert run.configuration.veritas_rl.evaluation.positions >= LEAST_POSITIONS


def test_a_larger_machine_generates_more_replies_at_once(monkeypatch: pytest.MonkeyPatch, pretrained: Path) -> None:
    found: list[int] = []
    for gib in (4, 64):
        memory_of(monkeypatch, gib)
        rollout = planned([], monkeypatch, pretrained).configuration.actor_rollout_ref.rollout
        found.append(rollout.max_num_seqs)
    assert found[0] < found[1]


def test_a_pretrained_model_on_a_cpu_trains_adapters_without_a_critic(
    monkeypatch: pytest.MonkeyPatch, pretrained: Path
) -> None:
    made: Any = planned([], monkeypatch, pretrained).configuration
    actor = made.actor_rollout_ref.actor
    assert made.actor_rollout_ref.model.lora_rank == 32
    assert made.algorithm.adv_estimator == "grpo"
    assert not made.algorithm.rollout_correction.bypass_mode
    assert made.veritas_rl.precision in ("bfloat16", "float32")
    assert actor.fsdp_config.model_dtype == made.actor_rollout_ref.rollout.dtype == made.veritas_rl.precision
    assert made.data.custom_cls.config.defaults.openspiel.get("prompt", "full") == "full"
    assert "ALGORITHM=ppo" in described(made)
    whole = planned(["lora=off"], monkeypatch, pretrained).configuration
    assert whole.actor_rollout_ref.actor.fsdp_config.model_dtype == "float32"
    assert "all parameters" in described(whole)


def test_what_the_user_sets_is_kept(monkeypatch: pytest.MonkeyPatch, pretrained: Path) -> None:
    typed = [
        "veritas_rl.precision=float32",
        "actor_rollout_ref.rollout.max_num_seqs=7",
        "veritas_rl.micro_batch_tokens=3000",
        "veritas_rl.evaluation.positions=500",
    ]
    made = planned(typed, monkeypatch, pretrained).configuration
    assert made.actor_rollout_ref.rollout.dtype == "float32"
    assert made.actor_rollout_ref.rollout.max_num_seqs == 7
    assert made.actor_rollout_ref.actor.ppo_max_token_len_per_gpu == 3000
    assert made.veritas_rl.evaluation.positions == 500


@pytest.mark.parametrize(
    "typed",
    ["veritas_rl.precision=fp8", "veritas_rl.replies_at_once=0", "veritas_rl.micro_batch_tokens=many"],
)
def test_a_wrong_size_is_refused(monkeypatch: pytest.MonkeyPatch, pretrained: Path, typed: str) -> None:
    with pytest.raises(UserError, match=typed.partition("=")[0]):
        planned([typed], monkeypatch, pretrained)


def test_prompts_fit_into_the_context_of_the_model(
    monkeypatch: pytest.MonkeyPatch, pretrained: Path, tmp_path: Path
) -> None:
    config = json.loads((pretrained / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 1024}))
    made = planned([], monkeypatch, tmp_path).configuration
    assert made.data.max_prompt_length + made.data.max_response_length == 1024
    assert made.actor_rollout_ref.rollout.max_model_len == 1024
    typed = planned(["data.max_prompt_length=2000"], monkeypatch, tmp_path).configuration
    assert typed.data.max_prompt_length == 2000


@pytest.mark.parametrize("env", ["openspiel", "lgc-v2", "trace"])
def test_replies_have_a_length_by_environment(monkeypatch: pytest.MonkeyPatch, pretrained: Path, env: str) -> None:
    made = planned([f"environment={env}"], monkeypatch, pretrained).configuration
    assert made.data.max_response_length == made.veritas_rl.reply_tokens[env]


def test_fine_tuning_of_a_pretrained_model_is_sized_too(
    monkeypatch: pytest.MonkeyPatch, pretrained: Path, tmp_path: Path
) -> None:
    monkeypatch.setenv(MODEL, str(pretrained))
    missing = [f"data.{name}_files={tmp_path / name}.parquet" for name in ("train", "val")]
    run = sft.plan(missing, {MODEL: str(pretrained)}, CPU, datetime(2026, 1, 2), dry=True)
    data = run.configuration.data
    assert data.max_length <= data.max_token_len_per_gpu <= 8192
    assert "start=pretrained" in described_sft(run.configuration)


def test_the_page_compares_the_settings_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(MODEL, raising=False)
    page = (ROOT / "docs/pretrained.md").read_text()
    rows = re.findall(r"^\| `([\w.]+)` \| (.*) \| (.*) \| (.*) \|$", page, re.MULTILINE)
    assert len(rows) > 10
    machines = ((CPU, "start=made"), (CPU, "start=pretrained"), (GPU, "start=pretrained"))
    for column, (machine, typed) in enumerate(machines):
        made = conf.compose_configuration(conf.overrides_for([typed], {}, machine))
        for key, *values in rows:
            shown, value = values[column].strip("`"), OmegaConf.select(made, key)
            if not shown:
                assert value is None, key
            else:
                assert yaml.safe_load(shown) == value or float(shown) == value, key


def test_whole_models_are_in_fp32_each_by_its_own_rank(monkeypatch: pytest.MonkeyPatch, pretrained: Path) -> None:
    typed = ["algorithm=ppo", "critic.model.lora_rank=0", "veritas_rl.precision=bfloat16"]
    made = planned(typed, monkeypatch, pretrained).configuration
    assert made.actor_rollout_ref.actor.fsdp_config.model_dtype == "bfloat16"
    assert made.critic.fsdp.model_dtype == "float32"


def test_sizes_are_refused_where_nothing_is_sized(monkeypatch: pytest.MonkeyPatch, made: Path) -> None:
    with pytest.raises(UserError, match=r"veritas_rl\.precision"):
        planned(["+veritas_rl.precision=float32"], monkeypatch, made)


def test_a_judgement_says_how_long_it_takes(monkeypatch: pytest.MonkeyPatch, pretrained: Path) -> None:
    seconds = planned([], monkeypatch, pretrained).judging_seconds()
    assert seconds is not None
    assert 1 < seconds < 5 * 60


def test_a_made_model_on_gpus_has_attention_that_knows_fp32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "flash_attention_fault", lambda: None)
    for start, used in (("made", "sdpa"), ("pretrained", "flash_attention_2")):
        assert attention.resolved(conf.compose_configuration(["hardware=h200x1", f"start={start}"])) == used


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("data.train_batch_size=0", "must be a positive integer"),
        ("trainer.total_training_steps=ten", "must be a positive integer"),
        ("actor_rollout_ref.model.lora_rank=eight", "must be an integer of 0 or more"),
        ("critic.model.lora_rank=-4", "must be an integer of 0 or more"),
    ],
)
def test_a_wrong_number_is_named_before_a_run_is_sized_by_it(
    typed: str, said: str, pretrained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserError, match=f"^{re.escape(typed)} {said}$"):
        planned([typed], monkeypatch, pretrained)
