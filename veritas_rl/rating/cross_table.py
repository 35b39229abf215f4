"""The cross table of finished two-player games: scores of each pair, and ratings."""

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from veritas_rl.envs.base import Reason
from veritas_rl.judging.finished_game import FinishedGame
from veritas_rl.judging.statistics import Estimate, mean_score
from veritas_rl.judging.summary import ALL, grouped
from veritas_rl.rating.ratings import Result, ratings_of

POINTS = {Reason.WON: 1.0, Reason.FORFEITED: 1.0, Reason.DRAWN: 0.5, Reason.UNFINISHED: 0.5}
"""The points of a seat by the reason of the game's end; every other reason gives 0. The opponent gets 1 minus these
points: a player that makes a mistake loses, and a game that is too long is drawn."""


@dataclass(frozen=True)
class Match:
    """All games between two players, of one case or of all, from the view of the first player.

    Attributes:
        first: The first player.
        second: The second player.
        games: The number of games.
        wins: The number of games that the first player won.
        draws: The number of drawn games, including games that were too long.
        losses: The number of games that the first player lost.
        score: The mean points of the first player, with an interval resampled by deal.
        mistakes: The number of games that ended by a mistake of the first, and of the second player.
        distinct: The number of different games, by their messages and scores.
    """

    first: str
    second: str
    games: int
    wins: int
    draws: int
    losses: int
    score: Estimate
    mistakes: tuple[int, int]
    distinct: int

    def turned(self) -> "Match":
        """The same games from the view of the second player."""
        score = dataclasses.replace(
            self.score, mean=1 - self.score.mean, low=1 - self.score.high, high=1 - self.score.low
        )
        return Match(
            self.second,
            self.first,
            self.games,
            self.losses,
            self.draws,
            self.wins,
            score,
            (self.mistakes[1], self.mistakes[0]),
            self.distinct,
        )


@dataclass(frozen=True)
class Standing:
    """The results of one player.

    Attributes:
        player: The player.
        rating: The rating in Elo points, see `ratings`.
        games: The number of games.
        wins: The number of won games.
        draws: The number of drawn games.
        losses: The number of lost games, mistakes included.
        mistakes: The number of games that ended by a mistake of this player.
    """

    player: str
    rating: Estimate
    games: int
    wins: int
    draws: int
    losses: int
    mistakes: int

    @property
    def points(self) -> float:
        """The points: 1 for a win, 0.5 for a draw."""
        return self.wins + self.draws / 2


@dataclass(frozen=True)
class CrossTable:
    """The scores of all pairs of players, in one case or in all.

    Attributes:
        case: The case, or "all".
        standings: The players, best first.
        matches: The match of each row and column. Each match occurs twice, from the view of each player.
    """

    case: str
    standings: list[Standing]
    matches: dict[tuple[str, str], Match]


def tables_of(games: Sequence[FinishedGame]) -> list[CrossTable]:
    """The cross tables of finished games: of all cases if there are several, then of each case.

    Args:
        games: The games as `Ledger.of` returns them. All games of two players have the same judged player.
    """
    tables = [_table_of(case, inside) for case, inside in grouped(games, lambda game: game.case)]
    return [_table_of(ALL, games), *tables] if len(tables) > 1 else tables


def points_of(game: FinishedGame) -> float:
    """The points of the judged player of a game; its opponent gets 1 minus these points."""
    return POINTS.get(game.reason, 0.0)


def _table_of(case: str, games: Sequence[FinishedGame]) -> CrossTable:
    matches: dict[tuple[str, str], Match] = {}
    for (first, second), played in grouped(games, lambda game: (game.player, game.opponent)):
        match = _match_of(first, second, played)
        matches |= {(first, second): match, (second, first): match.turned()}
    ratings = ratings_of([Result(game.player, game.opponent, points_of(game), game.cluster) for game in games])
    standings = [
        _standing(name, rating, (match for (mine, _), match in matches.items() if mine == name))
        for name, rating in ratings.items()
    ]
    return CrossTable(case, standings, matches)


def _match_of(first: str, second: str, games: Sequence[FinishedGame]) -> Match:
    points = [points_of(game) for game in games]
    return Match(
        first=first,
        second=second,
        games=len(games),
        wins=points.count(1.0),
        draws=points.count(0.5),
        losses=points.count(0.0),
        score=mean_score(points, [game.cluster for game in games]),
        mistakes=(
            sum(game.reason.is_mistake for game in games),
            sum(game.reason == Reason.FORFEITED for game in games),
        ),
        distinct=len({game.trajectory_hash for game in games}),
    )


def _standing(player: str, rating: Estimate, matches: Iterable[Match]) -> Standing:
    mine = list(matches)
    return Standing(
        player=player,
        rating=rating,
        games=sum(match.games for match in mine),
        wins=sum(match.wins for match in mine),
        draws=sum(match.draws for match in mine),
        losses=sum(match.losses for match in mine),
        mistakes=sum(match.mistakes[0] for match in mine),
    )
