"""Cases: a game and its parameters as one string, such as "hex(board_size=5)", and the names that select cases.

A case has one canonical spelling, because it is part of a task's id and of every seed. Parameters are sorted and
dropped at their defaults, except a board's size: "hex" is "hex(board_size=11)", and "clobber(rows=5)" is
"clobber(columns=6,rows=5)". So a bare "hex" can mean every hex case.
"""

import os
import re
import warnings
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from typing import Any

import pyspiel

from veritas_rl.envs.openspiel.games import GAMES, Game
from veritas_rl.errors import UserError, unknown

DEFAULT_CASES = tuple(case for game in GAMES.values() for case in game.default_cases)
"""The default cases of every described game."""

FOCUS_CASES = (
    *(f"clobber(columns={size},rows={size})" for size in (5, 6, 7)),
    "gin_rummy",
    "goofspiel",
    *(f"goofspiel(num_cards={cards})" for cards in (8, 10, 12, 14, 16)),
    *(f"hex(board_size={size})" for size in (5, 7, 9, 11)),
    "leduc_poker",
    "liars_dice",
    "othello",
)
"""The main cases of the fixed-task mode."""

DEFAULT_CASES_BOARD_SIZES = (
    *(f"hex(board_size={size})" for size in (5, 7, 9)),
    *(f"go(board_size={size})" for size in (9, 13)),
    *(f"breakthrough(columns={size},rows={size})" for size in (6, 8)),
    *(f"dots_and_boxes(num_cols={size},num_rows={size})" for size in (3, 4, 5)),
    *(f"clobber(columns={size},rows={size})" for size in (5, 6, 7)),
    "othello",
    "chess",
    "checkers",
)
"""The board games at several sizes."""

AVAILABLE_CASES = tuple(
    dict.fromkeys(
        (
            *FOCUS_CASES,
            *("battleship", "backgammon", "pig", "blackjack", "latent_ttt", "hearts", "cribbage", "euchre"),
            *DEFAULT_CASES_BOARD_SIZES,
        )
    )
)
"""Every case of the fixed-task mode."""

SMALL_CASES = ("tic_tac_toe", "kuhn_poker", "leduc_poker", "hex(board_size=5)")
"""Small cases that a new model learns quickly."""

_SIZES = {
    "amazons": ("board_size",),
    "breakthrough": ("columns", "rows"),
    "clobber": ("columns", "rows"),
    "dots_and_boxes": ("num_cols", "num_rows"),
    "go": ("board_size",),
    "hex": ("board_size",),
    "quoridor": ("board_size",),
}
"""The parameters that a case always names."""

_OLD_NAMES = {"latent_tic_tac_toe": "latent_ttt"}
_OLD_PARAMETERS = {("go", "go_board_size"): "board_size"}
_TYPES = {"bool": (bool,), "int": (int,), "float": (float, int), "str": (str, int, float, bool)}


@cache
def playable_names() -> tuple[str, ...]:
    """OpenSpiel's short names of the games that load without parameters and are not mean-field games."""
    crowd = pyspiel.GameType.Dynamics.MEAN_FIELD
    types = pyspiel.registered_games()
    return tuple(sorted(t.short_name for t in types if t.default_loadable and t.dynamics != crowd))


def canonical(case: str) -> str:
    """The canonical spelling of a case.

    Raises:
        UserError: There is no such game or parameter, or the game does not load with these values.
    """
    return load(case).case


def write_case(name: str, parameters: Mapping[str, Any]) -> str:
    """The case with these parameters: "hex" and {"board_size": 5} make "hex(board_size=5)"."""
    inside = ",".join(f"{key}={value}" for key, value in sorted(parameters.items()))
    return f"{name}({inside})" if inside else name


@lru_cache(maxsize=256)
def load(case: str) -> Game:
    """The game of a case in any spelling, cached in the process.

    A game without a description in `games`, or with parameters that its description does not cover, gets the generic
    description and a warning.

    Raises:
        UserError: As `canonical`.
    """
    name, given = _parse(case)
    defaults = _defaults(name, given)
    described = GAMES.get(name)
    changed = {key: value for key, value in given.items() if value != defaults.get(key)}
    changed |= {key: given.get(key, defaults[key]) for key in _SIZES.get(name, ())}
    spelled = write_case(name, changed)
    if spelled != case:
        return load(spelled)
    covered = described is not None and changed.keys() <= described.limits.keys()
    if described and covered:
        for key, value in changed.items():
            least, *_, greatest = allowed = described.limits[key]
            if isinstance(value, str):
                if value not in allowed:
                    raise unknown(f"{key} of {name}", value, allowed)
            elif not least <= value <= greatest:
                raise UserError(f"{case}: {key} must lie between {least} and {greatest}, {value} was given")
    else:
        warnings.warn(
            f"{case} has no description of its own: prompts name the game without rules, and show board and actions as"
            " OpenSpiel prints them",
            stacklevel=2,
        )
    try:
        spiel = _load_quietly(spelled)
        root = spiel.new_initial_state()
        if not root.is_terminal():
            root.legal_actions()  # some games list no parameters
    except (pyspiel.SpielError, ValueError, MemoryError) as error:
        raise UserError(f"{case} does not load: {' '.join(str(error).split())[:300]}") from None
    except IndexError:  # OpenSpiel requires a parameter that was not given
        types = {t.short_name: t for t in pyspiel.registered_games()}
        needed = ", ".join(types[name].parameter_specification)
        raise UserError(f"{case} does not load: it needs a value for {needed}") from None
    return (described if described and covered else Game)(spelled, spiel)


