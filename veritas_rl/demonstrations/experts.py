"""Experts: any named player, from the exact solution to a stronger model behind a server."""

from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

from veritas_rl.envs.base import Player
from veritas_rl.players.loading import ReplySettings, open_player
from veritas_rl.players.registry import check_bot, is_bot, make_bot


def make_expert(name: str, env: str, seed: str, cases: Iterable[str]) -> Player:
    """Open an expert: a bot, or any player of `players.loading.open_player`.

    Args:
        name: The name that the user typed.
        env: The environment.
        seed: Seeds the expert together with each turn's dice. A model is greedy.
        cases: The cases that the expert must be able to play.

    Raises:
        UserError: The player does not exist, or cannot play one of these cases.
    """
    if is_bot(name, env):
        check_bot(name, env, cases)
        return make_bot(name, env, seed)
    with TemporaryDirectory(prefix="expert-") as merged:
        return open_player(name, env, ReplySettings(), Path(merged)).player
