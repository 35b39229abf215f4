"""The cost of the OpenSpiel environment, as ratios to peers that run alternately with it in one process.

    python benchmarks/env_throughput.py [--rounds 7] [--part NAME ...]

- `games`: steps per second of whole games. Both sides get the same moves and make a new session for each game; each
  step builds the full prompt and parses the reply. This package also lists and checks every legal action. The peers are
  textarena, where it is installed (`bash train/scripts/setup.sh bench`), and bare pyspiel calls that play the same
  moves.
- `rewards`: rewards per second of single moves with the reward `outcome`, from the start of the session to its score,
  against a plain Python loop of as many playouts from the same position.
- `search`: moves per second of the MCTS player against OpenSpiel's Python bots at equal simulations. Neither side may
  stop early when it has proven its move.
- `catalogue`: the cost of opening a catalogue, drawing a task and starting it, for few and for many tasks and cases.

The script prints medians over the rounds. Times are CPU seconds of its only thread, without other load on the machine.
"""

import argparse
import importlib
import importlib.util
import itertools
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from random import Random
from statistics import median

import numpy as np
import pyspiel
from open_spiel.python.algorithms import ismcts, mcts
from rich.console import Console
from rich.table import Table

from veritas_rl.envs.base import Reply, Turn
from veritas_rl.envs.openspiel import playing
from veritas_rl.envs.openspiel.cases import AVAILABLE_CASES, load
from veritas_rl.envs.openspiel.env import OpenSpielConfig, OpenSpielEnvironment
from veritas_rl.envs.openspiel.players.mcts import EXPLORATION, MCTSPlayer
from veritas_rl.envs.openspiel.text import answer
from veritas_rl.envs.registry import make_task
from veritas_rl.envs.task import Task

ENVIRONMENT = OpenSpielEnvironment()
GAMES = {"tic_tac_toe": "TicTacToe-v0", "kuhn_poker": "KuhnPoker-v0", "connect_four": "ConnectFour-v0"}
"""The id in textarena of each case."""
ALONE = ("hex(board_size=5)", "clobber(columns=5,rows=5)", "othello")
"""Cases that are compared only with bare pyspiel calls."""
REWARDED = ("hex(board_size=5)", "clobber(columns=5,rows=5)")
SEARCHED = ("hex(board_size=5)", "clobber(columns=5,rows=5)", "leduc_poker", "liars_dice", "liars_dice(numdice=5)")
STARTED = "hex(board_size=5)"
PLAYOUTS = 64
SIMULATIONS = 200
SEEDS = itertools.count()
"""A new seed for each round, so that no deal repeats."""
DRAWS = 2000
"""How many times a catalogue is opened, and how many tasks are drawn from it."""
STARTS = 10

Way = Callable[[], int]
"""Does some work and returns the number of units done."""


def rates(ways: Mapping[str, Way], rounds: int) -> dict[str, list[float]]:
    """Units of work per CPU second of each way, one number per round; the ways alternate."""
    found: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, work in ways.items():
            started = time.process_time()
            done = work()
            took = time.process_time() - started
            if number:  # the first round warms caches
                found[name].append(done / took)
    return found


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> str:
    """The median of the ratios of each round."""
    return f"{median(mine / other for mine, other in zip(ours, theirs, strict=True)):.2f}"


def moves_of(case: str, games: int) -> list[list[int]]:
    """The players' actions in some random games, one list per game."""
    game, random = load(case), Random(0)
    played = []
    for _ in range(games):
        state, actions = game.spiel.new_initial_state(), []
        while not state.is_terminal():
            if state.is_chance_node():
                playing.apply_chance(state, random.random())
                continue
            actions.append(random.choice(state.legal_actions()))
            state.apply_action(actions[-1])
        played.append(actions)
    return played


def ours(case: str, games: Sequence[Sequence[int]]) -> Way:
    """Whole games through the environment, with new deals in each round."""
    number = load(case).number
    said = [[answer(number(action)) for action in actions] for actions in games]

    def play() -> int:
        seed = next(SEEDS)
        for k, texts in enumerate(said):
            session = ENVIRONMENT.start(make_task(ENVIRONMENT.name, case, k, mode="episode", seat=0, seed=seed))
            for text in texts:
                (turn,) = session.turns()
                session.step({turn.seat: Reply(text)})
            session.scores()
        return sum(map(len, games))

    return play


