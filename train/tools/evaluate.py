"""Let a checkpoint play whole games, or answer held-out tasks, and report how well, with intervals.

    python train/tools/evaluate.py --checkpoint CHECKPOINT --num_episodes 200 --opponent random,mcts \\
        --games "tic_tac_toe,hex(board_size=5)" --seed 42 [--compare OTHER] [--relabelled] [--output FOLDER]
    python train/tools/evaluate.py --env NAME --checkpoint CHECKPOINT --num_episodes 200 [--cases CASES] \\
        [--config KEY=VALUE] [--compare OTHER]
    python train/tools/evaluate.py --checkpoint CHECKPOINT --exact --games kuhn_poker [--samples N] [--every_step]
    python train/tools/evaluate.py --checkpoint CHECKPOINT --suite games-v2 [--games GAMES] [--add NAME]

CHECKPOINT is a folder (a model, an adapter, global_step_N, or an experiment), a hub id, the address of an
OpenAI-compatible server (http://localhost:8000/v1), or a bot of the environment (listed at the end). An opponent has
the same forms. Without opponents, or with --mode move, the player answers each held-out task once. The output folder
gets report.json, report.html and report.png, and some recorded games as shown.html. Run the same command again to
continue after an interruption; finished games are kept.

With --exact no game is played: in small games the checkpoint is asked in every information state, by default at
temperature 1, and its whole policy is scored. The report goes to exact.json and a picture of each policy. --every_step
judges all checkpoints of an experiment, and draws their NashConv against the training steps.

With --suite the games, opponents, seeds and numbers of games are fixed, so that results compare over time; --games
names some of its games. It ends with one number, suite.json and suite.html. --add NAME puts it on docs/leaderboard.md.

With --cost nothing is asked: a forecast of the answers, the tokens and, with prices, the money is printed.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from veritas_rl.configs import split_list
from veritas_rl.envs.task import MODES
from veritas_rl.errors import UserError, check_name, exit_on_user_error
from veritas_rl.judging.options import (
    PlayersParser,
    add_options,
    add_workers,
    ask_as_trained,
    config_of,
    prices_of,
    purse_of,
    replies_of,
)
from veritas_rl.parallel import Workers, read_workers

if TYPE_CHECKING:
    from veritas_rl.judging.forecast import Forecast
    from veritas_rl.players.loading import ReplySettings

OF_GAMES = ("env", "config", "num_episodes", "mode", "opponent", "relabelled", "opening", "max_moves", "games_to_show")
"""The options that have no effect if no game is played."""

OF_OTHERS = (*OF_GAMES, "seed", "compare", "exact", "samples", "every_step")
"""The options that a suite fixes, or that belong to another judgement."""


def main() -> None:
    """The command line."""
    parser = PlayersParser(__doc__, "openspiel")
    parser.add_argument(
        "--checkpoint", required=True, help="the player to judge: a folder, a hub id, an address, or a bot"
    )
    parser.add_argument(
        "--num_episodes",
        type=int,
        default=100,
        help="number of games for each case and opponent, or of tasks for each case; default: 100",
    )
    parser.add_argument(
        "--mode",
        choices=MODES,
        default="episode",
        help="episode: whole games, where there are any; move: single answers to held-out tasks; default: episode",
    )
    parser.add_argument(
        "--opponent", default="random", help="one or more bots or checkpoints, separated by commas; default: random"
    )
    parser.add_argument("--compare", help="another checkpoint to judge on the same games")
    parser.add_argument(
        "--relabelled", action="store_true", help="also judge single answers on perturbed tasks, to detect memorization"
    )
    parser.add_argument("--output", type=Path, help="the folder for the report and the finished games")
    parser.add_argument("--exact", action="store_true", help="play no games: judge the whole policy of small games")
    parser.add_argument(
        "--samples",
        type=int,
        help="with --exact: sample this many answers in each state, instead of computing the probabilities",
    )
    parser.add_argument(
        "--every_step",
        action="store_true",
        help="with --exact: judge all checkpoints of an experiment, not only the newest",
    )
    parser.add_argument(
        "--suite", help="play a fixed list of games that gives one number in the end; available: games-v2, small-v1"
    )
    parser.add_argument("--add", metavar="NAME", help="with --suite: add the result to docs/leaderboard.md as NAME")
    parser.add_argument("--cost", action="store_true", help="only print a forecast of the cost, for each judged player")
    parser.add_argument(
        "--opening", type=int, help="number of random moves at the start of each game; default: 0 against bots, else 2"
    )
    parser.add_argument(
        "--games_to_show", type=int, default=8, help="number of games to record for shown.html; default: 8"
    )
    add_options(parser)
    add_workers(parser)
    parser.set_defaults(temperature=None)
    given = parser.parse_args()
    for name in OF_GAMES:
        if given.exact and getattr(given, name) != parser.get_default(name):
            raise UserError(f"--{name} has no effect with --exact, which plays no games: leave it out")
    if given.suite is not None:
        for name in OF_OTHERS:
            if getattr(given, name) != parser.get_default(name):
                raise UserError(f"--{name} has no effect with --suite {given.suite}, which sets it: leave it out")
    if given.add is not None:
        if not given.suite or given.cost:
            raise UserError("--add needs --suite, and no --cost: the leaderboard compares results of the same games")
        check_name("--add", given.add)
    if given.samples is not None and not given.exact:
        raise UserError("--samples needs --exact: set the number of games with --num_episodes")
    if given.every_step and not given.exact:
        raise UserError("--every_step needs --exact: name one checkpoint")
    if given.temperature is None:
        given.temperature = float(given.exact)
    # Late, because the following code imports pyspiel, scipy and matplotlib: a wrong option does not need them.
    opponents = () if given.suite or given.exact else split_list(given.opponent, "opponent")
    ask_as_trained(given, [given.checkpoint, *([given.compare] if given.compare else ()), *opponents])
    judge = _run_suite if given.suite else _judge_exactly if given.exact else _play_games
    with read_workers(given.workers) as workers:
        judge(given, replies_of(given), Console(), workers)


def _play_games(given: argparse.Namespace, replies: "ReplySettings", console: Console, workers: Workers) -> None:
    from veritas_rl.judging import evaluation_report
    from veritas_rl.judging.evaluation import Settings, evaluate
    from veritas_rl.judging.forecast import forecast

    settings = Settings(
        checkpoint=given.checkpoint,
        env=given.env,
        compare=given.compare,
        opponents=split_list(given.opponent, "opponent"),
        games=given.num_episodes,
        cases=given.games,
        seed=given.seed,
        prompt=given.prompt,
        opening=given.opening,
        max_moves=given.max_moves,
        relabelled=given.relabelled,
        replies=replies,
        base=given.base,
        config=config_of(given),
        mode=given.mode,
    )
    if given.cost:
        opponents = len(set(settings.opponents))
        return _print_forecast(forecast(settings.rules(), settings.cases, settings.games, opponents), given, console)
    folder = _make_folder(given.output or settings.folder)
    purse = purse_of(given, folder)
    found = evaluate(settings, folder, console, given.games_to_show, purse, workers)
    _report(evaluation_report, found, folder, console)


def _run_suite(given: argparse.Namespace, replies: "ReplySettings", console: Console, workers: Workers) -> None:
    from veritas_rl.judging.evaluation import folder_of
    from veritas_rl.players.cost import describe
    from veritas_rl.rating import leaderboard, suite_report
    from veritas_rl.rating.suite import environments_of, forecast_of, read_suite, run_suite

    suite = read_suite(given.suite)
    played = suite.of_cases(given.games)
    _print_forecast(forecast_of(played, given.prompt, environments_of(played, given.checkpoint)), given, console)
    if given.cost:
        return
    what = (
        suite.name,
        suite.digest,
        *(played.cases if given.games else ()),
        given.checkpoint,
        given.prompt,
        replies.sampling,
    )
    folder = _make_folder(given.output or folder_of(given.checkpoint, what))
    purse = purse_of(given, folder)
    result = run_suite(
        suite, given.games, given.checkpoint, given.prompt, replies, given.base, folder, console, purse, workers
    )
    suite_report.print_result(result, console)
    for row in purse.values():
        console.print(describe(row), soft_wrap=True, highlight=False)
    paths = suite_report.write(result, folder)
    for path in [*paths, *(leaderboard.add(result, given.add) if given.add else ())]:
        console.print(str(path), soft_wrap=True, highlight=False)


def _judge_exactly(given: argparse.Namespace, replies: "ReplySettings", console: Console, workers: Workers) -> None:
    from veritas_rl.exact import report as exact_report
    from veritas_rl.exact.evaluation import ExactSettings, evaluate_exactly, forecast_exactly
    from veritas_rl.players.cost import describe

    settings = ExactSettings(
        checkpoint=given.checkpoint,
        compare=given.compare,
        every_step=given.every_step,
        cases=given.games,
        prompt=given.prompt,
        samples=given.samples,
        replies=replies,
        base=given.base,
    )
    if given.cost:
        return _print_forecast(forecast_exactly(settings), given, console, "states")
    folder = _make_folder(given.output or settings.folder)
    purse = purse_of(given, folder)
    _report(exact_report, evaluate_exactly(settings, folder, console, purse, workers), folder, console)
    for row in purse.values():
        console.print(describe(row), soft_wrap=True, highlight=False)


def _print_forecast(
    found: "Forecast", given: argparse.Namespace, console: Console, what: str = "games and tasks"
) -> None:
    prices = prices_of(given)
    price = prices.of(given.checkpoint.partition("#")[2])
    console.print(found.in_words(given.max_tokens, what, price, prices.currency), soft_wrap=True, highlight=False)


def _make_folder(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{folder} cannot be created ({error}): choose another --output") from error
    return folder


def _report(report: Any, found: Any, folder: Path, console: Console) -> None:
    """Print the report, and write its files."""
    report.print_report(found, console)
    page = folder / "shown.html"
    for path in [*report.write(found, folder), *([page] if page.exists() else [])]:
        console.print(str(path), soft_wrap=True, highlight=False)


if __name__ == "__main__":
    exit_on_user_error(main)
