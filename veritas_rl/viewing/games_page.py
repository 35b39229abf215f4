"""Played games as two files: JSON lines for programs, and one HTML page for people.

The page contains the games and needs no server. Replies of players are shown as text only: they are stored as JSON
without any <, and the page's script makes text nodes of them. As a second protection, the page's content security
policy allows only its own script and style, by their hashes.
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from veritas_rl.checkpoints.folder import write_whole
from veritas_rl.viewing.page import BOARDS, render_page
from veritas_rl.viewing.recording import PlayedGame

GAMES_FOLDER = "VERITAS_RL_GAMES_FOLDER"
"""The environment variable in which the launcher passes the folder of a run's games."""


def write_games(folder: Path, name: str, games: Sequence[PlayedGame], title: str) -> Path:
    """Write games to `name`.jsonl and `name`.html atomically; existing files are replaced.

    Args:
        folder: The folder; it is created if it is missing.
        name: The name of the files.
        games: The games.
        title: The title of the page.

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
    """The prompts and replies of the judged players, each pair once, in the order of the games.

    Returns:
        Pairs of the role and content of each message, and the reply.
    """
    return list(
        dict.fromkeys(
            (tuple((message["role"], message["content"]) for message in chat), turn.reply)
            for game in games
            for turn, chat in game.chats(game.seat)
        )
    )
