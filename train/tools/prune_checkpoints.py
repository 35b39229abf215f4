"""Remove old checkpoints of an experiment. Without --yes, only list what would be removed.

    python train/tools/prune_checkpoints.py --checkpoints train/artifacts/RL/checkpoints/EXPERIMENT --keep 3 --yes

The newest complete checkpoint always stays. A checkpoint that another process reads also stays. An incomplete
checkpoint is removed if a newer checkpoint is complete. Checkpoints of plain verl have no mark of completeness and
count as incomplete.
"""

import argparse
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

from veritas_rl.checkpoints.layout import step_folders
from veritas_rl.checkpoints.prune import Reason, remove, verdicts
from veritas_rl.errors import UserError, exit_on_user_error

GIB = 2**30


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="Remove old checkpoints of an experiment.")
    parser.add_argument(
        "--checkpoints", required=True, type=Path, help="the experiment's folder, which contains global_step_N"
    )
    parser.add_argument("--keep", type=int, help="number of newest complete checkpoints to keep; default: all")
    parser.add_argument(
        "--max_gib",
        type=float,
        help="remove the oldest checkpoints until all together take at most this many GiB; default: no limit",
    )
    parser.add_argument("--yes", action="store_true", help="remove the checkpoints; without it they are only listed")
    given = parser.parse_args()
    if given.keep is not None and given.keep < 1:
        raise UserError(f"--keep must be at least 1, not {given.keep}")
    if given.max_gib is not None and not given.max_gib > 0:
        raise UserError(f"--max_gib must be more than 0, not {given.max_gib}")
    folder = given.checkpoints.expanduser().resolve()
    if not step_folders(folder):
        below = sorted({path.parent.name for path in folder.glob("*/global_step_*")})
        hint = f"; set --checkpoints to one of its experiments: {', '.join(below)}" if below else ""
        raise UserError(f"{folder} has no folder global_step_N{hint}")
    found = verdicts(folder, given.keep, None if given.max_gib is None else int(given.max_gib * GIB))
    console, table = Console(), Table(title=str(folder), title_justify="left")
    table.add_column("checkpoint")
    table.add_column("GiB", justify="right")
    table.add_column("action")
    table.add_column("reason")
    for verdict in found:
        table.add_row(
            verdict.checkpoint.name, f"{verdict.size / GIB:.2f}", "remove" if verdict.goes else "keep", verdict.reason
        )
    console.print(table)
    if not any(verdict.reason is Reason.NEWEST for verdict in found):
        console.print("no checkpoint is complete, so nothing is removed")
    going = [verdict for verdict in found if verdict.goes]
    if not given.yes:
        freed = sum(verdict.size for verdict in going)
        console.print(
            f"{len(going)} checkpoints would be removed, {freed / GIB:.2f} GiB: add --yes to remove them",
            highlight=False,
        )
        return
    removed = 0
    for verdict in track(going, "removing", console=console, transient=True):
        try:
            if remove(verdict.checkpoint):
                removed += verdict.size
            else:
                console.print(f"{verdict.checkpoint.name} stays, because another process reads it", highlight=False)
        except OSError as error:
            raise UserError(f"{verdict.checkpoint} cannot be removed ({error})") from error
    console.print(f"{removed / GIB:.2f} GiB freed", highlight=False)


if __name__ == "__main__":
    exit_on_user_error(main)
