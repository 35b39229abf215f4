"""Whole games of two seats: an environment of verifiers."""

from veritas_games.taskset import GamesEnv, GamesTaskset

__all__ = ["GamesEnv", "GamesTaskset"]
