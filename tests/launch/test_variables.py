"""Environment variables of users become the right overrides."""

from pathlib import Path

import pytest

from veritas_rl.composition import quoted
from veritas_rl.errors import UserError
from veritas_rl.launch.variables import VARIABLES, overrides_from


def test_every_variable_stands_in_the_example_with_its_meaning() -> None:
    text = Path(".env.example").read_text()
    for variable in VARIABLES:
        assert f"# {variable.meaning}\n# {variable.name}=\n" in text
    assert text.count("=\n") == len(VARIABLES)


@pytest.mark.parametrize(
    ("name", "value", "overrides"),
    [
        ("GAME_TYPES", "hex,go,chess", ["data.custom_cls.config.adapter_config.game_types='hex,go,chess'"]),
        ("ALGORITHM", "GRPO", ["algorithm=grpo"]),
        ("ENABLE_LORA", "0", ["lora=off"]),
        ("ENABLE_LORA", "1", ["lora=on"]),
        ("ROLLOUT_BACKEND", "sglang", ["rollout=sglang"]),
        ("FSDP_STRATEGY", "fsdp2", ["actor_rollout_ref.actor.strategy=fsdp2"]),
        ("LAYERED_SUMMON", "1", ["actor_rollout_ref.rollout.layered_summon=true"]),
        ("GPU_MEMORY_UTILIZATION", "0.6", ["actor_rollout_ref.rollout.gpu_memory_utilization=0.6"]),
        ("GAME_TYPES", "", []),
        ("HF_TOKEN", "hf_secret", []),
    ],
)
def test_a_variable_becomes_overrides(name: str, value: str, overrides: list[str]) -> None:
    assert overrides_from({name: value}) == overrides


@pytest.mark.parametrize(
    ("name", "value"),
    [("ALGORITHM", "foo"), ("ENABLE_LORA", "maybe"), ("ROLLOUT_BACKEND", "tgi"), ("GPU_MEMORY_UTILIZATION", "80%")],
)
def test_a_value_that_is_not_understood(name: str, value: str) -> None:
    with pytest.raises(UserError, match=f"{name}={value}"):
        overrides_from({name: value})


def test_a_quote_in_a_value_is_escaped() -> None:
    assert quoted("it's") == "'it\\'s'"


def test_supervised_fine_tuning_takes_what_it_has_a_use_for() -> None:
    assert overrides_from({"FSDP_STRATEGY": "fsdp", "GAME_TYPES": "hex"}, sft=True) == ["engine.strategy=fsdp"]
    resumed = overrides_from({"RESUME_FROM": "a/global_step_2"}, sft=True)
    assert resumed == overrides_from({"RESUME_FROM": "a/global_step_2"})
