"""The keys under which verl stores samples: which row, which game of it, which reply of the game."""

from typing import NamedTuple, Self


class SampleKey(NamedTuple):
    """A sample's key, `uid_game_reply` as verl writes it.

    Attributes:
        uid: What verl calls the row; the games of a group have the same one.
        game: Which game of the row, from 0.
        reply: Which trajectory of the game, from 0.
    """

    uid: str
    game: int
    reply: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """The key with this text.

        Raises:
            ValueError: It is none.
        """
        uid, *numbers = text.rsplit("_", 2)
        if len(numbers) != 2 or not all(number.isdecimal() for number in numbers):
            raise ValueError(f"no sample key: {text!r}; one looks like UID_0_0")
        return cls(uid, int(numbers[0]), int(numbers[1]))

    def __str__(self) -> str:
        return f"{self.uid}_{self.game}_{self.reply}"

    @property
    def session_name(self) -> str:
        """`session` as text."""
        return f"{self.uid}_{self.game}"

    @property
    def session(self) -> tuple[str, int]:
        """Equal for the samples of one game."""
        return self.uid, self.game
