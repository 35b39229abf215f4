"""A user plays at the board: complete games, undone moves, hidden information, and refused requests of other sites."""

import importlib.util
import io
import json
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from veritas_rl.datasets.jsonl import Bad
from veritas_rl.demonstrations.convert import rows_of
from veritas_rl.envs.base import Player, Reply, Turn
from veritas_rl.envs.registry import make_task
from veritas_rl.errors import UserError, exit_on_user_error
from veritas_rl.players.random import RandomPlayer
from veritas_rl.players.registry import make_bot
from veritas_rl.viewing.games_page import read_games
from veritas_rl.viewing.play.server import make_app
from veritas_rl.viewing.play.table import Table
from veritas_rl.viewing.play.terminal import play_in_terminal

TOOL = Path(__file__).resolve().parents[2] / "train/tools/play.py"


def load_tool() -> Any:
    """The command-line tool as a module."""
    spec: Any = importlib.util.spec_from_file_location("play_tool", TOOL)
    tool: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    return tool


def table_of(
    case: str, player: Player | str | None = "random", seat: int = 0, folder: Path | None = None, **values: Any
) -> Table:
    made = make_bot(player, "openspiel", 1) if isinstance(player, str) else player
    table = Table(
        make_task("openspiel", case, 0, mode="episode", retries=1, **values), seat, made, "the player", folder
    )
    table.wait_for_person()
    return table


def finish(table: Table, choose: Callable[[Table], int]) -> None:
    """Play a game to its end."""
    for _ in range(1000):
        table.wait_for_person()
        if table.over:
            return
        table.choose(choose(table), table.place)
    raise AssertionError("the game does not end")


def best(table: Table) -> int:
    """The index of the choice with the best hint."""
    name = table.hints()["choices"][0]["name"]
    return next(index for index, choice in enumerate(table.choices()) if choice.name == name)


class Scripted:
    """A player that gives these replies in order; if one is an exception, it is raised."""

    def __init__(self, *replies: str | Exception) -> None:
        self.replies = list(replies)

    def act(self, turns: Sequence[Turn]) -> list[Reply]:
        said = self.replies.pop(0) if self.replies else turns[0].answers[0]
        if isinstance(said, Exception):
            raise said
        return [Reply(said) for _ in turns]


@pytest.mark.parametrize(
    ("case", "seat"),
    [
        ("tic_tac_toe", 0),
        ("tic_tac_toe", 1),
        ("hex(board_size=3)", 1),
        ("kuhn_poker", 1),
        ("2048", 0),
        ("goofspiel(num_cards=4)", 1),
    ],
)
def test_a_game_is_played_to_its_end_and_kept(case: str, seat: int, tmp_path: Path) -> None:
    table = table_of(case, seat=seat, folder=tmp_path)
    finish(table, lambda table: 0)
    values = table.values()
    assert {end["seat"] for end in values["over"]} == set(range(table.seats))
    (game,) = read_games(tmp_path / "games.jsonl")
    assert game.seat == seat
    assert {ending.player for ending in game.endings} == ({"you", "the player"} if table.seats > 1 else {"you"})
    assert [turn.action for turn in game.turns] == [move["action"] for move in values["moves"]]
    mine = [turn for turn in game.turns if turn.seat == seat]
    bad: list[Bad] = []
    rows = list(rows_of(tmp_path / "demonstrations.jsonl", "sft", 0, bad.append))
    assert not bad
    assert len(rows) == len(mine) > 0
    # The next game has a new deal, and is recorded after the first.
    table.new_game(seat)
    finish(table, lambda table: 0)
    kept = read_games(tmp_path / "games.jsonl")
    assert kept[0] == game
    assert len({game.task_id for game in kept}) == 2
    assert table.games_page().startswith("<!DOCTYPE html>")


def test_the_moves_of_a_conversation_are_one_demonstration(tmp_path: Path) -> None:
    table = table_of("tic_tac_toe", folder=tmp_path, context="conversation")
    finish(table, lambda table: 0)
    (game,) = read_games(tmp_path / "games.jsonl")
    mine = [turn.reply for turn in game.turns if turn.seat == 0]
    bad: list[Bad] = []
    (row,) = rows_of(tmp_path / "demonstrations.jsonl", "sft", 0, bad.append)
    assert not bad
    assert [message["role"] for message in row["messages"]] == ["user", "assistant"] * len(mine)
    assert [message["content"] for message in row["messages"] if message["role"] == "assistant"] == mine
    assert "You are playing" in row["messages"][0]["content"]


def test_hints_are_right_and_lose_nothing() -> None:
    table = table_of("tic_tac_toe", "exact", seat=1)
    assert table.hints()["source"] == "exact"
    finish(table, best)
    assert [end["reason"] for end in table.values()["over"]] == ["drawn", "drawn"]


