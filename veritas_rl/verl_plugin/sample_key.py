"""The keys under which verl stores samples: the row, the game of the row, and the reply of the game."""

from typing import NamedTuple, Self


class SampleKey(NamedTuple):
    """A sample's key, `uid_game_reply` as verl writes it.

    Attributes:
        uid: verl's id of the row, which the games of a group share.
        game: The index of the game in the row, from 0.
        reply: The index of the trajectory in the game, from 0.
    """

    uid: str
    game: int
    reply: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a key.

        Raises:
            ValueError: The text is not a key.
        """
        uid, *numbers = text.rsplit("_", 2)
        if len(numbers) != 2 or not all(number.isdecimal() for number in numbers):
            raise ValueError(f"{text!r} is not a sample key such as UID_0_0")
        return cls(uid, int(numbers[0]), int(numbers[1]))

    def __str__(self) -> str:
        return f"{self.uid}_{self.game}_{self.reply}"

    @property
    def session_name(self) -> str:
        """`session` as text."""
        return f"{self.uid}_{self.game}"

    @property
    def session(self) -> tuple[str, int]:
        """The row and the game: equal for all samples of one game."""
        return self.uid, self.game
