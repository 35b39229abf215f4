"""Let a checkpoint play whole games, and say how well, with intervals.

    python train/tools/evaluate.py --checkpoint CHECKPOINT --num_episodes 200 --opponent random,mcts \\
        --games "tic_tac_toe,hex(board_size=5)" --seed 42 [--compare OTHER] [--relabelled] [--output FOLDER]
    python train/tools/evaluate.py --checkpoint CHECKPOINT --exact --games kuhn_poker [--samples N]

CHECKPOINT is a folder (a model, an adapter, global_step_N, or an experiment), a hub id, the address of an
OpenAI-compatible server (http://localhost:8000/v1), or a bot. An opponent is random, mcts, mcts:SIMS, mcts:full, exact,
or again one of these. The report goes to the output folder as report.json, report.html and report.png; the same command
goes on after an interruption, and takes finished games from there.

With --exact no game is played: in small games the checkpoint is asked in every information state, and its whole policy
is scored. The report goes to exact.json and a picture of each policy.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from veritas_rl.envs.base import PROMPTS
from veritas_rl.envs.openspiel.cases import split_list
from veritas_rl.errors import UserError, exit_on_user_error

if TYPE_CHECKING:
    from veritas_rl.arena.loading import ReplySettings

OF_GAMES = ("num_episodes", "opponent", "relabelled", "opening", "max_moves")
"""The options that say nothing where no game is played."""


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--checkpoint", required=True, help="who is judged: a folder, a hub id, an address, or a bot")
    parser.add_argument("--num_episodes", type=int, default=100, help="games of each case, against each opponent")
    parser.add_argument("--opponent", default="random", help="one or more with commas: bots, or checkpoints")
    parser.add_argument("--games", default="", help="short names and cases with commas; default: every described game")
    parser.add_argument("--seed", type=int, default=42, help="of the deals, the bots and the replies")
    parser.add_argument("--compare", help="another checkpoint, on the same games")
    parser.add_argument("--base", help="the base of an adapter or checkpoint that names none, or whose own is gone")
    parser.add_argument(
        "--relabelled", action="store_true", help="judge single moves also with other labels, and mirrored"
    )
    parser.add_argument("--output", type=Path, help="the folder of the report and of the finished games")
    parser.add_argument("--prompt", choices=PROMPTS, default="full", help="what a model is shown")
    parser.add_argument(
        "--exact", action="store_true", help="play no games: ask in every information state of small games"
    )
    parser.add_argument(
        "--samples", type=int, help="with --exact: answers in each state, instead of the probabilities of the answers"
    )
    parser.add_argument("--temperature", type=float, help="of a model's replies; default: 0, with --exact 1")
    parser.add_argument("--top_p", type=float, default=1.0, help="of a model's replies")
    parser.add_argument("--max_tokens", type=int, default=1024, help="the most tokens of a reply")
    parser.add_argument("--concurrency", type=int, default=256, help="how many replies are written at once")
    parser.add_argument("--timeout", type=float, default=600.0, help="the most seconds a server may take for a reply")
    parser.add_argument("--opening", type=int, help="random moves at the start; default: 0 against bots, else 2")
    parser.add_argument("--max_moves", type=int, default=1000, help="a longer game ends as unfinished")
    given = parser.parse_args()
    for name in OF_GAMES:
        if given.exact and getattr(given, name) != parser.get_default(name):
            raise UserError(f"--exact plays no games: leave out --{name}")
    if given.samples is not None and not given.exact:
        raise UserError("--samples is for --exact: games are counted by --num_episodes")
    # What follows imports pyspiel, scipy and matplotlib: help and a wrong option need none of them.
    from veritas_rl.arena.loading import ReplySettings

    temperature = given.temperature if given.temperature is not None else float(given.exact)
    replies = ReplySettings(
        max_tokens=given.max_tokens,
        temperature=temperature,
        top_p=given.top_p,
        seed=given.seed,
        concurrency=given.concurrency,
        timeout=given.timeout,
    )
    (_judge_exactly if given.exact else _play_games)(given, replies, Console())


def _play_games(given: argparse.Namespace, replies: "ReplySettings", console: Console) -> None:
    from veritas_rl.arena import evaluation_report
    from veritas_rl.arena.evaluation import Settings, evaluate

    settings = Settings(
        checkpoint=given.checkpoint,
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
    )
    folder = _make_folder(given.output or settings.folder)
    _tell(evaluation_report, evaluate(settings, folder, console), folder, console)


def _judge_exactly(given: argparse.Namespace, replies: "ReplySettings", console: Console) -> None:
    from veritas_rl.arena import exact_report
    from veritas_rl.arena.exact_evaluation import ExactSettings, evaluate_exactly

    settings = ExactSettings(
        checkpoint=given.checkpoint,
        compare=given.compare,
        cases=given.games,
        prompt=given.prompt,
        samples=given.samples,
        replies=replies,
        base=given.base,
    )
    folder = _make_folder(given.output or settings.folder)
    _tell(exact_report, evaluate_exactly(settings, folder, console), folder, console)


def _make_folder(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{folder} cannot be made ({error}): give another --output") from error
    return folder


def _tell(report: Any, found: Any, folder: Path, console: Console) -> None:
    """Print what was found, and write it down."""
    report.tell(found, console)
    for path in report.write(found, folder):
        console.print(str(path), soft_wrap=True, highlight=False)


if __name__ == "__main__":
    exit_on_user_error(main)
