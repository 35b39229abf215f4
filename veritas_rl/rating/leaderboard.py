"""docs/leaderboard.md, made from the reports of suites in docs/leaderboard.

    python train/tools/evaluate.py --suite small-v1 --checkpoint WHO --add NAME
    python -m veritas_rl.rating.leaderboard            # write the page
    python -m veritas_rl.rating.leaderboard --check    # exit code 1 and one line if the page is not current

A player has the name of its file. Ratings are fitted to the games of all reports of a suite at once, on a scale where
`random` has 1000.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from veritas_rl.checkpoints.folder import write_whole
from veritas_rl.errors import UserError, exit_on_user_error
from veritas_rl.generated_page import page_command
from veritas_rl.judging.report import percent
from veritas_rl.judging.statistics import Estimate
from veritas_rl.paths import ROOT
from veritas_rl.rating.ratings import Result, ratings_of
from veritas_rl.rating.suite import SuiteResult, read_suite

FOLDER = ROOT / "docs/leaderboard"
PAGE = ROOT / "docs/leaderboard.md"

ANCHOR, ANCHOR_RATING = "random", 1000
"""The player with the fixed rating, and this rating."""

POINTS = {"1": 1.0, "=": 0.5, "0": 0.0}

HEAD = """# Leaderboard

Suites rate any player by the same games ([evaluation.md](evaluation.md#suites)). One command adds a player to this
page: a model's folder, a hub id, the address of a server, or a bot.

```bash
python train/tools/evaluate.py --suite small-v1 --checkpoint WHO --add NAME
```

The page is made of the reports in [leaderboard](leaderboard). Scores are in % with 95% intervals: a win is 100, a draw
50, in poker the share of the stakes. Ratings are Bradley and Terry's, fitted to all games of the suite, with random at
1000: 400 points ahead score 10 to 1. Players judged on some of the games alone have no rating and come last.
"""


def read_reports(folder: Path) -> dict[str, dict[str, SuiteResult]]:
    """The reports of a folder, by suite and player: those of the files SUITE/PLAYER.json.

    Raises:
        UserError: A file is no report of a suite, or is a report of another version of the suite.
    """
    found: dict[str, dict[str, SuiteResult]] = {}
    for path in sorted(folder.glob("*/*.json")):
        try:
            result = SuiteResult.from_values(json.loads(path.read_text(encoding="utf-8")))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise UserError(
                f"{path} is no report of a suite ({error}); remove it, or judge the player again"
            ) from error
        suite = read_suite(result.suite)
        if (result.digest, result.asked, result.played) != (suite.digest, suite.asked, suite.played):
            raise UserError(f"{path} is a report of another version of {suite.name}; run the suite again")
        found.setdefault(suite.name, {})[path.stem] = result
    return found


def add(result: SuiteResult, name: str) -> list[Path]:
    """Keep a report, in place of an earlier one of the same suite and name, and write the page; return both paths.

    Raises:
        UserError: A kept report cannot be read.
    """
    kept = FOLDER / result.suite / f"{name}.json"
    kept.parent.mkdir(parents=True, exist_ok=True)
    write_whole(kept, json.dumps(result.values(), indent=1) + "\n")
    write_whole(PAGE, page_of(read_reports(FOLDER)))
    return [kept, PAGE]


def ratings(reports: Mapping[str, SuiteResult]) -> dict[str, Estimate]:
    """The ratings in one suite, with `ANCHOR` at `ANCHOR_RATING`; empty if it has played no game."""
    games: list[Result] = []
    met: set[tuple[str, frozenset[str]]] = set()
    for name, report in reports.items():
        for case in report.games:
            for opponent, points in case.points.items():
                # Games of a player against itself are left out; two opponents have the same games in both their
                # reports.
                pair = (case.name, frozenset({report.player, opponent}))
                if opponent == report.player or (report.player in case.points and pair in met):
                    continue
                met.add(pair)
                games += [
                    Result(name, opponent.replace(":", "-"), POINTS[point], (case.name, place // 2))
                    for place, point in enumerate(points)
                ]
    found = ratings_of(games) if games else {}
    if ANCHOR not in found:
        return {}
    shift = ANCHOR_RATING - found[ANCHOR].mean
    return {
        name: Estimate(one.mean + shift, one.low + shift, one.high + shift, one.count, one.classes)
        for name, one in found.items()
    }


def page_of(reports: Mapping[str, Mapping[str, SuiteResult]]) -> str:
    """The text of the page.

    Args:
        reports: The reports by suite and player.
    """
    parts = [HEAD]
    for suite, mine in sorted(reports.items(), reverse=True):
        games = len(read_suite(suite).cases)
        rated = ratings({name: report for name, report in mine.items() if len(report.games) == games})
        order = sorted(mine, key=lambda name: (-len(mine[name].games), -mine[name].number.mean))
        parts.append(f"## {suite}\n\n{_table_of_players(order, mine, rated, games)}\n")
        parts.append(f"Score by game:\n\n{_table_of_games(order, mine)}\n")
        first = mine[order[0]]
        pins = f"the suite's file {first.digest}, what is asked {first.asked}, how the bots play {first.played}"
        parts.append(f"Pinned by digests: {pins}.\n")
    return "\n".join(parts)


def _table_of_players(
    order: Sequence[str], reports: Mapping[str, SuiteResult], rated: Mapping[str, Estimate], games: int
) -> str:
    environments = list(dict.fromkeys(case.name for report in reports.values() for case in report.answers))
    heads = [
        "",
        "player",
        "score",
        "rating",
        "games without a mistake",
        *environments,
        "tokens read, written",
        "prompt",
    ]
    lines = [_row(heads), _row(["---"] * len(heads))]
    for place, name in enumerate(order, start=1):
        report, rating = reports[name], rated.get(name)
        right = {case.name: percent(case.success) for case in report.answers if case.success is not None}
        counted = sum(case.legal.count for case in report.games)
        legal = sum(case.legal.mean * case.legal.count for case in report.games) / counted
        everything = (*report.games, *report.answers)
        read, written = sum(case.prompt_tokens for case in everything), sum(case.tokens for case in everything)
        cells = [
            str(place) if rating else "",
            name,
            percent(report.number) if rating else f"in {len(report.games)} of {games} games",
            f"{rating.mean:.0f} [{rating.low:.0f}, {rating.high:.0f}]" if rating else "",
            f"{100 * legal:.1f}%",
            *(right.get(env, "") for env in environments),
            f"{read:,}, {written:,}" if read else "",
            report.prompt if read else "",
        ]
        lines.append(_row(cells))
    return "\n".join(lines)


def _table_of_games(order: Sequence[str], reports: Mapping[str, SuiteResult]) -> str:
    cases = list(dict.fromkeys(case.name for name in order for case in reports[name].games))
    lines = [_row(["game", *order]), _row(["---"] * (len(order) + 1))]
    for case in cases:
        by_name = {name: {found.name: found for found in reports[name].games} for name in order}
        scores = (percent(by_name[name][case].score) if case in by_name[name] else "" for name in order)
        lines.append(_row([f"`{case}`", *scores]))
    return "\n".join(lines)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    exit_on_user_error(
        lambda: page_command("veritas_rl.rating.leaderboard", lambda: {PAGE: page_of(read_reports(FOLDER))})
    )
