"""Watch training runs and evaluations on one page of this machine: curves, mistakes, games, tokens and cost.

    python train/tools/watch.py                      # all runs below train/outputs
    python train/tools/watch.py FOLDER               # one run, or all below another folder

The page reads the files of the runs, needs no service, and changes nothing. It updates while a run writes its files. To
watch a run on another machine, copy its files with rsync, see docs/play.md.
"""

import argparse
from pathlib import Path

from veritas_rl.errors import UserError, exit_on_user_error
from veritas_rl.paths import ROOT

OUTPUTS = ROOT / "train/outputs"
PORT = 8770


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("run", nargs="?", type=Path, default=OUTPUTS, help=f"a run, or a folder; default: {OUTPUTS}")
    parser.add_argument("--port", type=int, default=PORT, help=f"0 takes a free one; default: {PORT}")
    parser.add_argument("--no_browser", action="store_true", help="open no browser")
    parser.add_argument("--price_hour", type=float, metavar="MONEY", help="what an hour of the machine costs")
    given = parser.parse_args()
    if not given.run.is_dir():
        raise UserError(f"{given.run} is not a folder: name the folder of a run, or one above it")
    if not 0 <= given.port < 65536:
        raise UserError(f"--port must be between 0 and 65535, not {given.port}")
    if given.price_hour is not None and not 0 <= given.price_hour < float("inf"):
        raise UserError(f"--price_hour must be a number of at least 0, not {given.price_hour}")
    from veritas_rl.viewing.watch.server import serve

    serve(given.run, given.port, not given.no_browser, given.price_hour)


if __name__ == "__main__":
    exit_on_user_error(main)
