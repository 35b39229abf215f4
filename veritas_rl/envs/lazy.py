"""Lazy sequences of tasks."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import overload

from veritas_rl.envs.task import Task


class LazyTasks(Sequence[Task]):
    """A sequence of tasks that makes each task on access."""

    @property
    def near(self) -> int:
        """How many of the first tasks represent the sequence and are cheap to make; by default all."""
        return len(self)

    @abstractmethod
    def task(self, index: int) -> Task:
        """The task at an index from 0 to the length minus 1."""

    @overload
    def __getitem__(self, index: int) -> Task: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Task]: ...
    def __getitem__(self, index: int | slice) -> Task | Sequence[Task]:
        if isinstance(index, slice):
            return [self.task(i) for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(f"task {index} of {len(self)}")
        return self.task(index % len(self))
