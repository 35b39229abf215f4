"""The command line that reinforcement learning and supervised fine-tuning share."""

import dataclasses
import os
import re
import shlex
import signal
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Protocol

from dotenv import load_dotenv
from rich.console import Console

from veritas_rl.composition import quoted
from veritas_rl.errors import UserError
from veritas_rl.launch import configuration as conf
from veritas_rl.launch import machine_checks, recipes, resume
from veritas_rl.launch.hardware import Hardware, this_machine
from veritas_rl.launch.run import Run
from veritas_rl.launch.variables import VARIABLES
from veritas_rl.paths import ROOT

STOPPED = 128 + signal.SIGTERM
"""The exit code of a run that saved and ended on request."""


REWARD_FILE = re.compile(r"(\+*(?:reward\.)?custom_reward_function\.path=)(['\"]?)([^'\"]+)\2")
"""An override that names the file of a custom reward function, in verl's spelling or its old one."""

STAYS = re.compile(r"(train/)?tools/|\w+://")
"""How a file of this repository begins, and what is no file."""


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
    machine_checks.check_verl()
    typed = read_environment(sys.argv[1:])
    dry = os.environ.get("DRY_RUN", "") not in ("", "0")
    return typed, this_machine(), dry


def read_environment(typed: Sequence[str]) -> list[str]:
    """Read `.env` and this project's variables as every run does, and change to the checkout's folder.

    Args:
        typed: Hydra overrides.

    Returns:
        The overrides, with folders and files relative to the caller's made absolute.

    Raises:
        UserError: The file of an environment cannot be loaded.
    """
    caller = Path.cwd()
    set_variables(caller)
    os.chdir(ROOT)
    return conf.with_environment(with_reward_file(recipes.absolute(typed, caller), caller), caller)


def set_variables(caller: Path) -> None:
    """Set the variables of `.env` that the shell has not set, and make folders relative to `caller` absolute."""
    load_dotenv(ROOT / ".env")
    named = conf.clean_environment(os.environ, caller)
    for variable in VARIABLES:
        # An empty variable counts as unset, for this project and for the libraries that read it.
        os.environ.pop(variable.name, None)
    os.environ.update(named)


def with_reward_file(typed: Sequence[str], caller: Path) -> list[str]:
    """The overrides, with the file of a custom reward function made absolute. It is relative to `caller`."""
    made: list[str] = []
    for override in typed:
        named = REWARD_FILE.fullmatch(override)
        if named and named[3] != "null" and not STAYS.match(named[3]):
            override = f"{named[1]}{quoted(str(caller / Path(named[3]).expanduser()))}"
        made.append(override)
    return made


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
