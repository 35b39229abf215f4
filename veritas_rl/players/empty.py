"""A player that says nothing. What it earns, an environment pays for no answer."""

from collections.abc import Sequence

from veritas_rl.envs.base import Reply, Turn


class EmptyPlayer:
    """Gives an empty reply to each turn."""

    def act(self, turns: Sequence[Turn]) -> list[Reply]:
        return [Reply("") for _ in turns]
