"""Show a training batch row by row: prompts, replies, learned tokens, rewards, advantages, log-probabilities.

    python train/tools/show_batch.py RUN                                  # the newest batch that a run has saved
    python train/tools/show_batch.py RUN --step 1 --group 2 --tokens      # one group, with a table of its tokens
    python train/tools/show_batch.py bash train/scripts/openspiel-ppo-trainer.sh algorithm=grpo data.train_batch_size=8

RUN is the folder of a run in train/outputs, its checkpoint folder, an experiment's name, or a file of a batch. Several
words are a training command. It is run for one step without checkpoints; put -- before it if a word of it begins with
a dash. The batch is printed, and written to a page beside its file.
"""

import argparse
from pathlib import Path

from rich.console import Console

from veritas_rl.errors import UserError, exit_on_user_error

IN_TERMINAL, ON_PAGE = 8, 64
"""How many rows are shown without --rows."""


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    add = parser.add_argument
    add("what", nargs="+", metavar="RUN_OR_COMMAND", help="a run, or the words of a training command")
    add("--step", type=int, help="the step of a run's batch; default: the newest that is saved")
    rows = f"how many rows to show; default: {IN_TERMINAL} in the terminal, {ON_PAGE} on the page"
    add("--rows", type=int, help=rows)
    add("--group", type=int, help="show one group: the samples of one task, counted from 1")
    add("--tokens", action="store_true", help="add a table of the tokens of each reply")
    add("--html", type=Path, metavar="FILE", help="the page to write; default: beside the file of the batch")
    add("--model", help="a folder or hub id with the tokenizer, if the run's model has moved")
    given = parser.parse_args()
    for name, least in (("rows", 1), ("group", 1), ("step", 0)):
        if (value := getattr(given, name)) is not None and value < least:
            raise UserError(f"--{name} must be at least {least}, not {value}")
    # Late, because these import torch: help and a wrong option do not need torch.
    from veritas_rl.checkpoints.folder import write_whole
    from veritas_rl.launch import shown_batch
    from veritas_rl.viewing.batch.page import render
    from veritas_rl.viewing.batch.terminal import print_batch

    if len(given.what) > 1 and given.step is not None:
        raise UserError(f"--step {given.step} is for runs, and a command is run for one step: leave it out")
    one = len(given.what) == 1
    file = shown_batch.find(given.what[0], given.step) if one else shown_batch.run(given.what)
    batch = shown_batch.load(file, given.model)
    rows = batch.rows if given.group is None else batch.groups.get(given.group, [])
    if not rows:
        raise UserError(f"{file} has no group {given.group}: set --group to a number up to {len(batch.groups)}")
    print_batch(batch, rows[: given.rows or IN_TERMINAL], Console(), tokens=given.tokens)
    page = given.html or file.with_suffix(".html")
    try:
        write_whole(page, render(batch, rows[: given.rows or ON_PAGE], tokens=given.tokens))
    except OSError as error:
        raise UserError(f"{page} cannot be written ({error.strerror}): set --html to another file") from error
    print(f"\nbatch: {file}\npage: {page}")


if __name__ == "__main__":
    exit_on_user_error(main)
