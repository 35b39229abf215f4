"""The steps around a training: the tasks of its evaluation, the tables of comparisons, and the final output."""

import io
import itertools
import json
import re
import shlex
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from statistics import fmean
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from veritas_rl.checkpoints.layout import CheckpointInfo, write_info
from veritas_rl.datasets.rows import sft_row, write_parquet
from veritas_rl.envs.base import Reply, Turn
from veritas_rl.envs.custom_reward import CustomReward
from veritas_rl.envs.environment import Environment
from veritas_rl.envs.mixture import parts_of
from veritas_rl.envs.openspiel.cases import canonical
from veritas_rl.envs.openspiel.env import NEXT_CASES
from veritas_rl.envs.openspiel.task import OpenSpielTask
from veritas_rl.envs.openspiel.values.playouts import usual_count
from veritas_rl.envs.registry import get_environment, open_catalogue
from veritas_rl.envs.single import split_level
from veritas_rl.envs.task import Task
from veritas_rl.errors import UserError
from veritas_rl.judging.held_out import Judgement, judge, judge_uniform
from veritas_rl.launch import configuration as conf
from veritas_rl.launch import pipeline, rl, sft
from veritas_rl.launch.configuration import dataset_settings
from veritas_rl.launch.hardware import Hardware
from veritas_rl.launch.next_steps import next_run
from veritas_rl.launch.process import cause_of_end
from veritas_rl.launch.start import MARK
from veritas_rl.launch.tiny_model import build_tiny_model
from veritas_rl.players.random import RandomPlayer
from veritas_rl.players.registry import make_bot
from veritas_rl.players.solution import SolutionPlayer

CPU = Hardware(cores=2, gpus=0, gpu_bytes=0)
NOW = datetime(2026, 1, 2, 3, 4, 5)
MIXTURE = (
    "data.custom_cls.config.environments={openspiel: {weight: 2, config: {cases: [tic_tac_toe]}}, trace: {weight: 1}}"
)


class Silent:
    """A player with empty replies."""

    def act(self, turns: Sequence[Turn]) -> list[Reply]:
        return [Reply("") for _ in turns]


def tasks_of(run: rl.RlRun | sft.SftRun) -> dict[str, list[Task]]:
    """The first held-out tasks of a run, by environment."""
    return {tasks[0].env: list(tasks[:20]) for tasks, _ in run.held_out()}


def printed(kind: str, env: str, found: dict[str, Judgement]) -> tuple[str, dict[str, Any]]:
    text = io.StringIO()
    rates = pipeline.compare(kind, env, found, Console(file=text, width=160))
    return text.getvalue(), rates


def test_a_table_has_the_words_of_its_environment() -> None:
    tasks = tasks_of(rl.plan(["environment=trace"], {}, CPU, NOW))["trace"]
    assert judge_uniform(tasks) is None  # the possible outputs of a program cannot be listed
    found = {pipeline.RAW: judge(Silent(), tasks), "after RL": judge(SolutionPlayer(), tasks)}
    text, rates = printed("RL", "trace", found)
    assert "trace: 20 held-out tasks in" in text
    assert "exact outputs" in text
    assert "moves" not in text
    assert rates["after RL"]["optimal"]["mean"] == 1
    assert (rates["before"]["legal"]["mean"], rates["gain"]["mean"]) == (0, 1)


class Wordy:
    """A player of right answers that are as many tokens long as the task's number says."""

    def act(self, turns: Sequence[Turn]) -> list[Reply]:
        return [Reply(turn.solution, token_ids=(0,) * (number % 3)) for number, turn in enumerate(turns)]


