"""The games with hand-written rules and prompts, by OpenSpiel's short name. One line adds a game."""

from veritas_rl.envs.openspiel.games.amazons import Amazons
from veritas_rl.envs.openspiel.games.backgammon import Backgammon
from veritas_rl.envs.openspiel.games.base import Decision, Game, State
from veritas_rl.envs.openspiel.games.battleship import Battleship
from veritas_rl.envs.openspiel.games.blackjack import Blackjack
from veritas_rl.envs.openspiel.games.breakthrough import Breakthrough
from veritas_rl.envs.openspiel.games.bridge import Bridge
from veritas_rl.envs.openspiel.games.checkers import Checkers
from veritas_rl.envs.openspiel.games.chess import Chess
from veritas_rl.envs.openspiel.games.clobber import Clobber
from veritas_rl.envs.openspiel.games.connect_four import ConnectFour
from veritas_rl.envs.openspiel.games.cribbage import Cribbage
from veritas_rl.envs.openspiel.games.dots_and_boxes import DotsAndBoxes
from veritas_rl.envs.openspiel.games.euchre import Euchre
from veritas_rl.envs.openspiel.games.gin_rummy import GinRummy
from veritas_rl.envs.openspiel.games.go import Go
from veritas_rl.envs.openspiel.games.goofspiel import Goofspiel
from veritas_rl.envs.openspiel.games.hearts import Hearts
from veritas_rl.envs.openspiel.games.hex import Hex
from veritas_rl.envs.openspiel.games.kuhn_poker import KuhnPoker
from veritas_rl.envs.openspiel.games.latent_ttt import LatentTicTacToe
from veritas_rl.envs.openspiel.games.leduc_poker import LeducPoker
from veritas_rl.envs.openspiel.games.liars_dice import LiarsDice
from veritas_rl.envs.openspiel.games.othello import Othello
from veritas_rl.envs.openspiel.games.oware import Oware
from veritas_rl.envs.openspiel.games.phantom_ttt import PhantomTicTacToe
from veritas_rl.envs.openspiel.games.pig import Pig
from veritas_rl.envs.openspiel.games.quoridor import Quoridor
from veritas_rl.envs.openspiel.games.solitaire import Solitaire
from veritas_rl.envs.openspiel.games.tic_tac_toe import TicTacToe
from veritas_rl.envs.openspiel.games.twenty_forty_eight import TwentyFortyEight

GAMES: dict[str, type[Game]] = {
    "goofspiel": Goofspiel,
    "liars_dice": LiarsDice,
    "leduc_poker": LeducPoker,
    "gin_rummy": GinRummy,
    "othello": Othello,
    "backgammon": Backgammon,
    "hex": Hex,
    "clobber": Clobber,
    "hearts": Hearts,
    "euchre": Euchre,
    "dots_and_boxes": DotsAndBoxes,
    "go": Go,
    "chess": Chess,
    "checkers": Checkers,
    "quoridor": Quoridor,
    "blackjack": Blackjack,
    "phantom_ttt": PhantomTicTacToe,
    "2048": TwentyFortyEight,
    "solitaire": Solitaire,
    "bridge": Bridge,
    "amazons": Amazons,
    "oware": Oware,
    "tic_tac_toe": TicTacToe,
    "connect_four": ConnectFour,
    "breakthrough": Breakthrough,
    "kuhn_poker": KuhnPoker,
    "battleship": Battleship,
    "cribbage": Cribbage,
    "latent_ttt": LatentTicTacToe,
    "pig": Pig,
}

__all__ = ["GAMES", "Decision", "Game", "State"]
