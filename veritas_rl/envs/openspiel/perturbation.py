"""Perturbed OpenSpiel tasks: a player that memorized answers instead of learning the game performs worse.

labels      Every action of a game gets another number and an invented name. The task and a seed determine both
            bijections. The prompt lists the actions in the order of the new numbers, each with its original name after
            the new name. Replies may use only the new labels.
mirrored    The position is rotated or mirrored by a symmetry of the game, and so are the actions.

The rules and the values of moves do not change, so a player that follows the rules and reads the list loses nothing.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from veritas_rl.envs.base import Reason, Reply, Score, Session, Turn
from veritas_rl.envs.openspiel import playing, text
from veritas_rl.envs.openspiel.cases import load
from veritas_rl.envs.openspiel.games import State
from veritas_rl.envs.openspiel.notation import Notation, Words
from veritas_rl.envs.openspiel.parsing import parse
from veritas_rl.envs.openspiel.task import OpenSpielTask
from veritas_rl.envs.openspiel.view import View
from veritas_rl.errors import UserError, unknown
from veritas_rl.permutation import Permutation

PERTURBATIONS = {"labels": "with other labels", "mirrored": "mirrored"}
"""Each perturbation with its description in reports."""

MIRRORED = ("connect_four", "hex", "tic_tac_toe")
"""The games with a symmetry that reverses the order of the actions: Connect Four mirrored left to right, the two boards
rotated by 180 degrees."""

CONSONANTS, VOWELS = "bdfgjklmnprstvwz", "aeiou"

_MISTAKES = {
    Reason.EMPTY: Reply(""),
    Reason.UNPARSEABLE: Reply("no box"),
    Reason.AMBIGUOUS: Reply("\\boxed{a} \\boxed{b}"),
    Reason.ILLEGAL: Reply("\\boxed{no such action}"),
    Reason.TRUNCATED: Reply("", truncated=True),
    Reason.OVERLONG: Reply("", overlong=True),
}
"""A reply for each kind of mistake, which the inner session reads as the same mistake."""


class Label(NamedTuple):
    """The name of an action in a perturbed session.

    Attributes:
        action: The game's own action.
        name: The name that replies use.
        shown: The name in the prompt's list.
    """

    action: int
    name: str
    shown: str


def fits(name: str, case: str, prompt: str) -> bool:
    """Whether tasks of a case with this prompt have a perturbation.

    Raises:
        UserError: There is no such perturbation.
    """
    if name not in PERTURBATIONS:
        raise unknown("perturbation", name, PERTURBATIONS)
    return prompt == "full" if name == "labels" else load(case).short_name in MIRRORED


def perturb(inner: Session, name: str, seed: int | str = 0) -> "Perturbed":
    """A new perturbed OpenSpiel session.

    Args:
        inner: A session of `OpenSpielEnvironment`.
        name: One of `PERTURBATIONS`.
        seed: Seeds the labels together with the task's chance seed.

    Raises:
        UserError: The task has no such perturbation.
    """
    task = inner.task
    if not fits(name, task.case, task.manner.prompt):
        why = f"prompt=full, and not {task.manner.prompt}" if name == "labels" else f"one of {', '.join(MIRRORED)}"
        raise UserError(f"{task.case} has no perturbation {name}, which needs {why}")
    return Relabelled(inner, seed) if name == "labels" else Mirrored(inner)


class Perturbed(Session):
    """A session that shows its turns in another way, and translates the replies.

    Args:
        inner: A session of `OpenSpielEnvironment`.
    """

    def __init__(self, inner: Session) -> None:
        self.task = inner.task
        self.game = load(inner.task.case)
        self._manner, self._scale = inner.task.manner, OpenSpielTask.of(inner.task).pay.scale
        self._inner = inner

    @abstractmethod
    def shown_state(self, state: State) -> State:
        """The shown state for a true state."""

    @abstractmethod
    def labels(self, view: View, seat: int) -> dict[int, Label]:
        """The label of each legal action by its shown number, ascending."""

    @abstractmethod
    def notation(self, view: View, seat: int) -> Notation:
        """The notation of the shown names."""

    def turns(self) -> Sequence[Turn]:
        return [self._perturbed(turn) for turn in self._inner.turns()]

    def step(self, replies: Mapping[int, Reply]) -> None:
        self._inner.step({turn.seat: self._read(turn, replies[turn.seat]) for turn in self._inner.turns()})

    def scores(self) -> dict[int, Score]:
        return self._inner.scores()

    def _perturbed(self, turn: Turn) -> Turn:
        view: View = turn.view
        labels = self.labels(view, turn.seat)
        listed = {number: label.shown for number, label in labels.items()}
        numbers = {label.action: number for number, label in labels.items()}
        return Turn(
            seat=turn.seat,
            messages=text.messages(
                self.game, self.shown_state(view.state), turn.seat, listed, self._manner.prompt, self._scale
            ),
            answers=tuple(text.answer(numbers[action]) for action in view.actions),
            dice=turn.dice,
            view=view,
        )

    def _read(self, turn: Turn, reply: Reply) -> Reply:
        labels = self.labels(turn.view, turn.seat)
        names = {number: label.name for number, label in labels.items()}
        number = parse(reply, names, lambda: self.notation(turn.view, turn.seat))
        if isinstance(number, Reason):
            return _MISTAKES[number]
        return Reply(text.answer(self.game.number(labels[number].action)))


class Relabelled(Perturbed):
    """Other numbers and names for the same actions.

    Args:
        inner: A session of `OpenSpielEnvironment`.
        seed: Seeds the labels together with the task's chance seed.
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

    def notation(self, view: View, seat: int) -> Notation:
        return Words()

    def _word(self, action: int) -> str:
        """An invented name of three syllables, different for each action."""
        rest, syllables = self._words[action % len(self._words)], []
        for _ in range(3):
            rest, consonant = divmod(rest, len(CONSONANTS))
            rest, vowel = divmod(rest, len(VOWELS))
            syllables.append(CONSONANTS[consonant] + VOWELS[vowel])
        return "".join(syllables)


class Mirrored(Perturbed):
    """The mirror image of the position, in one of the games `MIRRORED`."""

    def shown_state(self, state: State) -> State:
        return playing.replay(self.game, tuple(map(self._image, state.history())))

    def labels(self, view: View, seat: int) -> dict[int, Label]:
        names = self.game.action_names(self.shown_state(view.state), seat)
        return {number: Label(self._image(number), name, name) for number, name in names.items()}

    def notation(self, view: View, seat: int) -> Notation:
        return self.game.notation(self.shown_state(view.state), seat)

    def _image(self, action: int) -> int:
        return self.game.spiel.num_distinct_actions() - 1 - action
