"""The uniformly random legal player, the lower baseline of every comparison."""

from collections.abc import Callable, Sequence

from veritas_rl.envs.base import DrawsReplies, Reply, Turn
from veritas_rl.errors import UserError
from veritas_rl.seeding import generator


class RandomPlayer:
    """Plays every legal answer with equal probability.

    The choice depends on the seed and the turn's dice, not on earlier turns. So batches of any size and order give the
    same play.

    Args:
        seed: Any seed.
        guess: Gives the reply to a turn whose answers can neither be listed nor drawn, "" if there is none; None to
            refuse such turns.
    """

    def __init__(self, seed: int | str = 0, guess: Callable[[], str] | None = None) -> None:
        self.seed = seed
        self._guess = guess

    def act(self, turns: Sequence[Turn]) -> list[Reply]:
        """One legal reply for each turn, or a guess.

        Raises:
            UserError: A turn's answers can neither be listed nor drawn, and there is no guess.
        """
        return [Reply(self._chosen(turn)) for turn in turns]

    def _chosen(self, turn: Turn) -> str:
        if turn.answers:
            return generator("random player", self.seed, *turn.dice).choice(turn.answers)
        if isinstance(turn.view, DrawsReplies):
            return turn.view.draw(generator("random player", self.seed, *turn.dice))
        if not (said := self._guess() if self._guess else ""):
            raise UserError(
                "the player random cannot play here, because the answers of these tasks cannot be listed or guessed"
            )
        return said
