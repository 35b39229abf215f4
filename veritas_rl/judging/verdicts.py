"""The result of a complete pipeline of SFT, RL and merging in a few lines, read from the files of its stages.

    python -m veritas_rl.judging.verdicts EVALUATION/report.json MERGED-EVALUATION/report.json agreement.json

is what ends `bash train/scripts/journey.sh`.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from veritas_rl.errors import UserError, exit_on_user_error
from veritas_rl.judging.summary import Divergence, describe_divergences


def of_improvement(report: Path) -> Iterator[str]:
    """By game and opponent, whether the judged player is better than the one it is compared with: a line each."""
    for found in _read(report)["comparisons"]:
        difference = found["score"]["difference"]
        low, high = difference["low"], difference["high"]
        verdict = "better" if low > 0 else "worse" if high < 0 else "not shown to be better"
        yield (
            f"RL against SFT: {found['case']} against {found['opponent']}: {verdict}, mean score "
            f"{difference['mean']:+.3f} [{low:+.3f}, {high:+.3f}], paired by {difference['classes']} deals, "
            f"p {found['score']['p_value']:.4f}"
        )


def of_sameness(report: Path) -> Iterator[str]:
    """By game and opponent, which games two players have not played alike: a line each."""
    for found in _read(report)["comparisons"]:
        differing = [Divergence(**game) for game in found["differing"]]
        line = describe_divergences(found["case"], found["games"], differing)
        yield f"merged against base + adapter: against {found['opponent']}: {line}"


def of_agreement(file: Path) -> str:
    """Whether a merged model and its base with the adapter answer alike, see `veritas_rl.checkpoints.agreement`."""
    found = _read(file)
    return (
        f"merged against base + adapter: {'the same' if found['holds'] else 'NOT the same'}: logits differ by "
        f"{found['largest']:.2g} at most, {found['tolerance']:.2g} are tolerated in {found['dtype']}; the same token "
        f"is likeliest at {found['agreeing']} of {found['places']} places ({found['agreeing'] / found['places']:.3%}, "
        f"{found['wanted']:.1%} are wanted) of {found['prompts']} prompts; prompts that differ: "
        f"{len(found['disagreeing'])}"
    )


def _read(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{file} cannot be read ({error}): evaluate again") from error


def main() -> None:
    """The command line."""
    if len(sys.argv) != 4:
        raise UserError("three files are needed: the reports of both evaluations, and what compare_merged.py wrote")
    trained, merged, agreement = map(Path, sys.argv[1:])
    for line in (*of_improvement(trained), of_agreement(agreement), *of_sameness(merged)):
        print(line)


if __name__ == "__main__":
    exit_on_user_error(main)
