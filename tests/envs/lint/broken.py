"""Environments that each have one defect that a real environment had. `test_lint.py` requires the linter to catch each.

A process with this folder on its path can import them as "broken:NAME".
"""

import dataclasses
import random
from collections.abc import Mapping, Sequence
from random import Random
from typing import ClassVar

from veritas_rl.envs.base import FAULT, Message, Reason, Reply, Score, Session, Turn
from veritas_rl.envs.lgc_v2.env import LGCEnvironment
from veritas_rl.envs.one_turn import Question, environment
from veritas_rl.envs.openspiel.cases import load
from veritas_rl.envs.openspiel.env import OpenSpielConfig, OpenSpielEnvironment, OpenSpielSession, View
from veritas_rl.envs.openspiel.games import State
from veritas_rl.envs.openspiel.task import OpenSpielTask
from veritas_rl.envs.single import SingleAnswerSession
from veritas_rl.envs.task import Task


class Unchecked(Score):
    """A score without the check of its value."""

    def __post_init__(self) -> None:
        pass


class Broken(OpenSpielEnvironment):
    """The real environment with a changed session."""

    session: ClassVar[type[OpenSpielSession]] = OpenSpielSession

    def start(self, task: Task) -> Session:
        return self.session(OpenSpielTask.of(task), load(task.case))


def broken(session: type[OpenSpielSession]) -> type[Broken]:
    """Make an environment with this session."""
    return type(session.__name__, (Broken,), {"session": session})


class _Repaired(OpenSpielSession):
    """Changes replies before they are read."""

    def repaired(self, text: str, turn: Turn) -> str:
        raise NotImplementedError

    def step(self, replies: Mapping[int, Reply]) -> None:
        turns = {turn.seat: turn for turn in self.turns()}
        super().step({seat: Reply(self.repaired(reply.text, turns[seat])) for seat, reply in replies.items()})


class _EmptyIsTheFirst(_Repaired):
    def repaired(self, text: str, turn: Turn) -> str:
        return text or turn.answers[0]


class _Substring(_Repaired):
    def repaired(self, text: str, turn: Turn) -> str:
        actions = [str(action) for action in turn.view.actions]
        inside = text.removeprefix("\\boxed{").removesuffix("}")
        if not inside.isdigit() or inside in actions:
            return text
        return next((f"\\boxed{{{action}}}" for action in actions if action in inside or inside in action), text)


class _NumbersFromZero(_Repaired):
    """An off-by-one error: the prompt counts from one and the answers count from zero."""

    def repaired(self, text: str, turn: Turn) -> str:
        inside = text.removeprefix("\\boxed{").removesuffix("}")
        return f"\\boxed{{{int(inside) + 1}}}" if inside.isdigit() else text


class _AnyCase(_Repaired):
    """Names are read without regard to case, although case matters."""

    def repaired(self, text: str, turn: Turn) -> str:
        names = self.game.action_names(self._state, turn.seat).values()
        inside = text.removeprefix("\\boxed{").removesuffix("}")
        alike = [name for name in names if name.lower() == inside.lower()]
        return f"\\boxed{{{alike[0]}}}" if len(alike) == 1 else text


class _Scored(OpenSpielSession):
    """Changes scores."""

    def scored(self, seat: int, score: Score) -> Score:
        raise NotImplementedError

    def scores(self) -> dict[int, Score]:
        return {seat: self.scored(seat, score) for seat, score in super().scores().items()}


class _EmptyPays(_Scored):
    """A mistake is paid 0.5 as a drawn game."""

    def scored(self, seat: int, score: Score) -> Score:
        return score if score.legal else Score(0.5, False, Reason.DRAWN)


class _RepeatsPay(_Scored):
    """A reply is paid for each of its boxes."""

    def step(self, replies: Mapping[int, Reply]) -> None:
        self.boxes = max(reply.text.count("\\boxed") for reply in replies.values())
        super().step({seat: Reply(reply.text.partition("\n")[0]) for seat, reply in replies.items()})

    def scored(self, seat: int, score: Score) -> Score:
        return dataclasses.replace(score, value=score.legal * min(1.0, self.boxes / 10))


class _HashedPay(_Scored):
    def scored(self, seat: int, score: Score) -> Score:
        return dataclasses.replace(score, value=score.legal * (hash(self.task.id) % 1000) / 1000)


