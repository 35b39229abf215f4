"""The patches that are applied on a CPU, with speed patches on, off, and partly on."""

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from veritas_rl.errors import UserError
from veritas_rl.paths import ROOT
from veritas_rl.verl_plugin.cpu import corrections, patches, switch
from veritas_rl.verl_plugin.cpu.forkserver import ONE_THREAD
from veritas_rl.verl_plugin.patching import patches_in

PROGRAM = """
import importlib, json, os, sys
from veritas_rl.verl_plugin.cpu.forkserver import PRELOADED

# The imports that take most of the time, once and without threads, as in the fork server. Children import the rest.
for name in PRELOADED:
    importlib.import_module(name)
for line in sys.stdin:
    if os.fork() == 0:
        os.environ.update(json.loads(line))
        break
    print("child ended with", os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
else:
    sys.exit()

import verl

TARGETS = {
    "selected_rows": ("verl.utils.tensordict_utils", "index_select_tensor_dict"),
    "similar_lengths": ("verl.workers.engine.utils", "rearrange_micro_batches"),
    "padded_responses": ("verl.workers.utils.padding", "no_padding_2_padding"),
    "small_cells": ("transfer_queue.storage.managers.simple_storage_manager", "extract_field_schema"),
    "gloo_process_group": ("verl.utils.distributed", "initialize_global_process_group_ray"),
    "gloo_process_group_of_torchrun": ("verl.utils.distributed", "initialize_global_process_group"),
    "reference_offload": ("verl.workers.engine.fsdp.transformer_impl", "CPUOffloadPolicy"),
}

def ours(module, name):
    value = importlib.import_module(module)
    for word in name.split("."):
        value = getattr(value, word)
    code = getattr(value, "__code__", None)
    return code is not None and "veritas_rl" in code.co_filename

found = [patch for patch, place in TARGETS.items() if ours(*place)]
if importlib.import_module("verl.trainer.ppo.padding_utils").SYNTHETIC_PADDING_SEQ_LEN == 2:
    found.append("short_padding")
print("applied:", json.dumps(found), flush=True)
os._exit(0)
"""

SPEED = {patch.name for patch in patches_in(patches)}
# Those of vLLM apply only where it is installed; tests/vllm trains with them.
NEEDED = {patch.name for patch in patches_in(corrections) if patch.module.startswith("verl.")}


@pytest.fixture(scope="module")
def applied() -> Iterator[Callable[..., set[str]]]:
    """Gives the CPU patches that a new process with more environment variables applies."""
    environment = {name: value for name, value in os.environ.items() if name not in ("VERL_PLATFORM", switch.VARIABLE)}
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", PROGRAM],
        env={**environment, **ONE_THREAD},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    asked, said = process.stdin, process.stdout

    def find(**variables: str) -> set[str]:
        asked.write(json.dumps(variables) + "\n")
        asked.flush()
        lines: list[str] = []
        while not lines or (lines[-1] and not lines[-1].startswith("child ended with")):
            lines.append(said.readline())
        assert lines[-1] == "child ended with 0\n", "".join(lines)
        (found,) = (line.removeprefix("applied:") for line in lines if line.startswith("applied:"))
        return set(json.loads(found))

    yield find
    process.communicate()


@pytest.mark.parametrize(
    ("given", "off"),
    [
        ({}, set()),
        ({switch.VARIABLE: "0"}, SPEED),
        ({switch.VARIABLE: "-small_cells,-short_padding"}, {"small_cells", "short_padding"}),
    ],
    ids=["on", "off", "in part"],
)
def test_a_patch_is_applied_unless_it_is_left_off(
    given: dict[str, str], off: set[str], applied: Callable[..., set[str]]
) -> None:
    assert applied(VERL_PLATFORM="cpu", **given) == NEEDED | SPEED - off


def test_nothing_of_it_is_applied_on_a_gpu(applied: Callable[..., set[str]]) -> None:
    assert applied(VERL_PLATFORM="nvidia") == set()


@pytest.mark.parametrize(
    ("given", "off"),
    [
        ("", set()),
        ("1", set()),
        ("0", SPEED | {"forkserver", "separate_critic"}),
        ("-short_padding", {"short_padding"}),
        ("-short_padding, -forkserver", {"short_padding", "forkserver"}),
    ],
)
def test_the_switch_is_read(given: str, off: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(switch.VARIABLE, given)
    assert switch.left_off() == off


@pytest.mark.parametrize(
    ("given", "message"),
    [("off", "set it to 0, 1, or names to turn off"), ("-short_paddin", "short_padding"), ("-", "small_cells")],
)
def test_a_switch_that_cannot_be_read_is_refused(given: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(switch.VARIABLE, given)
    with pytest.raises(UserError, match=message) as caught:
        switch.left_off()
    assert "\n" not in str(caught.value)


@pytest.mark.training
@pytest.mark.long
def test_training_does_not_need_the_speed_patches(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            *("bash", "train/scripts/openspiel-ppo-trainer.sh", f"trainer.default_local_dir={tmp_path}"),
            *("trainer.total_training_steps=3", "trainer.save_freq=-1", "data.train_batch_size=16"),
            *("veritas_rl.critic_warmup=0", "veritas_rl.warm_up.steps=30", "veritas_rl.evaluation=null"),
        ],
        cwd=ROOT,
        env={**os.environ, switch.VARIABLE: "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    logs = Path(json.loads((tmp_path / "run.json").read_text())["folder"])
    steps: list[dict[str, Any]] = [
        json.loads(line)["data"] for line in (logs / "metrics.jsonl").read_text().splitlines()
    ]
    assert len(steps) == 3
    for step in steps:
        assert all(math.isfinite(step[name]) for name in ("actor/pg_loss", "actor/grad_norm", "critic/vf_loss"))
        assert 0 <= step["task/legal"] <= 1
    assert any(step["actor/grad_norm"] > 0 for step in steps)
