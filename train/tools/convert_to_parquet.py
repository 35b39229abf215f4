"""Convert JSONL, one JSON object per line, to parquet for SFT or RL.

    python train/tools/convert_to_parquet.py --input data.jsonl --output train/parquet --format sft --val-ratio 0.1 \\
        --shuffle --seed 42

The question is the first existing field of prompt, question, instruction (with input), input, messages, conversations
(of ShareGPT). The answer is the first existing field of response, answer, completion, output, assistant, or else the
last message if it is from the assistant. Bad lines are reported with their numbers, and nothing is written, unless
--skip-bad leaves them out.
docs/dataset_generation.md has the columns.
"""

import argparse
import json
import sys
from array import array
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from veritas_rl.checkpoints.folder import write_whole
from veritas_rl.datasets.jsonl import Bad
from veritas_rl.datasets.rows import check_share, validation_rows
from veritas_rl.datasets.spool import Spool
from veritas_rl.demonstrations import convert, dataset
from veritas_rl.errors import UserError, exit_on_user_error
from veritas_rl.seeding import generator

SHOWN = 20
"""The maximum number of bad lines that are printed."""


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--input", type=Path, required=True, help="the JSONL file to convert")
    add("--output", type=Path, required=True, help="the folder for train.parquet and val.parquet")
    add("--format", choices=convert.FORMATS, required=True, help="sft: rows with answers; rl: rows with a ground truth")
    add("--val-ratio", type=float, default=0.1, help="share of the rows in val.parquet (default: %(default)s)")
    add("--shuffle", action="store_true", help="shuffle the rows by the seed; otherwise keep their order")
    add(
        "--seed",
        type=int,
        default=42,
        help="seed of --shuffle and of the choice of the rows in val.parquet (default: %(default)s)",
    )
    add("--skip-bad", action="store_true", help="report bad lines, leave them out and continue")
    given = parser.parse_args()
    check_share(given.val_ratio)
    if given.output.suffix == ".parquet":
        raise UserError(
            f"--output must be a folder for train.parquet and val.parquet: type --output {given.output.parent}"
        )
    bad: list[Bad] = []
    groups = array("Q")
    disk = next(folder for folder in given.output.absolute().parents if folder.is_dir())
    with TemporaryDirectory(prefix=f".{given.output.name}.", dir=disk) as beside:
        rows = Spool(Path(beside))
        for row in convert.rows_of(given.input, given.format, given.seed, bad.append):
            rows.add(row)
            # Lines with the same question stay in one file, so that no training question is also one for validation.
            groups.append(dataset.group_number(json.dumps(row["prompt"]), given.seed))
        for line in bad[:SHOWN]:
            print(line, file=sys.stderr)
        if bad and not given.skip_bad:
            raise UserError(f"{given.input} has {len(bad)} bad lines: correct them, or leave them out with --skip-bad")
        if not len(rows):
            raise UserError(f"{given.input} has no usable line")
        order = array("q", range(len(rows)))
        if given.shuffle:
            generator("shuffle", given.seed).shuffle(order)
        numbers = np.array(order)
        chosen = validation_rows(np.array(groups, np.uint64), given.val_ratio)[numbers]
        files = dataset.write_parts(given.output, (numbers[~chosen], numbers[chosen]), rows.write)
    left_out = [str(line) for line in bad]
    report = {"input": str(given.input), "format": given.format, "left_out": left_out, "files": files}
    write_whole(given.output / dataset.REPORT, json.dumps(report, indent=2) + "\n")
    for name, file in files.items():
        print(f"{file['rows']:>8} rows  {given.output / name}")
    if bad:
        print(f"{len(bad)} bad lines were left out: {given.output / dataset.REPORT} lists them")


if __name__ == "__main__":
    exit_on_user_error(main)
