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
    run = f"the folder of a run, or a folder that contains several runs; default: {OUTPUTS}"
    parser.add_argument("run", nargs="?", type=Path, default=OUTPUTS, help=run)
    parser.add_argument("--port", type=int, default=PORT, help=f"port of the page; 0 uses a free port; default: {PORT}")
    parser.add_argument("--no_browser", action="store_true", help="do not open a browser")
    price = "price of one hour of the machine, to show the cost of runs"
    parser.add_argument("--price_hour", type=float, metavar="MONEY", help=price)
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
