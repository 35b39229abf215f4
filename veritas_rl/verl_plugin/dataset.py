"""The dataset that verl reads. Rows are made from tasks on demand, so opening it is cheap.

verl creates one dataset for training and one for validation, with the same class and configuration. Only `data_files`
differs: "train" or "val". The dataset draws its order itself, because verl's shuffle lists every index, and because the
next training tasks depend on earlier results. Use `data.shuffle=False` and `data.dataloader_num_workers=0`. verl saves
the dataset's state in data.pt.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from omegaconf import DictConfig, OmegaConf
from torch.utils.data import Dataset

from veritas_rl.curriculum.mixture import open_sources, split_of
from veritas_rl.envs.mixture import open_tasks
from veritas_rl.envs.registry import prepare
from veritas_rl.envs.task import Task

PREPARED_BATCHES = 2
"""How many batches of tasks the environments prepare in advance."""


def row_of(task: Task, index: int, **drawn: str) -> dict[str, Any]:
    """The row of one task.

    Args:
        task: The task.
        index: In training the number of the draw, under which the outcome is recorded. In validation the position.
        drawn: Further plain values for `extra_info`, such as the task's origin.

    `data_source` is the environment. `raw_prompt` is empty, because the agent loop makes the prompts. `extra_info` is
    a dict, because verl writes into it. A row contains no value twice, because verl sends every column through each
    stage of a step. On a small machine this costs more than the arithmetic.
    """
    name = task.id
    return {
        "data_source": task.env,
        "raw_prompt": [],
        "reward_model": {"style": "rule", "ground_truth": name},
        "extra_info": {**task.to_dict(), "task_id": name, "index": index, **drawn},
        "index": index,
    }


class DynamicEnvDataset(Dataset):
    """The tasks of an environment as verl rows.

    In training, rows come from a `MixedSource` in its order, and the requested index is ignored. In validation, each
    index has a fixed row, and there is no state.

    Args:
        data_files: "train" or "val".
        tokenizer: Not used, because the agent loop tokenizes.
        config: verl's `data` node. `custom_cls.config` goes to `parts_of`, and `seed` seeds the order.
        processor: Not used.
        max_samples: The maximum number of different tasks, in training of each stage; -1 for all.

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
            batch = int(config.get("train_batch_size") or 1)
            # verl needs a batch in an epoch. Fewer tasks are drawn several times.
            self.length = max(len(self.source), batch)
            self.ahead = PREPARED_BATCHES * batch
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
            prepare(self.source.upcoming(self.ahead))
            self.until_prepared = self.ahead // PREPARED_BATCHES
        self.until_prepared -= 1
        draw = self.source.next()
        return row_of(draw.task, draw.number, origin=draw.origin, stage=draw.stage)

    def upcoming(self) -> list[Task]:
        """The tasks of the next training batch, as far as they are known."""
        return [] if self.source is None else list(self.source.upcoming(self.ahead // PREPARED_BATCHES))

    def record(self, outcomes: Mapping[int, tuple[float, float]]) -> list[str]:
        """Record the outcomes of tasks, in the order of their draws.

        Args:
            outcomes: Mean value and mean success over the task's games, by the row's `index`.

        Returns:
            Lines for the console, one for each curriculum stage that is passed.
        """
        assert self.source is not None
        said = [self.source.record(number, *outcomes[number]) for number in sorted(outcomes)]
        return [line for line in said if line]

    def go_on_with(self, numbers: Iterable[int]) -> None:
        """Mark draws as still being played, so that a loaded state does not draw them again. A draw is a row's `index`.

        The state may be loaded later, because torchdata's loader passes it on at its first iteration.
        """
        assert self.source is not None
        self.source.go_on_with(numbers)

    def metrics(self) -> dict[str, float]:
        """The metrics of curriculum and failure replay. Empty in validation, or if neither is used."""
        return {} if self.source is None else self.source.metrics()

    def state_dict(self) -> dict[str, Any]:
        """The state of the order. verl saves it in data.pt."""
        return {} if self.source is None else self.source.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from the state that `state_dict` returned.

        Raises:
            UserError: The state belongs to another curriculum.
        """
        if self.source is not None:
            self.source.load_state_dict(state)


def _plain(config: Any) -> dict[str, Any]:
    values = OmegaConf.to_container(config, resolve=True) if isinstance(config, DictConfig) else config
    assert isinstance(values, Mapping)
    return {str(key): value for key, value in values.items()}


OpenSpielDataset = DynamicEnvDataset
LGCV2DynamicDataset = DynamicEnvDataset
