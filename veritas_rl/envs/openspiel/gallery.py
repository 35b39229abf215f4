"""The gallery of games: writes docs/games.md and docs/games/ from the registry.

    python -m veritas_rl.envs.openspiel.gallery
    python -m veritas_rl.envs.openspiel.gallery --check     # exit code 1 if a page is not current

The page of a game shows its kind, cases, variants, scoring and players, and one prompt as a model sees it.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspiel

from veritas_rl.basis import EARLIER_SETTINGS, OTHER_TASKS
from veritas_rl.envs.openspiel import cases, ids, learning_runs
from veritas_rl.envs.openspiel.env import OpenSpielEnvironment
from veritas_rl.envs.openspiel.games import GAMES, Game
from veritas_rl.envs.openspiel.learning_basis import basis_of
from veritas_rl.envs.openspiel.learning_signal import report
from veritas_rl.envs.openspiel.values.equilibrium import has_equilibrium
from veritas_rl.envs.openspiel.values.minimax import is_exact
from veritas_rl.envs.openspiel.values.playouts import is_native
from veritas_rl.envs.registry import make_task
from veritas_rl.errors import exit_on_user_error
from veritas_rl.generated_page import DOCS, page_command, templates

PAGE = DOCS / "games.md"
FOLDER = DOCS / "games"
"""The folder of the page of each game, and of the measurements."""

TEACH, LEARN = FOLDER / "what_moves_teach.md", FOLDER / "what_two_cores_learn.md"
SIGNAL = DOCS / "learning_signal.json"
"""The measurements of `train/tools/learning_signal.py`; without this file there are no figures."""


@dataclass(frozen=True)
class Exhibit:
    """One game of the gallery, as text.

    Attributes:
        name: OpenSpiel's short name.
        title: OpenSpiel's long name.
        kind: Players, information, chance, order of moves.
        cases: The cases that its bare name selects.
        variants: The parameters that the description covers.
        index: Its index in task ids; None if no id names it.
        configurations: The number of its configurations in task ids; 0 without an index.
        score: How a finished game becomes a value.
        moves: How a single move is valued.
        search: The budget of `mcts:full`, or why there is none.
        seen: Whether a search sees hidden information.
        prompt: One prompt.
    """

    name: str
    title: str
    kind: str
    cases: tuple[str, ...]
    variants: tuple[str, ...]
    index: int | None
    configurations: int
    score: str
    moves: str
    search: str
    seen: str
    prompt: str


def exhibit(name: str) -> Exhibit:
    """The exhibit of a described game."""
    case = cases.default_cases(name)[0]
    game = cases.load(case)
    index, configurations = _place(name)
    (turn, *_) = OpenSpielEnvironment().start(make_task("openspiel", case, 1, split="val")).turns()
    return Exhibit(
        name=name,
        title=game.type.long_name,
        kind=_kind(game),
        cases=tuple(cases.default_cases(name)),
        variants=tuple(_variant(game, key, limit) for key, limit in type(game).limits.items()),
        index=index,
        configurations=configurations,
        score=_score(game),
        moves=_moves(game),
        search=_search(game),
        seen=_seen(game),
        prompt=turn.messages[0]["content"],
    )


def _variant(game: Game, key: str, limit: tuple[Any, ...]) -> str:
    if isinstance(game.parameters.get(key), str):
        return f"{key} {' or '.join(limit)}"
    if limit == (False, True):
        return f"{key} True or False"
    return f"{key} {limit[0]} to {limit[1]}"


def _kind(game: Game) -> str:
    seats = f"{game.players} player{'s' if game.players > 1 else ''}"
    hidden = "hidden information" if game.hidden else "perfect information"
    chance = game.type.chance_mode != pyspiel.GameType.ChanceMode.DETERMINISTIC
    parts = [seats, hidden, "chance" if chance else "no chance"]
    if game.simultaneous:
        parts.append("simultaneous moves")
    if game.players > 1:
        parts.append("zero-sum" if game.zero_sum else "general sum")
    return ", ".join(parts)


def _place(name: str) -> tuple[int | None, int]:
    """The index of a game in task ids, and the number of its configurations."""
    for index, game in enumerate(ids.INDEXED_GAMES):
        if game.name == name:
            return index, game.configurations
    return None, 0


def _score(game: Game) -> str:
    """What `Game.outcome` pays on the scale "auto"."""
    least, greatest, unit = game.spiel.min_utility(), game.spiel.max_utility(), game.return_unit
    if game.players > 1 and not game.zero_sum:
        if game.players == 2:
            return "the better return 1, the other 0, equal ones 0.5"
        return f"by rank: 1 - rank / {game.players - 1}, equal returns share the better rank"
    if game.players > 1 and not game.stakes:
        return f"won 1, drawn 0.5, lost 0 (returns from {least:g} to {greatest:g})"
    if not unit:
        value = f"(r + {-least:g}) / {greatest - least:g}"
    elif game.players == 1:
        value = f"r / (r + {unit:g})"
    else:
        value = f"(1 + r / (abs(r) + {unit:g})) / 2"
    return f"{value} for a return r from {least:g} to {greatest:g}"


def _moves(game: Game) -> str:
    if is_exact(game.case):
        return "minimax"
    if has_equilibrium(game.case):
        return "the equilibrium"
    if not game.can_resample:
        return "none: what is hidden cannot be dealt again"
    late = ["minimax in late positions"] if game.solvable and game.solver_nodes else []
    search = ["search where it is short enough"] if is_native(game) else []
    return "; ".join([*late, *search, "playouts" if not late and not search else "playouts elsewhere"])


def _search(game: Game) -> str:
    if game.simultaneous:
        return "none: its players move at once"
    if game.type.reward_model != pyspiel.GameType.RewardModel.TERMINAL:
        return "none: it pays before its end"
    simulations, rollouts = game.budget or (0, 0)
    return f"{simulations} simulations of {rollouts} rollouts" if simulations else "none: random play only"


def _seen(game: Game) -> str:
    if not game.hidden:
        return ""
    return "knows what its seat knows" if game.can_resample else "sees hidden information"


def render() -> dict[Path, str]:
    """The pages by their files."""
    environment = templates()

    def page(template: str, **words: Any) -> str:
        return environment.get_template(f"{template}.md.jinja").render(**words)

    exhibits = [exhibit(name) for name in GAMES]
    other_steps = ", ".join(f"{name} {steps}" for name, kind in GAMES.items() if (steps := kind.small_model_steps))
    learned = _learned() if learning_runs.PATH.is_file() else None
    return {
        PAGE: page("games", exhibits=exhibits),
        **{FOLDER / f"{one.name}.md": page("games/game", game=one) for one in exhibits},
        TEACH: page("games/what_moves_teach", signal=_signal() if SIGNAL.is_file() else None),
        LEARN: page("games/what_two_cores_learn", learned=learned, other_steps=other_steps),
    }


def _signal() -> dict[str, Any]:
    """The measurements of the cases, as text."""
    settings, rows = report.read(SIGNAL)
    return {
        "settings": settings,
        "columns": report.COLUMNS,
        "rows": [(row.case, *report.cells_of(row)) for row in rows],
        "overall": report.overall([row for row in rows if row.case in cases.DEFAULT_CASES]),
    }


def _learned() -> dict[str, Any]:
    """The results of the trainings, as text."""
    runs = learning_runs.read(learning_runs.PATH)
    remarks = [run.basis.remark(basis_of(run.case)) for run in runs]
    return {
        "columns": learning_runs.COLUMNS,
        "rows": [
            (f"`{run.case}`{f', {remark}' if remark else ''}", *learning_runs.cells_of(run))
            for run, remark in zip(runs, remarks, strict=True)
        ],
        "remarks": [name for name in (EARLIER_SETTINGS, OTHER_TASKS) if any(name in remark for remark in remarks)],
        "dates": sorted({run.date for run in runs}),
        "cores": sorted({run.cores for run in runs}),
    }


if __name__ == "__main__":
    exit_on_user_error(lambda: page_command("veritas_rl.envs.openspiel.gallery", render, FOLDER))
