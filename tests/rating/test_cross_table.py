"""Every game gives one player a point, or both players half a point."""

from veritas_rl.envs.base import Reason
from veritas_rl.judging.finished_game import FinishedGame
from veritas_rl.rating.cross_table import tables_of


def test_a_mistake_is_the_others_win_and_too_long_a_game_is_drawn() -> None:
    def game(deal: int, seat: int, reason: Reason) -> FinishedGame:
        return FinishedGame(
            key=f"{deal}{seat}",
            task="t",
            case="hex",
            group="hex",
            mode="episode",
            cluster=str(deal),
            deal=deal,
            seat=seat,
            player="a",
            opponent="b",
            value=0.0,
            success=False,
            reason=reason,
            moves=1,
            prompt_tokens=0,
            tokens=0,
            trajectory_hash=str(deal),
        )

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
