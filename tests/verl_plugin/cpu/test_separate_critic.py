"""Actor and critic are updated at the same time if both have cores; metrics, seconds and errors arrive as from verl."""

import os
import subprocess
import sys
import threading
from typing import Any

import pytest
from omegaconf import OmegaConf
from transfer_queue import KVBatchMeta

from veritas_rl.verl_plugin.cpu import room, switch
from veritas_rl.verl_plugin.cpu.separate_critic import SeparateCritic


def config(**changed: Any) -> Any:
    trainer = {"nnodes": 1, "n_gpus_per_node": 1} | changed
    return OmegaConf.create({"trainer": trainer, "algorithm": {"adv_estimator": "gae"}, "critic": {"enable": None}})


@pytest.fixture(autouse=True)
def _two_cores_and_processes_of_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERL_PLATFORM", "cpu")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})


def test_actor_and_critic_are_apart_where_both_have_a_core() -> None:
    assert room.separate_critic(config()) is not None


@pytest.mark.parametrize(
    ("variables", "changed"),
    [
        ({"VERL_PLATFORM": "nvidia"}, {}),
        ({"OMP_NUM_THREADS": "2"}, {}),
        ({switch.VARIABLE: "-separate_critic"}, {}),
        ({}, {"n_gpus_per_node": 2}),
        ({}, {"nnodes": 2}),
    ],
)
def test_otherwise_they_share_a_process(
    variables: dict[str, str], changed: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert room.separate_critic(config(**changed)) is None


def test_no_process_is_made_without_a_critic() -> None:
    without = config()
    without.critic.enable = False
    assert room.separate_critic(without) is None


def test_an_update_of_the_critic_runs_beside_that_of_the_actor() -> None:
    critic, actor_is_updated = SeparateCritic(), threading.Event()
    batch = KVBatchMeta(partition_id="train", keys=["a"], tags=[{}], extra_info={"temperature": 1.0})

    def update(own: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        assert own.extra_info is not None
        own.extra_info["epochs"] = 1
        assert actor_is_updated.wait(10)
        metrics["critic/loss"] = 0.5
        return own

    metrics: dict[str, Any] = {"actor/loss": 0.25}
    timing = {"update_critic": 0.0}
    critic.start(update, batch)
    actor_is_updated.set()
    critic.finish(metrics, timing)
    assert batch.extra_info == {"temperature": 1.0}
    assert metrics == {"actor/loss": 0.25, "critic/loss": 0.5}
    assert timing["update_critic"] > 0
    critic.finish(metrics, timing)  # a step without an update of the critic
    assert metrics == {"actor/loss": 0.25, "critic/loss": 0.5}


def test_an_update_that_is_never_awaited_does_not_keep_the_process_alive() -> None:
    script = (
        "import time; from veritas_rl.verl_plugin.cpu.separate_critic import SeparateCritic\n"
        "from transfer_queue import KVBatchMeta\n"
        "SeparateCritic().start(lambda *_: time.sleep(600), KVBatchMeta(partition_id='train', keys=['a'], tags=[{}]))\n"
        "raise SystemExit(7)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False, timeout=120).returncode == 7


def test_an_error_of_the_critic_ends_the_step() -> None:
    critic = SeparateCritic()

    def update(batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        raise RuntimeError("the critic's process died")

    critic.start(update, KVBatchMeta(partition_id="train", keys=["a"], tags=[{}]))
    with pytest.raises(RuntimeError, match="process died"):
        critic.finish({}, {})
