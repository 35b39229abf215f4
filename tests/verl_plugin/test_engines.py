"""verl's registry gives this package's engine for every device, to actor and critic."""

import pytest
from verl.workers.engine import EngineRegistry

from veritas_rl.shared_prompts import VENDOR
from veritas_rl.verl_plugin.engines import EngineWithLMHead, EngineWithValueHead


@pytest.mark.parametrize("strategy", ["fsdp", "fsdp2"])
@pytest.mark.parametrize(
    ("device", "vendor"),
    [
        ("cuda", "nvidia"),
        ("cuda", "amd"),
        ("cuda", VENDOR),
        ("npu", "huawei"),
        ("npu", VENDOR),
        ("cpu", "cpu"),
        ("cpu", VENDOR),
    ],
)
def test_a_run_gets_the_engines_of_this_package(
    device: str, vendor: str, strategy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VERL_ENGINE_DEVICE", device)
    monkeypatch.setenv("VERL_ENGINE_VENDOR", vendor)
    actor = EngineRegistry.get_engine_cls("language_model", strategy)
    critic = EngineRegistry.get_engine_cls("value_model", strategy)
    assert issubclass(actor, EngineWithLMHead)
    assert not issubclass(actor, EngineWithValueHead)
    assert issubclass(critic, EngineWithValueHead)
