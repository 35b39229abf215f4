"""Replays answers in other processes. The pay must not depend on the process, its hash seed or its order.

Two child processes run `python -m veritas_rl.envs.lint.processes`. Each reads a JSON object from its standard input and
writes a JSON list to its standard output. The second child plays in reverse order.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import IO, Any

from veritas_rl.envs.base import DrawsReplies, Reply, Score, Turn
from veritas_rl.envs.environment import Environment
from veritas_rl.envs.lint.findings import named
from veritas_rl.envs.places import is_place
from veritas_rl.envs.registry import environment_at, get_environment
from veritas_rl.envs.task import Task
from veritas_rl.seeding import digest, generator

HASH_SEEDS = ("1", "20")
LIMIT_SECONDS = 900
MOST_AFTER_EMPTY = 3
"""The number of empty replies after which a session counts as endless."""

LEANING = 0.95
"""The probability of the last answer in tasks with an even number `k`. Some games, such as gin rummy, rarely end in a
win if all moves are uniformly random."""


@dataclass(frozen=True)
class Item:
    """A task to be replayed.

    Attributes:
        task: The task, as `Task.to_dict` writes it.
        reply: The first reply of every seat; None for a random game.
        limit: The most decisions of a random game; an empty reply then ends it.
    """

    task: dict[str, Any]
    reply: str | None
    limit: int = 0

    def task_in(self, environment: Environment) -> Task:
        """The task as an instance of the environment's class."""
        return environment.task_type.from_dict(self.task)


@dataclass(frozen=True)
class Outcome:
    """The comparable outcome of an item.

    Attributes:
        shown: A digest of all messages.
        scores: Value, success and reason of each seat as strings, in the order of the seats.
        error: The raised error; "" for none.
    """

    shown: str
    scores: tuple[tuple[str, str, str, str], ...] = ()
    error: str = ""

    def __str__(self) -> str:
        paid = "; ".join(f"seat {seat} {value} ({reason})" for seat, value, _, reason in self.scores)
        return self.error or f"{paid}, shown {self.shown[:6]}"


def open_environment(name: str) -> Environment:
    """An environment by its name in the registry, or by "module:Class" if it is not registered.

    Raises:
        UserError: There is no such environment.
    """
    return environment_at(name, name) if is_place(name) else get_environment(name)


def random_game(environment: Environment, task: Task, limit: int) -> tuple[list[list[Turn]], dict[int, Score]]:
    """Play a task with random legal answers. Tasks with an even number `k` prefer the last answer, see `LEANING`.

    Answers that are not listed are drawn, and may then be illegal. If they cannot be drawn, the replies are empty.

    Returns:
        The turns of every step, and the scores by seat.

    Raises:
        RuntimeError: The session does not end on empty replies.
    """
    session, rounds, asked, empty = environment.start(task), [], 0, 0
    while turns := list(session.turns()):
        rounds.append(turns)
        asked += len(turns)
        empty += asked > limit
        if empty > MOST_AFTER_EMPTY:
            raise RuntimeError("an empty reply does not end the session")
        session.step({turn.seat: _random_reply(task, len(rounds), turn) if not empty else Reply("") for turn in turns})
    return rounds, session.scores()


def _random_reply(task: Task, step: int, turn: Turn) -> Reply:
    random = generator("lint", task.id, step, turn.seat)
    if not turn.answers:
        return Reply(turn.view.draw(random) if isinstance(turn.view, DrawsReplies) else "")
    if task.k % 2 == 0 and random.random() < LEANING:
        return Reply(turn.answers[-1])
    return Reply(random.choice(turn.answers))


def settle(environment: Environment, item: Item) -> tuple[Outcome, dict[int, Score]]:
    """Play an item, and return its outcome and its scores. An exception is a part of the outcome."""
    task = item.task_in(environment)
    try:
        if item.reply is None:
            rounds, scores = random_game(environment, task, item.limit)
        else:
            session = environment.start(task)
            rounds = [list(session.turns())]
            session.step({turn.seat: Reply(item.reply) for turn in rounds[0]})
            scores = session.scores()
    except Exception as error:  # any exception of the environment is part of the outcome
        return Outcome("", (), named(error)), {}
    shown = f"{digest(*(turn.messages for turns in rounds for turn in turns)):016x}"
    results = tuple(
        (str(seat), repr(score.value), str(score.success), str(score.reason)) for seat, score in sorted(scores.items())
    )
    return Outcome(shown, results), scores


class Twins:
    """Two processes that play the same items at the same time with different hash seeds.

    Args:
        environment: A name for `open_environment`.
        items: The items.
    """

    def __init__(self, environment: str, items: Sequence[Item]) -> None:
        self._files = ExitStack()
        self._children: list[tuple[subprocess.Popen[bytes], IO[bytes], IO[bytes]]] = []
        for backwards, seed in enumerate(HASH_SEEDS):
            order = items[::-1] if backwards else items
            work = {"environment": environment, "items": [vars(item) for item in order]}
            # Files are used because a full pipe would block the child.
            given, printed, complaints = self._file(), self._file(), self._file()
            given.write(json.dumps(work).encode())
            given.seek(0)
            child = subprocess.Popen(
                [sys.executable, "-m", "veritas_rl.envs.lint.processes"],
                stdin=given,
                stdout=printed,
                stderr=complaints,
                env={**os.environ, "PYTHONHASHSEED": seed},
            )
            self._children.append((child, printed, complaints))

    def _file(self) -> IO[bytes]:
        return self._files.enter_context(tempfile.TemporaryFile())

    def __enter__(self) -> "Twins":
        return self

    def __exit__(self, *raised: object) -> None:
        for child, _, _ in self._children:
            if child.poll() is None:
                child.kill()
            child.wait()
        self._files.close()

    def outcomes(self) -> list[list[Outcome]]:
        """The outcomes of both processes, in the order of the items.

        Raises:
            RuntimeError: A process failed or took more than `LIMIT_SECONDS`.
        """
        found = []
        for backwards, (child, printed, complaints) in enumerate(self._children):
            try:
                code = child.wait(LIMIT_SECONDS)
            except subprocess.TimeoutExpired:
                raise RuntimeError(f"a replaying process was not done after {LIMIT_SECONDS} s") from None
            printed.seek(0)
            complaints.seek(0)
            if code:
                last = complaints.read().decode(errors="replace").strip().splitlines()[-1:]
                raise RuntimeError(f"a replaying process ended with exit code {code}: {' '.join(last)}")
            outcomes = [Outcome(shown, tuple(map(tuple, scores)), error) for shown, scores, error in json.load(printed)]
            found.append(outcomes[::-1] if backwards else outcomes)
        return found


def _child() -> None:
    """Play the items of standard input."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # libraries may print to the standard output
    work: dict[str, Any] = json.load(sys.stdin)
    environment = open_environment(work["environment"])
    outcomes = [settle(environment, Item(**item))[0] for item in work["items"]]
    json.dump([[outcome.shown, outcome.scores, outcome.error] for outcome in outcomes], answers)
    answers.close()


if __name__ == "__main__":
    _child()
