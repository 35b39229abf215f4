"""The games that are described in our own words, by OpenSpiel's short name. One line adds one."""

from veritas_rl.envs.openspiel.games.amazons import Amazons
from veritas_rl.envs.openspiel.games.base import Decision, Game, State
from veritas_rl.envs.openspiel.games.battleship import Battleship
from veritas_rl.envs.openspiel.games.breakthrough import Breakthrough
from veritas_rl.envs.openspiel.games.checkers import Checkers
from veritas_rl.envs.openspiel.games.chess import Chess
from veritas_rl.envs.openspiel.games.clobber import Clobber
from veritas_rl.envs.openspiel.games.connect_four import ConnectFour
from veritas_rl.envs.openspiel.games.dots_and_boxes import DotsAndBoxes
from veritas_rl.envs.openspiel.games.go import Go
from veritas_rl.envs.openspiel.games.hex import Hex
from veritas_rl.envs.openspiel.games.kuhn_poker import KuhnPoker
from veritas_rl.envs.openspiel.games.latent_ttt import LatentTicTacToe
from veritas_rl.envs.openspiel.games.leduc_poker import LeducPoker
from veritas_rl.envs.openspiel.games.othello import Othello
from veritas_rl.envs.openspiel.games.oware import Oware
from veritas_rl.envs.openspiel.games.phantom_ttt import PhantomTicTacToe
from veritas_rl.envs.openspiel.games.quoridor import Quoridor
from veritas_rl.envs.openspiel.games.solitaire import Solitaire
from veritas_rl.envs.openspiel.games.tic_tac_toe import TicTacToe
from veritas_rl.envs.openspiel.games.twenty_forty_eight import TwentyFortyEight

GAMES: dict[str, type[Game]] = {
    "leduc_poker": LeducPoker,
    "othello": Othello,
    "hex": Hex,
    "clobber": Clobber,
    "dots_and_boxes": DotsAndBoxes,
    "go": Go,
    "chess": Chess,
    "checkers": Checkers,
    "quoridor": Quoridor,
    "phantom_ttt": PhantomTicTacToe,
    "2048": TwentyFortyEight,
    "solitaire": Solitaire,
    "amazons": Amazons,
    "oware": Oware,
    "tic_tac_toe": TicTacToe,
    "connect_four": ConnectFour,
    "breakthrough": Breakthrough,
    "kuhn_poker": KuhnPoker,
    "latent_ttt": LatentTicTacToe,
    "battleship": Battleship,
}

__all__ = ["GAMES", "Decision", "Game", "State"]
