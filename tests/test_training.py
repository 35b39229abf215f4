"""RL training from end to end with the real verl, Ray and FSDP, for a few steps."""

import hashlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import psutil
import pytest
import torch
from omegaconf import OmegaConf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from transformers import AutoModelForCausalLM

from veritas_rl.basis import Basis
from veritas_rl.checkpoints.layout import shard_files
from veritas_rl.checkpoints.shards import whole_state
from veritas_rl.envs.base import Reason
from veritas_rl.envs.openspiel.learning_runs import LearningRun
from veritas_rl.envs.registry import task_from_dict
from veritas_rl.exact.policies import score_policy
from veritas_rl.launch import shown_batch
from veritas_rl.launch.configuration import compose_configuration, with_or_without_plus
from veritas_rl.launch.tiny_model import build_tiny_model
from veritas_rl.players.loading import ReplySettings, open_player
from veritas_rl.progress import ROLLOUT
from veritas_rl.serving.offer import Offer
from veritas_rl.shared_prompts import KEY
from veritas_rl.verl_plugin.dataset import DynamicEnvDataset
from veritas_rl.viewing.games_page import read_games

ROOT = Path(__file__).resolve().parents[1]

pytestmark = pytest.mark.training


TRAINER = ["bash", "train/scripts/openspiel-ppo-trainer.sh"]
ADAPTER = "data.custom_cls.config.adapter_config"


def train(folder: Path, *overrides: str, **variables: str) -> tuple[str, list[dict[str, float]]]:
    """Run the script; return its output and the metrics of each step."""
    done = subprocess.run(
        [*TRAINER, f"trainer.default_local_dir={folder}", *overrides],
        cwd=ROOT,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout, [record["data"] for record in metrics(folder)]


def metrics(folder: Path) -> list[dict[str, Any]]:
    """The lines of the metrics file of the run whose checkpoints are in a folder."""
    return [json.loads(line) for line in (logs(folder) / "metrics.jsonl").read_text().splitlines()]


def logs(folder: Path) -> Path:
    """The log folder of the run whose checkpoints are in a folder."""
    return Path(json.loads((folder / "run.json").read_text())["folder"])


def digests(folder: Path) -> dict[str, str]:
    """The SHA-256 of every file in a folder."""
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.iterdir()}


def left_of(folder: Path) -> list[str]:
    """The names of the processes with a folder on their command line."""
    return [process.name() for process in naming(str(folder))]


def naming(word: str) -> list[psutil.Process]:
    """The processes with a word on their command line."""
    return [process for process in psutil.process_iter(["cmdline"]) if word in " ".join(process.info["cmdline"] or [])]


def has_stepped(folder: Path, step: int = 1) -> bool:
    """Whether the run whose checkpoints are in a folder has written the metrics of `step` steps."""
    if not (folder / "run.json").exists():
        return False
    file = logs(folder) / "metrics.jsonl"
    return file.exists() and file.read_text().count("\n") >= step


def ended(
    command: list[str], environment: dict[str, str], reached: Callable[[], bool], number: signal.Signals, log: Path
) -> int:
    """Run a command, send it a signal when `reached` is true, and wait for its end; return its exit code."""
    with log.open("ab") as printed:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=printed, stderr=printed)
        while not reached():
            assert process.poll() is None, log.read_text()
            time.sleep(0.1)
        process.send_signal(number)
        return process.wait()


def replayed(
    folder: Path, rollouts: Path, settings: Sequence[str], *, games: bool = False
) -> tuple[DynamicEnvDataset, list[str]]:
    """Draw the tasks of a run again, as if it had never been interrupted, and compare them with those of each step.

    A reply's score must be its value, and 1 its success.

    Args:
        folder: The folder of the run's checkpoints.
        rollouts: The folder of verl's files of replies.
        settings: The overrides that set the dataset.
        games: Whether there are whole games, each reply of which is a row with the game's score.

    Returns:
        The dataset after the last step, and what it said.
    """
    typed = map(with_or_without_plus, settings)
    data = compose_configuration(["hardware=cpu", "start=made", "rollout=transformers", *typed]).data
    dataset, messages = DynamicEnvDataset("train", None, data), list[str]()
    for step, record in enumerate(metrics(folder), start=1):
        drawn = {row["reward_model"]["ground_truth"]: row["index"] for row in (dataset[k] for k in range(16))}
        replies = [json.loads(line) for line in (rollouts / f"{step}.jsonl").read_text().splitlines()]
        assert games or len(replies) == len(drawn)
        # The rows that fill a batch of games come last.
        scores = {reply["gts"]: reply["score"] for reply in reversed(replies)}
        assert sorted(scores) == sorted(drawn)
        messages += dataset.record({drawn[task]: (score, float(score == 1)) for task, score in scores.items()})
        assert record["data"].items() >= dataset.metrics().items()
    return dataset, messages


