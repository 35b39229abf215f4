"""Summaries of games made by hand."""

import dataclasses

import pytest

from veritas_rl.envs.base import Reason
from veritas_rl.judging.finished_game import FinishedGame
from veritas_rl.judging.statistics import Estimate
from veritas_rl.judging.summary import compare, level_of, milestones_of, rows_of, verdict

VALUES = {Reason.WON: 1.0, Reason.DRAWN: 0.5}


def game(
    deal: int, seat: int, reason: Reason, player: str = "a", opponent: str = "random", case: str = "x"
) -> FinishedGame:
    value = VALUES.get(reason, 0.0)
    task = f"openspiel/{case}/episode#{deal}"
    return FinishedGame(
        key=f"{task}{player}{opponent}",
        task=task,
        case=case,
        group=case,
        mode="episode",
        cluster=f"{case}#{deal}",
        deal=deal,
        seat=seat,
        player=player,
        opponent=opponent,
        value=value,
        success=value == 1.0,
        reason=reason,
        moves=3,
        prompt_tokens=20,
        tokens=5,
        trajectory_hash=f"{deal}",
    )


GAMES = [
    game(0, 0, Reason.WON),
    game(0, 1, Reason.LOST),
    game(1, 0, Reason.WON),
    game(1, 1, Reason.DRAWN),
    game(2, 0, Reason.ILLEGAL),
    game(2, 1, Reason.TRUNCATED),
    game(3, 0, Reason.UNPARSEABLE),
    game(3, 1, Reason.FORFEITED),
]


def test_rates_by_seat_and_over_all() -> None:
    every, first, second = rows_of(GAMES)
    assert [(row.seat, row.games, row.deals) for row in (every, first, second)] == [
        ("all", 8, 4),
        ("0", 4, 4),
        ("1", 4, 4),
    ]
    assert tuple(share and share.mean for share in (every.wins, every.draws, every.losses)) == (2 / 8, 1 / 8, 4 / 8)
    assert (every.illegal.mean, every.truncated.mean, every.score.mean) == (2 / 8, 1 / 8, 2.5 / 8)
    assert (first.success.mean, first.illegal.mean, second.truncated.mean) == (0.5, 0.5, 0.25)
    assert every.reasons == {
        "drawn": 1, "forfeited": 1, "illegal": 1, "lost": 1, "truncated": 1, "unparseable": 1, "won": 2
    }  # fmt: skip
    assert (every.moves, every.tokens, every.prompt_tokens, every.distinct) == (24, 40, 160, 4)


def test_a_row_over_all_games_where_there_are_several() -> None:
    rows = rows_of([*GAMES, game(0, 0, Reason.WON, case="y")])
    assert [(row.case, row.seat) for row in rows] == [
        ("all", "all"),
        ("x", "all"),
        ("x", "0"),
        ("x", "1"),
        ("y", "all"),
    ]
    assert rows[0].games == 9


def test_a_case_of_several_groups_has_a_row_before_them() -> None:
    def answer(deal: int, case: str, group: str, reason: Reason, player: str = "a") -> FinishedGame:
        return dataclasses.replace(game(deal, -1, reason, player, "nobody", case), mode="move", group=group)

    right, wrong = Reason.WON, Reason.WRONG
    puzzles = [
        answer(0, "sudoku", "sudoku_level_2", right),
        answer(1, "sudoku", "sudoku_level_1", wrong),
        answer(0, "operation", "operation_level_1", right),
    ]
    rows = [(row.case, row.games, row.success.mean) for row in rows_of(puzzles)]
    assert rows == [
        ("all", 3, 2 / 3),
        ("sudoku", 2, 0.5),
        ("sudoku_level_1", 1, 0.0),
        ("sudoku_level_2", 1, 1.0),
        ("operation_level_1", 1, 1.0),
    ]
    # A group gets a row with a case name only if all its games are of that case.
    assert [row.case for row in rows_of(puzzles[:2])] == ["all", "sudoku_level_1", "sudoku_level_2"]
    boards = [answer(0, "hex(5)", "hex", right), answer(0, "hex(7)", "hex", wrong), answer(1, "hex(7)", "pig", wrong)]
    assert [(row.case, row.games) for row in rows_of(boards)] == [("all", 3), ("hex", 2), ("pig", 1)]
    other = [dataclasses.replace(each, player="b", success=False, value=0.0) for each in puzzles]
    found = {versus.case: versus.success.difference.mean for versus in compare([*puzzles, *other], "a", "b")}
    assert found == {case: mean for case, _, mean in rows}


@pytest.mark.parametrize(
    ("opponent", "level"),
    [
        ("random", "easy"),
        ("mcts:10", "medium"),
        ("mcts", "hard"),
        ("mcts:50", "hard"),
        ("mcts:full", "hard"),
        ("exact", "hard"),
        ("models/mine", None),
        ("nobody", None),
    ],
)
def test_levels_of_opponents(opponent: str, level: str | None) -> None:
    assert level_of(opponent, "openspiel") == level


def test_a_milestone_is_passed_by_what_is_shown_and_not_by_chance() -> None:
    def milestone(won: int, deals: int) -> tuple[str, float]:
        games = [
            game(deal, seat, Reason.WON if deal < won else Reason.LOST) for deal in range(deals) for seat in (0, 1)
        ]
        (found,) = milestones_of(games)
        return found.verdict, found.success.mean

    assert milestone(4, 4) == ("pass", 1.0)
    assert milestone(3, 3) == ("not shown", 1.0)
    assert milestone(13, 20) == ("not shown", 0.65)
    assert milestone(80, 100) == ("pass", 0.8)
    assert milestone(10, 100) == ("fail", 0.1)


def test_the_threshold_itself_is_not_over_the_threshold() -> None:
    assert verdict(Estimate(0.6, 0.5, 0.7, 9, 9), 0.5) == "not shown"
    assert verdict(Estimate(0.4, 0.3, 0.5, 9, 9), 0.5) == "fail"


def test_two_players_are_compared_on_the_same_games_alone() -> None:
    mine = [game(deal, seat, Reason.WON) for deal in range(8) for seat in (0, 1)]
    other = [game(deal, seat, Reason.WON if seat else Reason.LOST, player="b") for deal in range(12) for seat in (0, 1)]
    (found,) = compare([*other, *mine], "a", "b")
    assert (found.score.difference.mean, found.score.difference.count, found.score.difference.classes) == (0.5, 16, 8)
    assert found.success.p_value == pytest.approx(2 / 2**8)
    with pytest.raises(ValueError, match="no game in common"):
        compare(mine, "a", "b")
