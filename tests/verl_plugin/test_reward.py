"""The reward function as verl calls it: dispatched by environment, strict, and deterministic."""

from typing import Any

import pytest
from verl.utils.import_utils import load_extern_object

from veritas_rl.envs.registry import get_environment, make_task
from veritas_rl.errors import UserError
from veritas_rl.verl_plugin.reward import compute_score

TOOL = "train/tools/reward-manager.py"


def extra_info(**changes: Any) -> dict[str, Any]:
    return {**make_task("openspiel", "tic_tac_toe", 5).to_dict(), "task_id": "ignored", "index": 5, **changes}


def answers(info: dict[str, Any]) -> tuple[str, ...]:
    (turn,) = get_environment("openspiel").start(make_task("openspiel", info["case"], info["k"])).turns()
    return turn.answers


@pytest.mark.parametrize("name", ["compute_score", "compute_lgc_v2_score"])
def test_verl_loads_the_reward_function_by_path(name: str) -> None:
    info = extra_info(reward="legal")
    function: Any = load_extern_object(TOOL, name)
    assert function("tic_tac_toe", answers(info)[0], "", info)["score"] == 1.0


@pytest.mark.parametrize(
    ("reply", "reason"),
    [("", "empty"), ("the centre", "unparseable"), ("\\boxed{99}", "illegal"), ("\\boxed{0} \\boxed{1}", "ambiguous")],
)
def test_a_mistake_pays_nothing_and_says_why(reply: str, reason: str) -> None:
    scored = compute_score("tic_tac_toe", reply, "", extra_info())
    assert (scored["score"], scored["legal"], scored["success"]) == (0.0, 0.0, 0.0)
    assert scored["reason"] == reason


def test_the_same_answer_always_pays_the_same() -> None:
    info = extra_info(case="hex(board_size=5)")
    for answer in answers(info)[:4]:
        paid = {compute_score("hex", answer, "", info)["score"] for _ in range(5)}
        assert len(paid) == 1


def test_the_optimal_mode_pays_what_a_move_does_not_lose() -> None:
    for k in range(30):
        info = extra_info(k=k)
        worth = [compute_score("x", answer, "", info)["score"] for answer in answers(info)]
        paid = [compute_score("x", answer, "", {**info, "reward": "optimal"})["score"] for answer in answers(info)]
        assert paid == [1 - (max(worth) - value) for value in worth]


def test_some_move_of_every_position_is_worth_the_most() -> None:
    for k in range(20):
        info = extra_info(k=k)
        scored = [compute_score("tic_tac_toe", answer, "", info) for answer in answers(info)]
        best = max(score["score"] for score in scored)
        assert [score["success"] == 1.0 for score in scored] == [score["score"] == best for score in scored]


@pytest.mark.parametrize(
    ("info", "message"),
    [
        ({"env": "chess-engine", "case": "x", "k": 0}, "known: lgc-v2, openspiel"),
        ({"env": "openspiel"}, "case, k is missing"),
    ],
)
def test_a_row_that_names_no_task(info: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        compute_score("x", "\\boxed{1}", "", info)
