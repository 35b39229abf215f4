"""The games of TextArena: which are used, their seats, and one game that runs."""

import copy
import math
import random
import re
import sys
from functools import cache
from importlib import import_module
from typing import Any

from veritas_rl.envs.libraries.alone import Alone
from veritas_rl.envs.libraries.installed import check_installed
from veritas_rl.errors import UserError, unknown

NAME = "textarena"
VERSION = "0.7.4"

MOST_SEATS = 6

_KEY = "a model of an API judges its games, which needs a key and the network"
_WORDS = "it needs word lists that NLTK downloads"
_FILES = "its files are missing in the package"
_PYTHON = "Python before 3.12 cannot read its source"
_SEARCHED = "the library needs minutes to make some of its boards"

REFUSED = {
    **dict.fromkeys(("Debate", "GuessWho", "ScenarioPlanning", "TwentyQuestions"), _KEY),
    **dict.fromkeys(
        (
            *("Codenames", "DontSayIt", "Hangman", "LetterAuction", "SpellingBee", "WordChains", "WordLadder"),
            *("WordSearch", "Wordle"),
        ),
        _WORDS,
    ),
    **dict.fromkeys(("ScorableGames", "UsedCar", "UsedCarNegotiation"), _FILES),
    "BabyAiText": "it needs the package gym",
    "CharacterConclave": "it fails at the first message",
    **dict.fromkeys(("Sokoban-v0-medium", "Sudoku-v0-hard"), _SEARCHED),
}
"""Games, and ids of single variants, that cannot be played, and why."""

UNREADABLE = ("Checkers", "Chess", "IteratedStagHunt", "Klondike", "ReverseTicTacToe", "UltimateTexasHoldem")
"""Games whose source needs Python 3.12."""

ENDLESS = {"Briscola": 2, "Golf": 2}
"""The most seats of games that fail at their end with more."""

NOT_BRIEF = ("LightsOut",)
"""Games that show no board by itself, so that they cannot be shown briefly."""

COUNTED = {"Set": 20}
"""Games of one seat that pay a number of things, and the number that is worth 1: as many as it has turns."""

BRIEF = "-train"
"""What the library adds to the id of a game that shows its prompt, its messages and the last board alone."""


@cache
def registered() -> dict[str, Any]:
    """The library's registry of games by id.

    Raises:
        UserError: The library is missing, or has another version.
    """
    check_installed(NAME, VERSION, "games")
    with Alone():
        from textarena.envs.registration import ENV_REGISTRY
    return ENV_REGISTRY


@cache
def names() -> tuple[str, ...]:
    """The ids of all games that can be used, without those of other ways to show the same game."""
    return tuple(case for case in registered() if not re.search(r"-(train|raw)$", case) and not why_refused(case))


def refused() -> dict[str, str]:
    """The games, and ids of single variants, that cannot be played, and why."""
    return REFUSED | (dict.fromkeys(UNREADABLE, _PYTHON) if sys.version_info < (3, 12) else {})


def why_refused(case: str) -> str:
    """Why a game cannot be used; "" if it can."""
    return refused().get(case) or refused().get(game_of(case), "")


def game_of(case: str) -> str:
    """The game of an id: "Nim" of "Nim-v0-large"."""
    return case.partition("-v0")[0]


def check(case: str) -> None:
    """Check that a game exists and can be used.

    Raises:
        UserError: It does not exist, or cannot be used.
    """
    if case not in registered() or case.endswith(BRIEF) or case.endswith("-raw"):
        raise unknown("case", case, names())
    if reason := why_refused(case):
        raise UserError(f"{case} of {NAME} cannot be used: {reason}")


@cache
def least_seats(case: str) -> int:
    """The fewest seats of a game.

    Raises:
        UserError: The game cannot be started.
    """
    check(case)
    error: Exception | None = None
    for seats in range(1, MOST_SEATS + 1):
        try:
            game = Game(case, seats, 0)
        except UserError as found:
            error = found
            continue
        # Some games do not check the number.
        if game.kind != "SinglePlayerState" and seats == 1:
            continue
        return seats
    raise UserError(f"{case} of {NAME} cannot be started: {error and error.__cause__}")


