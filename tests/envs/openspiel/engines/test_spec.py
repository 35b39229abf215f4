"""Names of engines, and the errors for mistyped names."""

import warnings

import pytest

from veritas_rl.envs.openspiel.config import OpenSpielConfig
from veritas_rl.envs.openspiel.engines import parse, parse_all
from veritas_rl.envs.openspiel.task import OpenSpielPay
from veritas_rl.errors import UserError


@pytest.mark.parametrize(
    ("text", "full"),
    [
        ("uci:stockfish", "uci:stockfish:nodes=10000"),
        ("uci:stockfish:nodes=2000", "uci:stockfish:nodes=2000"),
        ("gtp:gnugo:level=0", "gtp:gnugo:level=0"),
        ("gtp:pachi:playouts=500", "gtp:pachi:playouts=500"),
        ("gnubg", "gnubg:plies=0"),
        ("dds", "dds:deals=10"),
    ],
)
def test_a_name_says_what_bounds_the_engine(text: str, full: str) -> None:
    assert str(parse(text)) == full
    assert parse(full) == parse(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("uci:stokfish", "did you mean uci:stockfish"),
        ("uci:stokfish:nodes=2000", "did you mean uci:stockfish"),
        ("gtp:gnugoo", "did you mean gtp:gnugo"),
        ("stockfish", "did you mean uci:stockfish"),
        ("gnubg:nodes=3", "gnubg is bounded by plies, 'nodes=3' was given: gnubg:plies=PLIES"),
        ("gnubg:plies=4", "plies of gnubg must be a whole number from 0 to 3, '4' was given: gnubg:plies=0"),
        ("uci:stockfish:nodes=many", "a whole number from 100"),
        ("uci:stockfish:nodes=²", "a whole number from 100"),
        ("uci:stockfish:", "is no engine; type uci:stockfish or uci:stockfish:nodes=NODES"),
        ("uci:stockfish:nodes", "a whole number"),
    ],
)
def test_a_wrong_name_is_one_line(text: str, message: str) -> None:
    with pytest.raises(UserError, match=r"^[^\n]+$") as error:
        parse(text)
    assert message in str(error.value)


def test_each_game_has_one_engine() -> None:
    assert [spec.kind.name for spec in parse_all("uci:stockfish, gnubg")] == ["uci:stockfish", "gnubg"]
    assert parse_all("") == ()
    with pytest.raises(UserError, match="both play chess"):
        parse_all("uci:stockfish,uci:stockfish:nodes=5000")


def test_an_engine_whose_play_varies_values_no_moves() -> None:
    with pytest.raises(UserError, match="gtp:pachi plays but values no moves; use gtp:gnugo"):
        OpenSpielPay(engine="gtp:pachi")


@pytest.mark.filterwarnings("ignore:.*has no description of its own")
@pytest.mark.parametrize("case", ["hex", "bridge(use_double_dummy_result=True)"])
def test_an_engine_that_plays_none_of_the_cases_is_one_warning(case: str) -> None:
    engine = "dds" if case == "hex" else "dds:deals=1"
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        OpenSpielConfig(cases=case, engine=engine)
    said = [str(warning.message) for warning in found if "has no effect" in str(warning.message)]
    assert said == (["engine=dds:deals=10 has no effect on these cases; it plays bridge"] if case == "hex" else [])


@pytest.mark.parametrize(
    ("case", "engine", "message"),
    [
        ("chess", "uci:stockfish", "needs the program stockfish, which is not installed; install it: apt-get"),
        ("go(board_size=9)", "gtp:gnugo", "which is not installed; install it: apt-get install gnugo"),
        ("backgammon", "gnubg", "which is not installed; install it: apt-get install gnubg"),
    ],
)
def test_a_missing_program_is_refused_before_anything_runs(
    case: str, engine: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("veritas_rl.envs.openspiel.engines.process.GAMES_FOLDERS", ())
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UserError, match=message):
        OpenSpielConfig(cases=case, engine=engine)
