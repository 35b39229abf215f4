"""The result of a complete pipeline of SFT, RL and merging in a few lines, read from the files of its stages.

    python -m veritas_rl.judging.verdicts EVALUATION/report.json MERGED-EVALUATION/report.json agreement.json

`bash train/scripts/journey.sh` runs this command at its end.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from veritas_rl.errors import UserError, exit_on_user_error
from veritas_rl.judging.summary import describe_divergences


def of_improvement(report: Path) -> Iterator[str]:
    """A line for each game and opponent: whether the judged player is better than the player it is compared with."""
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
    """A line for each game and opponent: how many games of the two players differ."""
    for found in _read(report)["comparisons"]:
        line = describe_divergences(len(found["differing"]), found["games"], "games", str(report))
        yield f"merged against base + adapter: {found['case']} against {found['opponent']}: {line}"


def of_agreement(file: Path) -> str:
    """Whether a merged model and its base with the adapter agree, see `veritas_rl.checkpoints.agreement`."""
    found = _read(file)
    return (
        f"merged against base + adapter: {'the same' if found['holds'] else 'NOT the same'}: logits differ by "
        f"{found['largest']:.2g} at most, tolerance {found['tolerance']:.2g} in {found['dtype']}; both find the same "
        f"token most likely at {found['agreeing']} of {found['places']} positions "
        f"({found['agreeing'] / found['places']:.3%}, at least {found['wanted']:.1%} required) of {found['prompts']} "
        f"prompts; prompts that differ: {len(found['disagreeing'])}"
    )


def _read(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{file} cannot be read ({error}); run the evaluation again") from error


def main() -> None:
    """Run the command line."""
    if len(sys.argv) != 4:
        raise UserError(
            "the command needs three files: "
            "python -m veritas_rl.judging.verdicts EVALUATION/report.json MERGED-EVALUATION/report.json agreement.json"
        )
    trained, merged, agreement = map(Path, sys.argv[1:])
    for line in (*of_improvement(trained), of_agreement(agreement), *of_sameness(merged)):
        print(line)


if __name__ == "__main__":
    exit_on_user_error(main)