def test_a_move_is_taken_back_with_what_followed() -> None:
    table = table_of("hex(board_size=5)", "random")
    boards = []
    for _ in range(3):
        boards.append(table.board())
        table.choose(2, table.place)
        table.wait_for_person()
    answered = [move["action"] for move in table.values()["moves"]]
    table.undo()
    assert table.board() == boards[2]
    table.undo()
    assert table.board() == boards[1]
    assert [move["action"] for move in table.values()["moves"]] == answered[:2]
    table.undo()
    assert (table.board(), table.can_undo) == (boards[0], False)
    with pytest.raises(UserError, match="taken back"):
        table.undo()
    finish(table, lambda table: 0)
    table.undo()
    assert not table.over


def test_a_move_is_taken_back_while_the_player_thinks() -> None:
    class Slow(RandomPlayer):
        def act(self, turns: Sequence[Turn]) -> list[Reply]:
            time.sleep(0.3)
            return list(super().act(turns))

    table = table_of("tic_tac_toe", Slow(1))
    table.choose(0, table.place)
    assert table.asked is None
    table.undo()
    place = table.place
    assert table.asked
    time.sleep(0.5)
    assert table.place == place, "the answer to a move that was taken back is dropped"
    table.choose(8, table.place)
    table.wait_for_person()
    assert table.values()["moves"][0]["action"] == "c3"


def test_moves_and_cards_of_other_seats_are_hidden_until_the_end() -> None:
    table = table_of("leduc_poker", seat=1)
    assert not table.can_undo
    assert table.values()["moves"] == []
    with pytest.raises(UserError, match="hidden until the game is over"):
        table.said(0)
    shown = json.dumps(table.values())
    finish(table, lambda table: 0)
    said = table.said(0)
    theirs = next(line for line in said.messages[-1]["content"].splitlines() if line.startswith("Your card"))
    assert theirs not in shown
    assert len(table.values()["moves"]) > 1


def test_a_player_that_fails_is_asked_again_and_a_mistake_is_shown() -> None:
    table = table_of("tic_tac_toe", Scripted(UserError("the server is down"), ValueError("x"), "no box", "\\boxed{c3}"))
    table.choose(0, table.place)
    table.wait_for_person()
    assert table.values()["error"] == "the server is down"
    table.ask_again()
    table.wait_for_person()
    assert table.values()["error"] == "the player failed: ValueError: x"
    table.ask_again()
    table.wait_for_person()
    moves = [(move["action"], move["ok"]) for move in table.values()["moves"]]
    assert moves == [("a1", True), ("unparseable", False), ("c3", True)]
    assert table.said(1).reply == "no box"


def test_a_game_that_a_mistake_ends_says_so() -> None:
    table = table_of("tic_tac_toe", Scripted("?", "?"))
    table.choose(0, table.place)
    table.wait_for_person()
    assert {end["seat"]: end["reason"] for end in table.values()["over"]} == {0: "forfeited", 1: "unparseable"}


def test_only_what_is_on_the_board_can_be_answered() -> None:
    table = table_of("tic_tac_toe")
    place = table.place
    for typed in ("", "d4", "a1 a2", "}\\boxed{a1", "\\boxed{a1} \\boxed{b1}", "x" * 10_000):
        with pytest.raises(UserError, match="no legal move"):
            table.type(typed, place)
    with pytest.raises(UserError, match="does not exist"):
        table.choose(99, place)
    table.type("B2", place)
    with pytest.raises(UserError, match="the game has moved on"):
        table.choose(0, place)
    with pytest.raises(UserError, match="the seats 0 to 1"):
        table.new_game(2)


def test_moves_are_pointed_at_by_their_cells() -> None:
    def cells(case: str, seat: int = 0) -> dict[str, tuple[str, ...]]:
        return {choice.name: choice.cells for choice in table_of(case, seat=seat).choices()}

    chess = cells("chess", 1)
    assert (chess["Nf3"], chess["e4"]) == (("g1", "f3"), ("e2", "e4"))
    assert cells("connect_four")["column 3"] == ("3",)
    assert cells("breakthrough")["a7a6"] == ("a7", "a6")
    assert cells("go(board_size=9)")["pass"] == ()
    assert cells("dots_and_boxes")["a1-b1"] == ("a1", "b1")
    assert all(name == f"from {cells[0]}" for name, cells in cells("amazons(board_size=6)").items())
    assert set(cells("kuhn_poker").values()) == {()}
    assert cells("oware")["C"] == ("C",)
    assert {name: tuple(re.findall(r"\d+|bar|off", name)) for name in cells("backgammon")} == cells("backgammon")


def test_a_game_is_played_by_typing(tmp_path: Path) -> None:
    player = Scripted(*(f"\\boxed{{{cell}}}" for cell in ("a1", "a1", "b1")))
    table = table_of("tic_tac_toe", player, folder=tmp_path)
    typed = iter(["help", "hint", "said", "b2", "said", "z9", "undo", "b2", "a2", "", "rules", "moves", "c2", "c1"])
    written: list[str] = []

    def read(prompt: str) -> str:
        word = next(typed, None)
        if word is None:
            raise EOFError
        return word

    play_in_terminal(table, read, lambda line: written.append(line))
    text = "\n".join(written)
    assert "by exact:" in text
    assert "'z9' is no legal move here" in text
    assert "[the player]\n\\boxed{a1}" in text
    assert "You are playing tic-tac-toe" in text
    assert "Your moves as x: a1, b1, c1" in text
    assert "o: b1" in text
    assert text.count("x (you): won, 1.00") == 1
    assert "the game is over" in text
    assert f"saved: {tmp_path / 'games.jsonl'}" in text


