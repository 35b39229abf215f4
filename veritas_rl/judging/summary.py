"""Statistics of finished games: rates by game, opponent and seat, milestones, and comparisons of two players."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from veritas_rl.envs.base import Reason
from veritas_rl.judging.finished_game import FinishedGame
from veritas_rl.judging.statistics import Comparison, Estimate, clustered_mean, compare_paired, mean_score, rate
from veritas_rl.players.registry import is_bot, kind_of

VOID = frozenset({Reason.FORFEITED, Reason.UNFINISHED})
"""Games that ended by another seat's mistake or by the limit of moves: neither won nor lost, with a score of 0."""

THRESHOLDS = {"easy": 0.5, "medium": 0.4, "hard": 0.3}
"""The success rate that a milestone requires, by level of opponents."""

ALL = "all"

Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class Row:
    """Results of a player in a game against an opponent, from one seat or from all; or on a group of single answers.

    Attributes:
        player: The judged player.
        case: The case of whole games, the group of single answers, or "all".
        opponent: The opponent.
        seat: The judged seat, or "all".
        games: The number of games.
        deals: The number of deals, or of classes of equivalent tasks.
        distinct: The number of different games, by their messages and scores.
        wins: The share of won games; None for single answers.
        draws: The share of drawn games; None for single answers.
        losses: The share of lost games, mistakes included; None for single answers. The remaining games are void.
        legal: The share of games without a mistake of the player.
        success: The share of games that count as solved.
        illegal: The share of games that ended with an unreadable or illegal answer.
        truncated: The share of games that ended by a token limit.
        score: The mean score, in [0, 1].
        reasons: The number of games by the reason of their end.
        moves: The number of answers of the player.
        tokens: The number of tokens that the player generated.
        prompt_tokens: The number of prompt tokens of the player.
        measures: The mean of each measure of the game, such as points, by name.
    """

    player: str
    case: str
    opponent: str
    seat: str
    games: int
    deals: int
    distinct: int
    wins: Estimate | None
    draws: Estimate | None
    losses: Estimate | None
    legal: Estimate
    success: Estimate
    illegal: Estimate
    truncated: Estimate
    score: Estimate
    reasons: Mapping[str, int]
    moves: int
    tokens: int
    prompt_tokens: int
    measures: Mapping[str, Estimate]


@dataclass(frozen=True)
class Milestone:
    """Whether a player wins often enough against the opponents of one level.

    Attributes:
        player: The player.
        level: "easy", "medium" or "hard", see `PlayerKind.level`.
        opponents: The opponents of this level.
        threshold: The required success rate.
        success: The success rate over all games against these opponents.
        verdict: "pass" if the whole interval lies above the threshold, "fail" if no part of it does, else "not shown".
    """

    player: str
    level: str
    opponents: tuple[str, ...]
    threshold: float
    success: Estimate
    verdict: str


@dataclass(frozen=True)
class Divergence:
    """A game in which two players gave different answers.

    Attributes:
        case: The case.
        deal: The number of the deal.
        seat: The judged seat; -1 for a single answer.
        first: The reason of the end for the first player.
        second: The reason of the end for the second player.
    """

    case: str
    deal: int
    seat: int
    first: str
    second: str


@dataclass(frozen=True)
class Versus:
    """A comparison of two players on the same games.

    Attributes:
        first: The judged player.
        second: The player that it is compared with.
        case: The case or group, as in `Row`.
        opponent: The opponent.
        score: The comparison of mean scores.
        success: The comparison of success rates.
        games: The number of games that both have played.
        differing: The games in which the two players' answers differ.
    """

    first: str
    second: str
    case: str
    opponent: str
    score: Comparison
    success: Comparison
    games: int
    differing: tuple[Divergence, ...]


def rows_of(games: Sequence[FinishedGame]) -> list[Row]:
    """A row for each player, case and opponent over all seats, followed by one row for each seat.

    If several cases were played against an opponent, a row over all of them comes first. Single answers have a row for
    each group instead of each case, and no rows of seats; see `_parts`.
    """
    rows: list[Row] = []
    for (player, opponent), group in grouped(games, lambda game: (game.player, game.opponent)):
        for part, inside in _parts(group, lambda game: game):
            rows.append(_row(inside, player, part, opponent, ALL))
            by_seat = sorted(grouped(inside, lambda game: game.seat))
            if len(by_seat) > 1 and part != ALL:
                rows += [_row(seated, player, part, opponent, str(seat)) for seat, seated in by_seat]
    return rows


def level_of(opponent: str, env: str) -> str | None:
    """The level of an opponent: "easy", "medium" or "hard"; None for a model and for games without opponent."""
    return kind_of(opponent, env).level(opponent) if is_bot(opponent, env) else None


def milestones_of(games: Sequence[FinishedGame]) -> list[Milestone]:
    """The milestones of each player, for the levels of the opponents that it played."""
    found: list[Milestone] = []
    for player, group in grouped(games, lambda game: game.player):
        for level, threshold in THRESHOLDS.items():
            inside = [game for game in group if level_of(game.opponent, game.env) == level]
            if inside:
                success = rate([game.success for game in inside], _clusters(inside))
                opponents = tuple(dict.fromkeys(game.opponent for game in inside))
                found.append(Milestone(player, level, opponents, threshold, success, verdict(success, threshold)))
    return found


