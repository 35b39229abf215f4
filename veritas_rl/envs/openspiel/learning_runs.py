"""Results of complete trainings of the small model by game: read and written as JSON, shown as a table.

`benchmarks/learning.py` makes them; `gallery.py` puts the table into docs/games/what_two_cores_learn.md.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from veritas_rl.basis import Basis
from veritas_rl.errors import UserError
from veritas_rl.paths import ROOT

PATH = ROOT / "docs/learning.json"
"""The file of the trainings in docs/games/; it may be missing."""

COLUMNS: Mapping[str, str] = {
    "seed": "of everything in the run",
    "legal": "legal moves after the warm-up, then after RL",
    "random": "success of a player that chooses among the legal moves at random",
    "warm": "success after the warm-up",
    "after": "success after RL",
    "gain": "what RL added to success, paired by position",
    "over": "success after RL less that of the random player, paired by position",
    "value": "mean value of the random player's moves, of those after the warm-up and of those after RL",
    "minutes": "from the command to its last line",
}
"""The columns after the case, and what each shows."""

UNIFORM, WARM, AFTER = "uniform random legal player", "after the warm-up", "after RL"
"""The judged players, by their names in report.json."""
LEGAL = 0.95
"""The share of legal replies that a warm-up must reach."""


@dataclass(frozen=True)
class LearningRun:
    """One training.

    Attributes:
        case: The value of GAME_TYPES: a case, or a short name for all default cases of a game.
        seed: `veritas_rl.seed`.
        minutes: The duration of the command.
        cores: The number of processor cores available to the run.
        date: The day of the run's end, as YYYY-MM-DD.
        basis: The settings and the tasks of the run, see `learning_basis`.
        report: The run's report.json.
    """

    case: str
    seed: int
    minutes: float
    cores: int
    date: str
    basis: Basis
    report: Mapping[str, Any]

    @property
    def shows_learning(self) -> bool:
        """Whether replies are legal after the warm-up, and the 95% intervals of RL's gain and of the difference to the
        random player are above zero."""
        legal = self.report[WARM]["legal"]["mean"] >= LEGAL
        return legal and all(self.report[name]["low"] > 0 for name in ("gain", "over random"))


def read(path: Path) -> list[LearningRun]:
    """The runs of a file; empty if there is no file.

    Raises:
        UserError: The file is damaged.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return [LearningRun(**{**values, "basis": Basis(**values["basis"])}) for values in found]
    except FileNotFoundError:
        return []
    except (ValueError, TypeError, KeyError) as error:
        raise UserError(f"{path} is no file of benchmarks/learning.py ({error}); remove it") from error


def write(path: Path, runs: Sequence[LearningRun]) -> None:
    """Write the runs to a file atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps([asdict(run) for run in runs], indent=1) + "\n", encoding="utf-8")
    part.replace(path)


def cells_of(run: LearningRun) -> tuple[str, ...]:
    """The cells of a run, one for each of `COLUMNS`."""
    report = run.report
    players = (UNIFORM, WARM, AFTER)
    cells = {
        "seed": str(run.seed),
        "legal": " ".join(f"{100 * report[who]['legal']['mean']:.1f}%" for who in (WARM, AFTER)),
        **{name: _rate(report[who]["optimal"]) for name, who in zip(("random", "warm", "after"), players, strict=True)},
        "gain": _rate(report["gain"]),
        "over": _rate(report["over random"]),
        "value": " ".join(f"{report[who]['value']['mean']:.3f}" for who in players),
        "minutes": f"{run.minutes:.1f}",
    }
    return tuple(cells[name] for name in COLUMNS)


def _rate(estimate: Mapping[str, float]) -> str:
    mean, low, high = (100 * estimate[name] for name in ("mean", "low", "high"))
    return f"{mean:.1f}% [{low:.1f}, {high:.1f}]"
