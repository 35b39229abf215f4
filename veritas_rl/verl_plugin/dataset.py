"""The dataset that verl reads: rows are made from tasks when they are asked for, so opening it costs nothing.

verl makes one for training and one for validation from the same class and configuration; only `data_files` differs,
and the words "train" and "val" stand there. The dataset draws its order itself, because verl's own shuffle lists every
index, and because what comes next in training depends on what came of the tasks before: use `data.shuffle=False` and
`data.dataloader_num_workers=0`. verl saves its state in data.pt.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from torch.utils.data import Dataset

from veritas_rl.curriculum.mixture import open_sources
from veritas_rl.envs.mixture import open_tasks
from veritas_rl.envs.registry import get_environment
from veritas_rl.envs.task import SPLITS, Task
from veritas_rl.errors import UserError

PREPARED_BATCHES = 2
"""How many batches of tasks the environments learn of before they are drawn."""


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


def row_of(task: Task, index: int, **drawn: str) -> dict[str, Any]:
    """The row of one task.

    Args:
        task: The task.
        index: In training the number of its draw, by which its outcome is recorded; else its position.
        drawn: More plain values for `extra_info`, such as where the task comes from.

    `data_source` is the environment; `extra_info` is a dict, because verl writes into it. A row holds nothing twice:
    verl carries every column of every sample through each stage of a step, which on a small machine costs more than
    the arithmetic.
    """
    (turn, *_) = get_environment(task.env).start(task).turns()
    name = task.id
    return {
        "data_source": task.env,
        "raw_prompt": [dict(message) for message in turn.messages],
        "reward_model": {"style": "rule", "ground_truth": name},
        "extra_info": {**task.to_dict(), "task_id": name, "index": index, **drawn},
        "index": index,
    }


class DynamicEnvDataset(Dataset):
    """The tasks of an environment as verl rows.

    In training, rows come from a `MixedSource` in its order: the index that is asked for has no meaning beyond the
    length. In validation, each index has its row, and there is no state.

    Args:
        data_files: "train" or "val".
        tokenizer: Unused: the agent loop makes the tokens.
        config: verl's whole `data` node; `custom_cls.config` is what `parts_of` takes; `seed` seeds the order.
        processor: Unused.
        max_samples: At most this many different tasks, of each stage in training; -1 for all.

    Raises:
        UserError: The environment, a key or a value of `custom_cls.config` is wrong.
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
        settings, seed = _plain(config["custom_cls"]["config"]), config.get("seed")
        self.source = open_sources(settings, seed, max_samples) if split == "train" else None
        if self.source is not None:
            self.length = len(self.source)
            self.ahead = PREPARED_BATCHES * int(config.get("train_batch_size") or 1)
            self.until_prepared = 0
            return
        self.tasks = open_tasks(settings, split, seed, split)
        self.length = len(self.tasks) if max_samples < 0 else min(max_samples, len(self.tasks))

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> dict[str, Any]:
        if not 0 <= index < self.length:
            raise IndexError(index)
        if self.source is None:
            return row_of(self.tasks[index], index)
        if self.until_prepared <= 0:
            self.source.prepare(self.ahead)
            self.until_prepared = self.ahead // PREPARED_BATCHES
        self.until_prepared -= 1
        draw = self.source.next()
        return row_of(draw.task, draw.number, origin=draw.origin, stage=draw.stage)

    def record(self, outcomes: Mapping[int, tuple[float, float]]) -> list[str]:
        """Take in how tasks were played, in the order in which they were drawn.

        Args:
            outcomes: By a row's `index`: value and success, each the mean over the task's games.

        Returns:
            Lines for the console, for each stage that is passed with it.
        """
        assert self.source is not None
        said = [self.source.record(number, *outcomes[number]) for number in sorted(outcomes)]
        return [line for line in said if line]

    def go_on_with(self, numbers: Iterable[int]) -> None:
        """These draws, a row's `index` each, are still being played: a state that is loaded does not bring them again.

        The state may come later: torchdata's loader hands it on when it is first iterated.
        """
        assert self.source is not None
        self.source.go_on_with(numbers)

    def metrics(self) -> dict[str, float]:
        """What the curriculum and the failures measure; nothing in validation, or where a run has neither."""
        return {} if self.source is None else self.source.metrics()

    def state_dict(self) -> dict[str, Any]:
        """What the next rows depend on. verl saves it in data.pt."""
        return {} if self.source is None else self.source.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where `state_dict` was called.

        Raises:
            UserError: The state is of another curriculum.
        """
        if self.source is not None:
            self.source.load_state_dict(state)


def _plain(config: Any) -> dict[str, Any]:
    """A node of the configuration as a dict of plain values."""
    values = OmegaConf.to_container(config, resolve=True) if isinstance(config, DictConfig) else config
    assert isinstance(values, Mapping)
    return {str(key): value for key, value in values.items()}


OpenSpielDataset = DynamicEnvDataset
LGCV2DynamicDataset = DynamicEnvDataset
