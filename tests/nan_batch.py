"""A replay buffer that puts a NaN into the batch of the second step, as a faulty reward would."""

from typing import Any

import torch
import transfer_queue as tq
from tensordict import TensorDict
from transfer_queue import KVBatchMeta

from veritas_rl.verl_plugin.replay_buffer import TaskReplayBuffer


class NanReplayBuffer(TaskReplayBuffer):
    """A `TaskReplayBuffer` that replaces one reward in step 2 by NaN."""

    def sample(self, global_steps: int, partition_id: str, batch_size: int) -> tuple[KVBatchMeta, dict[str, float]]:
        """Sample a batch; the training batch of step 2 has a NaN."""
        batch, metrics = super().sample(global_steps, partition_id, batch_size)
        if partition_id == "train" and global_steps == 2:
            key = batch.keys[:1]
            data: Any = tq.kv_batch_get(keys=key, partition_id=partition_id, select_fields=["rm_scores"])
            scores = data.get("rm_scores").unbind()[0].clone()
            scores[-1] = torch.nan
            broken = torch.nested.as_nested_tensor([scores], layout=torch.jagged)
            tq.kv_batch_put(keys=key, partition_id=partition_id, fields=TensorDict({"rm_scores": broken}, batch_size=1))
        return batch, metrics
