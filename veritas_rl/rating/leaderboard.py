"""docs/leaderboard.md, made from the reports of suites in docs/leaderboard.

    cp OUTPUT/suite.json docs/leaderboard/NAME.json
    python -m veritas_rl.rating.leaderboard            # write the page
    python -m veritas_rl.rating.leaderboard --check    # exit code 1 and one line if the page is not current

A player has the name of its file. Ratings are fitted to the games of all reports of a suite at once, on a scale where
`random` has 1000.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

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

Suites rate any model by the same games: `python train/tools/evaluate.py --suite games-v2 --checkpoint WHO`
([evaluation.md](evaluation.md#suites)). `python -m veritas_rl.rating.leaderboard` makes this page of the reports in
[leaderboard](leaderboard). Scores in % with 95% intervals: a win is 100, a draw 50, in poker the share of the stakes.
Ratings are Bradley and Terry's, fitted to all games of the suite, with random at 1000: 400 points ahead score 10 to 1.
"""


def read_reports(folder: Path) -> dict[str, SuiteResult]:
    """The reports of a folder, by the names of the files.

    Raises:
        UserError: A file is no report of a suite, or is a report of another version of the suite.
    """
    found: dict[str, SuiteResult] = {}
    for path in sorted(folder.glob("*.json")):
        try:
            result = SuiteResult.from_values(json.loads(path.read_text(encoding="utf-8")))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise UserError(
                f"{path} is no report of a suite ({error}); remove it, or copy a suite.json there"
            ) from error
        suite = read_suite(result.suite)
        if (result.digest, result.asked, result.played) != (suite.digest, suite.asked, suite.played):
            raise UserError(f"{path} is a report of another version of {suite.name}; run the suite again")
        found[path.stem] = result
    return found


def ratings(reports: Mapping[str, SuiteResult]) -> dict[str, Estimate]:
    """The rating of each player and opponent of one suite, with `ANCHOR` at `ANCHOR_RATING`."""
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
    found = ratings_of(games)
    shift = ANCHOR_RATING - found[ANCHOR].mean
    return {
        name: Estimate(one.mean + shift, one.low + shift, one.high + shift, one.count, one.classes)
        for name, one in found.items()
    }


def page_of(reports: Mapping[str, SuiteResult]) -> str:
    """The text of the page."""
    parts = [HEAD]
    for suite in dict.fromkeys(report.suite for report in reports.values()):
        mine = {name: report for name, report in reports.items() if report.suite == suite}
        rated = ratings(mine)
        order = sorted(mine, key=lambda name: -mine[name].number.mean)
        parts.append(f"## {suite}\n\n{_table_of_players(order, mine, rated)}\n")
        parts.append(f"Score by game:\n\n{_table_of_games(order, mine)}\n")
        first = mine[order[0]]
        pins = f"the suite's file {first.digest}, what is asked {first.asked}, how the bots play {first.played}"
        parts.append(f"Pinned by digests: {pins}.\n")
    return "\n".join(parts)


def _table_of_players(order: Sequence[str], reports: Mapping[str, SuiteResult], rated: Mapping[str, Estimate]) -> str:
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
            str(place),
            name,
            percent(report.number),
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
        lines.append(_row([f"`{case}`", *(percent(by_name[name][case].score) for name in order)]))
    return "\n".join(lines)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    exit_on_user_error(
        lambda: page_command("veritas_rl.rating.leaderboard", lambda: {PAGE: page_of(read_reports(FOLDER))})
    )