@pytest.fixture
def client() -> Iterator[TestClient]:
    with TestClient(
        make_app(table_of("tic_tac_toe", Scripted("<img src=x> \ud800 \\boxed{c3}"))), "http://127.0.0.1"
    ) as made:
        yield made


def test_two_pages_on_one_game(client: TestClient) -> None:
    state = client.get("/state").json()
    assert client.post("/choose", json={"choice": 0, "place": state["place"]}).status_code == 200
    second = client.post("/choose", json={"choice": 1, "place": state["place"]})
    assert (second.status_code, second.json()) == (
        409,
        {"error": "the game has moved on since this move was chosen; choose again"},
    )
    later = client.get("/state", params={"version": state["version"]}).json()
    assert later["version"] > state["version"]
    while not later["asked"]:
        later = client.get("/state", params={"version": later["version"]}).json()
    assert client.get("/said", params={"move": 1}).json()["reply"] == "<img src=x> \ud800 \\boxed{c3}"


def test_another_site_can_do_nothing(client: TestClient) -> None:
    place = client.get("/state").json()["place"]
    move = json.dumps({"choice": 0, "place": place})
    assert client.get("/state", headers={"Host": "attacker.example:8760"}).status_code == 403
    assert client.get("/", headers={"Host": "127.0.0.1.attacker.example"}).status_code == 403
    assert client.post("/choose", content=move, headers={"Content-Type": "text/plain"}).status_code == 415
    assert client.post("/choose", content=move).status_code == 415
    assert client.get("/state").json()["place"] == place
    for host in ("127.0.0.1:8760", "localhost:1", "[::1]:8760"):
        assert client.get("/state", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    ("address", "body", "code"),
    [
        ("/choose", b"{}", 422),
        ("/choose", b"[", 422),
        ("/choose", b'{"choice": "a", "place": 3}', 422),
        ("/choose", b'{"choice": -1, "place": "1.0"}', 409),
        ("/choose", b'{"choice": 1e400, "place": "1.0"}', 422),
        ("/type", b'{"text": "\\ud800", "place": "1.0"}', 409),
        ("/type", b"x" * 20_000, 413),
        ("/new", b'{"seat": 7}', 409),
        ("/undo", b"{}", 409),
        ("/nothing", b"{}", 404),
    ],
)
def test_bad_requests_get_an_error_and_change_nothing(client: TestClient, address: str, body: bytes, code: int) -> None:
    before = client.get("/state").json()
    done = client.post(address, content=body, headers={"Content-Type": "application/json"})
    assert done.status_code == code
    assert client.get("/state").json() == before
    assert client.get("/said", params={"move": "x"}).status_code == 422
    assert client.get("/said", params={"move": -1}).status_code == 409
    assert client.get("/games").status_code == 409


def test_a_checkpoint_is_played_against_by_typing(
    tmp_path: Path,
    tiny_model: Path,
    save_checkpoint: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    checkpoint = save_checkpoint(tmp_path / "run", tiny_model, 3, 2.0)
    words = ["--game", "tic_tac_toe", "--opponent", str(checkpoint), "--prompt", "brief", "--max_tokens", "8"]
    monkeypatch.setattr(sys, "argv", ["play.py", "--terminal", "--output", str(tmp_path / "out"), *words])
    monkeypatch.setattr(sys, "stdin", io.StringIO("b2\nsaid\nquit\n"))
    load_tool().main()
    said = capsys.readouterr().out
    assert "x: b2\n" in said
    # The model has random weights, so its reply and its two retries are mistakes.
    assert said.count("(a mistake)") == 3
    assert f"o ({checkpoint}): " in said
    assert f"[{checkpoint}]\n" in said
    assert [move.accepted for move in read_games(tmp_path / "out/games.jsonl")[0].turns] == [True, False, False, False]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--game", "hexx"], "hexx"),
        (["--game", "hex,chess"], "names 2 games: name one"),
        (["--game", "tic_tac_toe", "--seat", "2"], "the seats 0 to 1"),
        (["--game", "tic_tac_toe", "--opponent", "nobody-there"], "no player 'nobody-there'"),
        (["--game", "tic_tac_toe", "--port", "70000"], "--port must be between"),
        (["--game", "chess", "--opponent", "uci:"], "uci"),
        (["--env", "trace", "--game", "level_1"], "mode"),
    ],
)
def test_a_mistake_is_one_line(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tool = load_tool()
    monkeypatch.setattr(sys, "argv", ["play.py", "--terminal", "--output", str(tmp_path), *words])
    with pytest.raises(SystemExit) as ended:
        exit_on_user_error(tool.main)
    error = capsys.readouterr().err
    assert ended.value.code == 2
    assert error.count("\n") == 1
    assert message in error
