"""verl's own dataset reads the files, as in a recipe of another project."""

import subprocess
import sys
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


def test_files_of_all_environments_are_read_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of `generate_dataset.py`, and those that `convert_to_parquet.py` makes of its JSONL."""
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", str(tmp_path / "cache"))
    config = OmegaConf.create({"filter_overlong_prompts": False, "cache_dir": str(tmp_path / "cache")})
    tokenizer: Any = None
    for name in ("lgc-v2", "trace", "openspiel"):
        generate(tmp_path / name, Settings(name, 12), Workers(1), Console(quiet=True))
        words = ["--input", str(tmp_path / name / "train.jsonl"), "--output", str(tmp_path / "converted" / name)]
        tool = [sys.executable, "train/tools/convert_to_parquet.py", *words, "--format", "rl"]
        subprocess.run(tool, check=True, stdout=subprocess.DEVNULL)
    for folder in (tmp_path, tmp_path / "converted"):
        files = [str(folder / name / "train.parquet") for name in ("lgc-v2", "trace", "openspiel")]
        read = RLHFDataset(files, tokenizer, config)
        for row in map(read.__getitem__, range(len(read))):
            task = task_of(row["extra_info"])
            (turn,) = get_environment(task.env).start(task).turns()
            assert (row["data_source"], list(row["raw_prompt"])) == (task.env, [*turn.messages])
