"""Let a run continue without the server of Weights & Biases, and sync its logs later.

`wandb.init` tries an unreachable server for 100 seconds, and then ends the run. The launcher therefore checks the
server first, and lets the run log offline if it does not answer. If the server is lost later, wandb keeps all logs in
its folder and retries, at the end for a limited time.
"""

import os
import shlex
from pathlib import Path

import httpx
from rich.console import Console

from veritas_rl.launch.run import Run

SERVER = "https://api.wandb.ai"
ANSWER_SECONDS = 10.0
LOST_SERVER = "Some run data will not be synced"
"""wandb prints this when it stops sending, after the retries."""


def check_server(run: Run, console: Console) -> None:
    """Let a run log offline if the server does not answer, and print a line about it.

    Args:
        run: The run, which starts next with the variables of this process.
        console: Where to print.
    """
    if "wandb" not in run.configuration.trainer.logger or os.environ.get("WANDB_MODE", "online") != "online":
        return
    server = os.environ.get("WANDB_BASE_URL", SERVER)
    try:
        # Any answer shows that the server is reachable.
        httpx.get(server, timeout=ANSWER_SECONDS)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        os.environ["WANDB_MODE"] = "offline"
        reason = str(error) or type(error).__name__
        console.print(
            f"Weights & Biases does not answer at {server} ({reason}): the run logs offline, and prints at its end how "
            "to sync",
            highlight=False,
            soft_wrap=True,
        )


def sync_command(run: Run) -> str | None:
    """The command that syncs a run's remaining logs; None if there are none."""
    environment = run.environment()
    folder, name = Path(environment["WANDB_DIR"]) / "wandb", environment["WANDB_RUN_ID"]
    offline, online = list(folder.glob(f"offline-run-*-{name}")), list(folder.glob(f"run-*-{name}"))
    found = offline + (online if online and _lost_server(run) else [])
    left = sorted(path for path in found if not any(path.glob("*.wandb.synced")))
    # Without the option wandb skips runs that had a server.
    return shlex.join(["wandb", "sync", "--include-online", *map(str, left)]) if left else None


def _lost_server(run: Run) -> bool:
    if not run.log.exists():
        return False
    with run.log.open(encoding="utf-8", errors="replace") as lines:
        return any(LOST_SERVER in line for line in lines)
