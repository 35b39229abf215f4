"""Earlier checkpoints of the same run as an opponent, one checkpoint in each game."""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from veritas_rl.checkpoints.assemble import NothingTrained
from veritas_rl.checkpoints.layout import whole_checkpoints
from veritas_rl.envs.base import Reply, Turn
from veritas_rl.players.loading import NamedPlayer, ReplySettings, open_player
from veritas_rl.seeding import digest

REMEMBERED = 4096
"""The number of games whose drawn checkpoint is remembered; more games than run at once."""


class PastPlayer:
    """Plays each game with one of the checkpoints that exist at the game's first turn.

    The checkpoint is drawn from the seed and the game's chance seed.

    Args:
        folder: The folder of the run's checkpoints.
        base: The initial model of the run, which plays until a checkpoint is saved.
        env: The environment.
        settings: The settings of the models' replies.
    """

    def __init__(self, folder: Path, base: str, env: str, settings: ReplySettings) -> None:
        self.folder = folder
        self.base = base
        self.env = env
        self.settings = settings
        self._open: dict[str, NamedPlayer] = {}
        self._drawn: dict[str | int, str] = {}
        """The checkpoint of each game, by the game's chance seed."""

    def act(self, turns: Sequence[Turn]) -> list[Reply]:
        """One reply for each turn, in order.

        Raises:
            UserError: A checkpoint cannot be played.
        """
        shares: dict[str, list[int]] = defaultdict(list)
        for index, name in enumerate(self._draw([turn.dice[0] for turn in turns])):
            shares[name].append(index)
        # All checkpoints are opened before the first plays, because the run may remove a checkpoint in the meantime.
        players = {name: self._player(name).player for name in shares}
        replies: dict[int, Reply] = {}
        for name, share in shares.items():
            replies |= zip(share, players[name].act([turns[index] for index in share]), strict=True)
        return [replies[index] for index in range(len(turns))]

    def _draw(self, chance_seeds: Sequence[str | int]) -> list[str]:
        """The checkpoint of each game. Models of removed checkpoints are dropped when no game needs them."""
        names = [str(path) for path in whole_checkpoints(self.folder)] or [self.base]
        for chance_seed in chance_seeds:
            self._drawn.setdefault(chance_seed, names[digest("past", self.settings.seed, chance_seed) % len(names)])
        drawn = [self._drawn[chance_seed] for chance_seed in chance_seeds]
        for chance_seed in list(self._drawn)[:-REMEMBERED]:
            del self._drawn[chance_seed]
        for gone in self._open.keys() - {*names, *drawn, *self._drawn.values()}:
            self._open.pop(gone).close()
        return drawn

    def _player(self, name: str) -> NamedPlayer:
        if name not in self._open:
            # The merged folder is needed only until the weights are in memory.
            with TemporaryDirectory(prefix="past-") as merged:
                try:
                    self._open[name] = open_player(name, self.env, self.settings, Path(merged), self.base)
                except (
                    NothingTrained
                ):  # the checkpoint was saved during the critic's warm-up, so it has no trained weights
                    self._open[name] = open_player(self.base, self.env, self.settings, Path(merged))
        return self._open[name]