def shown_rows_are_those_of_the_step(folder: Path, step: dict[str, float]) -> None:
    """The batch viewer shows the newest batch of a run; its figures are the metrics of the step."""
    page = folder / "page.html"
    tool = [sys.executable, "train/tools/show_batch.py", str(folder), "--rows", "99", "--html", str(page), "--tokens"]
    wide = {**os.environ, "COLUMNS": "300"}
    done = subprocess.run(tool, cwd=ROOT, env=wide, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    batch = shown_batch.load(shown_batch.find(str(folder), None), None)
    assert batch.step == 3
    rows = batch.real
    assert fmean(row.reward for row in rows) == pytest.approx(step["critic/score/mean"])
    assert fmean(len(row.response) for row in rows) == pytest.approx(step["response_length/mean"])
    advantages = [value for row in rows for value in row.of_learned("advantages")]
    assert fmean(advantages) == pytest.approx(step["critic/advantages/mean"], abs=1e-5)
    values = [value for row in rows for value in row.of_learned("values")]
    assert fmean(values) == pytest.approx(step["critic/values/mean"], abs=1e-5)
    assert max(abs(value) for row in rows for value in row.of_learned("difference")) < 1e-3
    html = page.read_text("utf-8")
    assert html.count("<article>") == len(batch.rows) == 32
    assert all(column in done.stdout for column in ("rollout", "trainer", "value", "return"))
    assert f"group {max(batch.groups)}: openspiel/" in done.stdout
    assert html.count('class="learned" title=') == sum(len(row.places) for row in batch.rows)


def test_ppo_trains_a_model_that_was_made_on_the_spot(tmp_path: Path) -> None:
    printed, steps = train(
        tmp_path,
        "trainer.total_training_steps=3",
        "trainer.save_freq=3",
        "veritas_rl.warm_up.steps=30",
        "veritas_rl.evaluation.positions=100",
        "data.train_batch_size=32",
        "veritas_rl.critic_warmup=1",
        # With the bypass off, verl recomputes the log-probabilities and compares them with the rollout's.
        "algorithm.rollout_correction.bypass_mode=false",
    )
    # In one step only the critic learns.
    assert ["actor/grad_norm" in step for step in steps] == [False, True, True]
    assert all(0 <= step["task/legal"] <= 1 for step in steps)
    # A legal move pays 0.5 plus half of its value.
    paid = [(step["task/legal"] + step["task/value"]) / 2 for step in steps]
    assert [step["critic/score/mean"] for step in steps] == pytest.approx(paid, abs=1e-6)
    assert all(step["training/rollout_probs_diff_max"] < 1e-3 for step in steps)
    # On two cores the critic is updated in the background; its metrics and seconds arrive all the same.
    assert all("critic/vf_loss" in step and step["timing_s/update_critic"] > 0.01 for step in steps)
    assert {file.name for file in (logs(tmp_path) / "batches").iterdir()} == {"step_1.pt", "step_3.pt"}
    shown_rows_are_those_of_the_step(tmp_path, steps[-1])
    for row in ("uniform random legal player", "before", "after the warm-up", "after RL"):
        assert row in printed
    report = json.loads(
        next(Path(line.split()[-1]) for line in printed.splitlines() if "report.json" in line).read_text()
    )
    assert report["after RL"]["legal"]["count"] == 100
    pictures = [Path(line.split()[-1]) for line in printed.splitlines() if line.strip().startswith("learning curve")]
    assert pictures[0].read_bytes().startswith(b"\x89PNG")
    made, trained = (
        AutoModelForCausalLM.from_pretrained(logs(tmp_path) / name) for name in ("model", "trained-model-global_step_3")
    )
    assert trained.num_parameters() == made.num_parameters()
    assert not left_of(tmp_path)
    (proposed,) = (shlex.split(line) for line in printed.splitlines() if "train/tools/evaluate.py" in line)
    few = ["--num_episodes", "4", "--output", str(tmp_path / "games")]
    subprocess.run([sys.executable, *proposed[1:], *few], cwd=ROOT, check=True)


@pytest.mark.long
def test_the_default_command_teaches_a_game_with_chance(tmp_path: Path) -> None:
    """The settings of `benchmarks/learning.py`, with fewer steps."""
    train(tmp_path, "trainer.total_training_steps=8", GAME_TYPES="kuhn_poker")
    report = json.loads((logs(tmp_path) / "report.json").read_text())
    assert LearningRun("kuhn_poker", 42, 0.0, 0, "", Basis("", ""), report).shows_learning, report


@pytest.mark.long
def test_the_batch_of_a_command_is_shown() -> None:
    command = [*TRAINER, "data.train_batch_size=4", "veritas_rl.warm_up.steps=10", "algorithm=grpo"]
    tool = [sys.executable, "train/tools/show_batch.py", *command]
    done = subprocess.run(tool, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    # On a CPU the trainer takes the rollout's log-probabilities, unless they are to be shown.
    assert re.search(r"log-prob difference +mean \S+, most \S+ between rollout and trainer", done.stdout)
    (page,) = (Path(line.removeprefix("page: ")) for line in done.stdout.splitlines() if line.startswith("page: "))
    assert "group 4: openspiel/" in page.read_text("utf-8")


@pytest.mark.long
def test_grpo_on_games_that_earn_nothing_moves_no_weight_and_says_why(tmp_path: Path) -> None:
    printed, steps = train(
        tmp_path,
        "trainer.total_training_steps=3",
        "trainer.save_freq=1",
        "trainer.test_freq=3",
        "data.val_max_samples=12",
        "veritas_rl.warm_up=null",
        "veritas_rl.evaluation=null",
        "data.train_batch_size=24",
        "actor_rollout_ref.rollout.n=2",
        "data.max_response_length=4",
        "data.custom_cls.config.adapter_config.reward_mode=legal",
        GAME_TYPES="hex,go,chess",
        ALGORITHM="grpo",
    )
    names = {name for step in steps for name in step if name.startswith("openspiel/") and name.count("/") == 2}
    # Metrics of single moves are grouped only by game, because single moves have no opponent and no seat.
    assert {name.split("/")[1] for name in names} == {"hex", "go", "chess"}
    assert all("critic/vf_loss" not in step for step in steps)
    # The model has random weights, so no reply is legal, and entropy bonus and weight decay alone would move it.
    assert all(step["critic/score/max"] == 0 for step in steps)
    assert all(step["training/zero_advantage"] == 1 for step in steps)
    assert all(step["actor/skipped_updates"] >= 1 and "actor/loss" not in step for step in steps)
    saved = whole_state(shard_files(tmp_path / "global_step_3", "actor", "model"))
    made = AutoModelForCausalLM.from_pretrained(logs(tmp_path) / "model").state_dict()
    assert all(saved[name].equal(weight) for name, weight in made.items())
    (moments,) = shard_files(tmp_path / "global_step_3", "actor", "optim")
    assert not torch.load(moments, weights_only=False)["state"]
    played = json.loads((logs(tmp_path) / ROLLOUT).read_text())
    assert 0 <= played["done"] <= played["of"] in (12, 48)
    (line,) = (line for line in printed.splitlines() if line.startswith("nothing is learned: "))
    assert line.startswith("nothing is learned: no reply of the last 3 steps earned a reward: ")
    for step in steps:
        shares = [share for name, share in step.items() if name.startswith("task/reason/")]
        assert sum(shares) == pytest.approx(1)
    for measure in ("reward", "success", "legal", "truncated"):
        assert all(f"task/{measure}" in step for step in steps)
        section = "val-core" if measure == "reward" else "val-aux"
        assert any(name.startswith(f"{section}/openspiel/hex/{measure}/mean@") for name in steps[-1])


@pytest.mark.long
def test_whole_games_of_self_play_are_trained_on_validated_and_can_be_looked_at(tmp_path: Path) -> None:
    _, (first, second) = train(
        tmp_path,
        "episode",
        f"{ADAPTER}.opponent=self",
        f"{ADAPTER}.past_opponent_share=0.5",
        "algorithm.rollout_correction.bypass_mode=false",
        "data.custom_cls.config.curriculum=null",
        "trainer.total_training_steps=2",
        "trainer.save_freq=1",
        "trainer.test_freq=2",
        "data.val_max_samples=16",
        "veritas_rl.games_to_show=16",
        "veritas_rl.warm_up.steps=30",
        "veritas_rl.evaluation=null",
        "data.train_batch_size=16",
        ALGORITHM="rae",
    )
    for step in (first, second):
        # Half of the games are against a past model: the initial model in step 1, the model of step 1 in step 2.
        assert {"openspiel/vs_self/success", "openspiel/vs_past/success"} <= step.keys()
        assert step["training/rollout_probs_diff_max"] < 1e-3
    baselines = json.loads((tmp_path / "global_step_2/baselines.json").read_text())
    assert baselines.keys() == {
        f"openspiel/tic_tac_toe/{other}/{seat}" for other in ("self", "past") for seat in (0, 1)
    }
    games = read_games(logs(tmp_path) / "games/step_2.jsonl")
    assert {game.seat for game in games} == {0, 1}
    assert all(
        turn.player == ("model" if turn.seat == game.seat else "random") for game in games for turn in game.turns
    )
    # The shown games are the measured ones: the validation reward is the value at a game's end.
    ends = [next(end for end in game.endings if end.seat == game.seat) for game in games]
    assert len(ends) == 16
    assert second["val-core/openspiel/tic_tac_toe/reward/mean@1"] == pytest.approx(fmean(end.value for end in ends))
    assert second["val-aux/openspiel/tic_tac_toe/success/mean@1"] == fmean(end.success for end in ends)
    assert second["val-aux/openspiel/tic_tac_toe/illegal/mean@1"] == fmean(
        Reason(end.reason).is_mistake and not Reason(end.reason).is_cut for end in ends
    )
    assert "</html>" in (logs(tmp_path) / "games/step_2.html").read_text()


def test_all_answers_to_all_decisions_of_a_small_game_are_trained_on(tmp_path: Path) -> None:
    _, steps = train(
        tmp_path,
        *("episode", "algorithm=neurd", "data.train_batch_size=1", f"{ADAPTER}.opponent=self"),
        *("data.custom_cls.config.curriculum=null", "data.custom_cls.config.failure_replay=null"),
        *("actor_rollout_ref.actor.ppo_epochs=4", "actor_rollout_ref.actor.optim.lr=1e-3"),
        *("actor_rollout_ref.actor.optim.lr_warmup_steps_ratio=0", "veritas_rl.warm_up.steps=60"),
        *("trainer.total_training_steps=24", "trainer.save_freq=23", "veritas_rl.evaluation=null"),
        GAME_TYPES="kuhn_poker",
    )
    measured = [step["openspiel/kuhn_poker/nash_conv"] for step in steps]
    assert measured[-1] < 0.75 * measured[0], measured
    # A step measures the policy before its update, as the exact judge does.
    folder = str(tmp_path / "global_step_23")
    player = open_player(folder, "openspiel", ReplySettings(temperature=1.0), tmp_path / "merged")
    assert score_policy(player.player, "kuhn_poker", prompt="brief").nash_conv == pytest.approx(measured[23], abs=1e-4)


FOLLOWING = (
    *("actor_rollout_ref.actor.use_kl_loss=true", "data.train_batch_size=32", "veritas_rl.critic_warmup=0"),
    # One update per step, which measures the KL term before it changes the weights.
    *("veritas_rl.mini_batches.move=1", "actor_rollout_ref.actor.ppo_epochs=1", "veritas_rl.warm_up.steps=20"),
    *("actor_rollout_ref.actor.optim.lr_warmup_steps_ratio=0", "veritas_rl.evaluation=null"),
)
"""Settings of a short run whose reference follows the policy."""


@pytest.mark.long
def test_the_reference_is_the_average_of_the_weights(tmp_path: Path) -> None:
    command = (*FOLLOWING, "veritas_rl.reference=average", "veritas_rl.reference_decay=0.5", "trainer.save_freq=1")
    command = (*command, "trainer.max_actor_ckpt_to_keep=9")

    def saved(step: int, kind: str) -> dict[str, torch.Tensor]:
        return whole_state(shard_files(tmp_path / f"global_step_{step}", "actor", kind))

    def follows(step: int) -> None:
        """The average of a step is half the average before it and half the weights before it."""
        before, weights, after = saved(step - 1, "reference"), saved(step - 1, "model"), saved(step, "reference")
        for name, average in after.items():
            torch.testing.assert_close(average, (before[name] + weights[name]) / 2, rtol=1e-6, atol=1e-7)
        assert any((after[name] - before[name]).abs().max() > 1e-4 for name in after)

    _, steps = train(tmp_path, *command, "trainer.total_training_steps=4")
    kl = [step["actor/kl_loss"] for step in steps]
    assert kl[0] == pytest.approx(0, abs=1e-9)
    assert min(kl[1:]) > 1e-7
    for step in (2, 3, 4):
        follows(step)
    shutil.rmtree(tmp_path / "global_step_4")
    _, again = train(tmp_path, *command, "trainer.total_training_steps=4")
    follows(4)
    # The resumed step has the replies and the reference of the uninterrupted one.
    assert again[-1]["actor/kl_loss"] == pytest.approx(kl[-1], rel=1e-4)


@pytest.mark.long
def test_the_reference_follows_the_checkpoints(tmp_path: Path) -> None:
    command = (*FOLLOWING, "veritas_rl.reference=checkpoint", "trainer.save_freq=2")
    _, steps = train(tmp_path, *command, "trainer.total_training_steps=4")
    assert [step["actor/reference_step"] for step in steps] == [0, 0, 2, 2]
    kl = [step["actor/kl_loss"] for step in steps]
    assert kl[0] == pytest.approx(0, abs=1e-9)
    assert kl[2] == pytest.approx(0, abs=1e-9)
    assert min(kl[1], kl[3]) > 1e-7
    _, steps = train(tmp_path, *command, "trainer.total_training_steps=5")
    assert steps[-1]["actor/reference_step"] == 4
    assert steps[-1]["actor/kl_loss"] == pytest.approx(0, abs=1e-9)


def test_games_of_one_task_are_compared_and_a_conversation_is_one_trajectory(tmp_path: Path) -> None:
    """With the dynamic sampling of DAPO, so the games of each task of the batch end in more than one way."""
    _, (step,) = train(
        tmp_path,
        "episode",
        f"{ADAPTER}.context=conversation",
        "algorithm.rollout_correction.bypass_mode=false",
        "+data.custom_cls.config.curriculum.stages=[{name: only, opponent: mcts:2}]",
        "trainer.total_training_steps=1",
        "trainer.save_freq=-1",
        "veritas_rl.warm_up.steps=30",
        "veritas_rl.evaluation=null",
        "data.train_batch_size=8",
        "data.max_response_length=160",
        "actor_rollout_ref.rollout.n=4",
        ALGORITHM="dapo",
    )
    batch = shown_batch.load(shown_batch.find(str(tmp_path), None), None)
    ends: dict[int, set[float]] = defaultdict(set)
    for row in batch.real:
        ends[row.group].add(row.info["success"])
    assert [len(values) for values in ends.values()] == [2] * 8
    drawn, left_out = (step[f"training/filter_groups/{name}"] for name in ("drawn", "left_out"))
    assert 0 < left_out <= drawn - 8
    # The success of the batch is that of its games; `task/success` is that of all games, most of which end in one way.
    games = {(row.group, row.copy, row.info["seat"]): row.info["success"] for row in batch.real}
    assert step["training/filter_groups/success"] == pytest.approx(fmean(games.values()))
    assert step["task/success"] != pytest.approx(fmean(games.values()), abs=1e-3)
    assert {
        "openspiel/vs_mcts:2/success",
        "openspiel/seat_0/success",
        "openspiel/seat_1/success",
        "curriculum/stage",
    } <= step.keys()
    assert step["training/num_turns/max"] == 1
    # In chats of several moves, loss applies exactly to the sampled ids, so rollout and trainer agree on each.
    assert step["task/moves"] > 2
    assert step["training/rollout_probs_diff_max"] < 1e-3
    assert step["actor/grad_norm"] > 0


def test_a_run_that_is_stopped_and_killed_goes_on_as_if_it_had_not_been(tmp_path: Path) -> None:
    folder, rollouts = tmp_path / "checkpoints", tmp_path / "rollouts"
    # Later tasks depend on the results of all earlier tasks.
    settings = [
        "data.custom_cls.config.adapter_config.reward_mode=legal",
        "data.custom_cls.config.failure_replay={}",
        "data.custom_cls.config.curriculum={threshold: 0.04, window: 24, stages: "
        "[{name: easy, cases: [tic_tac_toe]}, {name: hard, cases: [connect_four]}]}",
    ]
    command = [
        *TRAINER,
        f"trainer.default_local_dir={folder}",
        f"+trainer.rollout_data_dir={rollouts}",
        "trainer.total_training_steps=6",
        "trainer.save_freq=3",
        "trainer.logger=[console,file,tensorboard,wandb]",
        "veritas_rl.critic_warmup=0",
        "veritas_rl.warm_up.steps=30",
        "veritas_rl.evaluation=null",
        "data.train_batch_size=16",
        *settings,
    ]
    secrets = {"HF_TOKEN": "hf_ofmine", "WANDB_API_KEY": "0123456789abcdef0123456789abcdef01234567"}
    environment = {**os.environ, **secrets, "WANDB_MODE": "offline", "WANDB_DIR": str(tmp_path)}

    def until(reached: Callable[[], bool], number: signal.Signals) -> int:
        return ended(command, environment, reached, number, tmp_path / "printed")

    # SIGTERM early in the run: it saves a checkpoint, although none is due, and exits.
    assert until(lambda: has_stepped(folder), signal.SIGTERM) == 143
    (first,) = folder.glob("global_step_*")
    assert (first / "checkpoint.json").exists()
    assert not left_of(folder)
    # Killed after the checkpoint of step 3, which is saved just before the metrics of step 3 are written.
    assert until(lambda: has_stepped(folder, 3), signal.SIGKILL) == -signal.SIGKILL
    assert (folder / "global_step_3/checkpoint.json").exists()
    assert not psutil.wait_procs(naming(str(folder)), 30)[1]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "resuming from step 3 of 6" in done.stdout

    assert [record["step"] for record in metrics(folder)] == [1, 2, 3, 4, 5, 6]
    events = EventAccumulator(str(logs(folder) / "tensorboard")).Reload()
    assert [event.step for event in events.Scalars("critic/score/mean")] == [1, 2, 3, 4, 5, 6]
    runs = {path.name.rsplit("-", 1)[0].partition("-")[2] for path in tmp_path.glob("wandb/offline-run-*")}
    ids = {path.name.split("-", 3)[-1] for path in tmp_path.glob("wandb/offline-run-*")}
    assert len(runs) >= 1
    assert ids == {json.loads((folder / "run.json").read_text())["wandb_run_id"]}
    dataset, messages = replayed(folder, rollouts, settings)
    assert dataset.metrics()["curriculum/stage"] == 2
    assert dataset.metrics()["failure_replay/share"] > 0
    printed = (tmp_path / "printed").read_text() + done.stdout
    assert all(line in printed for line in messages)
    for file in (path for top in (tmp_path, logs(folder)) for path in top.rglob("*") if path.is_file()):
        assert not any(secret.encode() in file.read_bytes() for secret in secrets.values()), file


@pytest.mark.long
def test_environments_of_others_mix_with_ours_and_go_on_after_a_kill(tmp_path: Path, serve: Callable[..., Any]) -> None:
    folder, rollouts = tmp_path / "checkpoints", tmp_path / "rollouts"
    server = f"openenv:{serve([Offer('openspiel')]).url}"
    # Each environment goes through stages of its own, the first of which one success ends.
    ours = "config: {reward: legal, cases: tic_tac_toe}"
    words = "config: {prompt: brief, cases: 'spell_backward_level_1,spell_backward_level_2'}"
    nim = "config: {prompt: brief, gamma: 1, cases: 'Nim-v0,Nim-v0-medium'}"
    games = "config: {reset: {case: kuhn_poker, opponent: random}}"
    environments = {"openspiel": ours, "reasoning-gym": words, "textarena": nim, server: games}
    stages = "{window: 4, min_games: 4, threshold: 0.01, stages: [{name: first}, {name: second}]}"
    mixed = [f"{{{config}, failure_replay: {{}}, curriculum: {stages}}}" for config in environments.values()]
    # A colon in a name is typed with a backslash.
    keys = [name.replace(":", r"\:") for name in environments]
    typed = ", ".join(f"{key}: {value}" for key, value in zip(keys, mixed, strict=True))
    settings = [f"data.custom_cls.config.environments={{{typed}}}"]
    command = [
        *TRAINER,
        *settings,
        f"trainer.default_local_dir={folder}",
        f"+trainer.rollout_data_dir={rollouts}",
        "algorithm=reinforce_plus_plus",
        "veritas_rl.small_model.tokens=1200",
        "trainer.total_training_steps=4",
        "trainer.save_freq=2",
        "veritas_rl.warm_up.steps=100",
        "veritas_rl.evaluation=null",
        "data.train_batch_size=16",
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    killed = ended(command, environment, lambda: has_stepped(folder, 2), signal.SIGKILL, tmp_path / "printed")
    assert killed == -signal.SIGKILL
    assert not psutil.wait_procs(naming(str(folder)), 30)[1]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "resuming from step 2 of 4" in done.stdout
    dataset, _ = replayed(folder, rollouts, settings, games=True)
    assert all(dataset.metrics()[f"{name}/failure_replay/share"] > 0 for name in environments)
    by_case = {
        "openspiel/tic_tac_toe",
        "reasoning-gym/spell_backward_level_1",
        "textarena/Nim",
        server.replace(":", "/", 1),
    }
    assert {f"{name}/success" for name in by_case} <= metrics(folder)[0]["data"].keys()


@dataclass(frozen=True)
class Sampled:
    """Three steps of the same two tasks on two ranks. The weights stay, so only random numbers distinguish replies.

    Attributes:
        folder: The folder of the checkpoints.
        rollouts: The folder of verl's files of replies.
        command: The overrides, but for the number of ranks.
        variables: The environment variables.
    """

    folder: Path
    rollouts: Path
    command: Sequence[str]
    variables: Mapping[str, str]

    def replies(self, step: int) -> list[tuple[str, str]]:
        """The tasks and replies of a step, sorted."""
        lines = map(json.loads, (self.rollouts / f"{step}.jsonl").read_text().splitlines())
        return sorted((line["gts"], line["output"]) for line in lines)


@pytest.fixture(scope="module")
def sampled(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Sampled:
    folder = tmp_path_factory.mktemp("sampled")
    command = (
        *("data.train_max_samples=2", "data.train_batch_size=2", "actor_rollout_ref.rollout.n=4"),
        *("actor_rollout_ref.actor.optim.lr=0", "data.max_response_length=8", f"{ADAPTER}.prompt=brief"),
        *("veritas_rl.evaluation=null", "trainer.total_training_steps=3", "trainer.save_freq=2"),
        f"+trainer.rollout_data_dir={folder / 'rollouts'}",
    )
    variables = {"AGENT_MODEL_REPO_ID": str(tiny_model), "GAME_TYPES": "tic_tac_toe", "ALGORITHM": "grpo"}
    two = ("trainer.n_gpus_per_node=2", "actor_rollout_ref.rollout.agent.num_workers=2")
    train(folder / "run", *command, *two, **variables)
    return Sampled(folder / "run", folder / "rollouts", command, variables)


@pytest.mark.long
def test_every_reply_of_a_run_is_a_sample_of_its_own(sampled: Sampled) -> None:
    said = [sampled.replies(step) for step in (1, 2, 3)]
    assert [len(step) for step in said] == [8, 8, 8]
    assert len({task for step in said for task, _ in step}) == 2
    assert len({reply for step in said for reply in step}) == 24


@pytest.mark.long
def test_one_rank_goes_on_with_the_replies_of_two(sampled: Sampled) -> None:
    said = sampled.replies(3)
    shutil.rmtree(sampled.folder / "global_step_3")
    (sampled.rollouts / "3.jsonl").unlink()
    train(sampled.folder, *sampled.command, **sampled.variables)
    assert sampled.replies(3) == said


@pytest.mark.long
def test_groups_whose_prompt_is_computed_once_resume_with_the_same_weights(tmp_path: Path) -> None:
    command = (
        *("trainer.total_training_steps=3", "trainer.save_freq=1", "trainer.max_actor_ckpt_to_keep=9"),
        *("veritas_rl.warm_up.steps=30", "veritas_rl.evaluation=null", "data.train_batch_size=8"),
        *("actor_rollout_ref.rollout.n=4", "actor_rollout_ref.actor.use_kl_loss=true"),
    )

    def weights() -> dict[str, torch.Tensor]:
        return whole_state(shard_files(tmp_path / "global_step_3", "actor", "model"))

    train(tmp_path, *command, ALGORITHM="grpo")
    assert OmegaConf.select(OmegaConf.load(logs(tmp_path) / ".hydra/config.yaml"), KEY) is True
    through, before = weights(), whole_state(shard_files(tmp_path / "global_step_2", "actor", "model"))
    shutil.rmtree(tmp_path / "global_step_3")
    printed, _ = train(tmp_path, *command, ALGORITHM="grpo")
    assert "resuming from step 2 of 3" in printed
    for name, weight in weights().items():
        torch.testing.assert_close(weight, through[name], rtol=0, atol=1e-6)
    assert max((weight - through[name]).abs().max() for name, weight in before.items()) > 1e-4


@pytest.mark.long
def test_games_that_go_on_from_step_to_step_are_neither_lost_nor_played_twice(tmp_path: Path) -> None:
    folder, rollouts = tmp_path / "checkpoints", tmp_path / "rollouts"
    fresh = [f"data.custom_cls.config.{name}=null" for name in ("curriculum", "failure_replay")]
    settings = ["play=episode", "data.train_batch_size=16", *fresh]
    command = [
        *TRAINER,
        f"trainer.default_local_dir={folder}",
        f"+trainer.rollout_data_dir={rollouts}",
        "trainer.v1.trainer_mode=game_async",
        "trainer.total_training_steps=4",
        "trainer.save_freq=4",
        "veritas_rl.warm_up.steps=30",
        "veritas_rl.evaluation=null",
        *settings,
    ]
    environment = dict(os.environ)
    assert ended(command, environment, lambda: has_stepped(folder), signal.SIGTERM, tmp_path / "printed") == 143
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == 0
    assert [record["step"] for record in metrics(folder)] == [1, 2, 3, 4]
    assert all(0 <= record["data"]["openspiel/vs_random/success"] <= 1 for record in metrics(folder))
    replies = [json.loads(line) for file in rollouts.iterdir() for line in file.read_text().splitlines()]
    steps: dict[str, set[int]] = defaultdict(set)
    for reply in replies:
        steps[reply["gts"]].add(reply["step"])
    assert all(len(trained) == 1 for trained in steps.values())
    # Every drawn task either was trained on or is saved in the checkpoint as unfinished.
    state = torch.load(folder / "global_step_4/data.pt", weights_only=False)["dataset_state"]["sources"]["openspiel"]
    waiting = [task_from_dict(draw["task"]).id for draw in state["waiting"]]
    typed = map(with_or_without_plus, settings)
    dataset = DynamicEnvDataset("train", None, compose_configuration(["hardware=cpu", "start=made", *typed]).data)
    drawn = [dataset[0]["reward_model"]["ground_truth"] for _ in range(state["drawn"])]
    assert len(steps) == 64
    assert len(waiting) == 16
    assert sorted([*steps, *waiting]) == sorted(drawn)


@pytest.mark.long
def test_an_adapter_is_trained_on_two_ranks_merged_and_gone_on_from(tmp_path: Path, small_parameters: int) -> None:
    base = build_tiny_model(tmp_path / "base", seed=0)
    untouched = digests(base)
    few = [
        "trainer.total_training_steps=2",
        "trainer.save_freq=2",
        "veritas_rl.critic_warmup=0",
        "veritas_rl.evaluation=null",
        "data.train_batch_size=32",
        "algorithm.rollout_correction.bypass_mode=false",
        "actor_rollout_ref.actor.use_kl_loss=true",
    ]
    _, steps = train(
        tmp_path / "first",
        *few,
        "trainer.n_gpus_per_node=2",
        "actor_rollout_ref.actor.optim.lr=0.01",
        AGENT_MODEL_REPO_ID=str(base),
        ENABLE_LORA="1",
    )
    assert all(step["training/rollout_probs_diff_max"] < 1e-3 for step in steps)
    # The reference is the model without the adapter, so the KL term is positive after the first update.
    assert steps[1]["actor/kl_loss"] > 0
    shards = sorted(path.name for path in (tmp_path / "first/global_step_2/actor").glob("model_*.pt"))
    assert shards == ["model_world_size_2_rank_0.pt", "model_world_size_2_rank_1.pt"]

    merged = tmp_path / "merged"
    done = subprocess.run(
        ["bash", "train/scripts/merge-ppo.sh"],
        cwd=ROOT,
        env={**os.environ, "CHECKPOINT_BASE": str(tmp_path / "first"), "TARGET_DIR": str(merged)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert AutoModelForCausalLM.from_pretrained(merged).num_parameters() == small_parameters
    adapter = merged / "lora_adapter"
    trained = digests(adapter)

    _, steps = train(
        tmp_path / "second",
        *few,
        "data.custom_cls.config.adapter_config.reward_mode=legal",
        *("actor_rollout_ref.actor.ppo_epochs=1", "veritas_rl.mini_batches.move=1"),
        AGENT_MODEL_REPO_ID=str(base),
        ENABLE_LORA="1",
        LORA_ADAPTER_PATH=str(adapter),
        ALGORITHM="grpo",
        GAME_TYPES="kuhn_poker",
    )
    # From the first step on, the rollout uses the trainer's adapter, which is not zero.
    assert "step 0: the rollout holds the trainer's adapter: " in (logs(tmp_path / "second") / "verl.log").read_text()
    assert steps[0]["training/rollout_probs_diff_max"] < 1e-3
    # The reference is the adapter of the start.
    assert abs(steps[0]["actor/kl_loss"]) < 1e-9
    assert steps[1]["actor/kl_loss"] > 1e-9
    assert digests(base) == untouched
    assert digests(adapter) == trained


@pytest.mark.long
def test_a_loss_that_is_no_number_ends_the_run_and_names_step_and_tasks(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            *TRAINER,
            f"trainer.default_local_dir={tmp_path}",
            "trainer.total_training_steps=4",
            "veritas_rl.critic_warmup=0",
            "veritas_rl.warm_up.steps=30",
            "veritas_rl.evaluation=null",
            "data.train_batch_size=32",
            "actor_rollout_ref.actor.optim.lr=1e30",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    # Ray may say something too.
    (line,) = (line for line in done.stderr.splitlines() if line.startswith("error: "))
    assert re.match(r"error: step \d+: actor/\w+ is (nan|inf).*openspiel/tic_tac_toe/move#\d+", line)


@pytest.mark.long
def test_a_custom_reward_function_is_trained_on_judged_and_watched_for_changes(tmp_path: Path) -> None:
    file = tmp_path / "my_reward.py"
    returned = "{'score': score + bonus * len(tokens), 'length': len(tokens)}"
    source = f"def compute_score(score, tokens, bonus): return {returned}\n"
    file.write_text(source)
    settings = [
        f"reward.custom_reward_function.path={file}",
        "reward.custom_reward_function.reward_kwargs.bonus=1",
        *("trainer.save_freq=2", "trainer.test_freq=2", "data.val_max_samples=16", "data.train_batch_size=32"),
        *("veritas_rl.warm_up.steps=30", "veritas_rl.evaluation.positions=50", "veritas_rl.critic_warmup=0"),
    ]
    folder = tmp_path / "run"
    printed, steps = train(folder, "trainer.total_training_steps=2", *settings)
    assert f"rewards: compute_score of {file}" in printed
    for step in steps:
        assert step["critic/score/mean"] == pytest.approx(step["task/shaped"] + step["task/length"])
        assert step["task/shaped"] == pytest.approx((step["task/legal"] + step["task/value"]) / 2, abs=1e-6)
    assert printed.count("rewards leave the range of 0 to 1") == 1
    group = "openspiel/tic_tac_toe"
    parts = [steps[-1][f"val-aux/{group}/{name}/mean@1"] for name in ("shaped", "length")]
    assert steps[-1][f"val-core/{group}/reward/mean@1"] == pytest.approx(sum(parts))
    report = json.loads((logs(folder) / "report.json").read_text())
    after = report["after RL"]
    assert after["custom reward"]["mean"] > 1 >= after["value"]["mean"]
    assert f"{after['custom reward']['mean']:.3f}" in printed

    file.write_text(source.replace("score + ", "score - "))
    printed, steps = train(folder, "trainer.total_training_steps=3", *settings)
    assert "note: until step 2 the rewards were those of compute_score of my_reward.py" in printed
    last = steps[-1]
    assert last["critic/score/mean"] == pytest.approx(last["task/shaped"] - last["task/length"])


@pytest.mark.long
def test_a_custom_reward_function_that_fails_ends_the_run_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "my_reward.py"
    file.write_text("def compute_score(score): return score / 0\n")
    words = [f"reward.custom_reward_function.path={file}", f"trainer.default_local_dir={tmp_path / 'run'}"]
    small = ["trainer.total_training_steps=1", "data.train_batch_size=32", "veritas_rl.warm_up.steps=5"]
    command = [*TRAINER, *words, *small, "veritas_rl.evaluation=null"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    (line,) = (line for line in done.stderr.splitlines() if line.startswith("error: "))
    assert "the reward function compute_score of my_reward.py failed in line 1 with ZeroDivisionError" in line
    assert "Traceback" not in done.stderr
