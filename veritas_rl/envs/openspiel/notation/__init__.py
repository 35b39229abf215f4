"""Grammars of move notations.

A prompt gives every legal action a number and a name. A model that has understood the game often writes the same move
in another usual way: `c2-b2` for `b2c2`, `0-0` for `O-O`, `check` for a call that costs nothing. A notation accepts
only text that names exactly one move. Text with a false statement about the move, such as a capture on an empty cell,
is not accepted. Moves are never found by searching for a substring.
"""

from veritas_rl.envs.openspiel.notation.base import Houses, Notation, Numbered, Words
from veritas_rl.envs.openspiel.notation.cards import Bids, Cards, Piles
from veritas_rl.envs.openspiel.notation.cells import Cells, Joined, Placed, Steps
from veritas_rl.envs.openspiel.notation.chess import ChessMoves
from veritas_rl.envs.openspiel.notation.dice import DiceBids, Points

__all__ = [
    "Bids",
    "Cards",
    "Cells",
    "ChessMoves",
    "DiceBids",
    "Houses",
    "Joined",
    "Notation",
    "Numbered",
    "Piles",
    "Placed",
    "Points",
    "Steps",
    "Words",
]
