"""The dataset that verl reads: rows are made from tasks when they are asked for, so opening it costs nothing.

verl makes one for training and one for validation from the same class and configuration; only `data_files` differs,
and the words "train" and "val" stand there. The dataset draws its order itself, because verl's own shuffle lists every
index: use `data.shuffle=False` and `data.dataloader_num_workers=0`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch.utils.data import Dataset

from veritas_rl.envs.base import SPLITS, Task
from veritas_rl.envs.registry import get_environment, open_catalogue
from veritas_rl.errors import UserError
from veritas_rl.permutation import Permutation

AGENT_LOOP = "game_agent"


def split_of(data_files: str | Sequence[str]) -> str:
    """Which split `data.train_files` or `data.val_files` names: the words "train" and "val" stand in their place.

    Raises:
        UserError: Something else stands there.
    """
    names = [data_files] if isinstance(data_files, str) else list(data_files)
    stems = {Path(str(name)).stem for name in names}
    if len(stems) != 1 or not stems <= set(SPLITS):
        raise UserError(f"data files are made, not read: train_files=train and val_files=val, not {names}")
    return stems.pop()


def row_of(task: Task, index: int) -> dict[str, Any]:
    """The row of one task.

    `data_source` is the game by which verl groups its metrics; `extra_info` is a dict, because verl writes into it. A
    row holds nothing twice: verl carries every column of every sample through each stage of a step, which on a small
    machine costs more than the arithmetic.
    """
    (turn, *_) = get_environment(task.env).start(task).turns()
    return {
        "data_source": task.case.partition("(")[0],
        "raw_prompt": [dict(message) for message in turn.messages],
        "reward_model": {"style": "rule", "ground_truth": task.id},
        "extra_info": {**task.to_dict(), "task_id": task.id, "index": index},
        "agent_name": AGENT_LOOP,
        "index": index,
    }


class DynamicEnvDataset(Dataset):
    """The tasks of an environment as verl rows.

    Args:
        data_files: "train" or "val".
        tokenizer: Unused: the agent loop makes the tokens.
        config: verl's whole `data` node; `custom_cls.config` is what `open_catalogue` takes; `seed` seeds the order.
        processor: Unused.
        max_samples: At most this many rows; -1 for all.

    Raises:
        UserError: The environment, a key or a value of `adapter_config` is wrong.
    """

    def __init__(
        self,
        data_files: str | Sequence[str],
        tokenizer: Any,
        config: Mapping[str, Any],
        processor: Any = None,
        max_samples: int = -1,
    ) -> None:
        split = split_of(data_files)
        self.tasks = open_catalogue(config["custom_cls"]["config"], split)
        self.order = Permutation(len(self.tasks), config.get("seed"), split)
        self.length = len(self.tasks) if max_samples < 0 else min(max_samples, len(self.tasks))

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> dict[str, Any]:
        if not 0 <= index < self.length:
            raise IndexError(index)
        position = self.order[index]
        return row_of(self.tasks[position], position)


OpenSpielDataset = DynamicEnvDataset
LGCV2DynamicDataset = DynamicEnvDataset
