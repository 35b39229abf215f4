"""A run from which nothing is learned names the setting to change."""

import os
import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from omegaconf import DictConfig

from veritas_rl import announcements
from veritas_rl.errors import UserError
from veritas_rl.launch.configuration import compose_configuration
from veritas_rl.verl_plugin.learning_watch import (
    BARREN_STEPS,
    EQUAL,
    EQUAL_STEPS,
    REASON,
    UNLEARNED,
    UNPAID_AGAIN,
    UNPAID_STEPS,
    LearningWatch,
)

HEALTHY = {
    "task/reward": 0.5,
    "task/legal": 0.9,
    "task/overlong": 0.0,
    UNLEARNED: 0.0,
    "actor/skipped_updates": 0.0,
    EQUAL: 0.5,
}
OVERLONG = {"task/legal": 0.0, "task/overlong": 1.0, UNLEARNED: 1.0, "actor/skipped_updates": 2.0}
WRONG = HEALTHY | {"task/reward": 0.0, f"{REASON}wrong": 1.0}
ADAPTER = "data.custom_cls.config.adapter_config"
ROOT = Path(__file__).resolve().parents[2]
SOME = HEALTHY | {"task/overlong": 0.5, UNLEARNED: 0.6, "critic/skipped_updates": 1.0}


@cache
def settings(*overrides: str) -> DictConfig:
    limits = ("data.max_prompt_length=10", "data.max_response_length=20")
    return compose_configuration(["hardware=cpu", "actor_rollout_ref.model.path='/my model'", *limits, *overrides])


GAME = f"++{ADAPTER}.game_types=tic_tac_toe"


def watch(*overrides: str) -> LearningWatch:
    return LearningWatch(settings(*(overrides or (GAME,))))


def ended(metrics: dict[str, float]) -> str:
    """The error after the last of `BARREN_STEPS` steps."""
    kept = watch()
    for _ in range(BARREN_STEPS - 1):
        kept.lines(metrics)
    with pytest.raises(UserError) as error:
        kept.lines(metrics)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_mini_batches_that_were_left_out_are_named_once_with_their_cause() -> None:
    kept = watch()
    assert kept.lines(HEALTHY) == []
    (line,) = kept.lines(SOME)
    assert line == (
        "nothing is learned: 60% of the replies have no learned token (updates left out: 1): "
        "50% of the prompts are longer than 10 tokens and were not asked (task/overlong): raise data.max_prompt_length"
    )
    assert re.search(announcements.PATTERN, f"(TaskRunner pid=1) {line}")
    assert kept.lines(SOME) == []
    (line,) = watch().lines(SOME | {"task/overlong": 0.0})
    assert "returned no token" in line
    assert "data.max_response_length" in line


@pytest.mark.parametrize(
    ("metrics", "start", "key"),
    [
        (OVERLONG, "no token was learned in the last 5 steps: 100% of the prompts", "data.max_prompt_length"),
        (OVERLONG | {UNLEARNED: 0.9, "task/overlong": 0.9}, "no reply of the last 5 steps", "data.max_prompt_length"),
        (OVERLONG | {"task/overlong": 0.0}, "no token was learned", "data.max_response_length"),
        # Games that end before the model is asked count as legal.
        (OVERLONG | {"task/overlong": 0.0, "task/legal": 1.0}, "no token was learned", "the model was not asked"),
        # Replies of too many characters are overlong too, and are learned from.
        (
            OVERLONG | {UNLEARNED: 0.0, "task/reward": 0.0, f"{REASON}overlong": 1.0},
            "no reply of the last 5 steps was a legal answer, so nothing can be learned: 100% overlong: ",
            "openspiel-SFT-trainer.sh",
        ),
        (
            HEALTHY | {"task/legal": 0.0, "task/reward": 0.0, f"{REASON}truncated": 1.0},
            "no reply of the last 5 steps was a legal answer, so nothing can be learned: 100% truncated: ",
            "set data.max_response_length=40",
        ),
        (
            HEALTHY | {"task/legal": 0.0, "task/reward": 0.0, f"{REASON}truncated": 0.9, f"{REASON}unparseable": 0.1},
            "no reply of the last 5 steps was a legal answer, so nothing can be learned: 90% truncated, 10% ",
            "openspiel-SFT-trainer.sh",
        ),
    ],
)
def test_a_run_that_cannot_learn_ends_with_its_cause(metrics: dict[str, float], start: str, key: str) -> None:
    said = ended(metrics)
    assert said.startswith(start)
    assert key in said


def test_a_custom_reward_for_replies_that_are_not_legal_is_learned_from() -> None:
    learning = HEALTHY | {"task/legal": 0.0, "task/reward": 0.3}
    kept = watch()
    assert [kept.lines(learning) for _ in range(2 * BARREN_STEPS)] == [[]] * (2 * BARREN_STEPS)
    assert "no reply of the last 5 steps was a legal answer" in ended(
        learning | {EQUAL: 1.0, f"{REASON}unparseable": 1.0}
    )


def test_one_learned_token_and_legal_answer_starts_the_count_again() -> None:
    kept = watch()
    for _ in range(3):
        for _ in range(BARREN_STEPS - 1):
            kept.lines(OVERLONG)
        kept.lines(SOME)


