"""Records some of an evaluation's games move by move: shown.html for people, and shown.jsonl for programs.

Both files are written each time a recorded game ends, before the game is added to the ledger. So an interruption loses
no recorded game.
"""

import itertools
from collections.abc import Collection, Sequence
from pathlib import Path

from veritas_rl.errors import UserError
from veritas_rl.judging.matches import Ledger, Pairing
from veritas_rl.judging.summary import grouped
from veritas_rl.viewing.games_page import read_games, write_games
from veritas_rl.viewing.recording import PlayedGame

NAME = "shown"


class Shown:
    """The recorded games: the first ones of each player, opponent and case.

    Args:
        folder: The folder of the page.
        title: The title of the page.
        pairings: All games of the evaluation.
        count: The number of recorded games.
        ledger: The finished games. A finished game without a record is not shown.

    Raises:
        UserError: The kept games cannot be read, or `count` is below 0.
    """

    def __init__(self, folder: Path, title: str, pairings: Sequence[Pairing], count: int, ledger: Ledger) -> None:
        if count < 0:
            raise UserError(f"games_to_show={count} is below 0; 0 records no game")
        self.path = folder / f"{NAME}.html"
        self._title = title
        self._chosen = {pairing.key: pairing for pairing in _spread(pairings, count)}
        kept = _kept(folder / f"{NAME}.jsonl")
        # The record of a game that is not finished is dropped: the game is played again, perhaps by other weights.
        self._games = {
            key: kept[_names(pairing)]
            for key, pairing in self._chosen.items()
            if key in ledger.games and _names(pairing) in kept
        }

    @property
    def recorded(self) -> Collection[str]:
        """The keys of the games to record."""
        return self._chosen.keys()

    def ended(self, pairing: Pairing, record: PlayedGame | None) -> None:
        """Store the record of a finished game, if there is one."""
        if record is not None:
            self._games[pairing.key] = record
            games = [self._games[key] for key in self._chosen if key in self._games]
            write_games(self.path.parent, NAME, games, self._title)


def _spread(pairings: Sequence[Pairing], count: int) -> list[Pairing]:
    """The first `count` games, taken in turn from each player, opponent and case."""
    groups = grouped(pairings, lambda game: (game.player.name, game.opponent and game.opponent.name, game.task.case))
    in_turn = itertools.chain(*itertools.zip_longest(*(group for _, group in groups)))
    return list(itertools.islice((pairing for pairing in in_turn if pairing is not None), count))


_Names = tuple[str, int, str, str]
"""The task, the judged seat, its player and the opponent; in a game without opponent seat 0 and ""."""


def _names(pairing: Pairing) -> _Names:
    task, player = pairing.task, pairing.player.name
    return (task.id, task.manner.seat, player, pairing.opponent.name) if pairing.opponent else (task.id, 0, player, "")


def _kept(path: Path) -> dict[_Names, PlayedGame]:
    if not path.exists():
        return {}
    try:
        games = read_games(path)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UserError(f"{path} cannot be read as recorded games ({error}); remove the file") from error
    judged = ({ending.seat: ending.player for ending in game.endings}[game.seat] for game in games)
    return {
        (game.task_id, game.seat if game.opponent else 0, player, game.opponent): game
        for game, player in zip(games, judged, strict=True)
    }
