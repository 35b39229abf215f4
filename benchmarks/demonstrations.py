"""Labeled states per second of the exact solver on tic-tac-toe, against a target and an alternating naive loop.

    python benchmarks/demonstrations.py [--number 2000] [--rounds 5]

A state counts once it is drawn, checked against earlier states and the held-out states, labeled, and scored by the
environment. The naive loop does the minimum that gives labels with OpenSpiel: it plays a random game, stops at a random
move and asks the same solver. It does not score, and does not check whether the state is new or held out. Both sides
start with the game solved. The script prints the median of each side and the ratios to the target and the naive loop.
"""

import argparse
import time
from collections.abc import Callable
from random import Random
from statistics import median

from veritas_rl.demonstrations.generate import Settings, generate
from veritas_rl.envs.openspiel.cases import load
from veritas_rl.envs.openspiel.values.minimax import solver_of

TARGET = 2_000
"""Labeled states per second on one core."""


def naive(number: int) -> int:
    """Label random states with a plain loop; return their number."""
    game, random = load("tic_tac_toe"), Random(0)
    solver = solver_of(game.case)
    for _ in range(number):
        moves, state = random.randrange(9), game.spiel.new_initial_state()
        for _ in range(moves):
            after = state.child(random.choice(state.legal_actions()))
            if after.is_terminal():
                break
            state = after
        random.choice(solver.optimal_actions(state))
    return number


def rate(work: Callable[[], int]) -> float:
    """The number of states that a single-threaded call labels per second of CPU time."""
    started = time.process_time()
    labelled = work()
    return labelled / (time.process_time() - started)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--number", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    settings = Settings(games="tic_tac_toe", expert="exact", number=given.number, prompt="brief")
    ways = {"naive loop": lambda: naive(given.number), "demonstrations": lambda: len(generate(settings)[0])}
    for work in ways.values():
        work()
    rates = [{name: rate(work) for name, work in ways.items()} for _ in range(given.rounds)]
    for name in ways:
        found = median(each[name] for each in rates)
        against = median(each[name] / each["naive loop"] for each in rates)
        print(f"{name:>15}  {found:7.0f} states/s  {found / TARGET:.2f} of the target  ratio {against:.2f}")


if __name__ == "__main__":
    main()
