"""The protocol: task ids, scores, the driver, and the one place that makes rewards."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from veritas_rl.configs import make_config
from veritas_rl.envs.base import Reason, Reply, Score, Session, Turn, play, shape
from veritas_rl.envs.openspiel.env import OpenSpielConfig
from veritas_rl.envs.registry import get_environment, make_task, task_from_dict, task_from_id
from veritas_rl.envs.task import Task
from veritas_rl.errors import UserError

TASKS = [
    make_task("openspiel", "tic_tac_toe", 0),
    make_task("openspiel", "hex(board_size=5)", 17, seed=7, split="val"),
    make_task(
        "openspiel", "go(board_size=9,komi=7.5)", 3, mode="episode", opponent="random", seat=1, depth=4, prompt="brief"
    ),
    make_task("openspiel", "x", 1, reward="legal", gamma=0.5, retries=2, context="conversation"),
]
TASK = TASKS[0]


@pytest.mark.parametrize("task", TASKS)
def test_a_task_survives_its_id_and_its_dict(task: Task) -> None:
    assert task_from_id(task.id) == task
    assert task_from_dict(task.to_dict()) == task
    assert all(type(value) in (str, int, float) for value in task.to_dict().values())


def test_ids_are_told_apart_and_short() -> None:
    assert len({task.id for task in TASKS}) == len(TASKS)
    assert TASKS[0].id == "openspiel/tic_tac_toe/move#0"
    assert TASKS[1].id == "openspiel/hex(board_size=5)/move#17?seed=7&split=val"


@pytest.mark.parametrize(
    "bad", ["", "hex#3", "openspiel/hex/move", "openspiel/hex/jump#3", "openspiel/hex/move#3?sed=4"]
)
def test_bad_ids(bad: str) -> None:
    with pytest.raises(UserError):
        task_from_id(bad)


@pytest.mark.parametrize("opponent", ["a&b", "a&seat=0", "a#1", "models/a/move#3"])
def test_an_opponent_that_would_cut_the_id_is_refused(opponent: str) -> None:
    with pytest.raises(UserError, match="no & and no #"):
        replace(TASK, mode="episode", opponent=opponent)


@pytest.mark.parametrize("opponent", ["models/step_5", "mcts:50", "a=b?c", "http://host:1/v1"])
def test_any_other_opponent_survives_the_id(opponent: str) -> None:
    task = replace(TASK, mode="episode", opponent=opponent)
    assert task_from_id(task.id) == task


@pytest.mark.parametrize("field", ["mode", "reward", "split", "prompt"])
def test_bad_values(field: str) -> None:
    with pytest.raises(UserError, match="nonsense"):
        task_from_dict({"env": "openspiel", "case": "hex", "k": 0, field: "nonsense"})


@pytest.mark.parametrize("reason", [reason for reason in Reason if reason.is_mistake])
def test_a_mistake_never_pays(reason: Reason) -> None:
    score = Score(0.0, False, reason)
    assert not score.legal
    for task in (TASK, replace(TASK, reward="legal"), replace(TASK, legal_share=0.5)):
        assert shape(score, task) == 0
    with pytest.raises(ValueError, match="pays nothing"):
        Score(0.5, False, reason)
    with pytest.raises(ValueError, match="pays nothing"):
        Score(0.0, True, reason)


def test_shape() -> None:
    score = Score(0.5, False, Reason.DRAWN)
    assert shape(score, replace(TASK, reward="legal")) == 1
    assert shape(score, TASK) == 0.5
    assert shape(score, replace(TASK, gamma=0.5), moves_left=2) == 0.125
    assert shape(score, replace(TASK, legal_share=0.2, gamma=0.5), moves_left=1) == pytest.approx(0.2 + 0.8 * 0.25)


def test_legal_replies_of_a_lost_game_are_paid_their_share_and_mistakes_are_not() -> None:
    lost, task = Score(0.0, False, Reason.ILLEGAL), replace(TASK, legal_share=0.1)
    assert shape(lost, task, moves_left=1, accepted=True) == pytest.approx(0.1)
    assert shape(lost, task, accepted=False) == 0
    won = Score(1.0, True, Reason.WON)  # after a mistake that was made good
    assert shape(won, TASK, accepted=False) == 0
    assert shape(won, TASK, accepted=True) == 1


@pytest.mark.parametrize(
    "bad", [{"gamma": 0.0}, {"gamma": 1.5}, {"legal_share": 1.0}, {"retries": -1}, {"max_moves": 0}, {"k": -1}]
)
def test_bad_numbers(bad: dict) -> None:
    with pytest.raises(UserError, match=next(iter(bad))):
        replace(TASK, **bad)


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan")])
def test_values_lie_in_the_unit_interval(value: float) -> None:
    with pytest.raises(ValueError, match="lies in"):
        Score(value, False, Reason.LOST)


def test_make_config() -> None:
    assert make_config(OpenSpielConfig, {"cases": "tic_tac_toe", "max_random_steps": None}).cases == ("tic_tac_toe",)
    with pytest.raises(UserError, match="did you mean num_tasks_per_case"):
        make_config(OpenSpielConfig, {"num_task_per_case": 3})


def test_unknown_environment() -> None:
    with pytest.raises(UserError, match="openspiel"):
        get_environment("openspeil")


class Countdown(Session):
    """Seats take turns to say their name until nothing is left."""

    def __init__(self, length: int) -> None:
        self.left = length
        self.said: list[tuple[int, str]] = []

    def turns(self) -> Sequence[Turn]:
        return [Turn(self.left % 2, (), ())] if self.left else []

    def step(self, replies: Mapping[int, Reply]) -> None:
        (pair,) = replies.items()
        self.said.append((pair[0], pair[1].text))
        self.left -= 1

    def scores(self) -> dict[int, Score]:
        return {seat: Score(1.0, True, Reason.WON, {"said": text}) for seat, text in self.said}


class Named:
    def __init__(self, name: str) -> None:
        self.name = name
        self.batches: list[int] = []

    def act(self, turns: Sequence[Turn]) -> list[Reply]:
        self.batches.append(len(turns))
        return [Reply(self.name)] * len(turns)


def test_play_brings_replies_to_their_seats_in_batches() -> None:
    sessions = [Countdown(2), Countdown(4), Countdown(3)]
    players = {0: Named("zero"), 1: Named("one")}
    scores = play(sessions, players)
    assert [session.said for session in sessions][2] == [(1, "one"), (0, "zero"), (1, "one")]
    assert len(scores) == 3
    assert players[0].batches == [2, 1, 1]
    assert players[1].batches == [1, 2, 1, 1]


def test_one_player_alone_takes_every_seat_in_one_batch() -> None:
    player = Named("both")
    play([Countdown(2), Countdown(3)], player)
    assert player.batches == [2, 2, 1]