class _Drawing:
    """What the library's modules have in place of the module `random`: the generator of the game that works."""

    def __init__(self) -> None:
        self.generator = random.Random(0)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.generator if hasattr(self.generator, name) else random, name)


_DRAWING = _Drawing()


class _Working(Alone):
    """Let a game work alone and draw from its generator."""

    def __init__(self, generator: random.Random) -> None:
        self._generator = generator

    def __enter__(self) -> None:
        super().__enter__()
        _DRAWING.generator = self._generator


@cache
def _load(module: str) -> None:
    """Import a module of the library, and let all modules of the library draw from `_DRAWING`."""
    with Alone():
        import_module(module)
    for name, loaded in list(sys.modules.items()):
        if name.partition(".")[0] == NAME and getattr(loaded, "random", None) is random:
            vars(loaded)["random"] = _DRAWING


class Game:
    """A game that runs. Interleaved games are equal to lone ones, because each draws from a generator of its own.

    Args:
        case: The id.
        seats: The number of seats.
        seed: The seed of deals and dice.
        brief: Whether a question is the prompt, the messages and the last board, instead of all that was said.

    Raises:
        UserError: The game cannot be started with so many seats.
    """

    def __init__(self, case: str, seats: int, seed: int, *, brief: bool = False) -> None:
        if seats > ENDLESS.get(game_of(case), seats):
            raise UserError(f"{case} of {NAME} fails at its end with {seats} seats; use {ENDLESS[game_of(case)]}")
        if brief and game_of(case) in NOT_BRIEF:
            raise UserError(f"{case} of {NAME} cannot be shown briefly; use prompt=full")
        self.case, self.seats = case, seats
        self._generator = random.Random(seed)
        try:
            _load(str(registered()[case].entry_point).partition(":")[0])
            with _Working(self._generator):
                from textarena import make

                self._env: Any = make(f"{case}{BRIEF}" if brief else case)
                self._env.reset(num_players=seats, seed=seed)
            self._state: Any = self._env.state  # through several wrappers
        except Exception as error:
            raise UserError(f"{case} of {NAME} cannot be started with {seats} seats: {error}") from error

    @property
    def kind(self) -> str:
        """The library's name of the kind of state, which depends on how many seats play against each other."""
        return type(self._state).__name__

    def asked(self) -> tuple[int, str]:
        """The seat to move and what it is shown. It is asked once for each move."""
        with _Working(self._generator):
            seat, shown = self._env.get_observation()
        return int(seat), str(shown).strip()

    def move(self, answer: str) -> tuple[bool, bool]:
        """Play an answer of the seat to move.

        Returns:
            Whether the game has accepted the answer, and whether the game is over.
        """
        seat, mistakes = self._state.current_player_id, self._state.error_count
        with _Working(self._generator):
            over, _ = self._env.step(action=answer)
        # The library counts a seat's mistakes in a row, from 0 again after the last one that it allows.
        return self._state.error_count <= mistakes and not self.has_failed(seat), bool(over)

    def has_failed(self, seat: int) -> bool:
        """Whether a seat has answered wrong too often."""
        return bool(self._state.game_info[seat]["invalid_move"])

    def rewards(self) -> dict[int, float]:
        """What a finished game pays each seat, in the library's unit; NaN if it does not say."""
        paid, unit = self._env.close()[0] or {}, COUNTED.get(game_of(self.case), 1)
        known = {seat: reward / unit for seat, reward in paid.items() if isinstance(reward, int | float)}
        return {seat: known.get(seat, math.nan) for seat in range(self.seats)}

    def role(self, seat: int) -> str:
        """The name of a seat, as the game shows it."""
        return str(self._state.role_mapping.get(seat, f"Player {seat}"))

    def copy(self) -> "Game":
        """The same game, to try an answer."""
        made = copy.copy(self)
        made._generator = copy.copy(self._generator)
        with Alone():
            made._env = copy.deepcopy(self._env)
        made._state = made._env.state
        return made
