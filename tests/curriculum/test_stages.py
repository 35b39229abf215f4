"""When a run advances to the next stage, and which curricula are refused."""

import json
from typing import Any

import pytest

from veritas_rl.configs import make_config
from veritas_rl.curriculum.stages import Curriculum, CurriculumConfig, Stage
from veritas_rl.envs.registry import get_environment
from veritas_rl.errors import UserError

OPENSPIEL = get_environment("openspiel")


def curriculum(window: int = 10, min_games: int | None = None, **changes: Any) -> Curriculum:
    """A curriculum of three stages with the thresholds 0.6, 0.5 and 0.4."""
    stages = [
        Stage("easy", {"cases": ["tic_tac_toe"]}, 0.6),
        Stage("medium", {"cases": ["connect_four"], **changes}, 0.5),
        Stage("hard", {}, 0.4),
    ]
    return Curriculum(stages, window, min_games)


def test_the_default_stages_have_their_opponents_and_thresholds() -> None:
    stages = CurriculumConfig().stages_of(OPENSPIEL)
    assert [(stage.name, stage.settings["opponent"], stage.threshold) for stage in stages] == [
        ("easy", "random", 0.6),
        ("medium", "random", 0.5),
        ("hard", "mcts", 0.4),
    ]
    assert stages[0].settings["only_small"]
    assert all("only_small" not in stage.settings for stage in stages[1:])


def test_one_threshold_serves_all_stages_that_have_none_of_their_own() -> None:
    stages = CurriculumConfig(stages=[{"name": "a"}, {"name": "b", "threshold": 0.9}], threshold=0.7).stages_of(
        OPENSPIEL
    )
    assert [stage.threshold for stage in stages] == [0.7, 0.9]


def test_stages_after_the_third_have_the_last_default_threshold() -> None:
    stages = CurriculumConfig(stages=[{"name": name} for name in "abcde"]).stages_of(OPENSPIEL)
    assert [stage.threshold for stage in stages] == [0.6, 0.5, 0.4, 0.4, 0.4]


def test_a_stage_that_names_its_games_takes_none_over() -> None:
    (stage,) = CurriculumConfig(stages=[{"name": "a", "games": ["hex"], "prompt": "brief"}]).stages_of(OPENSPIEL)
    assert stage.settings == {
        "cases": None,
        "game_list": None,
        "game_configs": None,
        "game_types": ["hex"],
        "prompt": "brief",
    }
    (stage,) = CurriculumConfig(stages=[{"name": "a", "prompt": "brief"}]).stages_of(OPENSPIEL)
    assert stage.settings == {"prompt": "brief"}


def test_a_stage_is_passed_exactly_at_its_threshold() -> None:
    stages = curriculum()
    for success in (1, 0, 0, 0, 1, 1, 1, 1, 0):
        assert stages.record_fresh("easy", success) is None
    assert stages.record_fresh("easy", 1) == (
        "curriculum: stage easy passed with 60% of the last 10 games; now medium (2 of 3)"
    )
    below = curriculum()
    for success in (1, 0, 0, 0, 1, 1, 1, 1, 0, 0):
        assert below.record_fresh("easy", success) is None
    assert below.number == 1


def test_a_stage_is_passed_exactly_after_its_least_number_of_games() -> None:
    for window, least in ((10, None), (10, 25), (10, 4)):
        stages = curriculum(window, least)
        needed = 10 if least is None else least
        said = [stages.record_fresh("easy", 1) for _ in range(needed)]
        assert [line is not None for line in said] == [False] * (needed - 1) + [True]


def test_only_the_last_games_count() -> None:
    stages = curriculum()
    for _ in range(1000):
        assert stages.record_fresh("easy", 0) is None
    said = [stages.record_fresh("easy", 1) for _ in range(6)]
    assert [line is not None for line in said] == [False] * 5 + [True]


def test_each_stage_begins_with_no_games() -> None:
    stages = curriculum()
    lines = [stages.record_fresh("easy", 1) for _ in range(10)]
    assert stages.metrics() == {"curriculum/stage": 2, "curriculum/games/medium": 0}
    # These games were drawn before the run advanced.
    for _ in range(30):
        stages.record_fresh("easy", 1)
    assert stages.metrics() == {"curriculum/stage": 2, "curriculum/games/medium": 0}
    lines += [stages.record_fresh("medium", k % 2) for k in range(10)]
    lines += [stages.record_fresh("hard", 1) for _ in range(30)]
    assert [line for line in lines if line] == [
        "curriculum: stage easy passed with 100% of the last 10 games; now medium (2 of 3)",
        "curriculum: stage medium passed with 50% of the last 10 games; now hard (3 of 3)",
        "curriculum: stage hard passed with 100% of the last 10 games; it was the last stage",
    ]
    assert stages.stage.name == "hard"