def test_a_custom_reward_stands_beside_the_scores_and_changes_none(tmp_path: Path) -> None:
    file = tmp_path / "my_reward.py"
    file.write_text("def compute_score(score, tokens): return score - 0.5 * len(tokens)\n")
    run = rl.plan([f"reward.custom_reward_function.path={file}", "environment=trace"], {}, CPU, NOW)
    custom = CustomReward.read(run.configuration)
    assert custom is not None
    tasks = tasks_of(run)["trace"]
    plain, judged = judge(Wordy(), tasks), judge(Wordy(), tasks, custom=custom)
    assert (judged.optimal, judged.value, plain.mean_custom) == (plain.optimal, plain.value, None)
    assert judged.custom == tuple(1 - 0.5 * (number % 3) for number in range(len(tasks)))
    assert [len(one.custom) for one in judged.by_case().values()] == [
        len(one.classes) for one in judged.by_case().values()
    ]
    text, rates = printed("RL", "trace", {pipeline.RAW: plain, "after RL": judged})
    assert re.search(r"custom reward", text)
    assert f"{fmean(judged.custom):.3f} [" in text
    assert rates["after RL"]["custom reward"]["mean"] == fmean(judged.custom)
    assert "custom reward" not in rates["before"]
    assert "custom reward" not in printed("RL", "trace", {pipeline.RAW: plain})[0]


def test_a_table_of_games_has_the_uniform_player_and_says_where_values_are_estimates() -> None:
    for game, measure in (("tic_tac_toe", "optimal moves"), ("hex(board_size=5)", "good moves")):
        run = rl.plan([f"data.custom_cls.config.adapter_config.cases=['{game}']"], {}, CPU, NOW)
        tasks = tasks_of(run)["openspiel"][:4]
        uniform = judge_uniform(tasks)
        assert uniform is not None
        found = {pipeline.UNIFORM: uniform, pipeline.RAW: judge(Silent(), tasks)}
        found[pipeline.WARM] = found["after RL"] = judge(RandomPlayer(0), tasks)
        text, rates = printed("RL", "openspiel", found)
        assert measure in text
        assert "legal moves" in text
        assert rates["gain"]["mean"] == 0  # relative to the warm-up


def test_several_cases_have_a_table_of_their_own() -> None:
    cases = ["kuhn_poker", "tic_tac_toe"]
    run = rl.plan([f"data.custom_cls.config.adapter_config.cases={cases}"], {}, CPU, NOW)
    tasks = tasks_of(run)["openspiel"]
    assert {task.case for task in tasks} == set(cases)
    silent, uniform = judge(Silent(), tasks), judge_uniform(tasks)
    assert uniform is not None
    text, rates = printed("RL", "openspiel", {pipeline.RAW: silent, "after RL": uniform})
    assert "by case" in text
    for case in cases:
        (row,) = (line for line in text.splitlines() if case in line)
        own = [rate for rate, task in zip(uniform.optimal, tasks, strict=True) if task.case == case]
        assert f"{len(own)} │" in row
        assert rates["cases"][case]["after RL"]["legal"]["mean"] == 1
        assert rates["cases"][case]["gain"]["mean"] == pytest.approx(sum(own) / len(own))
    one = [task for task in tasks if task.case == cases[0]]
    text, rates = printed("RL", "openspiel", {pipeline.RAW: judge(Silent(), one), "after RL": judge(Silent(), one)})
    assert "by case" not in text
    assert "cases" not in rates


def test_a_cpu_run_trains_on_fewer_playouts_than_it_is_judged_with() -> None:
    run = rl.plan([], {"GAME_TYPES": "hex(board_size=5)"}, CPU, NOW)
    (judged, *_), (part,) = tasks_of(run)["openspiel"], parts_of(dataset_settings(run.configuration))
    trained = open_catalogue(part.settings, "train")[0]
    assert isinstance(judged, OpenSpielTask)
    assert isinstance(trained, OpenSpielTask)
    assert 0 < trained.pay.playouts < usual_count(trained.case)
    assert judged.pay.playouts == 0  # the usual number


