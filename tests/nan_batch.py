"""A NaN in the batch of the second step, as of a faulty reward.

verl imports this module in every process if VERL_USE_EXTERNAL_MODULES names it.
"""

from typing import Any

from wrapt import when_imported


@when_imported("veritas_rl.verl_plugin.replay_buffer")
def plant(module: Any) -> None:
    """Let the replay buffer replace one reward of step 2 by NaN."""
    import torch
    import transfer_queue as tq
    from tensordict import TensorDict

    original = module.TaskReplayBuffer.sample

    def sample(self: Any, global_steps: int, partition_id: str, batch_size: int) -> tuple[Any, dict[str, float]]:
        batch, metrics = original(self, global_steps, partition_id, batch_size)
        if partition_id == "train" and global_steps == 2:
            key = batch.keys[:1]
            data: Any = tq.kv_batch_get(keys=key, partition_id=partition_id, select_fields=["rm_scores"])
            scores = data.get("rm_scores").unbind()[0].clone()
            scores[-1] = torch.nan
            broken = torch.nested.as_nested_tensor([scores], layout=torch.jagged)
            tq.kv_batch_put(keys=key, partition_id=partition_id, fields=TensorDict({"rm_scores": broken}, batch_size=1))
        return batch, metrics

    module.TaskReplayBuffer.sample = sample
