"""The games that are described in our own words, by OpenSpiel's short name. One line adds one."""

from veritas_rl.envs.openspiel.games.base import Decision, Game, State
from veritas_rl.envs.openspiel.games.breakthrough import Breakthrough
from veritas_rl.envs.openspiel.games.connect_four import ConnectFour
from veritas_rl.envs.openspiel.games.hex import Hex
from veritas_rl.envs.openspiel.games.kuhn_poker import KuhnPoker
from veritas_rl.envs.openspiel.games.leduc_poker import LeducPoker
from veritas_rl.envs.openspiel.games.tic_tac_toe import TicTacToe

GAMES: dict[str, type[Game]] = {
    "tic_tac_toe": TicTacToe,
    "connect_four": ConnectFour,
    "hex": Hex,
    "breakthrough": Breakthrough,
    "kuhn_poker": KuhnPoker,
    "leduc_poker": LeducPoker,
}

__all__ = ["GAMES", "Decision", "Game", "State"]
