"""verl's replay buffer with what a game run needs: quick polls, game metrics, and no silent failures.

Chosen by `trainer.v1.sampler.custom_sampler`. verl's own looks every 2 s whether a batch is there, which is most of
a small step; logs none of `reward_extra_info` in training; and trains on a padded batch when an agent loop raised.
"""

from collections import defaultdict
from typing import Any

import transfer_queue as tq
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer

POLL_SECONDS = 0.05
"""How often the queue is asked; one question costs about a millisecond."""


class GameReplayBuffer(ReplayBuffer):
    """Samples as verl does, and adds `game/...` metrics to each training batch."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(poll_interval=POLL_SECONDS, **kwargs)

    def _sync_metadata_from_transfer_queue(self) -> None:
        super()._sync_metadata_from_transfer_queue()
        failed = sum(len(keys) for keys in self.failure_keys.values())
        if failed:
            raise RuntimeError(
                f"{failed} samples failed in the agent loop: an error of the program, not of the model. "
                "Its traceback stands above, after 'Error in playing'."
            )

    def sample(self, global_steps: int, partition_id: str, batch_size: int) -> tuple[KVBatchMeta, dict[str, float]]:
        """A batch as verl samples it, with the metrics of its games."""
        batch, metrics = super().sample(global_steps=global_steps, partition_id=partition_id, batch_size=batch_size)
        if partition_id == "train":
            metrics |= self._game_metrics(batch.keys, partition_id)
        return batch, metrics

    @staticmethod
    def _game_metrics(keys: list[str], partition_id: str) -> dict[str, float]:
        """Means over a batch, and by game: `game/reward`, `game/success`, `game/hex/legal`, ..."""
        columns = ["extra_fields", "data_source", "rm_scores"]
        data = tq.kv_batch_get(keys=keys, partition_id=partition_id, select_fields=columns)
        sums: dict[str, list[float]] = defaultdict(list)
        rewards = [scores.sum().item() for scores in data.get("rm_scores").unbind()]
        samples = zip(data.get("extra_fields").tolist(), data.get("data_source").tolist(), rewards, strict=True)
        for fields, game, reward in samples:
            for name, value in (fields["reward_extra_info"] | {"reward": reward}).items():
                if isinstance(value, float):
                    sums[f"game/{name}"].append(value)
                    sums[f"game/{game}/{name}"].append(value)
        return {name: sum(values) / len(values) for name, values in sums.items()}
