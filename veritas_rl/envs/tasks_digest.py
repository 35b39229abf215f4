"""A digest of tasks: it changes if an environment asks something else under the same settings."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from veritas_rl.basis import digest_of
from veritas_rl.envs.mixture import parts_of
from veritas_rl.envs.registry import cases_by_environment, get_environment, is_remote, open_catalogue, prepare
from veritas_rl.envs.task import SPLITS, Task

LEAST, PER_CASE, CASES = 64, 16, 64
"""How many tasks of a catalogue are asked: `LEAST`, or `PER_CASE` of each of at most so many cases if that is more."""


def catalogues_of(settings: Mapping[str, Any]) -> Iterator[Sequence[Task]]:
    """The training and the validation tasks of each environment of a dataset's settings.

    Args:
        settings: The settings for `mixture.parts_of`.

    Raises:
        UserError: An environment, a key or a value is invalid.
    """
    for part in parts_of(settings):
        for split in SPLITS:
            yield open_catalogue(part.settings, split)


def tasks_digest(catalogues: Iterable[Sequence[Task]]) -> str:
    """A digest of what tasks ask: their ids, prompts, answers, solutions and chance seeds.

    The first tasks of each case are asked, so the digest does not depend on the number of tasks. Of a whole game the
    first turns count. Tasks of a server are known by their ids alone, because each start would be a request.

    Raises:
        UserError: A task cannot be started.
    """
    return digest_of([[_asked(task) for task in _chosen(tasks)] for tasks in catalogues])


def _chosen(tasks: Sequence[Task]) -> list[Task]:
    """The first tasks of each case of a catalogue that goes case by case, as those of all environments do."""
    cases = sum(map(len, cases_by_environment(tasks).values()))
    runs = min(cases, CASES)
    if not runs:
        return []
    length = min(max(PER_CASE, LEAST // runs), len(tasks) // cases)
    starts = [len(tasks) // cases * (run * cases // runs) for run in range(runs)]
    chosen = [tasks[start + place] for start in starts for place in range(length)]
    prepare(task for task in chosen if not is_remote(task))
    return chosen


def _asked(task: Task) -> list[Any]:
    turns = () if is_remote(task) else get_environment(task.env).start(task).turns()
    # The empty string is what a field that turns no longer have was. Digests of kept results include it.
    shown = [[turn.seat, turn.messages, turn.answers, "", turn.dice, turn.solution] for turn in turns]
    return [task.id, task.chance_seed, shown]
