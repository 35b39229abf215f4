"""Whole games per minute in the rollout, 1, 8 and 64 at once, against the same games one by one with the same model.

    OMP_WAIT_POLICY=PASSIVE python benchmarks/games.py [--games 64] [--opponent mcts:50] [--rounds 5]

A small model that was warmed up to answer legally plays tic-tac-toe. The rollout plays as in a training run: in the
agent loop, with the rollout's Ray actor for the model and another Ray actor for the opponent. One by one, the
generation engine plays the games in this process, without Ray. The script also prints the share of the time in which
neither the model nor the opponent worked, which is the cost of the games and the agent loop.
"""

import argparse
import asyncio
import tempfile
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

import ray
from evaluation import warmed_up
from transformers import AutoTokenizer
from verl.experimental.agent_loop.agent_loop import DictConfigWrap
from verl.utils.config import omega_conf_to_dataclass

from veritas_rl.envs.base import play
from veritas_rl.envs.registry import make_task
from veritas_rl.envs.task import Task
from veritas_rl.launch.hardware import Hardware
from veritas_rl.launch.rl import plan
from veritas_rl.players.loading import ReplySettings, open_player
from veritas_rl.players.registry import make_bot
from veritas_rl.verl_plugin.agent_loop import TaskAgentLoop, start
from veritas_rl.verl_plugin.cpu.client import BatchingClient, server_name
from veritas_rl.verl_plugin.cpu.rollout import GenerationServer
from veritas_rl.verl_plugin.dataset import DynamicEnvDataset
from veritas_rl.verl_plugin.opponents import Opponent

AT_ONCE = (1, 8, 64)


class Clock:
    """Measures the time during which at least one request waits for its answer."""

    def __init__(self) -> None:
        self.busy, self._asked, self._since = 0.0, 0, 0.0

    def watch(self, ask: Any) -> Any:
        """Wrap an asynchronous function so that its calls are timed."""

        async def timed(*args: Any, **kwargs: Any) -> Any:
            if not self._asked:
                self._since = time.perf_counter()
            self._asked += 1
            try:
                return await ask(*args, **kwargs)
            finally:
                self._asked -= 1
                if not self._asked:
                    self.busy += time.perf_counter() - self._since

        return timed


async def rollout(loop: TaskAgentLoop, tasks: Sequence[Task], at_once: int) -> None:
    """Play tasks, up to `at_once` at a time."""
    for first in range(0, len(tasks), at_once):
        some = tasks[first : first + at_once]
        await asyncio.gather(*(loop.play(task, start(task), {"temperature": 1.0}) for task in some))


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", type=int, default=64)
    parser.add_argument("--opponent", default="mcts:50")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    asyncio.run(measure(given))


async def measure(given: argparse.Namespace) -> None:
    """Play all games in each way, and print rates and ratios."""
    folder = tempfile.TemporaryDirectory()
    path = warmed_up(Path(folder.name))
    made = plan([f"actor_rollout_ref.model.path={path}", "episode"], {}, Hardware(2, 0, 0), datetime.now())
    node = made.configuration.actor_rollout_ref
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    remote: Any = ray.remote(GenerationServer).options(name=server_name(0), max_concurrency=1000)
    server = remote.remote()
    await server.begin.remote(omega_conf_to_dataclass(node.rollout), node.model, "cpu")
    clock = Clock()
    client: Any = BatchingClient(servers=1)
    client.generate = clock.watch(client.generate)
    Opponent.act = clock.watch(Opponent.act)
    loop = TaskAgentLoop(
        trainer_config=DictConfigWrap(made.configuration),
        server_manager=client,
        tokenizer=AutoTokenizer.from_pretrained(path),
        processor=None,  # pyright: ignore[reportArgumentType]
        dataset_cls=DynamicEnvDataset,  # pyright: ignore[reportArgumentType]
        data_config=DictConfigWrap(made.configuration.data),
    )
    alone = open_player(str(path), "openspiel", ReplySettings(node.rollout.response_length, 1.0), Path(folder.name))
    bot = make_bot(given.opponent, "openspiel")
    tasks = [
        make_task("openspiel", "tic_tac_toe", k, mode="episode", opponent=given.opponent, seat=k % 2, prompt="brief")
        for k in range(given.games)
    ]
    rates: dict[str, list[float]] = {}
    shares: dict[int, list[float]] = {at_once: [] for at_once in AT_ONCE}
    await rollout(loop, tasks, 64)
    for _ in range(given.rounds):
        started = time.perf_counter()
        for task in tasks:
            play([start(task)], {task.manner.seat: alone.player, 1 - task.manner.seat: bot})
        rates.setdefault("one by one", []).append(60 * len(tasks) / (time.perf_counter() - started))
        for at_once in AT_ONCE:
            clock.busy, started = 0.0, time.perf_counter()
            await rollout(loop, tasks, at_once)
            seconds = time.perf_counter() - started
            rates.setdefault(f"rollout, {at_once} at once", []).append(60 * len(tasks) / seconds)
            shares[at_once].append(1 - clock.busy / seconds)
    alone.close()
    ray.shutdown()
    folder.cleanup()
    for name, found in rates.items():
        ratio = median(rate / floor for rate, floor in zip(found, rates["one by one"], strict=True))
        print(f"{name:>20}  {median(found):7.0f} games/min  ratio {ratio:.2f}")
    for at_once, found in shares.items():
        print(f"neither model nor opponent, {at_once} at once: {100 * median(found):.1f}% of the time")


if __name__ == "__main__":
    main()
