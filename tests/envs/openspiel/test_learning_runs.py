"""Results of trainings are written, read, and shown as table rows."""

from dataclasses import replace
from pathlib import Path

import pytest

from veritas_rl.basis import Basis
from veritas_rl.composition import counted
from veritas_rl.envs.openspiel import gallery, learning_runs
from veritas_rl.envs.openspiel.env import NEXT_CASES, OpenSpielEnvironment
from veritas_rl.envs.openspiel.learning_basis import basis_of, default_settings
from veritas_rl.envs.openspiel.learning_runs import COLUMNS, LearningRun, cells_of, read, write
from veritas_rl.errors import UserError
from veritas_rl.launch import configuration as conf
from veritas_rl.launch.hardware import Hardware


def estimate(mean: float, half: float = 0.02) -> dict[str, float]:
    return {"mean": mean, "low": mean - half, "high": mean + half}


def run_of(gain: float, legal: float = 0.97) -> LearningRun:
    rates = {
        name: {"legal": estimate(legal), "optimal": estimate(success), "value": estimate(0.5)}
        for name, success in (
            ("uniform random legal player", 0.4),
            ("after the warm-up", 0.39),
            ("after RL", 0.39 + gain),
        )
    }
    report = {**rates, "gain": estimate(gain), "over random": estimate(0.3)}
    return LearningRun("othello", 42, 8.25, 2, "2026-11-22", Basis("settings", "tasks"), report)


def test_runs_come_back_from_the_file(tmp_path: Path) -> None:
    path = tmp_path / "new" / "learning.json"
    assert read(path) == []
    write(path, [run_of(0.1), run_of(0.2)])
    assert read(path) == [run_of(0.1), run_of(0.2)]
    path.write_text('[{"case": "hex"}]')
    with pytest.raises(UserError, match="is no file of benchmarks"):
        read(path)


def test_a_run_is_a_row_of_words() -> None:
    cells = dict(zip(COLUMNS, cells_of(run_of(0.1)), strict=True))
    assert cells["gain"] == "10.0% [8.0, 12.0]"
    assert cells["random"] == "40.0% [38.0, 42.0]"
    assert cells["legal"] == "97.0% 97.0%"
    assert cells["value"] == "0.500 0.500 0.500"
    assert cells["minutes"] == "8.2"


def test_learning_is_shown_by_legal_replies_and_by_the_intervals() -> None:
    assert run_of(0.1).shows_learning
    assert not run_of(0.01).shows_learning
    assert not run_of(0.1, legal=0.94).shows_learning


def test_a_case_on_which_no_training_showed_learning_is_named_before_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learning_runs, "PATH", tmp_path / "learning.json")
    environment = OpenSpielEnvironment()
    assert not environment.small_model_warnings(["othello"])
    write(learning_runs.PATH, [run_of(0.01)])
    (line,) = environment.small_model_warnings(["tic_tac_toe", "othello"])
    assert line.startswith("othello: ")
    assert f"GAME_TYPES={NEXT_CASES[0]!r}" in line
    write(learning_runs.PATH, [run_of(0.01), run_of(0.1)])
    assert not environment.small_model_warnings(["othello"])


def test_the_games_that_are_proposed_next_are_games_that_the_small_model_learns() -> None:
    assert not OpenSpielEnvironment().small_model_warnings(NEXT_CASES)


@pytest.mark.parametrize("case", ["hex(board_size=5)", "connect_four"])
def test_the_settings_of_a_training_are_those_that_the_launcher_composes(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENT_MODEL_REPO_ID", "/some/model")
    default_settings.cache_clear()
    settings = counted(default_settings())
    monkeypatch.delenv("AGENT_MODEL_REPO_ID")
    machine = Hardware(cores=2, gpus=0, gpu_bytes=0)
    wanted = conf.overrides_for(["hardware=cpu"], {"GAME_TYPES": case}, machine)
    launched = conf.compose_configuration(wanted)
    steps = [int(item.partition("=")[2]) for item in conf.step_overrides(launched, wanted)]
    assert steps == ([] if (own := OpenSpielEnvironment().small_model_steps([case])) is None else [own])
    launched.data.custom_cls.config.adapter_config = {}
    assert counted(launched) == settings


def test_a_training_with_other_settings_or_other_tasks_is_marked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learning_runs, "PATH", tmp_path / "learning.json")
    now = basis_of("othello")
    bases = (now, replace(now, tasks="other"), replace(now, settings="earlier"), Basis("earlier", "other"))
    write(learning_runs.PATH, [replace(run_of(0.1), basis=basis) for basis in bases])
    page = gallery.render()[gallery.LEARN]
    shown = [line for line in page.splitlines() if line.startswith("| `othello`") and " | 42 | 97.0%" in line]
    remarks = ("", ", other tasks", ", earlier settings", ", earlier settings and other tasks")
    assert [line.split(" | ")[0] for line in shown] == [f"| `othello`{remark}" for remark in remarks]
    assert "Runs with *earlier settings* are" in page
    write(learning_runs.PATH, [replace(run_of(0.1), basis=now)])
    assert "*earlier settings*" not in gallery.render()[gallery.LEARN]


def test_the_tasks_of_cases_differ_and_their_settings_only_by_the_steps() -> None:
    hexes, kuhn, othello = (basis_of(case) for case in ("hex(board_size=5)", "kuhn_poker", "othello"))
    assert len({hexes.tasks, kuhn.tasks, othello.tasks}) == 3
    assert hexes.settings == kuhn.settings != othello.settings