class _LotteryPay(_Scored):
    def scored(self, seat: int, score: Score) -> Score:
        return dataclasses.replace(score, value=score.legal * random.random())


class _AssumesOne(_Scored):
    """The value of any return r is (r + 1) / 2."""

    def scored(self, seat: int, score: Score) -> Score:
        won = score.details.get("return")
        return Unchecked((float(won) + 1) / 2, False, score.reason) if won is not None else score


class _Linear(_Scored):
    """The values of wins and losses are all close to 0.5."""

    def scored(self, seat: int, score: Score) -> Score:
        won = score.details.get("return")
        return dataclasses.replace(score, value=0.5 + float(won) / 246) if won is not None else score


class _Fails(_Scored):
    """Every game is ended by an error of the environment."""

    def scored(self, seat: int, score: Score) -> Score:
        return dataclasses.replace(score, details={**score.details, FAULT: "KeyError: 7"})


class _Draws(View):
    """A view that can draw an answer."""

    def draw(self, drawing: Random) -> str:
        return f"\\boxed{{{drawing.choice(self.actions)}}}"


class _DrawnLinear(_Linear):
    """As `_Linear`, with answers that are not listed."""

    def turns(self) -> Sequence[Turn]:
        return [dataclasses.replace(turn, answers=(), view=_Draws(**vars(turn.view))) for turn in super().turns()]


class _OnePlayout(_Scored):
    def scored(self, seat: int, score: Score) -> Score:
        if score.details.get("value_source") != "playouts":
            return score
        action = score.details["action"]
        lucky = random.Random(f"{self.task.case} {action}").random() < score.value
        return dataclasses.replace(
            score, value=float(lucky), success=lucky, details={**score.details, "value_error": 0.0}
        )


class _ErrorUntold(_Scored):
    def scored(self, seat: int, score: Score) -> Score:
        kept = {name: value for name, value in score.details.items() if name != "value_error"}
        return dataclasses.replace(score, details=kept)


class _SecondSeatPaysLess(_Scored):
    def scored(self, seat: int, score: Score) -> Score:
        return dataclasses.replace(score, value=score.value * (0.9 if seat else 1.0))


class _PassPaysNothing(_Scored):
    """A pass is paid 0, like an illegal answer, although it may be the best action."""

    def scored(self, seat: int, score: Score) -> Score:
        return dataclasses.replace(score, value=0.0) if score.details.get("action") == "pass" else score


class _WorstPaysMost(_Scored):
    def scored(self, seat: int, score: Score) -> Score:
        return dataclasses.replace(score, value=1 - score.value) if score.legal else score


class _PaysAlike(_Scored):
    def scored(self, seat: int, score: Score) -> Score:
        return dataclasses.replace(score, value=0.5) if score.legal else score


class _SuccessOfThePosition(_Scored):
    def scored(self, seat: int, score: Score) -> Score:
        return dataclasses.replace(score, success=score.legal and self.task.k % 2 == 0)


class _CutPaysNothing(_Scored):
    def scored(self, seat: int, score: Score) -> Score:
        return dataclasses.replace(score, value=0.0) if score.reason is Reason.UNFINISHED else score


class _Shown(OpenSpielSession):
    """Changes the prompt."""

    def shown(self, content: str, state: State) -> str:
        raise NotImplementedError

    def turns(self) -> Sequence[Turn]:
        return [dataclasses.replace(turn, messages=self.changed(turn)) for turn in super().turns()]

    def changed(self, turn: Turn) -> tuple[Message, ...]:
        return tuple({**message, "content": self.shown(message["content"], self._state)} for message in turn.messages)


class _FirstFifty(_Shown):
    def shown(self, content: str, state: State) -> str:
        head, mark, rest = content.partition("(number: name):\n")
        listed, gap, tail = rest.partition("\n\n")
        return head + mark + "\n".join(listed.split("\n")[:50]) + gap + tail


class _ShowsTheState(_Shown):
    def shown(self, content: str, state: State) -> str:
        return f"{content}\n\nState: {state}"


class _FormatUntold(_Shown):
    def shown(self, content: str, state: State) -> str:
        return content.partition("Answer with")[0]