def bare(case: str, games: Sequence[Sequence[int]]) -> Way:
    """The same games by the pyspiel calls that any player needs."""
    spiel = load(case).spiel

    def play() -> int:
        for actions in games:
            state = spiel.new_initial_state()
            for action in actions:
                while state.is_chance_node():
                    state.apply_action(state.chance_outcomes()[0][0])
                state.legal_actions()
                state.apply_action(action)
            state.returns()
        return sum(map(len, games))

    return play


def textarena_games(case: str, games: Sequence[Sequence[int]]) -> Way:
    """The same games in textarena."""
    textarena = importlib.import_module("textarena")  # by name, as it is an optional dependency

    said = [_kuhn_words(actions) if case == "kuhn_poker" else [f"[{a}]" for a in actions] for actions in games]
    options = {"max_rounds": 1} if case == "kuhn_poker" else {}  # one hand per game, as in this package

    def play() -> int:
        for seed, texts in enumerate(said):
            environment = textarena.make(GAMES[case], **options)
            environment.reset(num_players=2, seed=seed)
            ended = False
            for text in texts:
                environment.get_observation()
                ended, _ = environment.step(text)
            assert ended, f"textarena reads {texts} in another way"
            environment.close()
        return sum(map(len, games))

    return play


def _kuhn_words(actions: Sequence[int]) -> list[str]:
    return [
        f"[{(('check', 'bet'), ('fold', 'call'))[1 in actions[:place]][action]}]"
        for place, action in enumerate(actions)
    ]


def compare_games(rounds: int, console: Console) -> None:
    """Print the part `games`."""
    peer = importlib.util.find_spec("textarena") is not None
    if not peer:
        console.print(
            "textarena is not installed, so it is not compared; install it: bash train/scripts/setup.sh bench",
            markup=False,
        )
    table = _table("Whole games, steps/s", "case", "ours", "textarena", "ratio", "bare pyspiel", "share kept")
    for case in (*GAMES, *ALONE):
        games = moves_of(case, 100)
        ways = {"ours": ours(case, games), "bare": bare(case, games)}
        if peer and case in GAMES:
            ways["textarena"] = textarena_games(case, games)
        found = rates(ways, rounds)
        mine, raw, theirs = found["ours"], found["bare"], found.get("textarena")
        against = (f"{median(theirs):,.0f}", ratio(mine, theirs)) if theirs else ("", "")
        table.add_row(case, f"{median(mine):,.0f}", *against, f"{median(raw):,.0f}", ratio(mine, raw))
    console.print(table)


def compare_rewards(rounds: int, console: Console) -> None:
    """Print the part `rewards`."""
    table = _table(f"Rewards/s, {PLAYOUTS} playouts each", "case", "ours", "Python loop", "ratio")
    for case in REWARDED:
        tasks = [make_task(ENVIRONMENT.name, case, k, playouts=PLAYOUTS) for k in range(40)]
        asked = [ENVIRONMENT.start(task).turns()[0] for task in tasks]

        def through(tasks: Sequence[Task] = tasks) -> int:
            for task in tasks:
                session = ENVIRONMENT.start(task)
                (turn,) = session.turns()
                session.step({turn.seat: Reply(turn.answers[0])})
                session.scores()
            return len(tasks)

        def loop(decisions: Sequence[tuple] = tuple((turn.view, turn.seat) for turn in asked)) -> int:
            random = Random(0)
            for view, seat in decisions:
                total = 0.0
                for _ in range(PLAYOUTS):
                    state = view.state.child(view.actions[0])
                    while not state.is_terminal():
                        state.apply_action(random.choice(state.legal_actions()))
                    total += (1 + state.player_return(seat)) / 2
                assert 0 <= total / PLAYOUTS <= 1
            return len(decisions)

        found = rates({"ours": through, "loop": loop}, rounds)
        table.add_row(
            case,
            f"{median(found['ours']):,.0f}",
            f"{median(found['loop']):,.0f}",
            ratio(found["ours"], found["loop"]),
        )
    console.print(table)