def _defaults(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The default parameters of a game at the given board size. Some depend on the size, such as Quoridor's walls and
    Go's length. A size that the game's description does not cover is not loaded."""
    if name not in playable_names():
        return {}
    plain = _load_quietly(name).get_parameters()
    sizes = {key: given.get(key, plain[key]) for key in _SIZES.get(name, ())}
    limits = GAMES[name].limits if name in GAMES else {}
    if not sizes or not all(key in limits and limits[key][0] <= size <= limits[key][1] for key, size in sizes.items()):
        return plain
    try:
        return _load_quietly(write_case(name, sizes)).get_parameters()
    except pyspiel.SpielError:
        return plain  # `load` raises the error with its reason


def _load_quietly(spelled: str) -> Any:
    """Load OpenSpiel's game. OpenSpiel writes a warning directly to stderr whenever quoridor is loaded. The warning
    concerns numbers of players that the description does not cover, so it is suppressed."""
    if not spelled.startswith("quoridor"):
        return pyspiel.load_game(spelled)
    kept = os.dup(2)
    with open(os.devnull, "wb") as nowhere:  # noqa: PTH123
        os.dup2(nowhere.fileno(), 2)
        try:
            return pyspiel.load_game(spelled)
        finally:
            os.dup2(kept, 2)
            os.close(kept)


def _parse(case: str) -> tuple[str, dict[str, Any]]:
    """A case's name and typed parameters, with old spellings replaced.

    The names are checked before OpenSpiel reads them, because its error message for an unknown name is a page long.
    """
    text = re.sub(r"\s*([(),=])\s*", r"\1", case.strip())
    name = text.partition("(")[0]
    name = _OLD_NAMES.get(name, name)
    types = {t.short_name: t for t in pyspiel.registered_games()}
    if name not in types:
        if (sized := re.fullmatch(r"(\w+?)_?(\d+)(?:x\2)?", name)) and sized[1] in _SIZES:
            meant = write_case(sized[1], dict.fromkeys(_SIZES[sized[1]], sized[2]))
            raise UserError(f'unknown game {name!r}: type "{meant}", with the quotes')
        raise unknown("game", name, {*playable_names(), *GAMES})
    if types[name].dynamics == pyspiel.GameType.Dynamics.MEAN_FIELD:
        raise UserError(f"{name} is a mean-field game, which has no players to ask; choose another game")
    opened = text.partition("(")[2]
    if opened and not text.endswith(")"):
        raise UserError(f"{case!r} does not load: the closing parenthesis is missing")
    try:
        given = pyspiel.game_parameters_from_string(name + (f"({opened}" if opened else ""))
    except (pyspiel.SpielError, ValueError) as error:
        raise UserError(f"{case!r} does not load: {' '.join(str(error).split())}") from None
    given = {_OLD_PARAMETERS.get((name, str(key)), str(key)): value for key, value in given.items() if key != "name"}
    if any(isinstance(value, Mapping) for value in given.values()):
        raise UserError(f"{case!r}: a game as the parameter of a game is not supported; choose another case")
    known = types[name].parameter_specification
    for key, value in given.items():
        if key not in known:
            raise unknown(f"parameter of {name}", key, known)
        kind = type(known[key]).__name__
        if kind in _TYPES and (not isinstance(value, _TYPES[kind]) or (kind != "bool" and value is True)):
            raise UserError(f"{name}: {key} must be of type {kind}, {value!r} was given")
        if kind == "float" and isinstance(value, int):
            given[key] = float(value)
    return name, given


def select(cases: Iterable[str], game_types: Iterable[str]) -> tuple[str, ...]:
    """The cases that the names select, in the names' order.

    Args:
        cases: The canonical cases to choose from.
        game_types: Short names ("hex" for every hex case) and full cases. A game that is not in `cases` gives its
            default cases, or its plain case.

    Raises:
        UserError: A name is no game.
    """
    cases = tuple(cases)
    chosen: list[str] = []
    for name in game_types:
        if "(" in name:
            chosen.append(canonical(name))
            continue
        short = _OLD_NAMES.get(name, name)
        found = [case for case in cases if case.partition("(")[0] == short]
        chosen += found or default_cases(short)
    return tuple(dict.fromkeys(chosen))


def default_cases(name: str) -> list[str]:
    """The canonical cases of a game's short name.

    Raises:
        UserError: There is no such game.
    """
    known = GAMES[name].default_cases if name in GAMES else ()
    return [canonical(case) for case in known or (name,)]
