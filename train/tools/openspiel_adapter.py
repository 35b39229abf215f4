"""The OpenSpiel environment and its lists of cases from the package, for users who import this file."""

from veritas_rl.envs.openspiel.cases import AVAILABLE_CASES, DEFAULT_CASES_BOARD_SIZES, FOCUS_CASES
from veritas_rl.envs.openspiel.env import OpenSpielEnvironment as OpenSpielAdapter

__all__ = ["AVAILABLE_CASES", "DEFAULT_CASES_BOARD_SIZES", "FOCUS_CASES", "OpenSpielAdapter"]
