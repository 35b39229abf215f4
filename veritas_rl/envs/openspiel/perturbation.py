"""The same OpenSpiel problem in another guise: whoever has learned answers by heart, and not the game, is lost.

labels      Every action of a game gets another number and a made-up name, by a bijection that the task and a seed fix.
            The prompt lists them as always, in the order of the new numbers, and says after each name what it stands
            for. The new labels alone are read.
mirrored    The position is shown turned or mirrored by a symmetry of the game, and so is the answer.

The rules and the worth of a move stay as they are, so whoever plays by the rules, and reads the list, loses nothing.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from veritas_rl.envs.base import Reason, Reply, Score, Session, Turn
from veritas_rl.envs.openspiel import positions, text
from veritas_rl.envs.openspiel.cases import load
from veritas_rl.envs.openspiel.env import OpenSpielEnvironment
from veritas_rl.envs.openspiel.games import State
from veritas_rl.envs.openspiel.parsing import parse
from veritas_rl.envs.openspiel.view import View
from veritas_rl.envs.task import Task
from veritas_rl.errors import UserError, unknown
from veritas_rl.permutation import Permutation

GUISES = ("labels", "mirrored")

MIRRORED = ("connect_four", "hex", "tic_tac_toe")
"""The games that stay the same when their actions are counted from the other end: Connect Four mirrored left to right,
the two boards after half a turn."""

CONSONANTS, VOWELS = "bdfgjklmnprstvwz", "aeiou"

_MISTAKES = {
    Reason.EMPTY: Reply(""),
    Reason.UNPARSEABLE: Reply("no box"),
    Reason.AMBIGUOUS: Reply("\\boxed{a} \\boxed{b}"),
    Reason.ILLEGAL: Reply("\\boxed{no such action}"),
    Reason.TRUNCATED: Reply("", truncated=True),
    Reason.OVERLONG: Reply("", overlong=True),
}
"""A reply that the game itself reads as the same mistake."""


class Label(NamedTuple):
    """How an action is called in a guise.

    Attributes:
        action: The game's own action.
        name: The name that is read.
        shown: The name as the prompt lists it.
    """

    action: int
    name: str
    shown: str


def fits(guise: str, case: str, prompt: str) -> bool:
    """Whether tasks of a case with this prompt can be put into a guise.

    Raises:
        UserError: No such guise.
    """
    if guise not in GUISES:
        raise unknown("guise", guise, GUISES)
    return prompt == "full" if guise == "labels" else load(case).short_name in MIRRORED


def start_disguised(task: Task, guise: str, seed: int | str = 0) -> Session:
    """A fresh session of an OpenSpiel task in another guise.

    Args:
        task: The task.
        guise: One of `GUISES`.
        seed: With the task's luck it chooses the labels.

    Raises:
        UserError: As `OpenSpielEnvironment.start`; or the task cannot be put into this guise.
    """
    if not fits(guise, task.case, task.manner.prompt):
        why = f"prompt=full, and not {task.manner.prompt}" if guise == "labels" else f"one of {', '.join(MIRRORED)}"
        raise UserError(f"{task.case} cannot be shown with guise={guise}: that needs {why}")
    inner = OpenSpielEnvironment().start(task)
    return Relabelled(inner, seed) if guise == "labels" else Mirrored(inner)


class Disguised(Session):
    """A session that shows its turns in another guise, and translates the replies.

    Args:
        inner: The session as `OpenSpielEnvironment` starts it.
    """

    def __init__(self, inner: Session) -> None:
        self.task = inner.task
        self.game = load(inner.task.case)
        self._inner = inner

    @abstractmethod
    def shown_state(self, state: State) -> State:
        """What is shown instead of a state."""

    @abstractmethod
    def labels(self, view: View, seat: int) -> dict[int, Label]:
        """By the number that is shown, in ascending order, each legal action."""

    def turns(self) -> Sequence[Turn]:
        return [self._disguised(turn) for turn in self._inner.turns()]

    def step(self, replies: Mapping[int, Reply]) -> None:
        self._inner.step({turn.seat: self._read(turn, replies[turn.seat]) for turn in self._inner.turns()})

    def scores(self) -> dict[int, Score]:
        return self._inner.scores()

    def _disguised(self, turn: Turn) -> Turn:
        view: View = turn.view
        labels = self.labels(view, turn.seat)
        listed = {number: label.shown for number, label in labels.items()}
        numbers = {label.action: number for number, label in labels.items()}
        return Turn(
            seat=turn.seat,
            messages=text.messages(self.game, self.shown_state(view.state), turn.seat, listed, self.task.manner.prompt),
            answers=tuple(text.answer(numbers[action]) for action in view.actions),
            dice=turn.dice,
            view=view,
        )

    def _read(self, turn: Turn, reply: Reply) -> Reply:
        labels = self.labels(turn.view, turn.seat)
        number = parse(reply, {number: label.name for number, label in labels.items()})
        return _MISTAKES[number] if isinstance(number, Reason) else Reply(text.answer(labels[number].action))


class Relabelled(Disguised):
    """Other numbers and names for the same actions.

    Args:
        inner: The session as `OpenSpielEnvironment` starts it.
        seed: With the task's luck it chooses the labels.
    """

    def __init__(self, inner: Session, seed: int | str = 0) -> None:
        super().__init__(inner)
        self._numbers = Permutation(self.game.spiel.num_distinct_actions(), "number", seed, inner.task.chance_seed)
        self._words = Permutation((len(CONSONANTS) * len(VOWELS)) ** 3, "name", seed, inner.task.chance_seed)

    def shown_state(self, state: State) -> State:
        return state

    def labels(self, view: View, seat: int) -> dict[int, Label]:
        names = self.game.action_names(view.state, seat)
        words = {action: self._word(action) for action in view.actions}
        return {
            self._numbers[action]: Label(action, words[action], f"{words[action]} ({names[action]})")
            for action in sorted(view.actions, key=self._numbers.__getitem__)
        }

    def _word(self, action: int) -> str:
        """Three syllables, other ones for each action."""
        rest, syllables = self._words[action % len(self._words)], []
        for _ in range(3):
            rest, consonant = divmod(rest, len(CONSONANTS))
            rest, vowel = divmod(rest, len(VOWELS))
            syllables.append(CONSONANTS[consonant] + VOWELS[vowel])
        return "".join(syllables)


class Mirrored(Disguised):
    """The mirror image of the position, in one of the games `MIRRORED`."""

    def shown_state(self, state: State) -> State:
        return positions.replay(self.game, tuple(map(self._image, state.history())))

    def labels(self, view: View, seat: int) -> dict[int, Label]:
        names = self.game.action_names(self.shown_state(view.state), seat)
        return {number: Label(self._image(number), name, name) for number, name in names.items()}

    def _image(self, action: int) -> int:
        return self.game.spiel.num_distinct_actions() - 1 - action
