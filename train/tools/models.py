"""Keep a small trained model in models/ with a card, and check that the cards hold.

    python train/tools/models.py keep NAME --checkpoint CHECKPOINT --command "bash train/scripts/..." \\
        --about SENTENCE [--short WORDS] --games "hex(board_size=5)" --opponent mcts:200 ...
    python train/tools/models.py check [NAME ...] [--short]

`keep` merges the checkpoint, rounds its weights to bfloat16, judges the result and writes the card. Its last options
are those of evaluate.py for the judgement.
`check` compares the weights with the digest in the card, and repeats the judgement; with --short, a short form of it.
The exit code of `check` is 1 if a card does not hold.
"""

import argparse
import json
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

from veritas_rl.checkpoints.kept import MODELS, Card, digest_of, keep_weights, read_card, write_card
from veritas_rl.errors import UserError, check_name, exit_on_user_error, unknown
from veritas_rl.paths import ROOT
from veritas_rl.records.figures import figures_of_games, figures_of_policies

JUDGE = "judge"


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="does", required=True, metavar="keep | check")
    keep = commands.add_parser("keep", help="keep a model, with options of evaluate.py that judge it")
    keep.add_argument("name", help="the name of its folder in models/")
    keep.add_argument(
        "--checkpoint", required=True, help="the model: a checkpoint, an experiment, or EXPERIMENT@mean:10"
    )
    keep.add_argument("--command", required=True, help="the command that trained it")
    keep.add_argument("--about", required=True, help="a sentence on what it plays and from what it learned")
    keep.add_argument("--short", default="", help="options that make the judgement short")
    check = commands.add_parser("check", help="check cards")
    check.add_argument("names", nargs="*", metavar="NAME", help="models; default: all")
    check.add_argument("--short", action="store_true", help="repeat only the short form of each judgement")
    given, others = parser.parse_known_args()
    if given.does == "keep":
        _keep(given, others)
        return 0
    if others:
        parser.error(f"unrecognized arguments: {shlex.join(others)}")
    known = sorted(path.parent.name for path in MODELS.glob("*/config.json"))
    for name in given.names:
        if name not in known:
            raise unknown("model", name, known)
    return max([_check(name, short=given.short) for name in given.names or known], default=0)


def _keep(given: argparse.Namespace, judge: Sequence[str]) -> None:
    # Late, because these import torch and Hydra, which a wrong option does not need.
    from veritas_rl.checkpoints.origin import Origin, recipe_of, versions
    from veritas_rl.launch.rollout_backend import HEAD_DIMS, head_size
    from veritas_rl.players.loading import find_model

    check_name("NAME", given.name)
    for option in ("--checkpoint", "--output", "--suite", "--cost"):
        if option in judge:
            raise UserError(f"{option} cannot be an option of the judgement: leave it out")
    short = tuple(shlex.split(given.short))
    experiment = Path(given.checkpoint.partition("@mean:")[0]).expanduser()
    recipe = recipe_of(experiment)
    if not recipe:
        raise UserError(f"{experiment} is no checkpoint or experiment whose run is here, so its game is not known")
    target = MODELS / given.name
    with tempfile.TemporaryDirectory() as merged:
        folder = find_model(given.checkpoint, Path(merged)).folder
        keep_weights(folder, target, Origin(recipe=recipe, versions=versions()))
    try:
        figures = _judged(target, judge)
        card = Card(given.command, f"{datetime.now():%Y-%m-%d}", tuple(judge), short, digest_of(target), figures)
        write_card(target, card, given.about, head_size(str(target)) in HEAD_DIMS)
    except BaseException:
        shutil.rmtree(target)
        raise
    print(target.relative_to(ROOT))


def _check(name: str, *, short: bool) -> int:
    try:
        card = read_card(MODELS / name)
        if card is None:
            raise UserError(f"{MODELS / name} has no card")
        card.check_digest(MODELS / name)
        failures = card.failures(_judged(MODELS / name, [*card.judge, *(card.short if short else ())]))
    except UserError as error:
        failures = [str(error)]
    print(f"{name}: {'; '.join(failures) or 'its card holds'}", flush=True)
    return int(bool(failures))


def _judged(folder: Path, judge: Sequence[str]) -> Mapping[str, Mapping[str, float]]:
    """The figures of a judgement.

    Raises:
        UserError: evaluate.py failed; its output was printed.
    """
    with tempfile.TemporaryDirectory() as output:
        tool = [sys.executable, "train/tools/evaluate.py", "--checkpoint", str(folder.relative_to(ROOT)), *judge]
        done = subprocess.run([*tool, "--output", output], cwd=ROOT, stdout=sys.stderr, check=False)
        if done.returncode:
            raise UserError(f"the judgement failed: {shlex.join(judge)}")
        exact = Path(output, "exact.json")
        report = json.loads((exact if exact.exists() else Path(output, "report.json")).read_text(encoding="utf-8"))
    found = figures_of_games(report, JUDGE) if "rows" in report else figures_of_policies(report, JUDGE)[0]
    return {name.removeprefix(f"{JUDGE}/"): dict(figure) for name, figure in found.items()}


if __name__ == "__main__":
    sys.path.pop(0)  # modules of this folder must not hide packages
    exit_on_user_error(main)
