"""The task that a client gets for its arguments, and refused arguments."""

from typing import Any

import pytest

from veritas_rl.envs.openspiel import ids
from veritas_rl.errors import UserError
from veritas_rl.serving.offer import Offer, Start

GAMES = Offer("openspiel", ["tic_tac_toe", "hex(board_size=5)", "hex(board_size=7)", "goofspiel(num_cards=4)"])


@pytest.mark.parametrize("task_id", [0, 200000042, 600000001, 1200000007, 2199999999])
@pytest.mark.parametrize("seed", [0, 7])
def test_a_number_names_the_game_and_the_seed_the_seat(task_id: int, seed: int) -> None:
    task, notes = Offer("openspiel").task(Start(task_id=task_id, seed=seed, opponent="random"))
    assert (task.case, task.k) == ids.decode(task_id)
    assert (task.mode, task.seed, task.manner.seat, task.manner.opponent) == ("episode", seed, seed % 2, "random")
    assert not notes


def test_puzzles_and_programs_have_numbers_too() -> None:
    for env, number, case in (("lgc-v2", 300000017, ""), ("trace", 200000005, "level_3")):
        offer = Offer(env)
        once, again = (offer.task(Start(task_id=number, seed=seed))[0] for seed in (1, 2))
        assert once == again, "the number alone says which"
        assert not case or (once.case, once.k) == (case, 5)
        assert offer.task(Start(task_id=number + 1))[0] != once


def test_a_case_is_named_whole_or_by_its_game() -> None:
    assert GAMES.task(Start(case="tic_tac_toe", k=5))[0].k == 5
    assert GAMES.task(Start(case="hex( board_size=7 )"))[0].case == "hex(board_size=7)"
    assert GAMES.task(Start(case="goofspiel"))[0].case.startswith("goofspiel(")


def test_an_unnamed_case_is_drawn_from_the_seed() -> None:
    assert GAMES.task(Start(seed=5))[0] == GAMES.task(Start(seed=5))[0]
    assert len({GAMES.task(Start(seed=seed))[0].case for seed in range(40)}) == 4


def test_an_opponent_that_cannot_play_a_game_is_replaced_and_named() -> None:
    task, notes = GAMES.task(Start(case="goofspiel", opponent="mcts"))
    assert task.manner.opponent == "random"
    assert "random plays" in notes[0]


@pytest.mark.parametrize(
    ("start", "says"),
    [
        ({"case": "chess"}, "unknown case 'chess'"),
        ({"case": "hex"}, "name one of"),
        ({"case": "tic_tac_toe", "task_id": 3}, "give either task_id, or case and k"),
        ({"task_id": 1200000000}, "chess, which is not served"),
        ({"task_id": 9900000000}, "out of range"),
        ({"split": "test"}, "split"),
        ({"mode": "blitz"}, "mode"),
        ({"opponent": "uci:stockfish"}, "unknown opponent"),
        ({"opponent": "checkpoint:/etc"}, "unknown opponent"),
        ({"opponent": "mcts:999999999"}, "unknown opponent"),
        ({"case": "tic_tac_toe", "seat": 2}, "seats 0 to 1"),
    ],
)
def test_tasks_that_are_not_offered_are_refused(start: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError, match=says):
        GAMES.task(Start(**start))


def test_a_client_cannot_name_a_file_of_the_server() -> None:
    with pytest.raises(UserError, match="unknown case"):
        Offer("trace").task(Start(case="programs:/etc/passwd"))


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (lambda: Offer("opnspiel"), "unknown environment"),
        (lambda: Offer("openspiel", ["hexx"]), "hexx"),
        (lambda: Offer("openspiel", opponents=["mctss"]), "unknown player"),
        (lambda: Offer("openspiel", settings={"opponent": "random"}), "--opponents"),
        (lambda: Offer("trace", settings={"nonsense": 1}), "nonsense"),
    ],
)
def test_a_wrong_offer_is_refused_at_the_start(made: Any, says: str) -> None:
    with pytest.raises(UserError, match=says):
        made()
