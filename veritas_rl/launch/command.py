"""The command line that reinforcement learning and supervised fine-tuning share."""

import dataclasses
import os
import shlex
import signal
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Protocol

from dotenv import load_dotenv
from rich.console import Console

from veritas_rl.errors import UserError
from veritas_rl.launch import configuration as conf
from veritas_rl.launch import preflight, recipes, resume
from veritas_rl.launch.hardware import Hardware, this_machine
from veritas_rl.launch.run import Run
from veritas_rl.launch.variables import VARIABLES

STOPPED = 128 + signal.SIGTERM
"""The exit code of a run that saved and ended on request."""


class Plan(Protocol):
    """Plans and checks a run without starting anything; see `rl.plan`."""

    def __call__(
        self,
        typed: Sequence[str],
        environment: Mapping[str, str],
        hardware: Hardware,
        now: datetime,
        *,
        dry: bool = False,
    ) -> Run: ...


def prepare() -> tuple[list[str], Hardware, bool]:
    """Read the environment and the command line, and change to the checkout's folder.

    Returns:
        The command line's overrides, the machine, and whether this is a dry run.

    Raises:
        UserError: verl is missing or has another version.
    """
    load_dotenv(conf.ROOT / ".env")
    preflight.check_verl()
    caller = Path.cwd()
    named = conf.clean_environment(os.environ, caller)
    for variable in VARIABLES:
        # An empty variable counts as unset, for this project and for the libraries that read it.
        os.environ.pop(variable.name, None)
    os.environ.update(named)
    os.chdir(conf.ROOT)
    dry = os.environ.get("DRY_RUN", "") not in ("", "0")
    return recipes.absolute(sys.argv[1:], caller), this_machine(), dry


def run(plan: Plan, typed: Sequence[str], hardware: Hardware, *, dry: bool) -> None:
    """Plan one training, and start it, or print it in a dry run.

    Raises:
        UserError: The configuration, the files or the machine do not fit the run.
    """
    planned = plan(typed, os.environ, hardware, datetime.now(), dry=dry)
    try:
        planned.check_devices()
    except UserError as error:
        if not dry:
            raise
        # A dry run shows what another machine would do.
        print(f"note: this machine cannot start the run: {error}", file=sys.stderr)
    if dry:
        variables = [f"{name}={value}" for name, value in planned.environment().items()]
        print(shlex.join([*variables, *planned.command()]))
        print(conf.dump(planned.configuration))
        return
    start(planned)


def start(run: Run) -> None:
    """Run the whole pipeline. The process exits with `STOPPED` if the run was asked to stop.

    Raises:
        UserError: Something is missing, or verl ended with an error.
    """
    # This imports torch, which a dry run does not need.
    from veritas_rl.launch.pipeline import run_pipeline

    run.check_start()
    # A signal that ends the launcher must end verl and Ray too. A background job of a script starts with SIGINT
    # ignored.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    run.folder.mkdir(parents=True, exist_ok=True)
    with resume.held(run.checkpoints, run.start):
        run.record.write(run.checkpoints)
        if not run_pipeline(run, Console()):
            sys.exit(STOPPED)
        dataclasses.replace(run.record, finished=True).write(run.checkpoints)
