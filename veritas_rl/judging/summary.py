"""What finished games show: rates by game, opponent and seat, milestones passed or not, two players compared."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from veritas_rl.envs.base import Reason
from veritas_rl.judging.matches import FinishedGame
from veritas_rl.judging.statistics import Comparison, Estimate, clustered_mean, compare_paired, mean_score, rate
from veritas_rl.players.registry import is_bot, kind_of

VOID = frozenset({Reason.FORFEITED, Reason.UNFINISHED})
"""Games that another seat's mistake or the cap on moves has ended: neither won nor lost, and worth nothing."""

THRESHOLDS = {"easy": 0.5, "medium": 0.4, "hard": 0.3}
"""The success rate that the milestone of each level of opponents asks for."""

ALL = "all"

LISTED = 10
"""How many games that went otherwise are named in a line for people."""

Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class Row:
    """One player in one game against one opponent, from one seat or from all; or on one group of single answers.

    Attributes:
        player: Who was judged.
        case: What was played: a case, of single answers their group, or "all".
        opponent: Against whom.
        seat: From which seat, or "all".
        games: How many.
        deals: Of how many deals, or classes of tasks that ask the same.
        distinct: How many of the games went unlike every other.
        wins: The share of games that were won; None for single answers, as are the next two.
        draws: Drawn.
        losses: Lost, mistakes included; what is left is void.
        legal: The share of games without a mistake of the player.
        success: The share of games that count as solved.
        illegal: The share that was ended by an answer that cannot be read or is not allowed.
        truncated: The share that was ended by a token limit.
        score: The mean score.
        reasons: How many games ended for which reason.
        moves: Answers of the player.
        tokens: What it wrote.
        prompt_tokens: What it read.
        measures: The mean of what the game itself counts, such as its points, by name.
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
        player: Who.
        level: "easy", "medium" or "hard", see `PlayerKind.level`.
        opponents: Against whom its games were.
        threshold: The success rate that is asked for.
        success: The rate that was reached, over all games against these opponents.
        verdict: "pass" where the whole interval lies above the threshold, "fail" where none of it does, else
            "not shown".
    """

    player: str
    level: str
    opponents: tuple[str, ...]
    threshold: float
    success: Estimate
    verdict: str


@dataclass(frozen=True)
class Divergence:
    """A game that went otherwise for two players.

    Attributes:
        case: What was played.
        deal: Which deal of the case.
        seat: From which seat; -1 for a single answer.
        first: How it ended for the first of the two.
        second: How it ended for the second.
    """

    case: str
    deal: int
    seat: int
    first: str
    second: str

    def __str__(self) -> str:
        where = f"task {self.deal}" if self.seat < 0 else f"deal {self.deal} from seat {self.seat}"
        return f"{where} ({self.first}, {self.second})"


@dataclass(frozen=True)
class Versus:
    """Two players on the same games.

    Attributes:
        first: Who is judged.
        second: With whom it is compared.
        case: What was played, as in `Row`.
        opponent: Against whom.
        score: By mean score.
        success: By success rate.
        games: How many games both have played.
        differing: Those of them in which not all moves were the same.
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
    """A row for each player, case and opponent, over all seats, and after it one for each seat.

    Where several cases were played against an opponent, a row over all of them comes first. Single answers have a row
    for each group instead of each case, and none for seats; see `_parts`.
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
    """How hard an opponent is: "easy", "medium" or "hard"; None for a model, and where nobody is the opponent."""
    return kind_of(opponent, env).level(opponent) if is_bot(opponent, env) else None


def milestones_of(games: Sequence[FinishedGame]) -> list[Milestone]:
    """The milestones of each player for which it has played games."""
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
    """Whether a rate is above a threshold: "pass", "fail" or "not shown"."""
    return "pass" if success.low > threshold else "fail" if success.high <= threshold else "not shown"


def compare(games: Sequence[FinishedGame], first: str, second: str) -> list[Versus]:
    """Compare two players on the games that both have played, by case and opponent.

    Raises:
        ValueError: They have played no game in common.
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


def describe_divergences(case: str, games: int, found: Sequence[Divergence]) -> str:
    """How many games of a case went otherwise for two players, and which: the first `LISTED` of them."""
    named = [*map(str, found[:LISTED]), *([f"and {len(found) - LISTED} more"] if len(found) > LISTED else [])]
    line = f"{case}: {len(found)} of {games} games went otherwise"
    return f"{line}: {', '.join(named)}" if named else line


def _parts(items: Sequence[Item], game_of: Callable[[Item], FinishedGame]) -> list[tuple[str, list[Item]]]:
    """By what results are reported, each with its items: all of them where there are several parts, then part by part.

    A case of several groups, such as a type of puzzles with its levels, is a part too, before its groups.
    """
    by_part = dict(grouped(items, lambda item: game_of(item).part))
    if len(by_part) == 1:
        return list(by_part.items())
    found: dict[str, list[Item]] = {ALL: list(items)}
    by_case = list(grouped(items, lambda item: game_of(item).case))
    for case, inside in by_case:
        own = sorted({game_of(item).part for item in inside})
        # A group may have several cases, as a game its boards: then it is not a part of any.
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
    """What is resampled together. The same deal against two opponents is one: its cards are the same."""
    return [game.cluster for game in games]


def grouped(items: Iterable[Item], key: Callable[[Item], Key]) -> Iterable[tuple[Key, list[Item]]]:
    """Items by key, in the order in which the keys first come."""
    groups: dict[Key, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups.items()
