"""Train actor and critic at the same time, each in a process of its own.

verl puts both into one process and updates one after the other. If an update uses one of two cores, the other core
waits. Neither update depends on the other.
"""

import dataclasses
import os
import time
from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import Any

from omegaconf import DictConfig
from transfer_queue import KVBatchMeta
from verl.single_controller.ray.base import RayResourcePool, ResourcePoolManager
from verl.trainer.ppo.utils import Role, need_critic

from veritas_rl.verl_plugin.cpu import switch

POOL = "critic_pool"

Update = Callable[[KVBatchMeta, dict[str, Any]], KVBatchMeta]
"""verl's update of the critic, from a batch and the metrics to fill."""


def has_cores(config: DictConfig) -> bool:
    """Whether a run has a critic, and enough cores for an actor and a critic at a time.

    Args:
        config: verl's full configuration.
    """
    if not need_critic(config) or config.trainer.nnodes > 1:
        return False
    cores = len(os.sched_getaffinity(0))
    threads = int(os.environ.get("OMP_NUM_THREADS") or cores)
    return 2 * threads * config.trainer.n_gpus_per_node <= cores and switch.SEPARATE_CRITIC not in switch.left_off()


class SeparateCritic:
    """The critic's own processes, and its update in the background. All methods are called by the trainer."""

    def __init__(self) -> None:
        self._running: Future[tuple[dict[str, Any], float]] | None = None

    def pools(self, found: ResourcePoolManager) -> ResourcePoolManager:
        """verl's resource pools, and one more for the critic."""
        mapping: Any = {**found.mapping, Role.Critic: POOL}
        return _Pools(found.resource_pool_spec, mapping)

    def start(self, update: Update, batch: KVBatchMeta) -> None:
        """Start an update of the critic."""
        # The update of the actor writes its own settings into the same dictionary.
        own = dataclasses.replace(batch, extra_info=dict(batch.extra_info or {}))

        running = self._running = Future()

        def run() -> None:
            started, metrics = time.perf_counter(), {}
            try:
                update(own, metrics)
            except Exception as error:
                running.set_exception(error)
            else:
                running.set_result((metrics, time.perf_counter() - started))

        # A daemon does not keep the trainer alive if the update of the actor raises.
        Thread(target=run, daemon=True).start()

    def finish(self, metrics: dict[str, Any], timing: dict[str, float]) -> None:
        """Wait for the update, and add its metrics and its seconds."""
        if self._running is not None:
            found, timing["update_critic"] = self._running.result()
            metrics.update(found)
            self._running = None


class _Pools(ResourcePoolManager):
    """verl's pools, and one for the critic with as many processes, which needs no rank of its own in Ray."""

    def create_resource_pool(self) -> None:
        super().create_resource_pool()
        ranks = list(self.resource_pool_dict["global_pool"].store)
        self.resource_pool_dict[POOL] = RayResourcePool(ranks, False, POOL, max_colocate_count=1)
