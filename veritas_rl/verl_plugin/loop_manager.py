"""Start the workers that play, and distribute each batch to them. The YAML sets it as verl's
`agent_loop_manager_class`.

verl's modules import this package's trainer, which imports this module. Both therefore refer to each other as modules,
so that either may be imported first.
"""

import asyncio
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, TypeVar

import ray
from omegaconf import DictConfig
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from tensordict import TensorDict
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopManagerTQ
from verl.utils import tensordict_utils as tu

from veritas_rl.envs.task import Task
from veritas_rl.seeding import digest
from veritas_rl.verl_plugin import loop_worker

T = TypeVar("T")


class TaskLoopManager(AgentLoopManagerTQ):
    """verl's manager with this package's workers."""

    started: ClassVar[list[Any]] = []
    """Workers that are created but not yet initialized."""

    @classmethod
    def start_workers(cls, config: DictConfig) -> None:
        """Create the workers round-robin on all nodes, in parallel with the trainer's other work."""
        nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0) > 0]
        cls.started = [
            loop_worker.TaskLoopWorker.options(
                scheduling_strategy=NodeAffinitySchedulingStrategy(node_id=nodes[index % len(nodes)], soft=True)
            ).remote()
            for index in range(config.actor_rollout_ref.rollout.agent.num_workers)
        ]

    async def _init_agent_loop_workers(self) -> None:
        if not self.started:
            self.start_workers(self.config)
        self.agent_loop_workers = self.started
        made_with = (self.config, self.llm_client, self.teacher_client, self.reward_loop_worker_handles)
        await asyncio.gather(*(worker.begin.remote(*made_with) for worker in self.agent_loop_workers))

    def generate_sequences(self, prompts: TensorDict) -> None:
        """Distribute the rows of a batch to the workers, which start to play.

        verl would send the whole batch, which takes as long as a small model takes to play it.
        """
        columns = (tu.get(prompts, name) for name in loop_worker.NEEDED)
        rows = [dict(zip(loop_worker.NEEDED, values, strict=True)) for values in zip(*columns, strict=True)]
        step, validate = int(tu.get(prompts, "global_steps")), bool(tu.get(prompts, "validate", default=False))
        dealt = self._deal(rows, lambda row: row["extra_info"]["task_id"])
        ray.get([worker.play.remote(some, step, validate) for worker, some in dealt])

    def prepare(self, tasks: Sequence[Task]) -> None:
        """Let the workers prepare tasks of the next batch while they have nothing to play."""
        for worker, some in self._deal(tasks, lambda task: task.id):
            worker.prepare.remote(some)

    def _deal(self, items: Iterable[T], task_id: Callable[[T], str]) -> Iterator[tuple[Any, list[T]]]:
        """The workers with their shares. In every epoch a task goes to about the same worker, which has the task's
        position and values in memory."""
        ordered = sorted(items, key=lambda item: digest(task_id(item)))
        share = math.ceil(len(ordered) / len(self.agent_loop_workers)) or 1
        shares = (ordered[first : first + share] for first in range(0, len(ordered), share))
        return zip(self.agent_loop_workers, shares, strict=False)