def test_each_environment_of_a_mixture_is_judged_by_tasks_of_its_own() -> None:
    run = rl.plan([MIXTURE, "veritas_rl.evaluation.positions=50"], {}, CPU, NOW)
    assert {env: {task.split for task in tasks} for env, tasks in tasks_of(run).items()} == {
        "openspiel": {"val"},
        "trace": {"val"},
    }
    assert [most for _, most in run.held_out()] == [25, 25]
    assert {task.env for task in run.lessons()[:30]} == {"openspiel", "trace"}
    # A run with whole games judges openspiel by games, so only trace has held-out tasks.
    games = rl.plan([MIXTURE, "episode"], {}, CPU, NOW)
    assert list(tasks_of(games)) == ["trace"]


def test_demonstrations_say_by_which_tasks_the_model_is_judged(tmp_path: Path) -> None:
    rows = [
        sft_row([{"role": "user", "content": "x"}], "y", env, {"env": env, "case": case, "prompt": "brief", "seed": 7})
        for env, case in (("trace", "level_1"), ("trace", "level_2"), ("openspiel", "tic_tac_toe"))
        for _ in range(30)
    ]
    write_parquet(tmp_path / "train.parquet", rows)
    files = [f"data.train_files={tmp_path}/train.parquet", "data.val_files=null"]
    run = sft.plan([*files, f"trainer.default_local_dir={tmp_path}/checkpoints"], {}, CPU, NOW)
    tasks = tasks_of(run)
    assert {task.case for task in tasks["trace"]} == {"level_1", "level_2"}
    assert {task.case for task in tasks["openspiel"]} == {"tic_tac_toe"}
    assert all(task.seed == 7 and task.manner.prompt == "brief" for found in tasks.values() for task in found)


def test_the_learning_curve_has_the_words_of_the_environment() -> None:
    trace, games = get_environment("trace"), get_environment("openspiel")
    assert rl.curve_names([trace], False, [])[trace.solved] == "task/success"
    assert Environment.solved in rl.curve_names([trace, games], False, [])
    records = [{"openspiel/vs_mcts:50/value": 0.5, "openspiel/vs_random/value": 0.5, "openspiel/success": 1}]
    assert rl.curve_names([games], True, records) == {
        "games without a mistake": "task/legal",
        "score against mcts:50": "openspiel/vs_mcts:50/value",
        "score against random": "openspiel/vs_random/value",
    }


def variables_of(command: str) -> dict[str, str]:
    """The environment variables at the beginning of a command."""
    words = shlex.split(command)
    return dict(word.split("=", 1) for word in itertools.takewhile(lambda word: "=" in word, words))


def planned(command: str) -> rl.RlRun:
    """The run of a printed command of RL."""
    words = shlex.split(command)
    place = words.index("bash")
    recipe = [f"recipe={name}" for name in ("trace", "lgc-v2") if f"{name}-" in words[place + 1]]
    return with_variables([*recipe, *words[place + 2 :]], variables_of(command))


