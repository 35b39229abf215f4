"""Writes the prompt of a model: one user message with every legal action."""

from collections.abc import Iterable, Mapping
from functools import lru_cache

from veritas_rl.envs.answers import FORMS
from veritas_rl.envs.base import Message, Reason
from veritas_rl.envs.openspiel.games import Game, State

_FORMAT = (
    "Answer with exactly one legal action, its number or its name, in a box, like \\boxed{ACTION} with ACTION replaced "
    "by what you choose. You may think before it, but write only one box."
)

_RULE = FORMS["box"].rule["en"]


def messages(
    game: Game, state: State, player: int, names: Mapping[int, str], prompt: str, scale: str = "auto"
) -> tuple[Message, ...]:
    """The messages for the player to move.

    Args:
        game: The game.
        state: A decision node.
        player: The player to move.
        names: The name of each legal action, by its shown number.
        prompt: "full": rules, role, aim, position, all legal actions as `number: name` lines, the answer format.
            "unlisted": the same with the notation of moves instead of the actions. "brief": the position and the legal
            action numbers alone, for a model too small to understand text.
        scale: The scale of results, see `Game.outcome`; the aim follows from it.
    """
    if prompt == "brief":
        content = game.brief(state, player)
        if not game.brief_shows_actions:
            # The numbers come first, so that the distance from the position to the answer is always the same.
            content = f"{''.join([f' {number}' for number in names])}\n{content}"
    else:
        listed = f"{_listed(names)}\n\n" if prompt == "full" else ""
        written = f"{game.written}\n\n" if prompt == "unlisted" and game.written else ""
        content = (
            f"{_opening(game, player, scale)}\n\n{game.position(state, player)}\n\n{listed}{written}{_FORMAT} {_RULE}"
        )
    return ({"role": "user", "content": content},)


def update(game: Game, state: State, player: int, names: Mapping[int, str], prompt: str) -> str:
    """The message at a later decision of a chat that began with `messages`: the position, not the rules."""
    if prompt == "brief":
        return messages(game, state, player, names, prompt)[0]["content"]
    listed = f"\n\n{_listed(names)}" if prompt == "full" else ""
    return f"It is your turn again.\n\n{game.position(state, player)}{listed}"


def correction(reason: Reason) -> str:
    """The message to a player after a mistake that may be corrected."""
    return f"That was no legal answer ({reason}). The position is unchanged. {_FORMAT}"


def answers(numbers: Iterable[int]) -> tuple[str, ...]:
    """A complete reply for each of these action numbers."""
    return tuple(map(answer, numbers))


@lru_cache(maxsize=100_000)
def answer(number: int) -> str:
    """A complete reply that plays the action of this number."""
    return f"\\boxed{{{number}}}"


@lru_cache(maxsize=1024)
def _opening(game: Game, player: int, scale: str) -> str:
    """The text before every position of a game."""
    return f"{game.rules()}\n\nYou are {game.role(player)}, and it is your turn. {game.objective(scale)}"


def _listed(names: Mapping[int, str]) -> str:
    lines = "\n".join([f"{number}: {name}" for number, name in names.items()])
    return f"Legal actions (number: name):\n{lines}"
