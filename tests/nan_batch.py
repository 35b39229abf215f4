"""A replay buffer that puts a NaN into the batch of the second step, as a broken reward would."""

from typing import Any

import torch
import transfer_queue as tq
from tensordict import TensorDict
from transfer_queue import KVBatchMeta

from veritas_rl.verl_plugin.replay_buffer import TaskReplayBuffer


class NanReplayBuffer(TaskReplayBuffer):
    """As `TaskReplayBuffer`, but for the reward of one reply."""

    def sample(self, global_steps: int, partition_id: str, batch_size: int) -> tuple[KVBatchMeta, dict[str, float]]:
        """A batch; that of step 2 is broken."""
        batch, metrics = super().sample(global_steps, partition_id, batch_size)
        if partition_id == "train" and global_steps == 2:
            key = batch.keys[:1]
            data: Any = tq.kv_batch_get(keys=key, partition_id=partition_id, select_fields=["rm_scores"])
            scores = data.get("rm_scores").unbind()[0].clone()
            scores[-1] = torch.nan
            broken = torch.nested.as_nested_tensor([scores], layout=torch.jagged)
            tq.kv_batch_put(keys=key, partition_id=partition_id, fields=TensorDict({"rm_scores": broken}, batch_size=1))
        return batch, metrics
