"""Ask what to train, and write `.env` and a recipe in train/recipes.

    python train/tools/configure.py                                  # asks, with defaults for this machine
    python train/tools/configure.py --name hex --games hex --play episode --opponent mcts:50

Each flag answers one question. Without a terminal, the other questions get their defaults. The key of Weights & Biases
is asked for only in a terminal; otherwise set WANDB_API_KEY. At the end, a forecast of the run and its command are
printed. The exit code is 1 if the run would not fit into memory.
"""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from dotenv import dotenv_values, set_key, unset_key
from rich.console import Console
from rich.prompt import Confirm, Prompt

from veritas_rl.errors import UserError, exit_on_user_error
from veritas_rl.launch.command import set_variables
from veritas_rl.launch.model_checks import mean_prompt
from veritas_rl.paths import ROOT, to_type
from veritas_rl.planning.compose import plan_of
from veritas_rl.planning.models import UnknownShape
from veritas_rl.planning.report import print_plan
from veritas_rl.wizard.answers import Answers
from veritas_rl.wizard.questions import QUESTIONS, Asking, ask_all

ENV = ROOT / ".env"
KEY = "WANDB_API_KEY"


def parse(typed: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for question in QUESTIONS:
        parser.add_argument(f"--{question.field.replace('_', '-')}", help=question.text.replace("%", "%%"))
    parser.add_argument("--force", action="store_true", help="overwrite an existing recipe")
    return parser.parse_args(typed)


def main() -> int:
    """Ask the questions, write the files, and print the forecast."""
    typed = vars(parse())
    force = typed.pop("force")
    caller = dict(os.environ)
    set_variables(Path.cwd())
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    console = Console(width=None if terminal else 120)
    asking = Asking(os.environ.copy())
    try:
        ask_all(asking, {name: value for name, value in typed.items() if value is not None}, console, terminal=terminal)
        answers = asking.answers
        run = asking.try_out()
        if answers.folder.exists() and not force:
            again = f"{answers.folder.relative_to(ROOT)} already exists"
            if not terminal:
                raise UserError(f"{again}: type --force to overwrite it, or choose another --name")
            if not Confirm.ask(f"{again}. Overwrite it?", console=console, default=False):
                raise UserError(f"{again}, and was not changed: choose another --name")
        secrets = _ask_key(answers, asking.environment, console) if terminal else {}
    except EOFError:
        raise KeyboardInterrupt from None
    _write(answers, secrets, console)
    for name, value in answers.variables().items():
        if caller.get(name, value or "") != (value or ""):
            print(
                f"note: {name}={caller[name]} is set in this shell and overrides the written value: type unset {name}"
            )
    fits = True
    try:
        assumed = mean_prompt(run.configuration) if run.model else {}
        plan = plan_of(run.configuration, answers.hardware, assumed=assumed) if run.model else None
    except UnknownShape as error:
        print(f"note: no forecast is possible: {error}")
        plan = None
    if plan is not None:
        print_plan(plan, console)
        fits = plan.fits
    elif not run.model:
        print("The launcher makes a small model, warms it up and trains it in minutes. No forecast is made for it.")
    print(f"\ncheck this machine: {to_type(f'python train/tools/doctor.py recipe={answers.name}')}")
    print(f"start the run:      {to_type(answers.command)}")
    return 0 if fits else 1


def _ask_key(answers: Answers, environment: Mapping[str, str], console: Console) -> dict[str, str]:
    """Ask for the key that the run needs, unless the environment has it. An empty answer means none."""
    if "wandb" not in answers.loggers or answers.wandb_mode != "online" or environment.get(KEY):
        return {}
    text = "Weights & Biases key, from https://wandb.ai/authorize (hidden)"
    given = Prompt.ask(text, console=console, password=True, default="", show_default=False).strip()
    return {KEY: given} if given else {}


def _write(answers: Answers, secrets: Mapping[str, str], console: Console) -> None:
    try:
        recipe = answers.write_recipe(answers.folder)
    except OSError as error:
        raise UserError(f"{answers.folder} is not writable ({error.strerror}): use a checkout of your own") from error
    try:
        there = dotenv_values(ENV) if ENV.exists() else {}
        for name, value in {**answers.variables(), **secrets}.items():
            if value is not None:
                set_key(ENV, name, value)
            elif name in there:
                unset_key(ENV, name)
        if ENV.exists():
            # The file contains keys.
            ENV.chmod(0o600)
    except OSError as error:
        raise UserError(f"{ENV} is not writable ({error.strerror}): give your user write permission") from error
    for path in (recipe, ENV):
        if path.exists():
            console.print(f"wrote {path.relative_to(ROOT)}", highlight=False)


if __name__ == "__main__":
    sys.path.pop(0)  # modules of this folder must not hide packages
    exit_on_user_error(main)
