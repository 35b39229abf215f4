"""Games are paired and run together, give the same results in any order, and are played only once."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from veritas_rl.envs.base import Reason, Reply, Turn, play
from veritas_rl.envs.registry import get_environment
from veritas_rl.errors import UserError
from veritas_rl.judging.finished_game import FinishedGame
from veritas_rl.judging.matches import LEDGER, Ledger, Pairing, Rules, pair, play_all
from veritas_rl.players.loading import NamedPlayer, ReplySettings, open_player
from veritas_rl.players.random import RandomPlayer

pytestmark = pytest.mark.filterwarnings("ignore:.*has no description of its own")


def bot(name: str) -> NamedPlayer:
    return open_player(name, "openspiel", ReplySettings(), Path("unused"))


class Counting:
    """A random player that counts how often it is called, and with how many turns."""

    def __init__(self) -> None:
        self.calls: list[int] = []

    def act(self, turns: Sequence[Turn]) -> list[Reply]:
        self.calls.append(len(turns))
        replies = RandomPlayer("counting").act(turns)
        return [Reply(reply.text, prompt_tokens=3, tokens=2) for reply in replies]


def played(pairings: list[Pairing], at_once: int = 1000) -> list[FinishedGame]:
    found: dict[str, FinishedGame] = {}
    play_all(pairings, at_once, lambda pairing, game, _: found.update({pairing.key: game}))
    return [found[pairing.key] for pairing in pairings]


def test_every_deal_is_played_from_each_seat_with_the_same_chance() -> None:
    made = pair(
        ["hearts", "kuhn_poker"], 10, [bot("random"), bot("exact")], [bot("random")], Rules("openspiel", seed=7)
    )
    by_case = {case: [game for game in made if game.task.case == case] for case in ("hearts", "kuhn_poker")}
    # Each deal is played from every seat: ten games with four seats are rounded up to three deals.
    assert (len(by_case["hearts"]), len(by_case["kuhn_poker"])) == (2 * 12, 2 * 10)
    for case, seats in (("hearts", 4), ("kuhn_poker", 2)):
        for deal in {game.task.k for game in by_case[case]}:
            same = [game for game in by_case[case] if game.task.k == deal]
            assert {(game.task.manner.seat, game.player.name) for game in same} == {
                (seat, name) for seat in range(seats) for name in ("random", "exact")
            }
            assert len({game.task.chance_seed for game in same}) == 1
    assert len({game.task.chance_seed for game in made}) == 3 + 5
    assert len({game.key for game in made}) == len(made)


def test_the_cards_of_a_deal_do_not_depend_on_who_sits_where() -> None:
    made = pair(["kuhn_poker"], 40, [bot("random"), bot("exact")], [bot("random"), bot("mcts:5")], Rules("openspiel"))
    dealt: dict[int, set[tuple[int, ...]]] = {}
    for pairing in made:
        (turn,) = pairing.session().turns()
        dealt.setdefault(pairing.task.k, set()).add(tuple(turn.view.state.history()))
    assert all(len(cards) == 1 for cards in dealt.values())
    assert len(set.union(*dealt.values())) > 3


def test_all_games_run_at_once_and_come_out_as_one_by_one() -> None:
    counting = Counting()
    judged = NamedPlayer("counting", "counting", counting, is_model=True)
    made = pair(["tic_tac_toe", "hearts"], 12, [judged], [bot("random")], Rules("openspiel"))
    together = played(made)
    first = [pairing.session().turns()[0].seat == pairing.task.manner.seat for pairing in made]
    assert counting.calls[0] == sum(first) > 6
    assert sum(counting.calls) == sum(game.moves for game in together)
    assert all((game.prompt_tokens, game.tokens) == (3 * game.moves, 2 * game.moves) for game in together)
    assert played(made, at_once=1) == together == played(made[::-1], at_once=5)[::-1]
    pairing, game = made[1], together[1]
    scores = play([get_environment("openspiel").start(pairing.task)], pairing.seating())[0]
    assert (game.value, game.reason) == (scores[1].value, scores[1].reason)


@pytest.mark.parametrize("case", ["blackjack", "goofspiel(num_cards=13)", "hearts"])
def test_one_player_four_players_and_simultaneous_moves(case: str) -> None:
    made = pair([case], 8, [bot("random")], [bot("random"), bot("exact")], Rules("openspiel"))
    found = played([game for game in made if game.opponent is None or game.opponent.name == "random"])
    assert len(found) == 8
    assert {game.opponent for game in found} == {"nobody" if case == "blackjack" else "random"}
    assert {game.reason for game in found} <= {Reason.WON, Reason.LOST, Reason.DRAWN}
    if case.startswith("goofspiel"):
        assert len({game.trajectory_hash for game in found}) > 4


def test_an_opening_is_the_same_for_all_and_leaves_something_to_play() -> None:
    made = pair(["tic_tac_toe"], 12, [bot("random"), bot("exact")], [bot("random")], Rules("openspiel", opening=3))
    boards: dict[int, set[str]] = {}
    for pairing in made:
        (turn,) = pairing.session().turns()
        assert turn.view.state.move_number() == 3
        boards.setdefault(pairing.task.k, set()).add(str(turn.view.state))
    assert all(len(found) == 1 for found in boards.values())
    assert len(set.union(*boards.values())) > 3
    late = pair(["kuhn_poker"], 2, [bot("random")], [bot("random")], Rules("openspiel", opening=50))
    assert all(pairing.session().turns() for pairing in late)


def test_a_game_without_end_is_ended() -> None:
    made = pair(["hex(board_size=5)"], 2, [bot("random")], [bot("random")], Rules("openspiel", max_moves=4))
    for game in played(made):
        assert (game.reason, game.success, game.moves) == (Reason.UNFINISHED, False, 2)
        assert 0 < game.value < 1
    assert all(
        game.reason is not Reason.UNFINISHED
        for game in played(
            pair(["hex(board_size=5)"], 2, [bot("random")], [bot("random")], Rules("openspiel", max_moves=25))
        )
    )


def test_a_mistake_loses_and_costs_the_other_nothing_it_has_done() -> None:
    class Silent:
        def act(self, turns: Sequence[Turn]) -> list[Reply]:
            return [Reply("") for _ in turns]

    silent = NamedPlayer("silent", "silent", Silent(), is_model=True)
    assert {
        game.reason for game in played(pair(["tic_tac_toe"], 4, [silent], [bot("random")], Rules("openspiel")))
    } == {Reason.EMPTY}
    assert {
        game.reason for game in played(pair(["tic_tac_toe"], 4, [bot("random")], [silent], Rules("openspiel")))
    } == {Reason.FORFEITED}


def test_the_ledger_keeps_whole_lines_and_knows_its_games_again(tmp_path: Path) -> None:
    made = pair(["tic_tac_toe"], 6, [bot("random")], [bot("random")], Rules("openspiel"))
    found = played(made)
    ledger = Ledger(tmp_path / "out" / LEDGER)
    for game in found[:4]:
        ledger.add(game)
    with pytest.raises(UserError, match="another command writes"):
        Ledger(ledger.path)
    ledger.close()
    with ledger.path.open("ab") as file:
        file.write(found[4].to_json().encode()[:50])
    again = Ledger(ledger.path)
    assert again.of(made) == found[:4]
    again.add(found[5])
    again.close()
    assert Ledger(ledger.path).of(made) == [*found[:4], found[5]]


def test_games_of_other_players_or_rules_are_other_games(tmp_path: Path) -> None:
    changes: list[dict[str, Any]] = [
        {},
        {"rules": Rules("openspiel", seed=1)},
        {"rules": Rules("openspiel", opening=1)},
        {"rules": Rules("openspiel", max_moves=9)},
        {"rules": Rules("openspiel", prompt="brief")},
        {"players": [bot("exact")]},
        {"opponents": [bot("exact")]},
    ]
    usual: dict[str, Any] = {"players": [bot("random")], "opponents": [bot("random")], "rules": Rules("openspiel")}
    keys = [pair(["tic_tac_toe"], 2, **{**usual, **change})[0].key for change in changes]
    assert len(set(keys)) == len(keys)
    (tmp_path / LEDGER).write_text("not a game\n")
    with pytest.raises(UserError, match="cannot be read as the finished games"):
        Ledger(tmp_path / LEDGER)
