"""The record of the training in a merged model: settings and licenses, but no folders of the machine."""

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from veritas_rl.checkpoints.layout import LoraInfo
from veritas_rl.checkpoints.origin import Origin, licence_of, recipe_of

CONFIGURATION = {
    "algorithm": {"adv_estimator": "grpo", "gamma": 1.0},
    "data": {
        "train_batch_size": 32,
        "custom_cls": {
            "config": {
                "env": "openspiel",
                "defaults": {
                    "openspiel": {"seed": "${veritas_rl.seed}", "prompt": "full"},
                    "trace": {"prompt": "full"},
                },
                "adapter_config": {"cases": ["hex(board_size=5)"], "prompt": "brief", "task_ids": "/home/me/ids.txt"},
            }
        },
    },
    "critic": {"optim": {"lr": 1e-5}},
    "veritas_rl": {"seed": 7},
    "trainer": {"default_local_dir": "/home/me/checkpoints"},
}


@pytest.fixture
def experiment(tmp_path: Path) -> Path:
    """A folder of checkpoints whose run.json names the run's folder."""
    (tmp_path / "outputs/.hydra").mkdir(parents=True)
    OmegaConf.save(OmegaConf.create(CONFIGURATION), tmp_path / "outputs/.hydra/config.yaml")
    (tmp_path / "run").mkdir()
    (tmp_path / "run/run.json").write_text(json.dumps({"folder": str(tmp_path / "outputs")}))
    return tmp_path / "run"


def test_the_settings_of_a_run(experiment: Path) -> None:
    assert recipe_of(experiment) == {
        "algorithm.adv_estimator": "grpo",
        "algorithm.gamma": 1.0,
        "data.train_batch_size": 32,
        "veritas_rl.seed": 7,
        "environments": ["openspiel"],
        "openspiel.seed": 7,
        "openspiel.prompt": "brief",
        "openspiel.cases": ["hex(board_size=5)"],
    }


def test_the_settings_of_a_mixture(experiment: Path, tmp_path: Path) -> None:
    own = OmegaConf.create(CONFIGURATION)
    nodes = {"openspiel": {"weight": 2, "config": {"prompt": "unlisted"}}, "trace": None}
    own.data.custom_cls.config.update({"environments": nodes, "adapter_config": {}})
    OmegaConf.save(own, tmp_path / "outputs/.hydra/config.yaml")
    assert {name: value for name, value in recipe_of(experiment).items() if "trace" in str((name, value))} == {
        "environments": ["openspiel", "trace"],
        "trace.prompt": "full",
        "trace.weight": 1,
    }
    assert recipe_of(experiment)["openspiel.prompt"] == "unlisted"


def test_a_run_that_is_gone_or_damaged(experiment: Path, tmp_path: Path) -> None:
    (tmp_path / "outputs/.hydra/config.yaml").write_text("a: [")
    assert recipe_of(experiment) == {}
    (tmp_path / "outputs/.hydra/config.yaml").unlink()
    assert recipe_of(experiment) == {}
    (experiment / "run.json").write_text("[]")
    assert recipe_of(experiment) == {}
    assert recipe_of(tmp_path / "nowhere") == {}


def test_the_licence_of_a_base(tmp_path: Path) -> None:
    assert licence_of(tmp_path) == {}
    (tmp_path / "config.json").write_text('{"license": "mit"}')
    assert licence_of(tmp_path) == {"license": "mit"}
    (tmp_path / "README.md").write_text("---\nlicense: other\nlicense_name: qwen\n---\n# A model\n")
    assert licence_of(tmp_path) == {"license": "other", "license_name": "qwen"}
    (tmp_path / "README.md").write_text("---\nlicense: [\n---\n")
    assert licence_of(tmp_path) == {"license": "mit"}


def test_an_origin_survives_json() -> None:
    origin = Origin(3, LoraInfo(4, 8, ["q_proj"]), True, {"license": "mit"}, {"veritas_rl.seed": 1}, {"verl": "0.9.1"})
    assert Origin.from_values(json.loads(json.dumps(dataclasses.asdict(origin)))) == origin


def test_it_imports_without_torch() -> None:
    program = "import sys, veritas_rl.checkpoints.origin; assert 'torch' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
