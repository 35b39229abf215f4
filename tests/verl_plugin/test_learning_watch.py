"""A run from which nothing is learned names the setting to change."""

import re

import pytest
from omegaconf import OmegaConf

from veritas_rl import announcements
from veritas_rl.errors import UserError
from veritas_rl.verl_plugin.learning_watch import BARREN_STEPS, EQUAL, EQUAL_STEPS, UNLEARNED, LearningWatch

HEALTHY = {"task/legal": 0.9, "task/overlong": 0.0, UNLEARNED: 0.0, "actor/skipped_updates": 0.0, EQUAL: 0.5}
OVERLONG = {"task/legal": 0.0, "task/overlong": 1.0, UNLEARNED: 1.0, "actor/skipped_updates": 2.0}
SOME = HEALTHY | {"task/overlong": 0.5, UNLEARNED: 0.6, "critic/skipped_updates": 1.0}


def watch() -> LearningWatch:
    return LearningWatch(OmegaConf.create({"data": {"max_prompt_length": 10}}))


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
        (OVERLONG | {UNLEARNED: 0.0}, "no reply of the last 5 steps", "openspiel-SFT-trainer.sh"),
        (HEALTHY | {"task/legal": 0.0}, "no reply of the last 5 steps", "openspiel-SFT-trainer.sh"),
    ],
)
def test_a_run_that_cannot_learn_ends_with_its_cause(metrics: dict[str, float], start: str, key: str) -> None:
    said = ended(metrics)
    assert said.startswith(start)
    assert key in said


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