def verdict(success: Estimate, threshold: float) -> str:
    """The verdict on a rate and its threshold: "pass", "fail" or "not shown"."""
    return "pass" if success.low > threshold else "fail" if success.high <= threshold else "not shown"


def compare(games: Sequence[FinishedGame], first: str, second: str) -> list[Versus]:
    """Compare two players on the games that both have played, by case and opponent.

    Raises:
        ValueError: The two players have no game in common.
    """
    by_game: dict[tuple[str, int, str], dict[str, FinishedGame]] = {}
    for game in games:
        by_game.setdefault((game.task, game.seat, game.opponent), {})[game.player] = game
    both = [(found[first], found[second]) for found in by_game.values() if first in found and second in found]
    made: list[Versus] = []
    for opponent, against in grouped(both, lambda pair: pair[0].opponent):
        made += [
            _versus(inside, first, second, part, opponent) for part, inside in _parts(against, lambda pair: pair[0])
        ]
    if not made:
        raise ValueError(f"{first} and {second} have played no game in common")
    return made


def describe_divergences(differing: int, played: int, what: str, where: str) -> str:
    """A sentence: how many of the games or tasks of two players differ, and which file lists them.

    Args:
        differing: The number of games or tasks that differ.
        played: The number of games or tasks that both players have finished.
        what: "games" or "tasks".
        where: The file.
    """
    line = f"{differing} of {played} {what} differ"
    return f"{line} ({where} lists them)" if differing else line


def _parts(items: Sequence[Item], game_of: Callable[[Item], FinishedGame]) -> list[tuple[str, list[Item]]]:
    """The parts by which results are reported, with their items. If there are several, the first has all items.

    A case of several groups, such as a type of puzzle with its levels, is a part of its own before its groups.
    """
    by_part = dict(grouped(items, lambda item: game_of(item).part))
    if len(by_part) == 1:
        return list(by_part.items())
    found: dict[str, list[Item]] = {ALL: list(items)}
    by_case = list(grouped(items, lambda item: game_of(item).case))
    for case, inside in by_case:
        own = sorted({game_of(item).part for item in inside})
        # A group may span several cases, as a game spans its boards; then the case is no part of its own.
        if (
            len(by_case) > 1
            and len(own) > 1
            and all(game_of(item).case == case for part in own for item in by_part[part])
        ):
            found[case] = inside
        found |= {part: by_part[part] for part in own}
    return list(found.items())


def _versus(
    pairs: Sequence[tuple[FinishedGame, FinishedGame]], first: str, second: str, case: str, opponent: str
) -> Versus:
    clusters = _clusters([mine for mine, _ in pairs])
    return Versus(
        first=first,
        second=second,
        case=case,
        opponent=opponent,
        score=compare_paired([a.value for a, _ in pairs], [b.value for _, b in pairs], clusters),
        success=compare_paired([float(a.success) for a, _ in pairs], [float(b.success) for _, b in pairs], clusters),
        games=len(pairs),
        differing=tuple(
            Divergence(a.case, a.deal, a.seat, str(a.reason), str(b.reason))
            for a, b in pairs
            if a.trajectory_hash != b.trajectory_hash
        ),
    )


def _row(games: Sequence[FinishedGame], player: str, case: str, opponent: str, seat: str) -> Row:
    clusters = _clusters(games)

    def share(chosen: Iterable[bool]) -> Estimate:
        return rate(list(chosen), clusters)

    def share_of_games(chosen: Iterable[bool]) -> Estimate | None:
        return share(chosen) if games[0].mode == "episode" else None

    won, drawn = frozenset({Reason.WON}), frozenset({Reason.DRAWN})
    return Row(
        player=player,
        case=case,
        opponent=opponent,
        seat=seat,
        games=len(games),
        deals=len(set(clusters)),
        distinct=len({game.trajectory_hash for game in games}),
        wins=share_of_games(game.reason in won for game in games),
        draws=share_of_games(game.reason in drawn for game in games),
        losses=share_of_games(game.reason not in won | drawn | VOID for game in games),
        legal=share(not game.reason.is_mistake for game in games),
        success=share(game.success for game in games),
        illegal=share(game.reason.is_mistake and not game.reason.is_cut for game in games),
        truncated=share(game.reason.is_cut for game in games),
        score=mean_score([game.value for game in games], clusters),
        reasons=dict(sorted(Counter(str(game.reason) for game in games).items())),
        moves=sum(game.moves for game in games),
        tokens=sum(game.tokens for game in games),
        prompt_tokens=sum(game.prompt_tokens for game in games),
        measures={
            name: clustered_mean([game.measures[name] for game in games], clusters)
            for name in games[0].measures
            if all(name in game.measures for game in games)
        },
    )


def _clusters(games: Sequence[FinishedGame]) -> list[str]:
    # A deal against two opponents is one cluster, because its cards are the same.
    return [game.cluster for game in games]


def grouped(items: Iterable[Item], key: Callable[[Item], Key]) -> Iterable[tuple[Key, list[Item]]]:
    """Items grouped by key, in the order of the keys' first occurrence."""
    groups: dict[Key, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups.items()
