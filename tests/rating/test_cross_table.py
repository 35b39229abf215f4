"""Every game is a point for somebody, or half a point for both."""

from veritas_rl.envs.base import Reason
from veritas_rl.judging.matches import Game
from veritas_rl.rating.cross_table import tables_of


def test_a_mistake_is_the_others_win_and_too_long_a_game_is_drawn() -> None:
    def game(deal: int, seat: int, reason: Reason) -> Game:
        return Game(f"{deal}{seat}", "t", "hex", deal, seat, "a", "b", 0.0, False, reason, 1, 0, 0, str(deal))

    (table,) = tables_of(
        [
            game(0, 0, Reason.FORFEITED),
            game(0, 1, Reason.ILLEGAL),
            game(1, 0, Reason.UNFINISHED),
            game(1, 1, Reason.FORFEITED),
        ]
    )
    first, second = table.standings
    assert (first.player, first.wins, first.draws, first.losses, first.mistakes) == ("a", 2, 1, 1, 1)
    assert (second.player, second.wins, second.draws, second.losses, second.mistakes) == ("b", 1, 1, 2, 2)
    assert table.matches["a", "b"].score.mean == 1 - table.matches["b", "a"].score.mean == 2.5 / 4
