"""The uniformly random legal player, the lower baseline of every comparison."""

from collections.abc import Sequence

from veritas_rl.envs.base import Reply, Turn
from veritas_rl.errors import UserError
from veritas_rl.seeding import generator


class RandomPlayer:
    """Plays every legal answer with equal probability.

    The choice depends on the seed and the turn's dice, not on earlier turns. So batches of any size and order give the
    same play.

    Args:
        seed: Any seed.
    """

    def __init__(self, seed: int | str = 0) -> None:
        self.seed = seed

    def act(self, turns: Sequence[Turn]) -> list[Reply]:
        """One legal reply for each turn.

        Raises:
            UserError: A turn's answers cannot be listed.
        """
        replies = []
        for turn in turns:
            if not turn.answers:
                raise UserError(
                    "the player random cannot play here, because the answers of these tasks cannot be listed"
                )
            replies.append(Reply(generator("random player", self.seed, *turn.dice).choice(turn.answers)))
        return replies
