"""What finished games say: rates by game, opponent and seat, stages passed or not, two players compared."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from veritas_rl.envs.base import Reason
from veritas_rl.judging.matches import Game
from veritas_rl.judging.statistics import Comparison, Estimate, compare_paired, mean_score, rate
from veritas_rl.players.registry import is_bot, kind_of

VOID = frozenset({Reason.FORFEITED, Reason.UNFINISHED})
"""Games that another seat's mistake or the cap on moves has ended: neither won nor lost, and worth nothing."""

THRESHOLDS = {"easy": 0.5, "medium": 0.4, "hard": 0.3}
"""The success rate that each stage asks for."""

ALL = "all"

LISTED = 10
"""How many games that went otherwise are named in a line for people."""

Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class Row:
    """One player in one game against one opponent, from one seat or from all.

    Attributes:
        player: Who was judged.
        case: What was played, or "all".
        opponent: Against whom.
        seat: From which seat, or "all".
        games: How many.
        deals: Of how many deals.
        distinct: How many of the games went unlike every other.
        wins: Their share; as are the others.
        draws: Drawn.
        losses: Lost, mistakes included; what is left is void.
        success: The share of games that count as solved.
        illegal: Ended by an answer that is no legal move.
        truncated: Ended by a token limit.
        score: The mean score.
        reasons: How many games ended for which reason.
        moves: Answers of the player.
        tokens: What it wrote.
        prompt_tokens: What it read.
    """

    player: str
    case: str
    opponent: str
    seat: str
    games: int
    deals: int
    distinct: int
    wins: Estimate
    draws: Estimate
    losses: Estimate
    success: Estimate
    illegal: Estimate
    truncated: Estimate
    score: Estimate
    reasons: Mapping[str, int]
    moves: int
    tokens: int
    prompt_tokens: int


@dataclass(frozen=True)
class Stage:
    """Whether a player passes a stage.

    Attributes:
        player: Who.
        stage: "easy", "medium" or "hard".
        opponents: Against whom its games were.
        threshold: The success rate that it asks for.
        success: The rate that was reached, over all games of the stage.
        verdict: "pass" where the whole interval lies above the threshold, "fail" where none of it does, else
            "not shown".
    """

    player: str
    stage: str
    opponents: tuple[str, ...]
    threshold: float
    success: Estimate
    verdict: str


@dataclass(frozen=True)
class Parting:
    """A game that went otherwise for two players.

    Attributes:
        case: What was played.
        deal: Which deal of the case.
        seat: From which seat.
        first: How it ended for the first of the two.
        second: How it ended for the second.
    """

    case: str
    deal: int
    seat: int
    first: str
    second: str

    def __str__(self) -> str:
        return f"deal {self.deal} from seat {self.seat} ({self.first}, {self.second})"


@dataclass(frozen=True)
class Versus:
    """Two players on the same games.

    Attributes:
        first: Who is judged.
        second: With whom it is compared.
        case: What was played, or "all".
        opponent: Against whom.
        score: By mean score.
        success: By success rate.
        games: How many games both have played.
        differing: Those of them that did not go alike, move by move.
    """

    first: str
    second: str
    case: str
    opponent: str
    score: Comparison
    success: Comparison
    games: int
    differing: tuple[Parting, ...]


def rows_of(games: Sequence[Game]) -> list[Row]:
    """A row for each player, case and opponent, over all seats, and after it one for each seat.

    Where several cases were played against an opponent, a row over all of them comes first.
    """
    rows: list[Row] = []
    for (player, opponent), group in grouped(games, lambda game: (game.player, game.opponent)):
        by_case = list(grouped(group, lambda game: game.case))
        if len(by_case) > 1:
            rows.append(_row(group, player, ALL, opponent, ALL))
        for case, inside in by_case:
            rows.append(_row(inside, player, case, opponent, ALL))
            by_seat = sorted(grouped(inside, lambda game: game.seat))
            if len(by_seat) > 1:
                rows += [_row(seated, player, case, opponent, str(seat)) for seat, seated in by_seat]
    return rows


def stage_of(opponent: str, env: str) -> str | None:
    """The stage that games against an opponent belong to; None for those against a model, and for one alone."""
    return kind_of(opponent, env).level(opponent) if is_bot(opponent, env) else None


