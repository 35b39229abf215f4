"""Score a file of answers to the tasks of a data set: pass rates with 95% intervals, by type and by level.

    python train/tools/evaluate_dataset.py --data train/datasets/lgc-v2/val.parquet --answers answers.jsonl [--json]

An answer is a line with a task_id of the data and the model's whole reply: {"task_id": 42, "answer": "..."}. The reply
may also be named response, completion or output. A task may have several lines. Bad lines are reported with their
numbers and left out. A task without an answer counts as missing. generate_dataset.py makes the data.
"""

import argparse
import json
import sys
from pathlib import Path

from rich.console import Console

from veritas_rl.datasets import scoring, scoring_report
from veritas_rl.errors import exit_on_user_error
from veritas_rl.judging.options import EnvironmentOption


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--data", type=Path, required=True, help="a .parquet or .jsonl file of a data set")
    parser.add_argument("--answers", type=Path, required=True, help="a JSONL file with task_id and answer in each line")
    env = "the data's environment, if no package of it is installed: FILE.py:NAME or package.module:NAME"
    parser.add_argument("--env", action=EnvironmentOption, help=env)
    parser.add_argument("--json", action="store_true", help="print all results as JSON instead of a table")
    given = parser.parse_args()
    data = scoring.read_data(given.data)
    answers, bad = scoring.read_answers(given.answers, (asked.name for asked in data))
    for line in scoring_report.bad_lines(bad):
        print(line, file=sys.stderr)
    scored = scoring.score(data, answers, bad)
    if given.json:
        print(json.dumps(scoring_report.as_json(scored), indent=2))
    else:
        scoring_report.print_scored(scored, Console())


if __name__ == "__main__":
    exit_on_user_error(main)
