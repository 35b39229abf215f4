"""Demonstrations of trace: correct outputs of training programs, none of which validation asks."""

from pathlib import Path

import pandas as pd
import pytest

from veritas_rl.demonstrations import dataset
from veritas_rl.demonstrations.generate import Settings, generate
from veritas_rl.envs.base import Reply
from veritas_rl.envs.registry import get_environment
from veritas_rl.envs.trace.questions import split_of

TRACE = get_environment("trace")


@pytest.mark.parametrize("prompt", ["full", "brief"])
def test_solutions_become_rows_that_solve_their_tasks(
    prompt: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dataset, "EVALUATION_TASKS", 40)
    settings = Settings("level_1,level_4", "solution", 60, env="trace", prompt=prompt, min_value=1.0)
    made, counts = generate(settings)
    assert counts.kept == len(made) == 60
    assert not counts.mistakes
    assert not counts.rejected_by_quality
    assert {demonstration.task.case for demonstration in made} == {"level_1", "level_4"}
    report = dataset.write(tmp_path, settings, made, counts, 0.2)
    checked = report["check"]
    assert (checked["rows"], checked["rows_that_differ"], checked["rows_in_evaluation_set"]) == (60, 0, 0)
    groups = {}
    for name in dataset.FILES:
        rows = pd.read_parquet(tmp_path / name).to_dict("records")
        groups[name] = set()
        for row in rows:
            task, turn = dataset.ask_again(row["extra_info"])
            session = TRACE.start(task)
            session.step({0: Reply(row["messages"][-1]["content"])})
            assert session.scores()[0].success
            assert split_of(turn.view.form) == "train"
            groups[name].add(turn.view.form)
    train, val = groups.values()
    assert train
    assert val
    assert not train & val