def test_games_of_earlier_stages_are_measured_and_do_not_count() -> None:
    stages = curriculum()
    for _ in range(10):
        stages.record_fresh("easy", 1)
    for success in [0] * 50 + [1, 0, 1, 0, 0, 0, 0, 0, 0, 0]:
        stages.record_past("easy", success)
    stages.record_fresh("medium", 0.25)
    assert stages.metrics() == {
        "curriculum/stage": 2,
        "curriculum/games/medium": 1,
        "curriculum/success/medium": 0.25,
        "curriculum/past/easy": 0.2,
    }


def test_the_curriculum_survives_json_mid_stage() -> None:
    stages, again = curriculum(), curriculum()
    for k in range(10):
        stages.record_fresh("easy", 1)
        stages.record_past("easy", k % 2) if stages.past else None
    for k in range(7):
        stages.record_fresh("medium", k % 3 == 0)
        stages.record_past("easy", 1)
    again.load_state_dict(json.loads(json.dumps(stages.state_dict())))
    for k in range(30):
        assert again.metrics() == stages.metrics()
        assert again.record_fresh("medium", k % 2) == stages.record_fresh("medium", k % 2)
    assert again.number == 3


def test_thresholds_may_change_between_runs() -> None:
    stages = curriculum()
    for _ in range(9):
        stages.record_fresh("easy", 0)
    easier = Curriculum([Stage(s.name, s.settings, 0.1) for s in stages.stages], window=10)
    easier.load_state_dict(stages.state_dict())
    assert "passed with 10%" in str(easier.record_fresh("easy", 1))


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (
            Curriculum([Stage("easy", {}, 0.5), Stage("hard", {}, 0.5)]),
            "the checkpoint has a curriculum of easy, medium, hard, and this run has a curriculum of easy, hard",
        ),
        (Curriculum([Stage("all", {})]), "and this run has no curriculum"),
        (curriculum(cases=["hex"]), r"stage medium had cases=\['connect_four'\] in the checkpoint, and has cases="),
        (curriculum(opponent="mcts"), "stage medium had opponent=None in the checkpoint, and has opponent=mcts"),
    ],
)
def test_a_state_of_other_stages_is_refused(other: Curriculum, said: str) -> None:
    with pytest.raises(UserError, match=said) as caught:
        other.load_state_dict(curriculum().state_dict())
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"stages": []}, "curriculum.stages is empty"),
        ({"stages": "easy"}, "must be a list of stages, not 'easy'"),
        ({"stages": ["easy"]}, "must contain mappings"),
        ({"stages": [{"cases": ["hex"]}]}, "stage 1 of the curriculum needs a name"),
        ({"stages": [{"name": "a"}, {"name": "a/b"}]}, "stage 2 of the curriculum needs a name"),
        ({"stages": [{"name": "a"}, {"name": "a"}]}, "two stages of the curriculum are named a"),
        ({"stages": [{"name": "a", "cases": []}]}, "stage a has no task"),
        ({"stages": [{"name": "a", "games": " , "}]}, "stage a has no task"),
        (
            {"stages": [{"name": "a", "games": "hex", "game_types": "go"}]},
            "games, game_types are the same setting",
        ),
        ({"stages": [{"name": "a", "threshold": 0}]}, "the threshold of stage a must be a number between 0 and 1"),
        ({"stages": [{"name": "a", "threshold": 1.0}]}, "the threshold of stage a must be a number between 0 and 1"),
        ({"stages": [{"name": "a", "threshold": float("nan")}]}, "the threshold of stage a must be a number between"),
        ({"stages": [{"name": "a", "threshold": "high"}]}, "not 'high'"),
        ({"threshold": 60}, "curriculum.threshold must be a number between 0 and 1, such as 0.6, not 60"),
        ({"past_share": -0.1}, "curriculum.past_share must be a probability from 0 to 1"),
        ({"window": 0}, "curriculum.window must be a whole number of at least 1, not 0"),
        ({"min_games": 2.5}, "curriculum.min_games must be a whole number"),
        ({"windows": 10}, "unknown curriculum key 'windows': did you mean window?"),
    ],
)
def test_a_mistake_is_one_clear_line(values: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError) as caught:
        make_config(CurriculumConfig, values, "curriculum").stages_of(OPENSPIEL)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
