"""One run of the linter: its tasks, its checks and their order."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate
from typing import Any

from veritas_rl.envs.environment import Environment
from veritas_rl.envs.lint import answers, checks, loose, readings
from veritas_rl.envs.lint.case import Case
from veritas_rl.envs.lint.findings import Log, NotApplicable, Row, Verdict, named
from veritas_rl.envs.lint.processes import Item, Twins, open_environment
from veritas_rl.envs.task import Task
from veritas_rl.errors import UserError
from veritas_rl.parallel import Workers

CHECKS: Mapping[str, checks.Check] = {
    "mistakes pay nothing": checks.mistakes_pay_nothing,
    "values in [0, 1]": checks.values_in_range,
    "wins above losses": checks.wins_above_losses,
    "asked seat has to act": checks.asked_seat_has_to_act,
    "legal answers listed": checks.legal_answers_listed,
    "asked phase shown": checks.asked_phase_shown,
    "nothing hidden shown": checks.nothing_hidden_shown,
    "seats alike": checks.seats_alike,
    "nonsense pays nothing": loose.nonsense_pays_nothing,
    "answers stand alone": loose.answers_stand_alone,
    "own generator": loose.own_generator,
    "splits apart": loose.splits_apart,
    "tasks distinct": answers.tasks_distinct,
    "seeds differ": answers.seeds_differ,
    "answer format stated": answers.format_stated,
    "legal answers taken": answers.legal_answers_taken,
    "repeats pay no more": answers.repeats_pay_no_more,
    "numbers in names": readings.numbers_in_names,
    "other answers refused": readings.other_answers_refused,
    "value of many playouts": answers.values_of_many_playouts,
}
"""The checks of a single process, by name."""
SAME, SETTINGS = "same in any process", "settings read"
"""The checks that use other processes or the whole environment."""

CASES_TOGETHER = 3
"""The number of cases of a group. Each of several workers lints one group at a time, and rows are kept after each
group. The cases of a group share the processes of the replays."""

Progress = Callable[[int, int, str], None]
"""A function that gets the number of finished steps, the number of all steps, and the name of the next step."""


def lint(
    name: str,
    cases: Sequence[str] = (),
    count: int = 8,
    prompt: str = "full",
    progress: Progress = lambda done, of, doing: None,
    workers: Workers | None = None,
    before: Mapping[str, Sequence[Row]] | None = None,
    keep: Callable[[Mapping[str, Sequence[Row]]], object] | None = None,
) -> list[Row]:
    """Play an environment and search for misleading rewards and prompts.

    Args:
        name: The environment's name in the registry, or "module:Class".
        cases: The cases; empty for the cases of the default configuration.
        count: The number of tasks of each case.
        prompt: The kind of prompt, if the environment has several.
        progress: See `Progress`.
        workers: The workers that lint the cases in groups of `CASES_TOGETHER`; None to use only this process. The rows
            do not depend on the workers.
        before: The rows of cases that an earlier run has finished, which are not linted again.
        keep: A function that gets the rows of all finished cases, after each group of `CASES_TOGETHER`.

    Returns:
        A row for each case and check, case by case, then a row for the settings.

    Raises:
        UserError: The environment, a case or the kind of prompt does not exist.
    """
    if count < 1:
        raise UserError(f"--tasks must be at least 1, {count} was given")
    environment = open_environment(name)
    found = _cases(environment, cases, count, prompt)
    rows = dict(before or {})
    missing = [case for case in found if case.name not in rows]
    several = workers is not None and workers.several and len(missing) > CASES_TOGETHER
    size = CASES_TOGETHER if several or keep else max(1, len(missing))
    groups = [missing[start : start + size] for start in range(0, len(missing), size)]
    if workers is not None and several:
        parts = _shared(partial(_lint_named, name, count, prompt), groups, workers, progress)
    else:
        parts = _alone(name, groups, progress)
    for group, part in zip(groups, parts, strict=True):
        rows |= {case.name: [row for row in part if row.case == case.name] for case in group}
        if keep:
            keep(rows)
    return [*(row for case in found for row in rows[case.name]), _settings(environment, found)]


def _shared(
    lint_named: Callable[[Sequence[str]], list[Row]],
    groups: Sequence[Sequence[Case]],
    workers: Workers,
    progress: Progress,
) -> Iterator[list[Row]]:
    """The rows of each group, by several workers."""
    names = [[case.name for case in group] for group in groups]
    for done, part in enumerate(workers.map(lint_named, names), 1):
        progress(done, len(groups), f"{CASES_TOGETHER} cases at a time")
        yield part


def _alone(name: str, groups: Sequence[Sequence[Case]], progress: Progress) -> Iterator[list[Row]]:
    """The rows of each group, by this process."""
    before, cases = 0, sum(map(len, groups))
    for group in groups:

        def advance(done: int, of: int, doing: str, before: int = before, group: Sequence[Case] = group) -> None:
            steps = of // len(group)
            progress(before * steps + done, cases * steps, doing)

        yield _lint_cases(name, group, advance)
        before += len(group)


def _lint_named(name: str, count: int, prompt: str, cases: Sequence[str]) -> list[Row]:
    """The rows of some cases, computed in a worker."""
    found = _cases(open_environment(name), cases, count, prompt)
    return _lint_cases(name, found, lambda done, of, doing: None)


def _lint_cases(name: str, cases: Sequence[Case], progress: Progress) -> list[Row]:
    """The rows of some cases, case by case."""
    own = cases[0].audit.checks
    steps = (len(CHECKS) + len(own) + 2) * len(cases)
    rows: list[Row] = []
    for index, case in enumerate(cases):
        progress(index, steps, f"{case.name}: starting tasks")
        _ = case.items  # starts every task
    items = [item for case in cases for item in case.items]
    with Twins(name, items) as twins:
        for case in cases:
            for check, run in CHECKS.items():
                progress(len(rows) + len(cases), steps, f"{case.name}: {check}")
                rows.append(_row(case.name, check, lambda log, case=case, run=run: run(case, log)))
            for check, ask in own.items():
                progress(len(rows) + len(cases), steps, f"{case.name}: {check}")
                rows.append(_row(case.name, check, lambda log, case=case, ask=ask: ask(case.tasks, log.found)))
        progress(steps - len(cases), steps, "waiting for the other processes")
        rows += _compared(cases, items, twins)
    order = {case.name: index for index, case in enumerate(cases)}
    return sorted(rows, key=lambda row: order[row.case])


def _settings(environment: Environment, cases: Sequence[Case]) -> Row:
    """The row of the check of the settings."""
    return _row("all", SETTINGS, lambda log: answers.settings_read(environment, _small(cases), log))


def _row(case: str, check: str, run: Callable[[Log], str]) -> Row:
    log = Log()
    try:
        remark = run(log)
    except NotApplicable as why:
        if not log.findings:
            return Row(case, check, Verdict.NOT_APPLICABLE, str(why))
        remark = str(why)
    except Exception as error:  # the environment may raise any error; the linter continues with the next check
        log.found("", f"raised {named(error)}")
        remark = "stopped"
    return Row(case, check, Verdict.FINDING if log.findings else Verdict.OK, remark, tuple(log.findings))


def _compared(cases: Sequence[Case], items: Sequence[Item], twins: Twins) -> list[Row]:
    """The rows of the checks that compare processes."""
    try:
        outcomes = twins.outcomes()
    except RuntimeError as error:
        text = str(error)
        return [_row(case.name, SAME, lambda log: _stopped(log, text)) for case in cases]
    ends = list(accumulate(len(case.items) for case in cases))
    parts = [slice(end - len(case.items), end) for case, end in zip(cases, ends, strict=True)]
    return [
        _row(
            case.name,
            SAME,
            lambda log, case=case, part=part: checks.same_everywhere(case, log, [found[part] for found in outcomes]),
        )
        for case, part in zip(cases, parts, strict=True)
    ]


def _stopped(log: Log, text: str) -> str:
    log.found("", text)
    return "stopped"


def _cases(environment: Environment, names: Sequence[str], count: int, prompt: str) -> list[Case]:
    """The cases to lint, each with its tasks.

    Raises:
        UserError: The environment has no such case, or none of the tasks can be made.
    """
    known, shown = environment.config_type.model_fields, {"prompt": prompt}
    chosen = names or environment.read_config(shown).cases
    made: dict[str, Case] = {}
    for name in chosen:
        settings = {**shown, "cases": name, "num_tasks_per_case": count}
        tasks, no_outcome = _tasks(environment, settings)
        games: Sequence[Task] = ()
        if "mode" in known:
            whole = {**settings, "mode": "episode", "num_tasks_per_case": checks.SEAT_TASKS}
            games = environment.catalogue(environment.read_config(whole), "train")[: checks.SEAT_TASKS]
        case = tasks[0].case
        paid = {**settings, **({"reward": "legal"} if no_outcome else {})}
        next_seed = _neighbours(environment, paid)
        others = environment.catalogue(environment.read_config(paid), "val")[:count]
        made[case] = Case(environment, case, tasks[:count], games, next_seed[:count], no_outcome, others)
    return list(made.values())


def _tasks(environment: Environment, settings: Mapping[str, Any]) -> tuple[Sequence[Task], str]:
    """The tasks of a case, and the reason why they pay only for legal answers; "" if they pay by outcome."""
    try:
        return environment.catalogue(environment.read_config(settings), "train"), ""
    except UserError as error:
        try:
            only_legal = environment.read_config({**settings, "reward": "legal"})
        except UserError:
            raise error from None
        return environment.catalogue(only_legal, "train"), str(error)


def _neighbours(environment: Environment, settings: Mapping[str, Any]) -> Sequence[Task]:
    """The tasks of some settings with the next seed; none if no seed chooses the tasks."""
    if "seed" not in environment.audit().settings:
        return ()
    seed = environment.read_config(settings).seed
    try:
        return environment.catalogue(environment.read_config({**settings, "seed": seed + 1}), "train")
    except UserError:
        return ()


def _small(cases: Sequence[Case]) -> dict[str, Any]:
    """The settings that select one case."""
    case = next((case for case in cases if not case.no_outcome), cases[0])
    return {"cases": case.name, **({"reward": "legal"} if case.no_outcome else {})}
