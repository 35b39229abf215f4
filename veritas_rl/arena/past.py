"""A run's own past as an opponent: its earlier checkpoints, one of them in each game."""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from veritas_rl.arena.loading import NamedPlayer, ReplySettings, open_player
from veritas_rl.checkpoints.assemble import NothingTrained
from veritas_rl.checkpoints.layout import whole_checkpoints
from veritas_rl.envs.base import Reply, Turn
from veritas_rl.seeding import digest


class PastPlayer:
    """Plays each game with one of the checkpoints that there are, which the seed and the game's luck draw.

    Args:
        folder: Where the run saves its checkpoints.
        base: The model that the run began with: it plays as long as nothing is saved.
        settings: How the models write.
    """

    def __init__(self, folder: Path, base: str, settings: ReplySettings) -> None:
        self.folder = folder
        self.base = base
        self.settings = settings
        self._open: dict[str, NamedPlayer] = {}

    def act(self, turns: Sequence[Turn]) -> list[Reply]:
        """One reply for each turn, in order.

        Raises:
            UserError: A checkpoint cannot be played.
        """
        names = self._names()
        shares: dict[str, list[int]] = defaultdict(list)
        for index, turn in enumerate(turns):
            luck, *_ = turn.dice
            shares[names[digest("past", self.settings.seed, luck) % len(names)]].append(index)
        replies: dict[int, Reply] = {}
        for name, share in shares.items():
            player = self._player(name)
            replies |= zip(share, player.player.act([turns[index] for index in share]), strict=True)
        return [replies[index] for index in range(len(turns))]

    def _names(self) -> list[str]:
        """What can be drawn, the oldest first. Models of checkpoints that were removed are let go of."""
        names = [str(path) for path in whole_checkpoints(self.folder)] or [self.base]
        for gone in self._open.keys() - set(names):
            self._open.pop(gone).close()
        return names

    def _player(self, name: str) -> NamedPlayer:
        if name not in self._open:
            # Merged for the time of reading: the weights are in memory afterwards.
            with TemporaryDirectory(prefix="past-") as merged:
                try:
                    self._open[name] = open_player(name, self.settings, Path(merged), self.base)
                except NothingTrained:  # it was saved while the critic alone learned
                    self._open[name] = open_player(self.base, self.settings, Path(merged))
        return self._open[name]