class _AnotherPhase(_Shown):
    """The prompt shows an empty trick when the player decides whether to play alone."""

    def shown(self, content: str, state: State) -> str:
        asked = state.current_phase().name == "GO_ALONE"
        return content.replace("\n\nLegal actions", "\nThis trick: you lead\n\nLegal actions") if asked else content


class _ChanceShown(OpenSpielSession):
    """Shows the root as player 0's turn, whichever player moves there."""

    def turns(self) -> Sequence[Turn]:
        root = self.game.spiel.new_initial_state()
        legal = root.legal_actions()
        answers = tuple(f"\\boxed{{{action}}}" for action in legal)
        view = View(root, tuple(legal), self.game.case)
        return [dataclasses.replace(turn, seat=0, answers=answers, view=view) for turn in super().turns()[:1]]

    def step(self, replies: Mapping[int, Reply]) -> None:
        super().step({turn.seat: Reply("") for turn in super().turns()})


class _JointShown(OpenSpielSession):
    """Shows simultaneous moves as moves of one seat, with the numbers of joint actions."""

    def turns(self) -> Sequence[Turn]:
        turns = super().turns()
        if not turns or not self._state.is_simultaneous_node():
            return turns
        joint = tuple(self._state.legal_actions())
        view = dataclasses.replace(turns[0].view, actions=joint)
        return [dataclasses.replace(turns[0], answers=tuple(f"\\boxed{{{a}}}" for a in joint), view=view)]

    def step(self, replies: Mapping[int, Reply]) -> None:
        (reply,) = replies.values()
        for turn in super().turns():
            replies = {**replies, turn.seat: reply}
        super().step(replies)


class _NumbersAlone(_Repaired):
    def repaired(self, text: str, turn: Turn) -> str:
        return text if text in turn.answers else "no"


EmptyIsTheFirst = broken(_EmptyIsTheFirst)
Substring = broken(_Substring)
NumbersFromZero = broken(_NumbersFromZero)
AnyCase = broken(_AnyCase)
EmptyPays = broken(_EmptyPays)
RepeatsPay = broken(_RepeatsPay)
HashedPay = broken(_HashedPay)
LotteryPay = broken(_LotteryPay)
AssumesOne = broken(_AssumesOne)
Linear = broken(_Linear)
DrawnLinear = broken(_DrawnLinear)
Fails = broken(_Fails)
OnePlayout = broken(_OnePlayout)
ErrorUntold = broken(_ErrorUntold)
SecondSeatPaysLess = broken(_SecondSeatPaysLess)
FirstFifty = broken(_FirstFifty)
ShowsTheState = broken(_ShowsTheState)
FormatUnstated = broken(_FormatUntold)
ChanceShown = broken(_ChanceShown)
JointShown = broken(_JointShown)
NumbersAlone = broken(_NumbersAlone)
PassPaysNothing = broken(_PassPaysNothing)
WorstPaysMost = broken(_WorstPaysMost)
PaysAlike = broken(_PaysAlike)
SuccessOfThePosition = broken(_SuccessOfThePosition)
CutPaysNothing = broken(_CutPaysNothing)
AnotherPhase = broken(_AnotherPhase)


class OnePosition(OpenSpielEnvironment):
    """Every task of a case asks for the same position."""

    def start(self, task: Task) -> Session:
        return super().start(task.replace(k=0))


class NumberAddedToTheSeed(OpenSpielEnvironment):
    """A task depends on the sum of its seed and number alone."""

    def start(self, task: Task) -> Session:
        return super().start(dataclasses.replace(task, seed=0, k=task.seed + task.k))


class AnySolution(LGCEnvironment):
    """The solution of any task is right in every task."""

    def start(self, task: Task) -> Session:
        (turn,) = super().start(task).turns()
        right, wrong = Score(1.0, True, Reason.CORRECT), Score(0.0, False, Reason.WRONG)
        return SingleAnswerSession(task, turn, lambda reply: right if "\\boxed{" in reply.text else wrong)


class GlobalDraws(OpenSpielEnvironment):
    """A task begins with a draw from the generator of the process."""

    def start(self, task: Task) -> Session:
        random.random()
        return super().start(task)


