"""The cost of the environments of other libraries, as ratios to the bare libraries in the same run.

    python benchmarks/libraries.py [--rounds 5]

- `reasoning-gym`: questions a second that are asked, answered rightly and scored, in some sets and in all of them. The
  bare library makes the item that each task draws first, and scores its right answer. Some items of a set cost a
  thousand times as much as others, so other items would be no comparison.
- `textarena`: answers a second with the same random answers on both sides, in some games and in all of them, of which
  at most 40 answers are played.

The script prints medians over the rounds. Times are CPU seconds of its only thread.
"""

import argparse
import itertools
from collections.abc import Sequence
from contextlib import redirect_stdout
from functools import cache, partial
from io import StringIO
from statistics import median
from typing import Any

import reasoning_gym
import textarena
from env_throughput import Way, rates, ratio
from rich.console import Console
from rich.table import Table

from veritas_rl.envs.base import Reply
from veritas_rl.envs.libraries.reasoning_gym import sets
from veritas_rl.envs.libraries.textarena import games
from veritas_rl.envs.libraries.textarena.env import TextArenaTask
from veritas_rl.envs.registry import get_environment, make_task
from veritas_rl.players.random import RandomPlayer
from veritas_rl.seeding import generator

SETS = ("chain_sum", "caesar_cipher", "count_primes", "mini_sudoku", "word_sorting")
GAMES = ("TicTacToe-v0", "ConnectFour-v0", "KuhnPoker-v0", "Othello-v0-small", "2048-v0-easy", "LiarsDice-v0")
QUESTIONS, PLAYED, LONGEST = 60, 10, 40


class Asked:
    """Questions of sets, each new: the next tasks here, and for the bare library the items that these draw first.

    Args:
        names: The sets.
        each: The questions of a set in a round.
        rounds: The rounds. No question is asked twice, because it would be remembered.
        first: The number of the first task of each set.
    """

    def __init__(self, names: Sequence[str], each: int, rounds: int, first: int) -> None:
        self._names, self._each = names, each
        ks = range(first, first + each * rounds)
        tasks = {name: [make_task(sets.NAME, name, k) for k in ks] for name in names}
        self._tasks = {name: iter(some) for name, some in tasks.items()}
        self._items = {
            name: iter([generator(task.chance_seed).randrange(1 << 31) for task in some])
            for name, some in tasks.items()
        }
        self.failed = 0
        """How many questions the bare library could not make."""

    def here(self) -> int:
        environment = get_environment(sets.NAME)
        for name in self._names:
            for task in itertools.islice(self._tasks[name], self._each):
                session = environment.start(task)
                (turn,) = session.turns()
                session.step({0: Reply(turn.solution or "none")})
                session.scores()
        return len(self._names) * self._each

    def bare(self) -> int:
        for name in self._names:
            for index in itertools.islice(self._items[name], self._each):
                remade = name in sets.REMADE  # these make all their items at once
                data: Any = reasoning_gym.create_dataset(name, seed=index, size=1) if remade else data_of(name)
                try:
                    item = data[0 if remade else index]
                except Exception:
                    self.failed += 1  # here another question is made
                    continue
                data.score_answer(item["answer"] or "none", item)
        return len(self._names) * self._each


@cache
def data_of(name: str) -> Any:
    """A data set of the bare library, which makes an item of any number."""
    return reasoning_gym.create_dataset(name, seed=0, size=1)


def games_of(case: str, number: int) -> list[tuple[TextArenaTask, list[str]]]:
    """Games, and random answers to the questions of each."""
    environment, found = get_environment("textarena"), []
    for k in range(number):
        task = make_task("textarena", case, k)
        assert isinstance(task, TextArenaTask)
        session, said = environment.start(task), []
        while (turns := session.turns()) and len(said) < LONGEST:
            (reply,) = RandomPlayer(k).act(turns)
            said.append(reply.text)
            session.step({turns[0].seat: reply})
        found.append((task, said))
    return found


def played_here(played: list[tuple[TextArenaTask, list[str]]]) -> int:
    environment = get_environment("textarena")
    for task, said in played:
        session = environment.start(task)
        for text in said:
            session.step({session.turns()[0].seat: Reply(text)})
    return sum(len(said) for _, said in played)


def played_bare(played: list[tuple[TextArenaTask, list[str]]]) -> int:
    for task, said in played:
        game: Any = textarena.make(task.case)
        game.reset(num_players=get_environment("textarena").players_of(task), seed=task.library_seed)
        for text in said:
            game.get_observation()
            game.step(text)
    return sum(len(said) for _, said in played)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each comparison")
    rounds = parser.parse_args().rounds
    console = Console()
    table = Table(title="a second of one thread")
    for column in ("library", "case", "here", "bare", "ratio"):
        table.add_column(column, justify="left" if column in ("library", "case") else "right")
    sides: list[tuple[str, str, Way, Way]] = []
    asked: list[Asked] = []
    for names, each in ((sets.names(), 2), *(((name,), QUESTIONS) for name in SETS)):
        case = names[0] if len(names) == 1 else f"all {len(names)}"
        # The sets of the first row are asked again in the others. One more round warms caches.
        asked.append(Asked(names, each, rounds + 1, first=len(asked) * QUESTIONS * (rounds + 1)))
        sides.append((sets.NAME, case, asked[-1].here, asked[-1].bare))
    every = [case for case in games.names() if case.endswith("-v0")]
    for cases, number in ((every, 1), *(((case,), PLAYED) for case in GAMES)):
        case = cases[0] if len(cases) == 1 else f"all {len(cases)}"
        played = [game for one in cases for game in games_of(one, number)]
        sides.append(("textarena", case, partial(played_here, played), partial(played_bare, played)))
    for library, case, here, bare in sides:
        with redirect_stdout(StringIO()):  # some games print
            found = rates({"here": here, "bare": bare}, rounds)
        each = [f"{median(found[side]):,.0f}" for side in ("here", "bare")]
        table.add_row(library, case, *each, ratio(found["here"], found["bare"]))
    console.print(table)
    if failed := sum(one.failed for one in asked):
        console.print(f"reasoning-gym failed to make {failed} questions")


if __name__ == "__main__":
    main()
