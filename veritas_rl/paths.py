"""Paths of the checkout. verl loads files of train/ by path, so the package only works from a checkout."""

import os
import re
import shlex
import shutil
import sys
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
"""The checkout."""


def in_checkout(path: Path) -> Path:
    """A path that a run has recorded below `train`; the same below this checkout if that was moved since."""
    places = [place for place, part in enumerate(path.parts[:-1]) if part == "train"] if not path.exists() else []
    moved = (ROOT.joinpath(*path.parts[place:]) for place in places)
    return next((one for one in moved if one.exists()), path)


def cache_folder() -> Path:
    """The folder `veritas-rl` in the user's cache folder, for results that can always be computed again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "veritas-rl"


def experiment_name(recipe: str, now: datetime) -> str:
    """The name of a run of a recipe that starts now. It has microseconds, because several commands may start within a
    millisecond."""
    return f"{recipe}-{now:%Y%m%d-%H%M%S-%f}"


def outputs_folder(now: datetime) -> Path:
    """The folder of logs and reports of a run that starts now, with microseconds for the same reason."""
    return ROOT / "train/outputs" / f"{now:%Y-%m-%d}" / f"{now:%H-%M-%S-%f}"


RAY_FOLDER = "RAY_TMPDIR"
"""The environment variable that names the folder of Ray's files."""


def ray_folder(environment: Mapping[str, str]) -> Path:
    """The folder of Ray's files, chosen as Ray chooses it."""
    return Path(environment.get(RAY_FOLDER) or environment.get("TMPDIR") or "/tmp")


def to_type(command: str) -> str:
    """A command for the checkout's folder as it works in the shell of the user.

    Args:
        command: The command, or several with && between them. `python` stands for this interpreter.
    """
    there, mine = shutil.which("python"), Path(sys.executable)
    if there is None or Path(there).parent != mine.parent:
        named = shlex.quote(str(mine.relative_to(ROOT) if mine.is_relative_to(ROOT) else mine))
        command = re.sub(r"(^|&& )python ", lambda found: f"{found[1]}{named} ", command)
    # The launcher leaves the folder in which it was typed, and the shell's variable still names it.
    typed_in = os.environ.get("PWD")
    if typed_in and Path(typed_in).resolve() != ROOT:
        command = f"cd {shlex.quote(str(ROOT))} && {command}"
    return command


TOKEN = Path("~/.ray/auth_token")
"""The file of the token that Ray makes, and that each node of a cluster needs."""


def has_token() -> bool:
    """Whether Ray finds a token: in a variable, or in its file."""
    given = os.environ.get("RAY_AUTH_TOKEN") or os.environ.get("RAY_AUTH_TOKEN_PATH")
    return bool(given) or os.access(TOKEN.expanduser(), os.F_OK)
