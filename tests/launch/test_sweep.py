"""Sweeps over several settings and seeds: the runs, and the table of results."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console
from scipy import stats

from veritas_rl.errors import UserError
from veritas_rl.launch import sweep
from veritas_rl.launch.resume import Record

RATE = "actor_rollout_ref.actor.optim.lr"


def ended(trial: sweep.Trial, logs: Path, rewards: list[float]) -> None:
    """Write the files of a finished run."""
    logs.mkdir(parents=True)
    steps = [{"step": step, "data": {"critic/score/mean": reward}} for step, reward in enumerate(rewards, start=1)]
    (logs / "metrics.jsonl").write_text("".join(json.dumps(step) + "\n" for step in steps))
    Record(("x",), str(logs), wandb_run_id="x", finished=True).write(trial.folder)


def test_values_with_commas_are_combined_and_lists_are_not(tmp_path: Path) -> None:
    words = [f"{RATE}=1e-3,3e-4", "+a.b=[1,2]", "play=move,episode", "recipe=trace", "episode"]
    fixed, settings = sweep.settings_of(words)
    assert fixed == ["+a.b=[1,2]", "recipe=trace", "episode"]
    assert settings == [
        (f"{RATE}=0.001", "play=move"),
        (f"{RATE}=0.001", "play=episode"),
        (f"{RATE}=0.0003", "play=move"),
        (f"{RATE}=0.0003", "play=episode"),
    ]
    trials = sweep.trials_of(tmp_path, sweep.SCRIPT, words, [1, 2])
    assert [trial.seed for trial in trials] == [1] * 4 + [2] * 4
    assert len({trial.folder for trial in trials}) == 8
    assert trials[4].command[-2:] == ("veritas_rl.seed=2", f"trainer.default_local_dir='{trials[4].folder}'")


@pytest.mark.parametrize("word", ["veritas_rl.seed=1,2", "++trainer.default_local_dir=x", "a.b=[1,2"])
def test_words_that_a_sweep_cannot_have_are_refused(word: str) -> None:
    with pytest.raises(UserError, match=r"is set by the sweep|is not a valid override"):
        sweep.settings_of([word])


def test_the_table_has_means_and_intervals_over_seeds(tmp_path: Path) -> None:
    trials = sweep.trials_of(tmp_path / "sweep", sweep.SCRIPT, [f"{RATE}=1e-3,3e-4"], [1, 2])
    rewards = [[0.0, 0.4, 0.6], [0.0, 0.1, 0.1], [0.0, 0.8, 0.6]]
    for trial, seen in zip(trials, rewards, strict=False):
        ended(trial, tmp_path / f"logs-{trial.seed}-{trial.folder.parent.name}", seen)
    first, second = sweep.compare(trials, ["critic/score/mean"], 2).values()
    # The means of the last two steps are 0.5 and 0.7, so the interval is 0.6 plus or minus t(1) times 0.1.
    quantile = stats.t.ppf(0.975, df=1)
    assert first[0].values == {1: pytest.approx(0.5), 2: pytest.approx(0.7)}
    assert first[0].mean == pytest.approx(0.6)
    assert first[0].low == pytest.approx(0.6 - 0.1 * quantile)
    assert first[0].high == pytest.approx(0.6 + 0.1 * quantile)
    # A single seed has no interval, and an unfinished run has no value.
    assert str(second[0]) == "0.100"
    (tmp_path / "sweep").mkdir(exist_ok=True)
    sweep.report(trials, ["critic/score/mean"], 2, tmp_path / "sweep", Console(quiet=True))
    found = json.loads((tmp_path / "sweep/sweep.json").read_text())
    assert [setting["setting"] for setting in found["settings"]] == [[f"{RATE}=0.001"], [f"{RATE}=0.0003"]]


def test_finished_trials_are_skipped_and_failed_ones_named(tmp_path: Path) -> None:
    script = tmp_path / "trainer.sh"
    script.write_text(f'echo "$@" >> {tmp_path}/started\necho "error: no"\nexit 2\n')
    trials = sweep.trials_of(tmp_path / "sweep", str(script), [f"{RATE}=1e-3,3e-4"], [1])
    ended(trials[0], tmp_path / "logs", [1.0])
    console = Console(record=True, width=200)
    assert sweep.run(trials, 2, console) == [trials[1]]
    text = console.export_text()
    assert "2 runs, 1 of them unfinished" in text
    assert f"seed 1 of {RATE}=0.0003 failed: error: no" in text
    assert (tmp_path / "started").read_text().startswith(f"{RATE}=0.0003 veritas_rl.seed=1 trainer.default_local_dir=")


def test_a_folder_of_another_sweep_is_refused(tmp_path: Path) -> None:
    sweep.check_same(tmp_path, ["a=1"])
    sweep.check_same(tmp_path, ["a=1"])
    with pytest.raises(UserError, match=r"other settings \(a=1\): choose another --name"):
        sweep.check_same(tmp_path, ["a=2"])


@pytest.mark.long
@pytest.mark.training
def test_two_settings_and_two_seeds_are_trained_and_compared() -> None:
    shutil.rmtree(sweep.SWEEPS / "of-a-test", ignore_errors=True)
    command = [
        *(sys.executable, "-m", "veritas_rl.launch.sweep", "--name", "of-a-test", "--seeds", "1,2", "--last", "1"),
        *(f"{RATE}=1e-3,1e-4", "trainer.total_training_steps=1", "veritas_rl.evaluation=null"),
        *("veritas_rl.warm_up.steps=60", "data.train_batch_size=64", "--at_once", "2"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    settings = json.loads((sweep.SWEEPS / "of-a-test/sweep.json").read_text())["settings"]
    assert [setting["setting"] for setting in settings] == [[f"{RATE}=0.001"], [f"{RATE}=0.0001"]]
    for setting in settings:
        (cell,) = setting["metrics"]
        assert set(cell["values"]) == {"1", "2"}
        assert cell["low"] <= cell["mean"] <= cell["high"]
    # The seeds changed the results, and the same command has no runs left.
    assert len({value for setting in settings for value in setting["metrics"][0]["values"].values()}) > 1
    again = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "4 runs, 0 of them unfinished" in again.stdout
    shutil.rmtree(sweep.SWEEPS / "of-a-test")
