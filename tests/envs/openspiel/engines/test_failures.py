"""Failing engines: a one-line error before a run; one warning and the next source of values during a run."""

import logging
from collections.abc import Callable

import pytest

from veritas_rl.envs.openspiel.cases import load
from veritas_rl.envs.openspiel.engines import check_plays, check_starts, engine_move, engine_values, parse, process
from veritas_rl.errors import UserError

Install = Callable[[str, str], None]

GTP = """
while read word rest; do
    case $word in
        protocol_version) printf '= 2\\n\\n' ;;
        boardsize) %s ;;
        genmove) printf '= %s\\n\\n' ;;
        *) printf '=\\n\\n' ;;
    esac
done"""
FINE = r"printf '=\n\n'"
UCI = """
while read word rest; do
    case $word in
        uci)
            echo option name Threads type spin default 1 min 1 max 8
            echo option name Hash type spin default 16 min 1 max 64
            echo option name UCI_ShowWDL type check default false
            echo option name MultiPV type spin default 1 min 1 max 500
            echo uciok ;;
        isready) echo readyok ;;
        go) %s ;;
    esac
done"""


@pytest.mark.parametrize(
    ("engine", "program_name", "script", "message"),
    [
        ("gtp:gnugo", "gnugo", "exit 3", "gtp:gnugo crashed"),
        ("gtp:gnugo", "gnugo", "exec sleep 60", "gtp:gnugo hangs"),
        ("gtp:gnugo", "gnugo", "read line; echo '= 1'; echo; exec sleep 60", "does not speak version 2"),
        ("gtp:gnugo", "gnugo", "exec >&-; exec sleep 60", "gtp:gnugo closed its output"),
        ("gnubg", "gnubg", "exit 3", "gnubg crashed"),
        ("uci:stockfish", "stockfish", "exit 3", "does not start as a chess engine"),
        ("uci:stockfish", "stockfish", "exec sleep 60", "does not start as a chess engine"),
        ("uci:stockfish", "stockfish", "read line; echo uciok; read line; exec sleep 60", "Stockfish 12 or later"),
    ],
    ids=["crash", "hang", "other protocol", "closed", "crash of gnubg", "crash of uci", "hang of uci", "too old"],
)
def test_a_program_that_does_not_start_is_one_line(
    engine: str, program_name: str, script: str, message: str, program: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(program_name, script)
    monkeypatch.setattr(process, "PATIENCE", 1.0)
    with pytest.raises(UserError, match=message) as error:
        check_starts(parse(engine))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("answer", ["A1", "K3", "resign", ""])
def test_an_illegal_move_is_one_line(answer: str, program: Install) -> None:
    program("gnugo", GTP % (FINE, answer))
    game = load("go(board_size=9)")
    state = game.spiel.new_initial_state()
    state.apply_action(0)  # A1 is taken
    with pytest.raises(UserError, match="the player gtp:gnugo:level=5 failed in go"):
        engine_move(game, state, 1, parse("gtp:gnugo"))


def test_an_illegal_move_of_chess_is_one_line(program: Install) -> None:
    program("stockfish", UCI % "echo bestmove a1a8")
    game = load("chess")
    with pytest.raises(UserError, match="the player uci:stockfish:nodes=10000 failed in chess"):
        engine_move(game, game.spiel.new_initial_state(), 1, parse("uci:stockfish"))


def test_a_board_that_the_program_refuses_is_one_line(program: Install) -> None:
    program("gnugo", GTP % (r"printf '? unacceptable size\n\n'", "A1"))
    game = load("go(board_size=9)")
    with pytest.raises(UserError, match="refuses 'boardsize 9': unacceptable size"):
        engine_move(game, game.spiel.new_initial_state(), 0, parse("gtp:gnugo"))


def test_another_size_or_variant_is_one_line() -> None:
    for name, case in (
        ("gtp:gnugo", "go(board_size=4)"),
        ("uci:stockfish", "chess(chess960=true)"),
        ("gnubg", "backgammon(scoring_type=full_scoring)"),
        ("dds", "hearts"),
    ):
        with pytest.raises(UserError, match=f"{name} cannot play .*; it plays "):
            check_plays(parse(name), load(case))


@pytest.mark.parametrize(
    "script",
    ["exit 3", "exec sleep 60", GTP % (FINE, "A1"), GTP % (r"printf '? unacceptable size\n\n'", "A1")],
    ids=["crash", "hang", "no score", "refusal"],
)
def test_within_a_run_one_warning_and_the_next_source(
    script: str, program: Install, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    program("gnugo", script)
    monkeypatch.setattr(process, "PATIENCE", 1.0)
    game = load("go(board_size=9)")
    state = game.spiel.new_initial_state()
    with caplog.at_level(logging.WARNING):
        assert engine_values(game, state, 0, "gtp:gnugo") is None
        assert engine_values(game, state, 0, "gtp:gnugo") is None
    assert len(caplog.records) == 1
    assert "this process values further moves of go(board_size=9) without the engine" in caplog.text


def test_a_search_that_hangs_is_found(program: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    program("stockfish", UCI % "exec sleep 60")
    monkeypatch.setattr(process, "PATIENCE", 1.0)
    monkeypatch.setattr("veritas_rl.envs.openspiel.engines.uci.SLOWEST_NODES", 1e9)
    game = load("chess")
    with pytest.raises(UserError, match="stockfish hangs"):
        engine_move(game, game.spiel.new_initial_state(), 1, parse("uci:stockfish"))
