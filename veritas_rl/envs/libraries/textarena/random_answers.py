"""Random answers. The library lists no legal answers, so answers of the forms that a question shows are tried."""

import random
import re
from dataclasses import dataclass

from veritas_rl.envs.libraries.textarena.games import Game

TRIES = 300
"""The most answers that are tried on a copy of a game."""

LARGEST = 1000
"""The largest number that is taken from a question."""

_FORM = re.compile(r"\[([^\[\]\n]{1,40})\]")
"""An answer as questions show it: [4], [col 4], [Bid: 3, 4]."""

_WORD = re.compile(r"<[^<>]*>|[A-Za-z]+|\d+")


@dataclass(frozen=True)
class Position:
    """A waiting turn, for bots.

    Attributes:
        game: The game. It is not changed.
        shown: What the seat is shown.
    """

    game: Game
    shown: str

    def draw(self, drawing: random.Random) -> str:
        """A random answer that the game accepts, or the last one tried if it accepts none of them."""
        words = list(dict.fromkeys(_WORD.findall(self.shown)))
        forms = list(dict.fromkeys(_FORM.findall(self.shown))) or words
        vary = _Variation(words, drawing)
        rest = drawing.sample(forms, len(forms))
        answer = ""
        for _ in range(TRIES):
            as_shown = rest and drawing.random() < 0.5
            answer = f"[{rest.pop() if as_shown else vary(drawing.choice(forms))}]"
            if self.accepts(answer):
                break
        return answer

    def accepts(self, answer: str) -> bool:
        """Whether the game accepts an answer."""
        try:
            return self.game.copy().move(answer)[0]
        except Exception:  # what the library fails on is no answer
            return False


class _Variation:
    """A form with other numbers, letters and words of the question.

    Args:
        words: The different words and numbers of the question.
        drawing: The generator.
    """

    def __init__(self, words: list[str], drawing: random.Random) -> None:
        self._drawing = drawing
        self._numbers = [int(word) for word in words if word.isdigit() and int(word) <= LARGEST] + list(range(10))
        self._letters = [word for word in words if len(word) == 1 and word.isalpha()] or ["a"]
        self._words = [word for word in words if len(word) > 1 and word.isalpha()] or ["a"]

    def __call__(self, form: str) -> str:
        return _WORD.sub(self._other, form)

    def _other(self, found: re.Match[str]) -> str:
        word, draw = found[0], self._drawing
        number = str(draw.randint(0, draw.choice(self._numbers)))
        if word.isdigit() or word.startswith("<"):
            return number
        beside = found.string[found.end() : found.end() + 1]
        if len(word) == 1:  # a column, as in [a2a3], or what stands for a number, as in [attack M O]
            return draw.choice(self._letters) if beside.isdigit() else draw.choice((word, number))
        return draw.choice((word, word, draw.choice(self._words), number))