def stages_of(games: Sequence[Game]) -> list[Stage]:
    """The stages of each player that it has played games of."""
    found: list[Stage] = []
    for player, group in grouped(games, lambda game: game.player):
        for stage, threshold in THRESHOLDS.items():
            inside = [game for game in group if stage_of(game.opponent, game.env) == stage]
            if inside:
                success = rate([game.success for game in inside], _deals(inside))
                opponents = tuple(dict.fromkeys(game.opponent for game in inside))
                found.append(Stage(player, stage, opponents, threshold, success, verdict(success, threshold)))
    return found


def verdict(success: Estimate, threshold: float) -> str:
    """Whether a rate is above a threshold: "pass", "fail" or "not shown"."""
    return "pass" if success.low > threshold else "fail" if success.high <= threshold else "not shown"


def compare(games: Sequence[Game], first: str, second: str) -> list[Versus]:
    """Compare two players on the games that both have played, by case and opponent.

    Raises:
        ValueError: They have played no game in common.
    """
    by_task: dict[tuple[str, str], dict[str, Game]] = {}
    for game in games:
        by_task.setdefault((game.task, game.opponent), {})[game.player] = game
    both = [(found[first], found[second]) for found in by_task.values() if first in found and second in found]
    made: list[Versus] = []
    for opponent, against in grouped(both, lambda pair: pair[0].opponent):
        by_case = list(grouped(against, lambda pair: pair[0].case))
        if len(by_case) > 1:
            made.append(_versus(against, first, second, ALL, opponent))
        made += [_versus(inside, first, second, case, opponent) for case, inside in by_case]
    if not made:
        raise ValueError(f"{first} and {second} have played no game in common")
    return made


def told_partings(case: str, games: int, partings: Sequence[Parting]) -> str:
    """How many games of a case went otherwise for two players, and which: the first `LISTED` of them."""
    named = [*map(str, partings[:LISTED]), *([f"and {len(partings) - LISTED} more"] if len(partings) > LISTED else [])]
    told = f"{case}: {len(partings)} of {games} games went otherwise"
    return f"{told}: {', '.join(named)}" if named else told


def _versus(pairs: Sequence[tuple[Game, Game]], first: str, second: str, case: str, opponent: str) -> Versus:
    deals = _deals([mine for mine, _ in pairs])
    return Versus(
        first=first,
        second=second,
        case=case,
        opponent=opponent,
        score=compare_paired([a.value for a, _ in pairs], [b.value for _, b in pairs], deals),
        success=compare_paired([float(a.success) for a, _ in pairs], [float(b.success) for _, b in pairs], deals),
        games=len(pairs),
        differing=tuple(
            Parting(a.case, a.deal, a.seat, str(a.reason), str(b.reason)) for a, b in pairs if a.course != b.course
        ),
    )


def _row(games: Sequence[Game], player: str, case: str, opponent: str, seat: str) -> Row:
    deals = _deals(games)

    def share(chosen: Iterable[bool]) -> Estimate:
        return rate(list(chosen), deals)

    won, drawn = frozenset({Reason.WON}), frozenset({Reason.DRAWN})
    return Row(
        player=player,
        case=case,
        opponent=opponent,
        seat=seat,
        games=len(games),
        deals=len(set(deals)),
        distinct=len({game.course for game in games}),
        wins=share(game.reason in won for game in games),
        draws=share(game.reason in drawn for game in games),
        losses=share(game.reason not in won | drawn | VOID for game in games),
        success=share(game.success for game in games),
        illegal=share(game.reason.is_mistake and not game.reason.is_cut for game in games),
        truncated=share(game.reason.is_cut for game in games),
        score=mean_score([game.value for game in games], deals),
        reasons=dict(sorted(Counter(str(game.reason) for game in games).items())),
        moves=sum(game.moves for game in games),
        tokens=sum(game.tokens for game in games),
        prompt_tokens=sum(game.prompt_tokens for game in games),
    )


def _deals(games: Sequence[Game]) -> list[tuple[str, int]]:
    """What is resampled together. The same deal against two opponents is one: its cards are the same."""
    return [(game.case, game.deal) for game in games]


def grouped(items: Iterable[Item], key: Callable[[Item], Key]) -> Iterable[tuple[Key, list[Item]]]:
    """Items by key, in the order in which the keys first come."""
    groups: dict[Key, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups.items()
