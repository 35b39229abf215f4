"""Several environments in one dataset: their weights, and the order in which they give tasks.

    environments: {openspiel: {weight: 2, config: {cases: "hex(board_size=5)"}}, trace: {weight: 1, config: {}}}

`env` and `adapter_config` are the short form of one environment.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import floor, isfinite
from typing import Any

from veritas_rl.envs.lazy import LazyTasks
from veritas_rl.envs.registry import get_environment, open_catalogue
from veritas_rl.envs.task import Task
from veritas_rl.errors import UserError, unknown
from veritas_rl.permutation import Permutation

BLOCK = 100
"""The number of consecutive draws in which each environment's share is within one task of its weight."""

NEAR = 47_000
"""How many first tasks of a mixture represent all, because each part is shuffled. To make task N, all N earlier places
are counted, which takes 11 s and 1 GB for the 9 million tasks of the three environments. A thousand of these tasks at
equal distances are 47 apart, which has no common factor with `BLOCK`: they meet all parts in their shares."""

NODE_KEYS = ("weight", "config", "curriculum", "failure_replay")


@dataclass(frozen=True)
class Part:
    """One environment of a dataset.

    Attributes:
        env: The name of the environment.
        weight: The share of the dataset, relative to the weights of the other environments.
        settings: The settings for `open_catalogue`, and `curriculum` and `failure_replay` of this environment.
    """

    env: str
    weight: float
    settings: Mapping[str, Any]


def parts_of(settings: Mapping[str, Any]) -> tuple[Part, ...]:
    """The environments of a dataset's settings.

    Args:
        settings: `environments` maps names to `weight` (1 by default), `config`, and `curriculum` and `failure_replay`
            if they differ from those of the dataset. Without `environments`, `env` and `adapter_config` give the only
            environment. `defaults` contains default settings by environment.

    Raises:
        UserError: An environment does not exist, a key is unknown, or a weight is not a number above 0.
    """
    nodes = settings.get("environments")
    if nodes is None:
        get_environment(settings["env"])
        return (Part(settings["env"], 1.0, settings),)
    if not isinstance(nodes, Mapping) or not nodes:
        raise UserError(
            f"environments must map names to settings, such as {{trace: {{weight: 1, config: {{}}}}}}, got {nodes!r}"
        )
    if named := [key for key, value in (settings.get("adapter_config") or {}).items() if value is not None]:
        raise UserError(
            f"adapter_config.{named[0]} is for a single environment; set environments.NAME.config.{named[0]} instead"
        )
    return tuple(_part(str(name), node, settings) for name, node in nodes.items())


def _part(name: str, node: Any, settings: Mapping[str, Any]) -> Part:
    get_environment(name)
    node = {} if node is None else node
    if not isinstance(node, Mapping):
        raise UserError(f"environments.{name} must be a mapping such as {{weight: 1, config: {{}}}}, got {node!r}")
    for key in node:
        if key not in NODE_KEYS:
            raise unknown(f"key of environments.{name}", key, NODE_KEYS)
    weight = node.get("weight", 1)
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not isfinite(weight) or weight <= 0:
        raise UserError(
            f"environments.{name}.weight must be a number above 0, got {weight!r}; leave out {name} to drop it"
        )
    own = {key: node[key] for key in ("curriculum", "failure_replay") if key in node}
    return Part(name, float(weight), {**settings, "env": name, "adapter_config": node.get("config") or {}, **own})


