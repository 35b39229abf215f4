"""A position in which a player is asked, as a key under which its values are kept."""

from dataclasses import dataclass, field

from veritas_rl.envs.openspiel.games import Game, State


@dataclass(frozen=True)
class Question:
    """A position in which a player is asked. Two are equal if the game goes on alike and the player knows the same.

    Attributes:
        case: The game's case.
        player: Who is asked.
        known: What the player knows: the dice of playouts follow from it, and not from what is hidden.
        true: The true state.
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
        """The question that a state asks a player."""
        return cls(game.case, player, game.information_key(state, player), game.state_key(state), game, state.clone())

    @property
    def actions(self) -> list[int]:
        """The player's legal actions, ascending."""
        return self.state.legal_actions(self.player)
