"""A recipe in one command: deviations from the recipe, its stages, and a complete run."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from veritas_rl.errors import UserError
from veritas_rl.launch import recipe_run, rl, sft
from veritas_rl.launch.hardware import Hardware
from veritas_rl.launch.recipe_run import RecipeRun
from veritas_rl.paths import ROOT
from veritas_rl.records.result import read_result

CPU = Hardware(cores=2, gpus=0, gpu_bytes=0)
GPUS = Hardware(cores=16, gpus=8, gpu_bytes=141 << 30)


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GAME_TYPES", "ALGORITHM", "ENABLE_LORA", "AGENT_MODEL_REPO_ID", "ROLLOUT_BACKEND"):
        monkeypatch.delenv(name, raising=False)


def planned(*typed: str, hardware: Hardware = CPU) -> RecipeRun:
    return RecipeRun.plan(rl.TRAINER, sft.TRAINER, list(typed), hardware)


@pytest.mark.parametrize("hardware", [CPU, GPUS])
def test_a_recipe_alone_departs_from_itself_in_nothing_on_any_machine(hardware: Hardware) -> None:
    free = ("veritas_rl.seed=7", "trainer.logger=[console]", "trainer.experiment_name=mine")
    assert planned("recipe=kuhn_self_play", *free, hardware=hardware).departures == ()
    assert planned("recipe=tic_tac_toe", hardware=hardware).departures == ()


def test_settings_that_differ_from_the_recipe_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    run = planned("recipe=kuhn_self_play", "actor_rollout_ref.actor.kl_loss_coef=0.1", "veritas_rl.seed=3")
    assert run.departures == ("actor_rollout_ref.actor.kl_loss_coef is 0.3 in the recipe and 0.1 here",)
    same = planned("recipe=kuhn_self_play", "actor_rollout_ref.actor.kl_loss_coef=0.3")
    assert same.departures == ()
    monkeypatch.setenv("GAME_TYPES", "leduc_poker")
    (game,) = planned("recipe=kuhn_self_play").departures
    assert game.endswith("game_types is kuhn_poker in the recipe and leduc_poker here")
    monkeypatch.delenv("GAME_TYPES")
    monkeypatch.setenv("AGENT_MODEL_REPO_ID", "/some/model")
    assert (
        "actor_rollout_ref.model.path is null in the recipe and /some/model here"
        in planned("recipe=kuhn_self_play").departures
    )
    assert os.environ["AGENT_MODEL_REPO_ID"] == "/some/model"


def test_the_smallest_setting_that_differs_is_named_and_not_the_group_around_it() -> None:
    curriculum = "data.custom_cls.config.curriculum"
    assert planned("recipe=tic_tac_toe", f"{curriculum}=null").departures == (
        f"{curriculum} is set in the recipe and null here",
    )
    later = "{name: random, opponent: random, threshold: 0.7},{name: exact, opponent: exact, threshold: 0.95}"
    added = planned("recipe=tic_tac_toe", f"{curriculum}.stages=[{later}]", f"+{curriculum}.window=500")
    assert added.departures == (
        f"{curriculum}.stages.1.threshold is 0.9 in the recipe and 0.95 here",
        f"{curriculum}.window is not set in the recipe and 500 here",
    )
    grouped = planned(
        "recipe=tic_tac_toe", "+data.custom_cls.config.adapter_config.game_configs={hex: [{board_size: 5}]}"
    )
    assert grouped.departures == (
        "data.custom_cls.config.adapter_config.game_configs.hex is not set in the recipe and [{'board_size': 5}] here",
    )


def test_a_recipe_without_hardware_of_its_own_departs_where_its_bands_do_not_hold() -> None:
    assert planned("recipe=lgc-v2").departures == ()
    found = planned("recipe=lgc-v2", hardware=GPUS).departures
    assert "trainer.device is cpu in the recipe and cuda here" in found


def test_the_stages_of_a_recipe(tmp_path: Path) -> None:
    run = planned("recipe=tic_tac_toe", "veritas_rl.seed=5")
    chosen = run.fine_tuning()
    assert chosen is not None
    assert {"veritas_rl.seed=5", "trainer.total_epochs=25"} <= set(chosen)
    assert f"trainer.experiment_name={run.folder.name}" in chosen
    assert f"trainer.experiment_name={run.folder.name}" in run.training()
    short = RecipeRun.plan(rl.TRAINER, sft.TRAINER, ["recipe=tic_tac_toe"], CPU, "short")
    assert short.departures == ()
    assert (short.fine_tuning() or [])[-3:] == list(short.description.short.sft if short.description.short else ())
    assert "--compare" not in short.judgement("exact", tmp_path, tmp_path / "start")
    command = run.judgement("exact", tmp_path, tmp_path / "start")
    assert command[1:4] == ["train/tools/evaluate.py", "--checkpoint", str(tmp_path)]
    assert command[command.index("--compare") + 1] == str(tmp_path / "start")
    assert "--exact" in command
    assert "True" not in command
    assert planned("recipe=kuhn_self_play").fine_tuning() is None


def test_rl_is_compared_with_the_untouched_model_and_with_more_fine_tuning(tmp_path: Path) -> None:
    run = planned("recipe=smollm2_tic_tac_toe")
    first, more = run.fine_tuning() or [], run.continued_fine_tuning() or []
    assert "model.path=smollm2-135m" in first
    assert [word for word in more if word.startswith("model.path=")][-1] == "model.path='START'"
    assert {word for word in first if "demonstrations" in word} == {word for word in more if "demonstrations" in word}
    assert f"trainer.experiment_name={run.continued.name}" in more
    stages = list(run.after_training(tmp_path, tmp_path / "start"))
    assert [stage.name for stage in stages] == ["untouched", "merge", "sampled", "greedy", "instead"]
    assert "--checkpoint smollm2-135m" in stages[0].typed
    for stage in stages[2:]:
        assert stage.command[stage.command.index("--checkpoint") + 1] == str(run.merged)
    assert f"--compare {tmp_path}/start" in stages[2].typed
    assert "--compare continued_sft" in stages[4].typed
    other = planned("recipe=smollm2_tic_tac_toe", "actor_rollout_ref.model.path=Qwen/Qwen3-0.6B")
    assert "model.path=Qwen/Qwen3-0.6B" in (other.fine_tuning() or [])


def test_an_interrupted_run_of_the_same_command_is_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipe_run, "RUNS", tmp_path)
    first = planned("recipe=kuhn_self_play")
    first.record.write(first.folder)
    again, other = planned("recipe=kuhn_self_play"), planned("recipe=kuhn_self_play", "veritas_rl.seed=1")
    assert (again.folder, again.checkpoints) == (first.folder, first.checkpoints)
    assert other.folder != first.folder
    named = planned("recipe=kuhn_self_play", "trainer.experiment_name=mine")
    assert named.folder == tmp_path / "mine"
    named.record.write(named.folder)
    assert planned("recipe=kuhn_self_play", "trainer.experiment_name=mine").folder == named.folder
    with pytest.raises(UserError, match="holds another run"):
        planned("recipe=kuhn_self_play", "trainer.experiment_name=mine", "veritas_rl.seed=1")


def test_an_interrupted_run_from_before_a_change_of_its_recipe_is_not_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recipe_run, "RUNS", tmp_path / "runs")
    folder = tmp_path / "kuhn_self_play"
    shutil.copytree(ROOT / "train/recipes/kuhn_self_play", folder)
    first = planned(f"recipe={folder}")
    first.record.write(first.folder)
    assert planned(f"recipe={folder}").folder == first.folder
    settings = folder / "config.yaml"
    settings.write_text(settings.read_text().replace("lr: 5.0e-4", "lr: 4.0e-4"))
    assert planned(f"recipe={folder}").folder != first.folder


@pytest.mark.parametrize(
    ("script", "typed", "message"),
    [
        (
            "openspiel-ppo-trainer.sh",
            "recipe=lgc-v2-sft",
            "bash train/scripts/openspiel-SFT-trainer.sh recipe=lgc-v2-sft",
        ),
        ("openspiel-ppo-trainer.sh", "recipe=kuhn_selfplay", "did you mean kuhn_self_play"),
    ],
)
def test_a_recipe_of_the_other_trainer_and_one_that_is_not_there(script: str, typed: str, message: str) -> None:
    module = "veritas_rl.launch.main" if script.startswith("openspiel-ppo") else "veritas_rl.launch.sft"
    done = subprocess.run([sys.executable, "-m", module, typed], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.training
@pytest.mark.long
def test_the_short_form_of_a_recipe_runs_from_demonstrations_to_a_verdict() -> None:
    command = [sys.executable, "train/tools/recipes.py", "check", "tic_tac_toe", "--short", "--seed", "3"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert "recipe tic_tac_toe" in done.stdout.splitlines()[-2], done.stdout + done.stderr
    folder = Path(done.stdout.rpartition("result: ")[2].strip()).parent
    result = read_result(folder)
    assert (result.form, result.seed, result.departures) == ("short", 3, ())
    assert {"SFT", "RL", "exact", "greedy"} <= result.minutes.keys()
    assert result.memory is not None
    assert result.memory > 0.5
    assert 0 <= result.figures["exact/tic_tac_toe/nash_conv"]["mean"] <= 4
    assert {"greedy/tic_tac_toe/exact/losses", "games/openspiel/tic_tac_toe/random/wins"} <= result.figures.keys()
    assert len(result.curves["task/legal"]) == 3
    assert json.loads((folder / "run.json").read_text())["finished"]
