"""Publish a merged model on the Hugging Face hub. Without --yes, only show what would be sent.

    python train/tools/push_to_hub.py --folder train/models/MODEL --repo_id USER/NAME --report report.json
    HF_TOKEN=... python train/tools/push_to_hub.py --folder train/models/MODEL --repo_id USER/NAME --private --yes

The command compares the model with its base and writes a model card. HF_TOKEN comes from the environment or .env.
"""

import argparse
import os
from pathlib import Path

from dotenv import load_dotenv
from rich.console import Console
from rich.table import Table

from veritas_rl.errors import UserError, exit_on_user_error
from veritas_rl.paths import ROOT


def main() -> None:
    """The command line."""
    load_dotenv(ROOT / ".env")
    parser = argparse.ArgumentParser(description="Publish a merged model on the Hugging Face hub.")
    parser.add_argument(
        "--folder", required=True, type=Path, help="the folder of the merged model, as merge-ppo.sh writes it"
    )
    parser.add_argument("--repo_id", required=True, help="the target repository: user/name")
    parser.add_argument("--report", type=Path, help="report.json of an evaluation of the model, for the model card")
    parser.add_argument("--base_model", help="the base model, if the model does not name it or it was moved")
    parser.add_argument(
        "--private",
        action="store_true",
        help="create a private repository, which only you see; an existing public one is refused",
    )
    parser.add_argument("--yes", action="store_true", help="send the files; without it they are only shown")
    given = parser.parse_args()
    token = os.environ.get("HF_TOKEN", "").strip()
    if given.yes and not token:
        raise UserError(
            "HF_TOKEN is not set: set it to a token with write access, see https://huggingface.co/settings/tokens"
        )
    # Late, because these import torch: the mistakes above are reported at once.
    from veritas_rl.checkpoints import models, publish

    models.quiet()
    made = publish.prepare(given.folder.expanduser().resolve(), given.repo_id, given.report, given.base_model)
    console, table = Console(), Table(title=f"{made.folder} to {made.repo_id}", title_justify="left")
    table.add_column("file")
    table.add_column("bytes", justify="right")
    for path in made.files:
        table.add_row(path.relative_to(made.folder).as_posix(), f"{path.stat().st_size:,}")
    table.add_row(publish.CARD, f"{len(made.card.encode()):,}")
    console.print(table)
    console.print(f"{publish.CARD}{', unchanged from the folder' if made.own_card else ''}:\n", highlight=False)
    console.print(made.card, markup=False, highlight=False, soft_wrap=True)
    for name in made.naming_folders():
        console.print(
            f"note: {name} contains a folder of this machine, which others will see", highlight=False, soft_wrap=True
        )
    if not given.yes:
        who = "private" if given.private else "public"
        console.print(
            f"nothing was sent: add --yes to send it to {made.repo_id} ({who})", highlight=False, soft_wrap=True
        )
        return
    console.print(f"sent to {publish.push(made, token, given.private)}", highlight=False, soft_wrap=True)


if __name__ == "__main__":
    exit_on_user_error(main)