def test_equal_rewards_are_reported_once_if_they_last() -> None:
    kept, equal = watch(), HEALTHY | {EQUAL: 1.0}
    assert [kept.lines(equal) for _ in range(EQUAL_STEPS - 1)] == [[]] * (EQUAL_STEPS - 1)
    assert kept.lines(HEALTHY) == []
    said = [kept.lines(equal) for _ in range(3 * EQUAL_STEPS)]
    assert [place for place, lines in enumerate(said) if lines] == [EQUAL_STEPS - 1]
    (line,) = said[EQUAL_STEPS - 1]
    assert "the games of each task had equal rewards" in line
    assert re.search(announcements.PATTERN, f"(TaskRunner pid=1) {line}")


def test_a_curriculum_is_named_where_one_can_be_set() -> None:
    # Single moves have no opponent, so OpenSpiel's default stages do not fit them.
    for overrides, named in (
        ((GAME,), False),
        ((GAME, "play=episode", "data.custom_cls.config.curriculum=null"), True),
    ):
        kept = watch(*overrides)
        (line,) = [line for _ in range(UNPAID_STEPS) for line in kept.lines(WRONG)]
        assert ("curriculum={}" in line) == named


def test_equal_rewards_of_nothing_are_reported_as_nothing_earned_alone() -> None:
    kept = watch()
    said = [line for _ in range(2 * EQUAL_STEPS) for line in kept.lines(WRONG | {EQUAL: 1.0})]
    assert len(said) == 1
    assert "earned a reward" in said[0]


def test_steps_without_a_reward_are_reported_rarely_with_the_reasons_of_all_of_them() -> None:
    kept = watch()
    kinds = [WRONG, WRONG | {f"{REASON}wrong": 0.4, f"{REASON}truncated": 0.6}]
    said = [kept.lines(kinds[step % 2]) for step in range(2 * UNPAID_AGAIN)]
    again = UNPAID_STEPS + UNPAID_AGAIN
    assert [place + 1 for place, lines in enumerate(said) if lines] == [UNPAID_STEPS, again]
    assert said[UNPAID_STEPS - 1] == [
        "nothing is learned: no reply of the last 3 steps earned a reward: 80% wrong, 20% truncated: choose easier "
        "tasks or a weaker opponent"
    ]
    (line,) = said[again - 1]
    assert "last 53 steps earned a reward: 71% wrong, 29% truncated: choose" in line
    assert line.endswith("; set data.max_response_length=40")
    assert re.search(announcements.PATTERN, f"(TaskRunner pid=1) {line}")


def test_one_reward_starts_the_count_of_steps_without_again() -> None:
    kept = watch()
    for _ in range(3):
        assert [kept.lines(WRONG) for _ in range(UNPAID_STEPS - 1)] == [[]] * (UNPAID_STEPS - 1)
        assert kept.lines(HEALTHY) == []


@pytest.mark.parametrize(
    ("overrides", "expert", "mode"),
    [
        ((), None, None),
        ((GAME, "play=episode"), None, "episode"),
        pytest.param((f"++{ADAPTER}.game_types='connect_four,tic_tac_toe'",), "random", None, marks=pytest.mark.long),
        (("environment=lgc-v2", f"+{ADAPTER}.cases=dyck_language"), None, None),
    ],
    ids=["openspiel", "whole games", "too large to solve", "lgc-v2"],
)
def test_a_model_without_answers_gets_the_commands_of_a_warm_start_that_work(
    overrides: tuple[str, ...], expert: str | None, mode: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    monkeypatch.setenv("PWD", str(ROOT))
    kept, metrics = watch(*overrides), HEALTHY | {"task/reward": 0.0, f"{REASON}unparseable": 1.0}
    (line,) = [line for _ in range(UNPAID_STEPS) for line in kept.lines(metrics)]
    start, _, commands = line.partition(" first: ")
    assert start.endswith("100% without an answer in the format: teach the model the answer format")
    made, trained = commands.split(" && ")
    assert trained == "AGENT_MODEL_REPO_ID='/my model' bash train/scripts/openspiel-SFT-trainer.sh"
    python, *tool = shlex.split(made)
    assert python == "python"
    options = dict(zip(tool[1::2], tool[2::2], strict=True))
    assert (options.get("--expert"), options.get("--mode")) == (expert, mode)
    few = ["--num_demonstrations", "6", "--workers", "1", "--output", str(tmp_path)]
    subprocess.run([sys.executable, *tool, *few], cwd=ROOT, check=True)
    assert {path.name for path in tmp_path.glob("*.parquet")} == {"train.parquet", "val.parquet"}


def test_the_warm_start_is_in_the_environment_without_legal_answers() -> None:
    both = "{openspiel: {config: {cases: tic_tac_toe}}, lgc-v2: {config: {cases: dyck_language}}}"
    kept = watch(f"+data.custom_cls.config.environments={both}", f"++{ADAPTER}.game_types=null")
    metrics = HEALTHY | {"task/reward": 0.0, f"{REASON}unparseable": 1.0}
    metrics |= {"openspiel/reward": 0.0, "openspiel/legal": 0.9, "lgc-v2/reward": 0.0, "lgc-v2/legal": 0.0}
    (line,) = [line for _ in range(UNPAID_STEPS) for line in kept.lines(metrics)]
    assert "generate_demonstrations.py --env lgc-v2 --cases dyck_language_level_1 " in line