class Schedule:
    """The order of environments, by index, in proportion to their weights.

    Draws come in blocks of `BLOCK`. The count of each index in a block is its share, rounded down or up, and its places
    are evenly spread. Later blocks compensate the rounding. A block differs from the previous block only if a rounding
    changes. So any `BLOCK` consecutive draws, also across blocks, contain each share rounded down or up.

    Args:
        weights: The weight of each index, above 0.
    """

    def __init__(self, weights: Sequence[float]) -> None:
        total = sum(weights)
        self._wanted = [BLOCK * weight / total for weight in weights]
        self._left = [0.0] * len(weights)
        """The number of tasks that each index lacks after the earlier blocks."""
        self._block: list[int] = []
        self._place = 0

    def next(self) -> int:
        """The next index."""
        if self._place == len(self._block):
            self._block, self._place = self._next_block(), 0
        self._place += 1
        return self._block[self._place - 1]

    def _next_block(self) -> list[int]:
        least = [floor(wanted) for wanted in self._wanted]
        due = [left + wanted - low for left, wanted, low in zip(self._left, self._wanted, least, strict=True)]
        order = sorted(range(len(due)), key=lambda index: (-due[index], index))
        # An integer share needs no rounding.
        can_rise = [index for index in order if self._wanted[index] > least[index]]
        risen = set(can_rise[: BLOCK - sum(least)])
        counts = [low + (index in risen) for index, low in enumerate(least)]
        self._left = [
            left + wanted - count for left, wanted, count in zip(self._left, self._wanted, counts, strict=True)
        ]
        return _spread(counts) if not self._block else _changed(self._block, counts)

    def state_dict(self) -> dict[str, Any]:
        """The state as plain values."""
        return {"left": list(self._left), "block": list(self._block), "place": self._place}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state of `state_dict`."""
        self._left, self._block, self._place = list(state["left"]), list(state["block"]), state["place"]


def _spread(counts: Sequence[int]) -> list[int]:
    """A block that contains each index with its count. Each place goes to the index that lags most."""
    given = [0] * len(counts)
    block: list[int] = []
    for place in range(1, sum(counts) + 1):
        lags = [count * place / sum(counts) - done for count, done in zip(counts, given, strict=True)]
        index = max(range(len(counts)), key=lambda index: (lags[index], -index))
        given[index] += 1
        block.append(index)
    return block


def _changed(block: Sequence[int], counts: Sequence[int]) -> list[int]:
    """A block that contains each index with its count, with the fewest changes to the given block."""
    changed = list(block)
    more = [index for index, count in enumerate(counts) for _ in range(count - block.count(index))]
    for index, count in enumerate(counts):
        for _ in range(block.count(index) - count):
            changed[changed.index(index)] = more.pop()
    return changed


class MixedTasks(LazyTasks):
    """The tasks of several catalogues as one sequence, in proportion to their weights.

    The sequence contains every task. A catalogue without further tasks is skipped.

    Args:
        catalogues: The tasks of each environment, in their own order.
        weights: The weight of each environment.
    """

    def __init__(self, catalogues: Sequence[Sequence[Task]], weights: Sequence[float]) -> None:
        self._catalogues = catalogues
        self._schedule = Schedule(weights)
        self._length = sum(map(len, catalogues))
        self._used = [0] * len(catalogues)
        self._places: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return self._length

    @property
    def near(self) -> int:
        return min(self._length, NEAR)

    def task(self, index: int) -> Task:
        while len(self._places) <= index:
            which = self._schedule.next()
            if self._used[which] < len(self._catalogues[which]):
                self._places.append((which, self._used[which]))
                self._used[which] += 1
        which, place = self._places[index]
        return self._catalogues[which][place]


class Shuffled(LazyTasks):
    """The tasks of a catalogue in a random order, as a lazy sequence.

    Args:
        tasks: The catalogue.
        words: The seed of the order.
    """

    def __init__(self, tasks: Sequence[Task], *words: object) -> None:
        self._tasks = tasks
        self._order = Permutation(len(tasks), *words)

    def __len__(self) -> int:
        return len(self._tasks)

    def task(self, index: int) -> Task:
        return self._tasks[self._order[index]]


def open_tasks(settings: Mapping[str, Any], split: str, *words: object, single: bool = False) -> Sequence[Task]:
    """The tasks of all environments of a dataset, in a random order and in proportion to their weights.

    Args:
        settings: The settings for `parts_of`.
        split: "train" or "val".
        words: The seed of the order.
        single: Whether to use only single-answer tasks, see `Settings.single`.

    Raises:
        UserError: An environment, a key or a value is invalid.
    """
    parts = parts_of(settings)
    changes = [get_environment(part.env).config_type.single if single else {} for part in parts]
    opened = [
        Shuffled(open_catalogue(part.settings, split, **change), *words)
        for part, change in zip(parts, changes, strict=True)
    ]
    return opened[0] if len(opened) == 1 else MixedTasks(opened, [part.weight for part in parts])
