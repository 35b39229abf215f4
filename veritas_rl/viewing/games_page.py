"""Played games as two files: a JSON object a line for programs, and one HTML page for a person.

The page holds all that it needs, the games too. It opens from the disk and asks no server for anything. What players
wrote is only ever text in it: it stands there as JSON without a single <, and the page's script makes text nodes of it.
Should that ever fail, the page's own policy lets no script and no style run but its own two, by their hashes.
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from veritas_rl.checkpoints.folder import write_whole
from veritas_rl.viewing.page import BOARDS, render_page
from veritas_rl.viewing.recording import PlayedGame

GAMES_FOLDER = "VERITAS_RL_GAMES_FOLDER"
"""The environment variable with which the launcher sets where the games of a run are written."""


def write_games(folder: Path, name: str, games: Sequence[PlayedGame], title: str) -> Path:
    """Write games to `name`.jsonl and `name`.html, each of which appears whole and replaces one of that name.

    Args:
        folder: Where to; it is made.
        name: The files' name.
        games: What was played.
        title: What the page is called.

    Returns:
        The page.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps(game.to_dict()) + "\n" for game in games)
    write_whole(folder / f"{name}.jsonl", "".join(lines))
    page = folder / f"{name}.html"
    write_whole(page, render(games, title))
    return page


def read_games(path: Path) -> list[PlayedGame]:
    """The games of a `.jsonl` file that `write_games` wrote."""
    return [PlayedGame.from_dict(json.loads(line)) for line in path.read_text("utf-8").splitlines()]


def render(games: Iterable[PlayedGame], title: str) -> str:
    """The page as HTML."""
    return render_page(
        "games.html.jinja",
        scripts=(*BOARDS, "games.js"),
        styles=("page.css", "boards/boards.css", "games.css"),
        title=title,
        games=[game.to_dict() for game in games],
    )


def asked_in(games: Sequence[PlayedGame]) -> list[tuple[tuple[tuple[str, str], ...], str]]:
    """What the judged players of games were shown and replied, each pair once, in the order of the games.

    Returns:
        Pairs of the role and content of each message, and the reply.
    """
    return list(
        dict.fromkeys(
            (tuple((message["role"], message["content"]) for message in turn.messages), turn.reply)
            for game in games
            for turn in game.turns
            if turn.seat == game.seat
        )
    )
