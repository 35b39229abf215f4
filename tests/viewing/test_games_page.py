"""The page contains the played games as data that cannot be executed, and sends no requests."""

import base64
import hashlib
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from veritas_rl.viewing.games_page import read_games, render, write_games
from veritas_rl.viewing.recording import Ending, PlayedGame, PlayedTurn

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")

HOSTILE = (
    "</script><script>document.title = 'owned'</script><img src=x onerror=\"document.title = 'owned'\">"
    "<!-- \\u003c/script> {{ 7 * 7 }} &lt;b&gt; \u2028 \U0001f600 \x00"
)


class Page(HTMLParser):
    """A page as a browser parses it: its elements, and the text of each script and style."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.code: list[str] = []
        self.inside = False
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.inside = tag in ("script", "style")
        if self.inside:
            self.code.append("")

    def handle_endtag(self, tag: str) -> None:
        self.inside = False

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.code[-1] += data

    @property
    def data(self) -> Any:
        """The games, as the page's script reads them."""
        return json.loads(self.code[1])


def game_of(reply: str) -> PlayedGame:
    """A game with this text in every field."""
    turn = PlayedTurn(0, reply, reply, reply, ({"role": "user", "content": reply},), reply, False, reply)
    ending = Ending(0, reply, reply, 0.0, False, reply, reply)
    return PlayedGame(reply, reply, 0, reply, (turn,), (ending,))


@pytest.fixture
def games(play_games: Callable[[str, int], list[PlayedGame]]) -> list[PlayedGame]:
    return play_games("tic_tac_toe", 3)


def test_the_page_holds_every_game_with_every_move(games: list[PlayedGame]) -> None:
    shown = Page(render(games, "Games")).data
    assert [PlayedGame.from_dict(game) for game in shown] == games
    assert all(len(game["turns"]) >= 5 for game in shown)


def test_the_page_asks_for_nothing_else(games: list[PlayedGame]) -> None:
    page = Page(render(games, "Games"))
    named = {name for _, attributes in page.elements for name in attributes}
    assert not named & {"src", "href", "style", "onclick", "onload", "action"}
    assert not re.search(r"https?://|@import|url\(|fetch|import\(|innerHTML|document\.write|eval\(", "".join(page.code))
    policy = next(attributes["content"] for _, attributes in page.elements if "http-equiv" in attributes)
    style, _, script = page.code
    hashes = [base64.b64encode(hashlib.sha256(code.encode()).digest()).decode() for code in (script, style)]
    assert policy is not None
    assert policy.split("; ")[:3] == [
        "default-src 'none'",
        f"script-src 'sha256-{hashes[0]}'",
        f"style-src 'sha256-{hashes[1]}'",
    ]


def test_html_in_a_reply_is_shown_as_text() -> None:
    html = render([game_of(HOSTILE)], HOSTILE)
    page = Page(html)
    assert [tag for tag, _ in page.elements] == [tag for tag, _ in Page(render([game_of("b2")], "Games")).elements]
    assert html.count("</script>") == 2
    assert PlayedGame.from_dict(page.data[0]) == game_of(HOSTILE)


def test_games_come_back_from_their_file(tmp_path: Path, games: list[PlayedGame]) -> None:
    games = [*games, game_of(HOSTILE)]
    page = write_games(tmp_path / "games", "step_3", games, "Games")
    assert read_games(tmp_path / "games/step_3.jsonl") == games
    assert [PlayedGame.from_dict(game) for game in Page(page.read_text("utf-8")).data] == games
    write_games(tmp_path / "games", "step_3", games[:1], "Games")
    assert read_games(tmp_path / "games/step_3.jsonl") == games[:1]
    assert sorted(file.name for file in page.parent.iterdir()) == ["step_3.html", "step_3.jsonl"]


@pytest.mark.skipif(BROWSER is None, reason="needs Chromium")
def test_a_browser_shows_the_game_and_runs_nothing_of_it(tmp_path: Path, games: list[PlayedGame]) -> None:
    page = write_games(tmp_path, "games", [*games, game_of(HOSTILE)], "Games")

    def shown(address: str) -> str:
        command = [str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/profile"]
        done = subprocess.run([*command, "--dump-dom", address], capture_output=True, text=True, timeout=60, check=True)
        return done.stdout.replace(page.read_text("utf-8").partition('id="games">')[2].partition("</script>")[0], "")

    first = shown(f"{page.as_uri()}#1/1")
    assert all(f"{number}. {turn.action}<" in first for number, turn in enumerate(games[0].turns, 1))
    assert f'<p class="action">{games[0].turns[0].action}</p>' in first
    assert 'class="picture tic_tac_toe"' in first
    reason = games[0].endings[games[0].seat].reason
    assert f'<p class="action {reason}">{reason}</p>' in shown(f"{page.as_uri()}#1/99")
    hostile = shown(f"{page.as_uri()}#4/1")
    assert "<title>Games</title>" in hostile
    assert "<img" not in hostile
    assert "&lt;img src=x" in hostile
