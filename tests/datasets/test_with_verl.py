"""verl's own dataset reads the files, as in a recipe of another project."""

from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf
from rich.console import Console
from verl.utils.dataset.rl_dataset import RLHFDataset
from verl.utils.import_utils import load_extern_object

from veritas_rl.datasets.draw import Settings
from veritas_rl.datasets.generate import generate
from veritas_rl.envs.registry import get_environment, task_of
from veritas_rl.parallel import Workers


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_verls_dataset_reads_them_and_the_reward_function_scores_its_rows(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", str(tmp_path / "cache"))
    generate(tmp_path / "data", Settings("lgc-v2", 30), Workers(1), Console(quiet=True))
    config = OmegaConf.create({"filter_overlong_prompts": False, "cache_dir": str(tmp_path / "cache")})
    tokenizer: Any = None
    read = RLHFDataset(str(tmp_path / f"data/train.{form}"), tokenizer, config)
    reward: Any = load_extern_object("train/tools/reward-manager.py", "compute_lgc_v2_score")
    assert len(read) == 27
    for row in map(read.__getitem__, range(5)):
        (turn,) = get_environment("lgc-v2").start(task_of(row["extra_info"])).turns()
        assert list(row["raw_prompt"]) == [*turn.messages]
        given = (row["data_source"], turn.solution, row["reward_model"]["ground_truth"], row["extra_info"])
        assert reward(*given)["score"] == 1.0
