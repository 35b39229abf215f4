"""The tasks of a training run in one or several environments, each with its own curriculum and failure replay."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import Any

from veritas_rl.curriculum.sampler import Draw, TaskSource, open_source
from veritas_rl.envs.mixture import Schedule, parts_of
from veritas_rl.envs.task import SPLITS, Task
from veritas_rl.errors import UserError


class MixedSource:
    """Draws tasks from several sources in proportion to their weights, and records their outcomes.

    Draw n of source i has the number `n * len(sources) + i`.

    Args:
        sources: The sources by environment name.
        weights: The weight of each source, in the same order.
    """

    def __init__(self, sources: Mapping[str, TaskSource], weights: Sequence[float]) -> None:
        self.sources = dict(sources)
        self._in_order = list(self.sources.values())
        self._weights = weights
        self._schedule = Schedule(weights)
        self._waiting: dict[int, None] = {}
        self._again: deque[int] = deque()
        self._in_play: set[int] = set()

    def __len__(self) -> int:
        return sum(map(len, self._in_order))

    def next(self) -> Draw:
        """The next task."""
        while self._again:
            number = self._again.popleft()
            if number not in self._in_play:
                return self._numbered(number % len(self._in_order))
        draw = self._numbered(self._schedule.next())
        self._waiting[draw.number] = None
        return draw

    def _numbered(self, which: int) -> Draw:
        draw = self._in_order[which].next()
        return replace(draw, number=draw.number * len(self._in_order) + which)

    def record(self, number: int, score: float, success: float) -> str | None:
        """Record the outcome of a task; see `TaskSource.record`."""
        del self._waiting[number]
        own, which = divmod(number, len(self._in_order))
        said = self._in_order[which].record(own, score, success)
        return f"{said} ({list(self.sources)[which]})" if said and len(self.sources) > 1 else said

    def upcoming(self, count: int) -> Iterator[Task]:
        """Each environment's share of the next draws, as far as these draws are known."""
        for weight, source in zip(self._weights, self._in_order, strict=True):
            yield from source.upcoming(ceil(count * weight / sum(self._weights)))

    def metrics(self) -> dict[str, float]:
        if len(self.sources) == 1:
            return self._in_order[0].metrics()
        return {
            f"{name}/{metric}": value
            for name, source in self.sources.items()
            for metric, value in source.metrics().items()
        }

    def state_dict(self) -> dict[str, Any]:
        return {
            "schedule": self._schedule.state_dict(),
            "waiting": list(self._waiting),
            "sources": {name: source.state_dict() for name, source in self.sources.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from the state that `state_dict` returned; see `TaskSource.load_state_dict`.

        Raises:
            UserError: The state has other environments or stages. The message names the difference.
        """
        before, now = list(state["sources"]), list(self.sources)
        if before != now:
            raise UserError(
                f"the checkpoint has the environments {', '.join(before)}, and this run has {', '.join(now)}: keep "
                "them to resume, or start a new run"
            )
        self._schedule.load_state_dict(state["schedule"])
        for name, source in self.sources.items():
            source.load_state_dict(state["sources"][name])
        self._waiting = dict.fromkeys(state["waiting"])
        self._again = deque(state["waiting"])

    def go_on_with(self, numbers: Iterable[int]) -> None:
        """Mark draws as still being played, so that `load_state_dict` does not draw them again."""
        numbers = set(numbers)
        self._in_play |= numbers
        for which, source in enumerate(self._in_order):
            source.go_on_with(
                number // len(self._in_order) for number in numbers if number % len(self._in_order) == which
            )


def open_sources(settings: Mapping[str, Any], seed: object = 42, limit: int = -1) -> MixedSource:
    """The tasks of a training run.

    Args:
        settings: The settings of `parts_of`.
        seed: Seeds every order and every draw.
        limit: The maximum number of tasks of each stage; -1 for all.

    Raises:
        UserError: A key or a value is invalid.
    """
    parts = parts_of(settings)
    sources = {part.env: open_source(part.settings, seed, limit) for part in parts}
    return MixedSource(sources, [part.weight for part in parts])


def split_of(data_files: str | Sequence[str]) -> str:
    """The split that `data.train_files` or `data.val_files` names.

    Raises:
        UserError: The value is neither "train" nor "val".
    """
    names = [data_files] if isinstance(data_files, str) else list(data_files)
    stems = {Path(str(name)).stem for name in names}
    if len(stems) != 1 or not stems <= set(SPLITS):
        raise UserError(
            "data.train_files must be train and data.val_files must be val, because rows are generated, but the value "
            f"is {names}"
        )
    return stems.pop()
