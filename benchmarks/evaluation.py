"""Games per second of an evaluation that plays all games at once, against one that plays them one by one.

    OMP_WAIT_POLICY=PASSIVE python benchmarks/evaluation.py [--games 1000] [--alone 40] [--rounds 3]

The small model of the CPU run, warmed up until it plays mostly legal moves, plays whole games of tic-tac-toe against a
random player. Both ways use the same engine and alternate, and the script prints how many of their games are equal. It
measures temperature 0, where equal positions are asked once, and temperature 1, where each reply is sampled. It prints
the medians and the ratios.
"""

import argparse
import itertools
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from veritas_rl.checkpoints.models import quiet
from veritas_rl.envs.registry import make_task
from veritas_rl.judging.finished_game import FinishedGame
from veritas_rl.judging.matches import Pairing, Rules, pair, play_all
from veritas_rl.launch.small_model import lessons_of
from veritas_rl.launch.tiny_model import build_tiny_model
from veritas_rl.launch.warmup import warm_up
from veritas_rl.players.loading import ReplySettings, open_player

STEPS, BATCH = 60, 64


def warmed_up(folder: Path) -> Path:
    """A model that plays mostly legal moves."""
    tasks = (make_task("openspiel", "tic_tac_toe", k, prompt="brief") for k in itertools.count())
    lessons = [one for task in itertools.islice(tasks, STEPS * BATCH) for one in lessons_of(task, str(task.k))]
    made = build_tiny_model(folder / "model", seed=0)
    found = warm_up(
        made,
        folder / "warm",
        lessons,
        steps=STEPS,
        batch_size=BATCH,
        learning_rate=3e-3,
        seed=0,
        on_step=lambda now: None,
    )
    print(f"warm-up: {found['seconds']:.0f} s")
    return folder / "warm"


def timed(pairings: Sequence[Pairing], at_once: int) -> tuple[float, list[FinishedGame]]:
    """Play games; return the seconds taken and the finished games."""
    games: dict[str, FinishedGame] = {}
    started = time.perf_counter()
    play_all(pairings, at_once, lambda pairing, game, _: games.update({pairing.key: game}))
    return time.perf_counter() - started, [games[pairing.key] for pairing in pairings]


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", type=int, default=1000)
    parser.add_argument(
        "--alone", type=int, default=40, help="number of the --games that are also played one by one; default: 40"
    )
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    quiet()
    with tempfile.TemporaryDirectory() as name:
        folder = warmed_up(Path(name))
        for temperature in (0.0, 1.0):
            settings = ReplySettings(max_tokens=8, temperature=temperature, concurrency=512)
            player, opponent = (open_player(who, "openspiel", settings, folder) for who in (str(folder), "random"))
            pairings = pair(["tic_tac_toe"], given.games, [player], [opponent], Rules("openspiel", prompt="brief"))
            few = pairings[: given.alone]
            timed(few, len(few))
            rates: list[tuple[float, float]] = []
            all_games, some_games = list[FinishedGame](), list[FinishedGame]()
            for _ in range(given.rounds):
                together, all_games = timed(pairings, len(pairings))
                apart, some_games = timed(few, 1)
                rates.append((len(pairings) / together, len(few) / apart))
            player.close()
            same = sum(one == other for one, other in zip(all_games, some_games, strict=False))
            moves = sum(game.moves for game in all_games) / len(all_games)
            print(
                f"temperature {temperature:g}: {median(rate for rate, _ in rates):6.1f} games/s at once, "
                f"{median(rate for _, rate in rates):5.1f} one by one, "
                f"ratio {median(one / other for one, other in rates):.1f} (median of {given.rounds}); "
                f"{moves:.1f} replies a game, {same} of {len(few)} games are equal"
            )


if __name__ == "__main__":
    main()
