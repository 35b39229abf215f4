"""Says, before a command uses tasks, what of their material cannot be used."""

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack

from rich.console import Console

from veritas_rl.envs.abilities import Surveys
from veritas_rl.envs.registry import get_environment, spread
from veritas_rl.envs.task import Task
from veritas_rl.progress import progress

_PATIENCE_SECONDS = 2.0


def survey(catalogues: Iterable[Sequence[Task]], console: Console) -> None:
    """Print the findings of environments that survey their tasks, and the progress if it takes long.

    Args:
        catalogues: The tasks.
        console: Where to print.

    Raises:
        UserError: A case has nothing that can be used.
    """
    by_env: dict[str, list[Task]] = {}
    for catalogue in catalogues:
        for task in spread(catalogue):
            by_env.setdefault(task.env, []).append(task)
    for env, tasks in by_env.items():
        environment = get_environment(env)
        if not isinstance(environment, Surveys):
            continue
        with _Bars(console) as show:
            said = environment.survey(tasks, show)
        for line in said:
            console.print(line, style="yellow", soft_wrap=True, highlight=False)


class _Bars(ExitStack):
    """Shows progress after some seconds, with a new bar for a new total."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console
        self._started = time.monotonic()
        self._advance: Callable[[int], None] | None = None
        self._done = 0

    def __call__(self, what: str, done: int, total: int) -> None:
        if done <= self._done:
            self.close()
            self._advance, self._started = None, time.monotonic()
        if self._advance is not None:
            self._advance(done - self._done)
        elif done < total and time.monotonic() - self._started > _PATIENCE_SECONDS:
            self._advance = self.enter_context(progress(self._console, total, done, what))
        self._done = done