def compare_searches(rounds: int, console: Console) -> None:
    """Print the part `search`."""
    table = _table(f"MCTS moves/s, {SIMULATIONS} simulations each", "case", "ours", "OpenSpiel's Python bot", "ratio")
    for case in SEARCHED:
        game = load(case)
        turns = [_first_turn(case, k) for k in range(4)]
        player = MCTSPlayer(SIMULATIONS, solve=False)

        def searched(player: MCTSPlayer = player, turns: Sequence = turns) -> int:
            return len(player.act(turns))

        evaluator = mcts.RandomRolloutEvaluator(1, np.random.RandomState(0))
        if case == "leduc_poker":  # plain MCTS for liar's dice: OpenSpiel cannot resample its hidden dice
            bot = ismcts.ISMCTSBot(game.spiel, evaluator, EXPLORATION, SIMULATIONS)
        else:
            dice = np.random.RandomState(0)
            bot = mcts.MCTSBot(game.spiel, EXPLORATION, SIMULATIONS, evaluator, solve=False, random_state=dice)

        def peer(bot: pyspiel.Bot = bot, turns: Sequence = turns) -> int:
            for turn in turns:
                bot.step(turn.view.state)
            return len(turns)

        found = rates({"ours": searched, "peer": peer}, rounds)
        table.add_row(
            case,
            f"{median(found['ours']):,.1f}",
            f"{median(found['peer']):,.1f}",
            ratio(found["ours"], found["peer"]),
        )
    console.print(table)


def compare_catalogues(rounds: int, console: Console) -> None:
    """Print the part `catalogue`."""
    table = _table("A catalogue, microseconds", "cases", "tasks of each", "open", "draw a task", "start it")
    for cases, tasks in itertools.product((1, 30), (100, 10**9)):
        names = dict.fromkeys((STARTED, *AVAILABLE_CASES))
        timed = [_catalogue_costs(list(names)[:cases], tasks, seed) for seed in range(rounds + 1)][1:]
        table.add_row(str(cases), f"{tasks:,}", *(f"{1e6 * median(costs):,.1f}" for costs in zip(*timed, strict=True)))
    console.print(table)


def _catalogue_costs(cases: Sequence[str], tasks: int, seed: int) -> tuple[float, float, float]:
    """Seconds to open a catalogue, to draw a random task from it, and to start a new task of the case `STARTED`."""
    random = Random(seed)
    config = OpenSpielConfig(cases=cases, num_tasks_per_case=tasks, seed=seed)
    length = len(ENVIRONMENT.catalogue(config, "train"))
    indices = [random.randrange(length) for _ in range(DRAWS)]
    started = time.process_time()
    for _ in range(DRAWS):
        ENVIRONMENT.catalogue(config, "train")
    opened = time.process_time()
    catalogue = ENVIRONMENT.catalogue(config, "train")
    drawn = [catalogue[index] for index in indices]
    found = time.process_time()
    fresh = [task for task in drawn if task.case == STARTED][:STARTS]
    begun = time.process_time()
    for task in fresh:
        ENVIRONMENT.start(task)
    ended = time.process_time()
    return (opened - started) / DRAWS, (found - opened) / DRAWS, (ended - begun) / len(fresh)


def _first_turn(case: str, k: int) -> Turn:
    return ENVIRONMENT.start(make_task(ENVIRONMENT.name, case, k, mode="episode")).turns()[0]


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title)
    for place, column in enumerate(columns):
        table.add_column(column, justify="right" if place else "left")
    return table


PARTS = {
    "games": compare_games,
    "rewards": compare_rewards,
    "search": compare_searches,
    "catalogue": compare_catalogues,
}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--part", choices=PARTS, nargs="+", default=list(PARTS))
    given = parser.parse_args()
    warnings.filterwarnings("ignore", message=".*has no description of its own")
    console = Console()
    for part in given.part:
        PARTS[part](given.rounds, console)


if __name__ == "__main__":
    main()
