"""The phase of a game in a state, according to OpenSpiel, and the line of a prompt that shows the phase.

A linter compares prompts with these lines, so this module does not use the descriptions in `games/`.
"""

from collections.abc import Callable, Mapping

from veritas_rl.envs.openspiel.games import Game, State

Belongs = Callable[[Game, State, int], bool]
"""Whether a line belongs in the prompt of a player to move in a state."""

CARDS = 52
"""Bridge: actions below this number are cards, the others are calls. Gin rummy: this action draws the upcard."""


def _phase(name: str) -> Belongs:
    return lambda game, state, player: state.current_phase().name == name


def _first_upcard(takable: bool) -> Belongs:
    first = _phase("FIRST_UPCARD")
    return lambda game, state, player: first(game, state, player) and (CARDS in state.legal_actions()) == takable


def _amazons(part: int) -> Belongs:
    return lambda game, state, player: state.move_number() % 3 == part


def _passing(game: Game, state: State, player: int) -> bool:
    """Hearts: cards are passed before the first trick, unless the first chance outcome is no passing."""
    passed = sum(step.player >= 0 for step in state.full_history())
    return bool(game.parameters["pass_cards"]) and state.history()[0] != 0 and passed < 12


def _plays_card(game: Game, state: State, player: int) -> bool:
    return all(action < CARDS for action in state.legal_actions())


def _named(word: str) -> Belongs:
    """Whether OpenSpiel's own name of the first legal action contains a word."""
    return lambda game, state, player: word in state.action_to_string(player, state.legal_actions(player)[0])


def _crib(game: Game, state: State, player: int) -> bool:
    """Cribbage: an action names two cards for the crib, but one card or a pass in the play."""
    return len(state.action_to_string(player, state.legal_actions(player)[0]).split()) == 3


def _not(belongs: Belongs) -> Belongs:
    return lambda game, state, player: not belongs(game, state, player)


PHASES: Mapping[str, Mapping[str, Belongs]] = {
    "amazons": {
        "Choose which amazon moves.": _amazons(0),
        "The amazon from": _amazons(1),
        "The amazon moved from": _amazons(2),
    },
    "battleship": {"You now place your ship": _named("place ship"), "Your shots so far": _not(_named("lace"))},
    "bridge": {"Contract:": _plays_card, "This trick:": _plays_card},
    "cribbage": {"Choose two cards for the crib": _crib, "Count:": _not(_crib)},
    "euchre": {"You take the card turned up.": _phase("DISCARD"), "This trick:": _phase("PLAY")},
    "gin_rummy": {
        "Phase: first turn: take the upcard or pass": _first_upcard(True),
        "Phase: first turn: both players have passed": _first_upcard(False),
        "Phase: draw": _phase("DRAW"),
        "Phase: discard": _phase("DISCARD"),
        "Phase: you have knocked": _phase("KNOCK"),
        "Phase: your opponent has knocked": _phase("LAYOFF"),
        "Phase: the stock is used up": _phase("WALL"),
    },
    "hearts": {"Choose a card to pass.": _passing, "This trick:": _not(_passing)},
}
"""By game, the beginnings of the lines that show a phase."""


def lines_of(game: Game, state: State, player: int) -> Mapping[str, bool]:
    """The beginnings of the lines that show a phase of the game, each with whether it belongs to this state."""
    return {line: belongs(game, state, player) for line, belongs in PHASES.get(game.short_name, {}).items()}
