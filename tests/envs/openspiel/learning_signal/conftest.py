"""A planted game for one player: a card is dealt, the player makes one of four moves, and a coin decides.

The player wins with probability 0.5 + `edge` after move 0, and with 0.5 after any other move, whatever the card is.
With edge=0 all moves are equal, so every measured difference is noise. With edge=0.5 move 0 always wins.
"""

from typing import Any

import pyspiel
import pytest

CARDS = 400
MOVES = 4

TYPE = pyspiel.GameType(
    short_name="planted_coin",
    long_name="Planted Coin",
    dynamics=pyspiel.GameType.Dynamics.SEQUENTIAL,
    chance_mode=pyspiel.GameType.ChanceMode.EXPLICIT_STOCHASTIC,
    information=pyspiel.GameType.Information.PERFECT_INFORMATION,
    utility=pyspiel.GameType.Utility.GENERAL_SUM,
    reward_model=pyspiel.GameType.RewardModel.TERMINAL,
    max_num_players=1,
    min_num_players=1,
    provides_information_state_string=False,
    provides_information_state_tensor=False,
    provides_observation_string=False,
    provides_observation_tensor=False,
    parameter_specification={"edge": 0.0},
)


class CoinGame(pyspiel.Game):
    """The planted game."""

    def __init__(self, parameters: Any = None) -> None:
        given = dict(parameters or {})
        super().__init__(
            TYPE,
            pyspiel.GameInfo(
                num_distinct_actions=MOVES,
                max_chance_outcomes=CARDS,
                num_players=1,
                min_utility=0.0,
                max_utility=1.0,
                utility_sum=None,
                max_game_length=1,
            ),
            given,
        )
        self.edge = float(given.get("edge", 0.0))

    def new_initial_state(self) -> "CoinState":
        return CoinState(self)


class CoinState(pyspiel.State):
    """A state of the planted game: at most a card, a move and the coin."""

    def __init__(self, game: CoinGame) -> None:
        super().__init__(game)
        self.edge = game.edge
        self.steps: tuple[int, ...] = ()

    def current_player(self) -> int:
        return (pyspiel.PlayerId.CHANCE, 0, pyspiel.PlayerId.CHANCE, pyspiel.PlayerId.TERMINAL)[len(self.steps)]

    def _legal_actions(self, player: int) -> list[int]:
        return list(range(MOVES))

    def chance_outcomes(self) -> list[tuple[int, float]]:
        if not self.steps:
            return [(card, 1 / CARDS) for card in range(CARDS)]
        wins = 0.5 + (self.edge if self.steps[1] == 0 else 0.0)
        return [(1, wins), (0, 1 - wins)] if wins < 1 else [(1, 1.0)]

    def _apply_action(self, action: int) -> None:
        self.steps = (*self.steps, action)

    def _action_to_string(self, player: int, action: int) -> str:
        return f"move {action}" if player == 0 else str(action)

    def is_terminal(self) -> bool:
        return len(self.steps) == 3

    def returns(self) -> list[float]:
        return [float(self.steps[2])] if self.is_terminal() else [0.0]

    def __str__(self) -> str:
        return " ".join(map(str, self.steps))


@pytest.fixture(scope="session")
def planted_coin() -> str:
    """Register the planted game in this process; return its name."""
    if TYPE.short_name not in {kind.short_name for kind in pyspiel.registered_games()}:
        pyspiel.register_game(TYPE, CoinGame)
    return TYPE.short_name
