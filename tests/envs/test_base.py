"""The environment protocol: task ids, scores, the driver, and the reward."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pytest

from veritas_rl.envs.base import Reason, Reply, Score, Session, Turn, play, shape
from veritas_rl.envs.registry import get_environment, make_task, named_settings, task_from_dict, task_from_id, task_of
from veritas_rl.envs.task import Pay, Task
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
    asked = task_from_id(task.id)
    assert asked.id == task.id
    assert (asked.mode, asked.seed, asked.split) == (task.mode, task.seed, task.split)
    assert asked.parameters == task.parameters
    assert task_from_dict(task.to_dict()) == task
    assert all(type(value) in (str, int, float) for value in task.to_dict().values())


def test_ids_differ_and_leave_out_defaults() -> None:
    assert len({task.id for task in TASKS}) == len(TASKS)
    assert TASKS[0].id == "openspiel/tic_tac_toe/move#0"
    assert TASKS[1].id == "openspiel/hex(board_size=5)/move#17?seed=7&split=val"


@pytest.mark.parametrize(
    "bad", ["", "hex#3", "openspiel/hex/move", "openspiel/hex/jump#3", "openspiel/hex/move#3?sed=4"]
)
def test_malformed_ids_are_refused(bad: str) -> None:
    with pytest.raises(UserError):
        task_from_id(bad)


def test_an_id_depends_on_the_identity_alone() -> None:
    for changes in ({"reward": "legal"}, {"gamma": 0.5}, {"prompt": "brief"}, {"opponent": "a&b#1"}, {"retries": 3}):
        changed = TASK.replace(**changes)
        assert changed.id == TASK.id
        assert changed.chance_seed == TASK.chance_seed
        assert changed.key != TASK.key
    for changes in ({"depth": 3}, {"seed": 7}, {"split": "val"}, {"mode": "episode"}, {"k": 1}):
        assert TASK.replace(**changes).id != TASK.id
    assert TASK.chance_seed == "openspiel/tic_tac_toe/move#0?seed=42&split=train"
    # The depth selects a position and does not change the deal.
    assert TASK.replace(depth=3).chance_seed == TASK.chance_seed


def test_a_key_is_the_same_in_any_order_of_what_was_changed() -> None:
    one = TASK.replace(reward="legal").replace(prompt="brief")
    assert one.key == TASK.replace(prompt="brief", reward="legal").key
    assert one.key == task_from_dict(one.to_dict()).key
    assert TASK.key.startswith("openspiel/tic_tac_toe/move#0~")


@dataclass(frozen=True)
class Twice(Pay):
    prompt: str = "full"


@dataclass(frozen=True)
class Confused(Task):
    pay: Twice = Twice()


def test_two_values_of_one_name_are_refused() -> None:
    with pytest.raises(TypeError, match="prompt exists twice"):
        Confused.from_dict({"env": "quiz", "case": "all", "k": 0})


@pytest.mark.parametrize("field", ["mode", "reward", "split", "prompt"])
def test_unknown_words_in_a_task_are_refused(field: str) -> None:
    with pytest.raises(UserError, match="nonsense"):
        task_from_dict({"env": "openspiel", "case": "hex", "k": 0, field: "nonsense"})


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("{", "a row's task is no JSON object: '{'"),
        ('[["env", "openspiel"]]', "a row's task is no JSON object"),
        ("null", "a row's task is no JSON object"),
        ('{"env": "openspiel"}', "case, k is missing"),
        ('{"env": "openspiel", "case": "hex", "k": 0, "colour": 1}', "colour"),
    ],
)
def test_the_task_of_a_row_is_checked(written: str, says: str) -> None:
    with pytest.raises(UserError, match=re.escape(says)):
        task_of({"task": written})


@pytest.mark.parametrize("reason", [reason for reason in Reason if reason.is_mistake])
def test_a_mistake_never_pays(reason: Reason) -> None:
    score = Score(0.0, False, reason)
    assert not score.legal
    for task in (TASK, TASK.replace(reward="legal"), TASK.replace(legal_share=0.5)):
        assert shape(score, task) == 0
    with pytest.raises(ValueError, match="must have the value 0"):
        Score(0.5, False, reason)
    with pytest.raises(ValueError, match="must have the value 0"):
        Score(0.0, True, reason)


def test_shape_discounts_and_adds_the_legal_share() -> None:
    score = Score(0.5, False, Reason.DRAWN)
    assert shape(score, TASK.replace(reward="legal")) == 1
    assert shape(score, TASK) == 0.5
    assert shape(score, TASK.replace(gamma=0.5), moves_left=2) == 0.125
    assert shape(score, TASK.replace(legal_share=0.2, gamma=0.5), moves_left=1) == pytest.approx(0.2 + 0.8 * 0.25)


def test_legal_replies_of_a_lost_game_are_paid_their_share_and_mistakes_are_not() -> None:
    lost, task = Score(0.0, False, Reason.ILLEGAL), TASK.replace(legal_share=0.1)
    assert shape(lost, task, moves_left=1, accepted=True) == pytest.approx(0.1)
    assert shape(lost, task, accepted=False) == 0
    won = Score(1.0, True, Reason.WON)  # after a corrected mistake
    assert shape(won, TASK, accepted=False) == 0
    assert shape(won, TASK, accepted=True) == 1


@pytest.mark.parametrize(
    "bad", [{"gamma": 0.0}, {"gamma": 1.5}, {"legal_share": 1.0}, {"retries": -1}, {"max_moves": -1}, {"k": -1}]
)
def test_numbers_out_of_range_are_refused(bad: dict) -> None:
    with pytest.raises(UserError, match=next(iter(bad))):
        TASK.replace(**bad)


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan")])
def test_values_lie_in_the_unit_interval(value: float) -> None:
    with pytest.raises(ValueError, match="must be in"):
        Score(value, False, Reason.LOST)


def test_names_of_users_for_settings_become_one_name() -> None:
    openspiel = get_environment("openspiel")
    typed = {"reward_mode": "legal", "max_random_steps": 3, "illegal": "retry:2", "games": "hex", "seed": None}
    assert named_settings(openspiel, typed) == {
        "reward": "legal",
        "depth": 3,
        "retries": "retry:2",
        "game_types": "hex",
    }
    assert openspiel.read_config({"cases": "tic_tac_toe", "depth": None}).cases == ("tic_tac_toe",)
    with pytest.raises(UserError, match="did you mean num_tasks_per_case"):
        openspiel.read_config({"num_task_per_case": 3})
    with pytest.raises(UserError, match="reward_mode, reward are the same setting of openspiel"):
        named_settings(openspiel, {"reward_mode": "legal", "reward": "outcome"})


def test_unknown_environment() -> None:
    with pytest.raises(UserError, match="openspiel"):
        get_environment("openspeil")


class Countdown(Session):
    """A session in which the seats move alternately for a given number of moves."""

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


def test_play_asks_each_player_once_for_all_waiting_sessions() -> None:
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
