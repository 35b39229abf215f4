"""verl's replay buffer with quick polls, metrics of tasks, and no silent failures.

`trainer.v1.sampler.custom_sampler` selects it, and the trainer `game_async` uses its asynchronous form. verl's own
buffer polls every 2 s, which is most of a small step. It logs no `reward_extra_info` in training, and trains on a
padded batch after an agent loop has raised an error.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import transfer_queue as tq
from tensordict import TensorDict
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer, ReplayBufferAsync

from veritas_rl.verl_plugin.batches import VariedGroups
from veritas_rl.verl_plugin.columns import row_sums
from veritas_rl.verl_plugin.learning_watch import REASON, UNLEARNED
from veritas_rl.verl_plugin.reward import PENALTY
from veritas_rl.verl_plugin.sample_key import SampleKey

POLL_SECONDS = 0.05
"""Seconds between two polls. A poll takes about a millisecond."""


LEFT_OUT, DRAWN, SUCCESS = (f"training/filter_groups/{name}" for name in ("left_out", "drawn", "success"))
"""The metrics of dynamic sampling: the groups of a step that do not vary, all that were drawn for it, and the share of
success in the batch, where `task/success` is that of all."""


class TaskReplayBuffer(ReplayBuffer):
    """Samples as verl does, and adds metrics by environment and group to each training batch.

    Attributes:
        infos: Key and `reward_info` of each reply of the last training batch.
        left_out: The same of the replies that were played for it and left out.
        varied: How groups are chosen; None to take all.
        range: The least and the largest reward of the last training batch, before penalties for length.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(poll_interval=POLL_SECONDS, **kwargs)
        self.infos: list[tuple[str, dict[str, Any]]] = []
        self.left_out: list[tuple[str, dict[str, Any]]] = []
        self.varied: VariedGroups | None = None
        self.range = 0.0, 0.0

    def _sync_metadata_from_transfer_queue(self) -> None:
        super()._sync_metadata_from_transfer_queue()
        failed = sum(len(keys) for keys in self.failure_keys.values())
        if failed:
            raise RuntimeError(
                f"{failed} samples failed in the agent loop because of a program error: its traceback is above, after "
                "'Error in playing'"
            )

    def sample(self, global_steps: int, partition_id: str, batch_size: int) -> tuple[KVBatchMeta, dict[str, float]]:
        """A batch as verl samples it, with the metrics of its games added."""
        training = partition_id == "train"
        played = self._choose(self.varied, batch_size) if training and self.varied is not None else {}
        batch, metrics = super().sample(global_steps=global_steps, partition_id=partition_id, batch_size=batch_size)
        if training:
            data, fields, paid = _read(batch.keys, "response_mask")
            rewards = _before(fields, paid)
            self.range = min(rewards), max(rewards)
            of_batch = task_metrics(batch.keys, fields, rewards)
            metrics |= played | {SUCCESS: of_batch["task/success"]} if played else of_batch
            metrics[UNLEARNED] = (row_sums(data.get("response_mask")) == 0).double().mean().item()
            self.infos = [(key, said["reward_extra_info"]) for key, said in zip(batch.keys, fields, strict=True)]
        return batch, metrics

    def _choose(self, varied: VariedGroups, batch_size: int) -> dict[str, float]:
        """Draw more groups until enough vary, and remove the others from the queue.

        verl's own buffer draws them as replies end, so the same run would take other tasks each time. Here a step waits
        for its replies, draws twice as many groups as are missing, and takes those that vary in the order of their
        draws.

        Returns:
            The metrics of all games that were played for it, and of the choice.
        """
        drawn = batch_size
        while True:
            self._sync_metadata_from_transfer_queue()
            if self.pending_keys["train"] or self.running_keys["train"]:
                time.sleep(self.poll_interval)
                continue
            keys = list(self.partitions["train"])
            _, fields, paid = _read(keys)
            differ = varied.uids(keys, fields, paid)
            more = min(2 * (batch_size - len(differ)), varied.batches * batch_size - drawn)
            if more <= 0:
                break
            assert self.refill_fn is not None
            self.refill_fn(more)
            drawn += more
        order = sorted(self.finished_keys["train"], key=lambda uid: (uid not in differ, varied.order[uid]))
        removed = set(order[batch_size:])
        self.left_out = [
            (key, said["reward_extra_info"])
            for key, said in zip(keys, fields, strict=True)
            if SampleKey.parse(key).uid in removed
        ]
        self._clear_groups("train", removed)
        return task_metrics(keys, fields, _before(fields, paid)) | {
            LEFT_OUT: float(drawn - len(differ)),
            DRAWN: float(drawn),
        }


class AsyncTaskReplayBuffer(TaskReplayBuffer, ReplayBufferAsync):
    """`TaskReplayBuffer` for games that continue from step to step."""


def _read(keys: list[str], *more: str) -> tuple[TensorDict, list[dict[str, Any]], list[float]]:
    """Columns of a training batch: these and `more`, the extra fields, and the reward of each reply."""
    data = tq.kv_batch_get(keys=keys, partition_id="train", select_fields=["extra_fields", "rm_scores", *more])
    rewards = [scores.sum().item() for scores in data.get("rm_scores").unbind()]
    return data, data.get("extra_fields").tolist(), rewards


def _before(fields: Sequence[Mapping[str, Any]], paid: Sequence[float]) -> list[float]:
    """Rewards before the penalty for the length of their replies."""
    lost = (said["reward_extra_info"].get(PENALTY, 0.0) for said in fields)
    return [reward + penalty for reward, penalty in zip(paid, lost, strict=True)]


def task_metrics(
    keys: Sequence[str], fields: Sequence[Mapping[str, Any]], rewards: Sequence[float]
) -> dict[str, float]:
    """Means over a batch. Each seat of each game counts once, however many replies it has.

    Args:
        keys: The key of each sample, see `SampleKey`.
        fields: The agent loop's extra fields of each sample.
        rewards: The reward of each sample. A seat's reward is the mean over its replies.

    Returns:
        `task/success` over the batch, the same by environment and group (`openspiel/success`, `openspiel/hex/success`),
        and in whole games by opponent (`openspiel/vs_mcts:50/success`) and seat (`openspiel/seat_0/success`). For each
        reason that occurs its share, such as `task/reason/truncated`.
    """
    seats: dict[tuple[tuple[str, int], int], list[tuple[int, int]]] = defaultdict(list)
    for index, key in enumerate(map(SampleKey.parse, keys)):
        seats[key.session, fields[index]["move"]["seat"]].append((key.reply, index))
    sums: dict[str, list[float]] = defaultdict(list)
    reasons: Counter[str] = Counter()
    for (_, seat), members in seats.items():
        _, last = max(members)
        move, info = fields[last]["move"], fields[last]["reward_extra_info"]
        reward = sum(rewards[index] for _, index in members) / len(members)
        environment = info["group"].partition("/")[0]
        groups = ["task", environment, info["group"]]
        reasons[info["reason"]] += 1
        more: dict[str, float] = {}
        if "moves" in info:
            groups += [f"{environment}/vs_{move['opponent']}", f"{environment}/seat_{seat}"]
            more["opponent_wait"] = move["opponent_wait"]
        for name, value in (info | more | {"reward": reward}).items():
            if isinstance(value, float):
                for group in groups:
                    sums[f"{group}/{name}"].append(value)
    shares = {f"{REASON}{reason}": count / len(seats) for reason, count in reasons.items()}
    return shares | {name: sum(values) / len(values) for name, values in sums.items()}