def with_variables(typed: list[str], variables: dict[str, str]) -> rl.RlRun:
    """A run of RL with variables in the environment, of which an empty one counts as unset."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value) if value else patch.delenv(name, raising=False)
        return rl.plan(typed, variables, CPU, NOW)


@pytest.mark.parametrize("env", ["openspiel", "trace", "lgc-v2"])
def test_the_next_step_is_a_command_that_can_be_planned(env: str) -> None:
    _, command = next_run(get_environment(env), ())
    assert list(tasks_of(planned(command))) == [env]


@pytest.mark.parametrize("case", ["tic_tac_toe", "hex(board_size=5)", "connect_four,othello"])
def test_the_proposed_next_game_is_another_one(case: str) -> None:
    run = rl.plan([], {"GAME_TYPES": case}, CPU, NOW)
    ((_, command),) = run.next_steps(None)
    proposed = variables_of(command)["GAME_TYPES"]
    assert proposed not in case
    assert canonical(proposed) == proposed


@pytest.mark.parametrize(
    ("env", "case", "then"),
    [
        ("trace", "level_2", {"level_3"}),
        ("trace", "level_10", {f"level_{level}" for level in range(1, 11)}),
        ("lgc-v2", "dyck_language_level_3", {4}),
        ("lgc-v2", "dyck_language_level_5", {1, 2, 3, 4, 5}),
    ],
)
def test_the_proposed_next_level_is_harder(env: str, case: str, then: set[Any]) -> None:
    run = rl.plan([f"environment={env}", f"data.custom_cls.config.adapter_config.cases=[{case}]"], {}, CPU, NOW)
    after = planned(run.next_steps(None)[-1][1])
    found = {task.case for task in conf.tasks_of(after.configuration, "train")[:2000]}
    assert {name if env == "trace" else split_level(name)[1] for name in found} == then


def test_after_a_mixture_one_environment_is_proposed() -> None:
    for first in ("openspiel", "trace", "lgc-v2"):
        second = "trace" if first == "openspiel" else "openspiel"
        parts = [f"+data.custom_cls.config.environments.{env}.weight=1" for env in (first, second)]
        run = rl.plan(["hardware=cpu", *parts], {}, CPU, NOW)
        after = planned(run.next_steps(None)[-1][1])
        assert {task.env for task in conf.tasks_of(after.configuration, "train")[:1000]} == {first}
    run = rl.plan([MIXTURE], {}, CPU, NOW)
    assert "environments" not in run.next_steps(None)[-1][1]


def test_a_model_named_by_its_key_is_not_kept_beside_the_trained_one(tmp_path: Path) -> None:
    first, trained = (build_tiny_model(tmp_path / name, seed=0) for name in ("first", "trained"))
    for folder in (first, trained):
        config = json.loads((folder / "config.json").read_text())
        del config[MARK]
        (folder / "config.json").write_text(json.dumps(config))
    typed = [f"{key}.model.path={first}" for key in ("actor_rollout_ref", "critic")]
    run = with_variables([*typed, "veritas_rl.check_memory=false"], {"ALGORITHM": "ppo"})
    after = planned(run.next_steps(trained)[-1][1])
    assert (after.model, after.configuration.critic.model.path) == (str(trained), str(trained))


@pytest.mark.parametrize("env", ["openspiel", "trace", "lgc-v2"])
def test_a_trained_model_is_tried_with_the_prompt_of_its_training(env: str, tmp_path: Path) -> None:
    run = rl.plan([f"environment={env}"], {}, CPU, NOW)
    steps = [shlex.split(command) for _, command in run.next_steps(tmp_path)]
    tried = [words for words in steps if str(tmp_path) in words]
    assert len(tried) == (2 if env == "openspiel" else 1)
    for words in tried:
        assert words[words.index("--prompt") + 1] == "brief"
        assert words[words.index("--games" if "--games" in words else "--game") + 1] == tasks_of(run)[env][0].case


def test_the_next_run_keeps_the_model_and_the_settings_but_not_the_run(tmp_path: Path) -> None:
    model = build_tiny_model(tmp_path / "model", seed=0)
    config = json.loads((model / "config.json").read_text())
    del config[MARK]
    (model / "config.json").write_text(json.dumps(config))
    typed = [
        *("hardware=cpu", "data.custom_cls.config.adapter_config.prompt=full", "trainer.experiment_name=mine"),
        *(f"trainer.default_local_dir={tmp_path}", "data.custom_cls.config.adapter_config.cases=['kuhn_poker']"),
        *("actor_rollout_ref.actor.optim.lr=3e-4", "veritas_rl.evaluation=null", "veritas_rl.check_memory=false"),
    ]
    variables = {"AGENT_MODEL_REPO_ID": str(model), "ALGORITHM": "ppo", "ENABLE_LORA": "1"}
    step = tmp_path / "global_step_4"
    run = with_variables(typed, variables)
    ((_, command),) = run.next_steps(None)
    after = planned(command)
    assert after.configuration.trainer.experiment_name != "mine"
    assert (after.model, after.configuration.actor_rollout_ref.actor.optim.lr) == (str(model), 3e-4)
    assert after.configuration.algorithm.adv_estimator == "gae"
    assert after.configuration.actor_rollout_ref.model.lora_rank == 32
    task = conf.tasks_of(after.configuration, "train")[0]
    assert (task.case, task.manner.prompt) == ("hex(board_size=5)", "full")
    # A model that was made here is not the next one: another is made for other tasks.
    made = with_variables(typed, {"AGENT_MODEL_REPO_ID": str(build_tiny_model(tmp_path / "made", seed=0))})
    assert planned(made.next_steps(None)[-1][1]).model is None
    # The trained model is next, after it is made from the checkpoint.
    step.mkdir()
    write_info(step, CheckpointInfo(4, str(model), 1))
    (_, merge), *_, (_, command) = run.next_steps(None)
    trained = variables_of(merge)["TARGET_DIR"]
    assert variables_of(merge) == {"CHECKPOINT_BASE": str(tmp_path), "GLOBAL_STEP": "4", "TARGET_DIR": trained}
    assert variables_of(command)["AGENT_MODEL_REPO_ID"] == trained


def tasks_in(rows: Sequence[tuple[str, str]], folder: Path, **manner: Any) -> list[str]:
    """The overrides for a file of demonstrations of these environments and cases."""
    made = [
        sft_row([{"role": "user", "content": "q"}], "a", env, {"env": env, "case": case, "seed": 7, **manner})
        for env, case in rows
        for _ in range(70)
    ]
    write_parquet(folder / "train.parquet", made)
    return [
        f"data.train_files={folder}/train.parquet",
        "data.val_files=null",
        f"trainer.default_local_dir={folder}/out",
    ]


@pytest.mark.parametrize(
    ("rows", "manner"),
    [
        ([("openspiel", "hex(board_size=5)"), ("openspiel", "tic_tac_toe")], {"prompt": "brief", "mode": "move"}),
        ([("openspiel", "hex(board_size=3)")], {"prompt": "full", "mode": "episode"}),
        ([("trace", "level_1")], {"prompt": "brief", "mode": "move"}),
        ([("lgc-v2", "dyck_language_level_1")], {"prompt": "brief", "mode": "move"}),
        ([("openspiel", "tic_tac_toe"), ("trace", "level_1")], {"prompt": "brief", "mode": "move"}),
    ],
)
def test_rl_goes_on_with_the_tasks_and_the_prompt_of_fine_tuning(
    rows: list[tuple[str, str]], manner: dict[str, str], tmp_path: Path
) -> None:
    model = build_tiny_model(tmp_path / "model", seed=0, context=2048)
    run = sft.plan([*tasks_in(rows, tmp_path, **manner), "veritas_rl.evaluation=null"], {}, CPU, NOW)
    ((_, command),) = run.next_steps(model)
    after = planned(command)
    assert (after.model, after.configuration.veritas_rl.start) == (str(model), "made")
    assert after.configuration.veritas_rl.play == manner["mode"]
    found = conf.tasks_of(after.configuration, "train")[:200]
    assert {(task.env, task.case) for task in found} == {*rows}
    assert {task.manner.prompt for task in found} == {manner["prompt"]}


def test_after_every_proposed_game_several_are_proposed_together() -> None:
    _, command = next_run(get_environment("openspiel"), NEXT_CASES)
    assert variables_of(command)["GAME_TYPES"].count(",") >= 2


def test_gains_are_counted_from_the_warm_up_and_from_random_play() -> None:
    run = rl.plan(["data.custom_cls.config.adapter_config.cases=['kuhn_poker']"], {}, CPU, NOW)
    tasks = tasks_of(run)["openspiel"][:6]
    uniform = judge_uniform(tasks)
    assert uniform is not None
    found = {pipeline.UNIFORM: uniform, pipeline.RAW: judge(Silent(), tasks), pipeline.WARM: judge(Silent(), tasks)}
    found["after RL"] = judge(make_bot("exact", "openspiel", 0), tasks)
    text, rates = printed("RL", "openspiel", found)
    assert "mean value" in text
    best, random = found["after RL"].mean_value.mean, uniform.mean_value.mean
    assert rates["value gain"]["mean"] == pytest.approx(best)  # the silent player has value 0
    assert rates["value over random"]["mean"] == pytest.approx(best - random)
    assert best > random > 0


def test_a_named_model_is_checked_before_it_is_judged(tmp_path: Path) -> None:
    def refuse(model: Path) -> None:
        raise UserError(f"{model} is refused")

    run: Any = SimpleNamespace(model=str(tmp_path), check_model=refuse)
    judging: Any = None
    with pytest.raises(UserError, match="is refused"):
        pipeline._starting_model(run, judging, Console())


def test_the_error_that_ended_verl_is_named_without_lines_of_torchrun(tmp_path: Path) -> None:
    log, console = tmp_path / "verl.log", Console(file=io.StringIO())
    log.write_text(
        "[rank0]: Traceback\n[rank0]: ValueError: too few\nE torch/distributed/elastic/x failed (exitcode: 1\n"
    )
    assert cause_of_end(log, 1, console) == f"verl ended with ValueError: too few: its log is {log}"
    log.write_text("lost\n")
    assert cause_of_end(log, 7, console) == f"verl ended with exit code 7: its log is {log}"
    hint = "(the kernel sends it if memory runs out: see dmesg)"
    assert cause_of_end(log, -9, console) == f"verl ended with SIGKILL {hint}: its log is {log}"
    assert cause_of_end(log, -9, console, "the actor A died") == (
        f"verl ended with SIGKILL after the actor A died: its log is {log}"
    )
    dead = "ray.exceptions.ActorDiedError: The actor died unexpectedly."
    for path, names, actor in (
        ("", "", "TaskRunnerV1"),
        ("create_colocated_worker_cls.<locals>.", "\tname: ZW6yakWorkerDict_0:0\n", "WorkerDict"),
    ):
        about = f"\tclass_name: {path}{actor}\n\tactor_id: 64\n\tpid: 7\n{names}\tnamespace: 8\n\tip: 192.0.2.2\n"
        log.write_text(
            f"{dead}\n{about}The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR\n"
            + 20 * "\x1b[36m(WorkerDict pid=5, ip=192.0.2.3)\x1b[0m saved\n\x1b[33m(raylet)\x1b[0m lost\n"
        )
        assert cause_of_end(log, 1, console, "Ray's gcs_server (process 9) died (and 1 more)") == (
            f"verl ended with {dead[:-1]} after the actor {actor} (process 7) died: its log is {log}"
        )
    # Ray's daemons also end with a verl that has failed by itself.
    died = "Ray's gcs_server (process 9) died"
    for error, cause in (
        ("RuntimeError: the weights do not fit", ""),
        ("ray.exceptions.LocalRayletDiedError: the raylet died", f" after {died}"),
    ):
        log.write_text(f"{error}\n")
        assert cause_of_end(log, 1, console, died) == f"verl ended with {error}{cause}: its log is {log}"
    log.write_text("ray::x veritas_rl.errors.UserError: the model differs\nlost\n")
    assert cause_of_end(log, 1, console) == f"the model differs (the log is {log})"
    # Errors of the runs before a resumed run are not its errors.
    began = log.stat().st_size
    with log.open("a") as appended:
        appended.write("lost\n")
    assert cause_of_end(log, 7, console, began=began) == f"verl ended with exit code 7: its log is {log}"
    # A worker of vLLM that died while it generated, and the traceback of one of the games that waited for it.
    killed = "(EngineCore pid=1172) ERROR Worker proc VllmWorker-0 died unexpectedly, shutting down executor."
    log.write_text(killed + 700 * "\n  File x, line 3, in y" + "\nRuntimeError: 8 samples failed in the agent loop\n")
    assert cause_of_end(log, 1, console).startswith(f"verl ended with {killed} (a process of vLLM was killed, ")
