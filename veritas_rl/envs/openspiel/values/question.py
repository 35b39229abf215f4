"""A decision of a player, as the key of its cached values."""

from dataclasses import dataclass, field

from veritas_rl.envs.openspiel.games import Game, State


@dataclass(frozen=True)
class Question:
    """A decision of a player. Decisions are equal if `case`, `player`, `known` and `true` are equal.

    Attributes:
        case: The game's case.
        player: The player to move.
        known: The key of the player's information. It seeds playouts, so that they do not depend on hidden information.
        true: The key of the true state.
        game: The game.
        state: One of the states with these keys. It is never changed.
    """

    case: str
    player: int
    known: str
    true: str
    game: Game = field(compare=False, repr=False)
    state: State = field(compare=False, repr=False)

    @classmethod
    def of(cls, game: Game, state: State, player: int) -> "Question":
        """The decision of a player in a state."""
        return cls(game.case, player, game.information_key(state, player), game.state_key(state), game, state.clone())

    @property
    def actions(self) -> list[int]:
        """The player's legal actions, ascending."""
        return self.state.legal_actions(self.player)
