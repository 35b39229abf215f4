"""Weights & Biases without its server: a run goes on without it, and what it logged is synced later.

`wandb.init` asks a server that does not answer for 100 seconds, and then ends the run. So the launcher asks first, and
where there is no answer the run logs to its folder alone. A server that is lost later ends nothing: wandb keeps all of
the run in its folder and tries again, at the end for a bounded time.
"""

import os
import shlex
from pathlib import Path

import httpx
from rich.console import Console

from veritas_rl.launch.run import Run

SERVER = "https://api.wandb.ai"
ANSWER_SECONDS = 10.0


def check_server(run: Run, console: Console) -> None:
    """Let a run log offline where the server does not answer; a line on the console says so.

    Args:
        run: It is started next, with the variables of this process.
        console: Where to print.
    """
    if "wandb" not in run.configuration.trainer.logger or os.environ.get("WANDB_MODE", "online") != "online":
        return
    server = os.environ.get("WANDB_BASE_URL", SERVER)
    try:
        # Whatever it answers, it is there.
        httpx.get(server, timeout=ANSWER_SECONDS)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        os.environ["WANDB_MODE"] = "offline"
        reason = str(error) or type(error).__name__
        console.print(
            f"Weights & Biases does not answer at {server} ({reason}): the run logs offline, and says at its end what "
            "to type to sync it",
            highlight=False,
            soft_wrap=True,
        )


def sync_command(run: Run) -> str | None:
    """What syncs what a run has logged offline and has not synced; None where there is nothing."""
    environment = run.environment()
    folder, name = Path(environment["WANDB_DIR"]) / "wandb", environment["WANDB_RUN_ID"]
    left = sorted(path for path in folder.glob(f"offline-run-*-{name}") if not any(path.glob("*.wandb.synced")))
    return shlex.join(["wandb", "sync", *map(str, left)]) if left else None
