"""Experts by name, as a person types them: `exact`, `random`. One line adds one."""

from collections.abc import Callable

from veritas_rl.envs.base import Player
from veritas_rl.errors import UserError, unknown
from veritas_rl.players.exact import ExactPlayer
from veritas_rl.players.random import RandomPlayer

MakePlayer = Callable[[str], Player]
"""Makes the player of a seed. A player that is expensive to make, or has no seed, may be the same each time."""


def _plain(make: MakePlayer) -> Callable[[str], MakePlayer]:
    """An expert whose name takes nothing after a colon."""

    def resolve(argument: str) -> MakePlayer:
        if argument:
            raise UserError(f"an expert's name was given {argument!r} after a colon, and takes nothing there")
        return make

    return resolve


EXPERTS: dict[str, Callable[[str], MakePlayer]] = {
    "exact": _plain(lambda seed: ExactPlayer(seed=seed)),
    "random": _plain(lambda seed: RandomPlayer(seed=seed)),
}
"""What each name is: a function of what stands after the colon, as in `name:argument`."""


def resolve_expert(name: str) -> MakePlayer:
    """The expert that `name` or `name:argument` means.

    Raises:
        UserError: There is none of this name, or its argument is not understood.
    """
    kind, _, argument = name.partition(":")
    if kind not in EXPERTS:
        raise unknown("expert", kind, EXPERTS)
    return EXPERTS[kind](argument)