class OneSplit(OpenSpielEnvironment):
    """Validation asks the questions of training."""

    def catalogue(self, config: OpenSpielConfig, split: str) -> Sequence[Task]:
        return super().catalogue(config, "train")


@environment("nan_pays", form=r".+", score=lambda question, said: float(said in (question.truth, "nan")))
def nan_pays(case: str, random: Random) -> Question:
    """A score that reads "nan" as a number that differs from no other."""
    number = random.randrange(10**6)
    return Question(f"{number} + 1 = ?", str(number + 1))


@environment("inside_pays", form=r"(?s).+", score=lambda question, said: float(question.truth in said))
def inside_pays(case: str, random: Random) -> Question:
    """A score that looks for the right answer anywhere."""
    number = random.randrange(10**6)
    return Question(f"{number} + 1 = ?", str(number + 1))


class ForcedMoves(OpenSpielEnvironment):
    """Every single move is the last move on a full board."""

    def start(self, task: Task) -> Session:
        if task.mode != "move":
            return super().start(task)
        game, state = load(task.case), load(task.case).spiel.new_initial_state()
        choose = random.Random(task.k).choice
        while not state.is_terminal():
            state.apply_action(choose(state.legal_actions()))
            if len(state.history()) == game.spiel.max_game_length() - 1 and not state.is_terminal():
                return OpenSpielSession(OpenSpielTask.of(task), game, (state, state.current_player()))
        return self.start(task.replace(k=task.k + 1000))


class BishopsAndPawns(OpenSpielEnvironment):
    """Names are read in any case; a bishop may take a5 in every second task, a pawn of the b-file in the others."""

    def start(self, task: Task) -> Session:
        game = load(task.case)
        state = game.spiel.new_initial_state()
        for name in ("d3", "a5", "Bd2", "h6") if task.k % 2 else ("b4", "a5"):
            names = game.action_names(state, state.current_player())
            state.apply_action(next(action for action, known in names.items() if known == name))
        return _AnyCase(OpenSpielTask.of(task), game, (state, state.current_player()))


class FirstMoves(OpenSpielEnvironment):
    """Every single move is the first move on a large board, where random games hardly distinguish the moves."""

    def start(self, task: Task) -> Session:
        if task.mode != "move":
            return super().start(task)
        game = load(task.case)
        return OpenSpielSession(OpenSpielTask.of(task), game, (game.spiel.new_initial_state(), 0))


class FrozenDice(OpenSpielEnvironment):
    """Each visit of a task repeats the playouts of the first visit."""

    def start(self, task: Task) -> Session:
        return super().start(dataclasses.replace(task, visit=0))


class GamesCutShort(OpenSpielEnvironment):
    """Whole games have at most five moves."""

    def catalogue(self, config: OpenSpielConfig, split: str) -> Sequence[Task]:
        return super().catalogue(config.model_copy(update={"max_moves": 5}), split)


class DeafToTheCount(OpenSpielEnvironment):
    """Each case has 100 tasks, whatever is configured."""

    def catalogue(self, config: OpenSpielConfig, split: str) -> Sequence[Task]:
        return super().catalogue(config.model_copy(update={"num_tasks_per_case": 100}), split)


class FirstGameAlone(OpenSpielEnvironment):
    """Only the first of several selected games is played."""

    def catalogue(self, config: OpenSpielConfig, split: str) -> Sequence[Task]:
        first = config.cases[0].partition("(")[0]
        kept = [case for case in config.cases if case.partition("(")[0] == first]
        return super().catalogue(config.model_copy(update={"cases": tuple(kept), "game_types": ()}), split)


class SeatInTheChanceSeed(OpenSpielEnvironment):
    """The deal depends on the trained seat, and only one seat is trained."""

    def catalogue(self, config: OpenSpielConfig, split: str) -> Sequence[Task]:
        return [task.replace(seat=min(task.manner.seat, 0)) for task in super().catalogue(config, split)]


class Raises(OpenSpielEnvironment):
    """A bad reply raises an exception."""

    def start(self, task: Task) -> Session:
        return _Raises(OpenSpielTask.of(task), load(task.case))


class _Raises(OpenSpielSession):
    def step(self, replies: Mapping[int, Reply]) -> None:
        for reply in replies.values():
            int(reply.text.removeprefix("\\boxed{").removesuffix("}"))
        super().step(replies)
