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
"""The exit code of a run that was asked to save and end."""


class Plan(Protocol):
    """From what was typed to a run, checked as far as it can be without starting anything; see `rl.plan`."""

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
    """Read the environment and the command line, and go to the checkout's folder.

    Returns:
        What was typed, the machine, and whether nothing is to be started.

    Raises:
        UserError: verl is not there, or is another version.
    """
    load_dotenv(conf.ROOT / ".env")
    preflight.check_verl()
    caller = Path.cwd()
    named = conf.clean_environment(os.environ, caller)
    for variable in VARIABLES:
        # An empty variable is an unset one, for us and for the libraries that read it.
        os.environ.pop(variable.name, None)
    os.environ.update(named)
    os.chdir(conf.ROOT)
    dry = os.environ.get("DRY_RUN", "") not in ("", "0")
    return recipes.absolute(sys.argv[1:], caller), this_machine(), dry


def run(plan: Plan, typed: Sequence[str], hardware: Hardware, *, dry: bool) -> None:
    """Plan one training, and start it, or print it where nothing is to be started.

    Raises:
        UserError: It cannot work.
    """
    planned = plan(typed, os.environ, hardware, datetime.now(), dry=dry)
    try:
        planned.check_devices()
    except UserError as error:
        if not dry:
            raise
        # What another machine will do can be looked at on this one.
        print(f"note: here it would not run: {error}", file=sys.stderr)
    if dry:
        variables = [f"{name}={value}" for name, value in planned.environment().items()]
        print(shlex.join([*variables, *planned.command()]))
        print(conf.dump(planned.configuration))
        return
    start(planned)


def start(run: Run) -> None:
    """Run the whole pipeline, and end the process with `STOPPED` if it was asked to stop.

    Raises:
        UserError: Something is missing, or verl ended with an error.
    """
    # Judging and warming up import torch: only a run that starts pays for it.
    from veritas_rl.launch.pipeline import run_pipeline

    run.check_start()
    # A signal that ends the launcher ends the run: without this, verl and Ray would go on alone. A background job of a
    # script starts with SIGINT ignored.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    run.folder.mkdir(parents=True, exist_ok=True)
    with resume.held(run.checkpoints, run.start):
        run.record.write(run.checkpoints)
        if not run_pipeline(run, Console()):
            sys.exit(STOPPED)
        dataclasses.replace(run.record, finished=True).write(run.checkpoints)
