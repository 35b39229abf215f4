"""One case as the linter sees it: its tasks, what they ask, and what is played of them."""

from collections.abc import Sequence
from functools import cached_property

from veritas_rl.envs.audit import TurnFacts
from veritas_rl.envs.base import Reply, Score, Turn
from veritas_rl.envs.environment import Environment
from veritas_rl.envs.lint.processes import Item, Outcome, random_game, settle
from veritas_rl.envs.task import Task

GAMES = 8
"""Whole games that are played of a case, at most."""
DECISIONS = 600
"""Decisions of all whole games of a case together; games that would need more are cut."""
TWIN_GAMES, TWIN_DECISIONS = 2, 60
"""Whole games that are played in other processes too, and their decisions at most."""


class Case:
    """What is asked of one case, asked once.

    Args:
        environment: Whose case.
        name: The case.
        tasks: Its tasks.
        games: Tasks of whole games of the case; empty where the environment has none.
        no_outcome: Why the tasks pay only for being legal; "" where they pay by outcome.
    """

    def __init__(
        self, environment: Environment, name: str, tasks: Sequence[Task], games: Sequence[Task], no_outcome: str = ""
    ) -> None:
        self.environment = environment
        self.audit = environment.audit()
        self.name = name
        self.tasks = tasks
        self.games = games
        self.no_outcome = no_outcome

    @cached_property
    def asked(self) -> list[tuple[Task, list[Turn]]]:
        """Each task with the turns that it begins with; without those that do not start, which `broken` names."""
        found = []
        for task in self.tasks:
            try:
                found.append((task, list(self.environment.start(task).turns())))
            except Exception as error:  # a check reports it
                self.broken[task.id] = error
        return found

    @cached_property
    def broken(self) -> dict[str, Exception]:
        """What tasks raised that do not start, by their ids."""
        return {}

    @cached_property
    def played(self) -> list[tuple[Task, list[list[Turn]], dict[int, Score]]]:
        """Whole games by `random_game`: the turns of each step, and the scores."""
        found, left = [], DECISIONS
        for task in self.games[:GAMES]:
            if left <= 0:
                break
            try:
                rounds, scores = random_game(self.environment, task, left)
            except Exception as error:  # a check reports it
                self.broken[task.id] = error
                continue
            found.append((task, rounds, scores))
            left -= sum(map(len, rounds))
        return found

    @cached_property
    def items(self) -> list[Item]:
        """What is played in other processes too: an early and a late answer to each task, and a few whole games."""
        replies = [
            Item(self.audit.coarse(task).to_dict(), reply)
            for task, turns in self.asked
            for turn in turns[:1]
            for reply in dict.fromkeys(_ends(turn))
        ]
        return replies + [Item(task.to_dict(), None, TWIN_DECISIONS) for task in self.games[:TWIN_GAMES]]

    @cached_property
    def settled(self) -> list[tuple[Outcome, dict[int, Score]]]:
        """What came of `items` here."""
        return [settle(self.environment, item) for item in self.items]

    def facts(self, turn: Turn) -> TurnFacts | None:
        """The truth about a turn."""
        return self.audit.facts(turn)

    def spellings(self, turn: Turn) -> list[str]:
        """Every whole reply that is documented as a legal answer."""
        facts = self.facts(turn)
        known = [reply for legal in facts.legal for reply in legal.replies] if facts else []
        return known or list(turn.answers)

    def answer(self, task: Task, seat: int, reply: Reply) -> Score:
        """The score of one seat's first reply to a task; other seats that are asked at once answer legally.

        Raises:
            RuntimeError: The session goes on after it.
        """
        session = self.environment.start(task)
        turns = session.turns()
        session.step({turn.seat: reply if turn.seat == seat else Reply(turn.answers[0]) for turn in turns})
        if session.turns():
            raise RuntimeError("the session goes on")
        return session.scores()[seat]


def _ends(turn: Turn) -> list[str]:
    """An early and a late answer; the solution and a wrong one where answers are not listed."""
    if turn.answers:
        return [turn.answers[0], turn.answers[-1]]
    return [turn.solution, "a wrong answer"] if turn.solution else []


def said(turn: Turn) -> str:
    """All that a turn shows."""
    return "\n".join(message["content"] for message in turn.messages)
