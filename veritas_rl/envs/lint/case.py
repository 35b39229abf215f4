"""One case of a linted environment: its tasks, their turns, and played games."""

from collections.abc import Sequence
from functools import cached_property

from veritas_rl.envs.audit import TurnFacts
from veritas_rl.envs.base import Reason, Reply, Score, Turn
from veritas_rl.envs.environment import Environment
from veritas_rl.envs.lint.processes import Item, Outcome, random_game, settle
from veritas_rl.envs.task import Task

GAMES = 8
"""The most whole games that are played of a case."""
DECISIONS = 600
"""The most decisions in all whole games of a case together; further games are cut."""
DRAWN_DECISIONS = 120
"""As `DECISIONS`, in games whose answers are drawn: a drawn answer may take many tries."""
TWIN_GAMES, TWIN_DECISIONS = 2, 60
"""The number of whole games that are repeated in other processes, and the most decisions of each."""


class Case:
    """The cached turns and games of one case.

    Args:
        environment: The environment.
        name: The case.
        tasks: The tasks of the case.
        games: Tasks of whole games of the case; empty if the environment has none.
        neighbours: The tasks of the case with the next seed; empty if no seed chooses the tasks.
        no_outcome: The reason why the tasks pay only for legal answers; "" if they pay by outcome.
        others: The tasks of the case in validation.
    """

    def __init__(
        self,
        environment: Environment,
        name: str,
        tasks: Sequence[Task],
        games: Sequence[Task],
        neighbours: Sequence[Task] = (),
        no_outcome: str = "",
        others: Sequence[Task] = (),
    ) -> None:
        self.environment = environment
        self.audit = environment.audit()
        self.name = name
        self.tasks = tasks
        self.games = games
        self.neighbours = neighbours
        self.no_outcome = no_outcome
        self.others = others

    @cached_property
    def asked(self) -> list[tuple[Task, list[Turn]]]:
        """Each task with its first turns. Tasks that do not start are in `broken` instead."""
        found = []
        for task in self.tasks:
            try:
                found.append((task, list(self.environment.start(task).turns())))
            except Exception as error:  # a check reports the error
                self.broken[task.id] = error
        return found

    @cached_property
    def broken(self) -> dict[str, Exception]:
        """The errors of tasks that do not start or cannot be played, by task id."""
        return {}

    @cached_property
    def played(self) -> list[tuple[Task, list[list[Turn]], dict[int, Score]]]:
        """Whole games by `random_game`: the turns of each step, and the scores."""
        listed = any(turn.answers for _, turns in self.asked for turn in turns)
        found, left = [], DECISIONS if listed else DRAWN_DECISIONS
        for task in self.games[:GAMES]:
            if left <= 0:
                break
            try:
                rounds, scores = random_game(self.environment, task, left)
            except Exception as error:  # a check reports the error
                self.broken[task.id] = error
                continue
            found.append((task, rounds, scores))
            left -= sum(map(len, rounds))
        return found

    @cached_property
    def items(self) -> list[Item]:
        """The items for other processes: two answers to each task, and a few whole games."""
        replies = [
            Item(self.audit.coarse(task).to_dict(), reply)
            for task, turns in self.asked
            for turn in turns[:1]
            for reply in dict.fromkeys(_ends(turn))
        ]
        return replies + [Item(task.to_dict(), None, TWIN_DECISIONS) for task in self.games[:TWIN_GAMES]]

    @cached_property
    def settled(self) -> list[tuple[Outcome, dict[int, Score]]]:
        """The outcomes of `items` in this process."""
        return [settle(self.environment, item) for item in self.items]

    def facts(self, turn: Turn) -> TurnFacts | None:
        """The facts of a turn."""
        return self.audit.facts(turn)

    def spellings(self, turn: Turn) -> list[str]:
        """All documented replies that are legal answers."""
        facts = self.facts(turn)
        known = [reply for legal in facts.legal for reply in legal.replies] if facts else []
        return known or list(turn.answers)

    def answer(self, task: Task, seat: int, reply: Reply) -> Score:
        """The score of one seat's first reply to a task; other seats that move at the same time answer legally.

        In a whole game that goes on it is 0, with the reason of a mistake that may be corrected.
        """
        session = self.environment.start(task)
        turns = session.turns()
        session.step({turn.seat: reply if turn.seat == seat else Reply(turn.answers[0]) for turn in turns})
        if session.turns():
            return Score(0.0, False, session.rejected.get(seat, Reason.LEGAL))
        return session.scores()[seat]


def _ends(turn: Turn) -> list[str]:
    """The first and the last answer of a list; if answers are not listed, the solution and a wrong answer."""
    if turn.answers:
        return [turn.answers[0], turn.answers[-1]]
    return [turn.solution, "a wrong answer"] if turn.solution else []


def said(turn: Turn) -> str:
    """The complete text of a turn's messages."""
    return "\n".join(message["content"] for message in turn.messages)


def question(turns: Sequence[Turn]) -> str:
    """The complete text of the first turns of a task."""
    return "\n".join(map(said, turns))
