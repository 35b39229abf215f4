"""Engines as players are named, checked and listed like all players, and are stronger than random play."""

from collections.abc import Callable
from pathlib import Path

import pytest

from veritas_rl.demonstrations.dataset import ask_again, row_of
from veritas_rl.demonstrations.experts import make_expert
from veritas_rl.demonstrations.generate import Settings, generate
from veritas_rl.envs.base import play
from veritas_rl.envs.openspiel.cases import load
from veritas_rl.envs.openspiel.engines import EngineSpec, engine_values
from veritas_rl.envs.openspiel.env import OpenSpielEnvironment
from veritas_rl.envs.registry import make_task
from veritas_rl.errors import UserError
from veritas_rl.players.loading import ReplySettings, open_player
from veritas_rl.players.random import RandomPlayer
from veritas_rl.players.registry import check_bot, describe, is_bot, kind_of, make_bot, stand_in

ENV = OpenSpielEnvironment()


@pytest.mark.parametrize(
    ("name", "case", "games"),
    [
        ("uci:stockfish:nodes=200", "chess", 2),
        ("gtp:gnugo:level=0", "go(board_size=5)", 2),
        ("gnubg", "backgammon", 2),
        ("dds:deals=1", "bridge(use_double_dummy_result=False)", 2),
        pytest.param("gtp:pachi:playouts=500", "go(board_size=5)", 2, marks=pytest.mark.long),
    ],
)
def test_an_engine_beats_chance_from_every_seat(
    name: str, case: str, games: int, installed: Callable[[str], EngineSpec]
) -> None:
    installed(name)
    check_bot(name, "openspiel", [case])
    player, total = make_expert(name, "openspiel", "seed", [case]), 0.0
    for k in range(games):
        session = ENV.start(make_task("openspiel", case, k, mode="episode", max_moves=600))
        # In bridge, the player also plays for its partner.
        mine = {k % 2, k % 2 + 2}
        bots = {seat: player if seat in mine else RandomPlayer(1) for seat in range(ENV.players_of(session.task))}
        total += play([session], bots)[0][k % 2].value
    assert total / games >= 0.75


def test_an_engine_labels_demonstrations(installed: Callable[[str], EngineSpec]) -> None:
    installed("gnubg")
    settings = Settings(games="backgammon", expert="gnubg", number=4, prompt="brief")
    made, counts = generate(settings)
    assert counts.kept == 4
    for demonstration in made:
        _, turn = ask_again(row_of(demonstration, 0, settings)["extra_info"])
        values = engine_values(load("backgammon"), turn.view.state, turn.seat, "gnubg", "auto")
        assert values is not None
        chosen = turn.view.actions[turn.answers.index(demonstration.response)]
        assert values[chosen] == max(values.values())


def test_engines_are_listed_and_named_once() -> None:
    listed = describe("openspiel")
    for name in ("uci:stockfish:nodes=NODES", "gtp:gnugo", "gtp:pachi", "gnubg", "dds"):
        assert name in listed
        assert is_bot(name.partition("=")[0], "openspiel")


def test_a_wrong_engine_is_one_line() -> None:
    with pytest.raises(UserError, match="did you mean uci:stockfish"):
        make_bot("uci:stokfish", "openspiel")
    # The check of the game does not need the installed program.
    with pytest.raises(UserError, match=r"cannot play go.*; it plays chess"):
        kind_of("uci:stockfish", "openspiel").check("uci:stockfish", "go(board_size=9)")


def test_an_engine_leaves_other_games_to_chance_in_training() -> None:
    assert stand_in("gnubg", "openspiel", "hex") == "random"
    assert stand_in("gnubg", "openspiel", "backgammon") == "gnubg"


def test_a_missing_engine_is_no_opponent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("veritas_rl.envs.openspiel.engines.process.GAMES_FOLDERS", ())
    monkeypatch.setattr("veritas_rl.envs.openspiel.engines._pool._engines", {})
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UserError, match="apt-get install gnugo"):
        check_bot("gtp:gnugo", "openspiel", ["go(board_size=9)"])


def test_players_with_the_same_bound_are_the_same(tmp_path: Path, installed: Callable[[str], EngineSpec]) -> None:
    installed("gnubg")
    one, other = (open_player(name, "openspiel", ReplySettings(), tmp_path) for name in ("gnubg", "gnubg:plies=0"))
    assert one.identity == other.identity
