"""The trainer `game`, which also writes what `test_updates.py` reads: the weights before training, and each batch.

verl imports this file at `import verl`, because VERL_USE_EXTERNAL_MODULES names it. A step itself is not changed.
"""

import os
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import transfer_queue as tq
from transfer_queue import KVBatchMeta
from wrapt import when_imported

FOLDER = "RECORDED_RUN"
"""The environment variable with the folder of the files."""


@when_imported("verl.trainer.ppo.v1")
def _register(module: ModuleType) -> None:
    from verl.trainer.ppo.v1.trainer_base import TRAINER_REGISTRY

    from veritas_rl.verl_plugin.trainer import TaskTrainer

    class RecordedTrainer(TaskTrainer):
        folder = Path(os.environ[FOLDER])

        def on_train_begin(self) -> None:
            super().on_train_begin()
            self.actor_rollout_wg.save_checkpoint(str(self.folder / "start/actor"))
            if self.use_critic:
                self.critic_wg.save_checkpoint(str(self.folder / "start/critic"))

        def _step_once(self, *args: Any, **kwargs: Any) -> KVBatchMeta:
            batch = super()._step_once(*args, **kwargs)
            data: Any = tq.kv_batch_get(keys=batch.keys, partition_id=str(batch.partition_id))
            columns = {
                name: [row.clone() for row in column.unbind()] if isinstance(column, torch.Tensor) else column.tolist()
                for name, column in data.items()
            }
            learners = {"actor": self.config.actor_rollout_ref.actor, "critic": self.config.critic}
            copies = self.config.actor_rollout_ref.rollout.n
            record = {
                "keys": batch.keys,
                "padding": [bool(tag.get("is_padding")) for tag in batch.tags],
                "mini_batch_rows": {role: node.ppo_mini_batch_size * copies for role, node in learners.items()},
                "columns": columns,
            }
            torch.save(record, self.folder / f"step_{self.global_steps}.pt")
            return batch

    TRAINER_REGISTRY["game"] = RecordedTrainer
