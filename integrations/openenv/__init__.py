"""Games, puzzles and programs of veritas-rl for OpenEnv's clients."""

from .client import VeritasGamesEnv
from .models import GameAction, GameObservation, GameState

__all__ = ["GameAction", "GameObservation", "GameState", "VeritasGamesEnv"]
