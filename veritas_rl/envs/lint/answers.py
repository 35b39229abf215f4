"""Checks of the pay of legal answers, of the differences between tasks, and of the configuration."""

from collections.abc import Mapping, Sequence
from typing import Any

from veritas_rl.envs.base import Reply, Turn
from veritas_rl.envs.environment import Environment
from veritas_rl.envs.lint.case import Case, question, said
from veritas_rl.envs.lint.findings import Log, NotApplicable, quote
from veritas_rl.envs.registry import is_remote
from veritas_rl.envs.task import Task
from veritas_rl.errors import UserError

MOST_TRIED = 40
"""The most legal answers of a task that are tried, evenly spread."""
SPELLED_TASKS = 2
"""The number of tasks for which every spelling of one answer must have the same value."""
FEWEST_ESTIMATES = 8
"""The smallest number of estimated values that cannot all be 0, 0.5 or 1 by coincidence."""
MOST_ERRORLESS = 0.5
"""The share of estimated values that may have the error 0."""
CERTAIN = (0.0, 0.5, 1.0)
"""The values of a single finished game."""
FEWEST_TASKS = 3
"""The smallest number of tasks of which more than half are not shared by coincidence."""
MANY_QUESTIONS = 4
"""Questions for each task, with fewer of which two sets of tasks share many by chance."""
REPEATED = (2, 10)
"""How often an answer is repeated in a reply."""
FEWEST_SOLUTIONS = 3
"""The smallest number of different solutions that cannot all be right in each other's tasks by coincidence."""
BOX = "\\boxed{"


def legal_answers_taken(case: Case, log: Log) -> str:
    """Every documented spelling of a legal answer is accepted, and two spellings of one answer have the same value."""
    tried = known = 0
    for index, (task, turns) in enumerate(case.asked):
        for turn in turns[:1]:
            facts = case.facts(turn)
            ways = [legal.replies for legal in facts.legal] if facts else [(answer,) for answer in turn.answers]
            known += len(ways)
            if turn.solution:
                known += 1
                tried += 1
                with log.guard(task.id):
                    score = case.answer(task, turn.seat, Reply(turn.solution))
                    if score.value != 1 or not score.success:
                        paid = f"is {score.reason}, paid {score.value:.3g}"
                        log.found(task.id, f"the solution {paid}: {quote(turn.solution)}")
            if not ways:
                continue
            chosen = _spread(ways, MOST_TRIED)
            tried += len(chosen)
            quick = task.replace(reward="legal")
            for reply in (reply for replies in chosen for reply in replies):
                with log.guard(task.id):
                    score = case.answer(quick, turn.seat, Reply(reply))
                    if not score.legal or not score.value:
                        log.found(task.id, f"a legal answer is {score.reason}, paid {score.value:.3g}: {quote(reply)}")
            if index < SPELLED_TASKS and ways:
                with log.guard(task.id):
                    paid = {
                        reply: case.answer(case.audit.coarse(task), turn.seat, Reply(reply)).value for reply in ways[-1]
                    }
                    if len(set(paid.values())) > 1:
                        log.found(task.id, f"one answer, several pays: {quote(str(paid))}")
    if not known:
        raise NotApplicable("the answers cannot be listed")
    return f"{tried} of {known} legal answers, in every spelling"


def _spread(things: Sequence[Any], most: int) -> list[Any]:
    """At most `most` items, evenly spread, including the first and the last."""
    if len(things) <= most:
        return list(things)
    return [things[round(index * (len(things) - 1) / (most - 1))] for index in range(most)]


def values_of_many_playouts(case: Case, log: Log) -> str:
    """An estimated value is a mean of many playouts, whose error decreases with their number."""
    if case.no_outcome:
        raise NotApplicable(f"all legal answers have the same value: {case.no_outcome}")
    values, errors, exact, others = [], {"fine": [], "coarse": []}, 0, set()
    errorless: list[tuple[str, float]] = []
    for task, turns in case.asked:
        for turn in turns[:1]:
            if not turn.answers:
                continue
            answer = Reply(turn.answers[len(turn.answers) // 2])
            with log.guard(task.id):
                fine = case.answer(task, turn.seat, answer)
                source = fine.details.get("value_source")
                if source != "playouts":
                    exact += source in ("exact", "solved")
                    others.add(source)
                    continue
                rough = case.answer(case.audit.coarse(task), turn.seat, answer)
                errors_of = [score.details.get("value_error") for score in (fine, rough)]
                if not all(isinstance(error, float) for error in errors_of):
                    log.found(task.id, f"a value of {fine.value:.3g} from playouts is given without its error")
                    continue
                values.append(fine.value)
                for which, error in zip(errors, errors_of, strict=True):
                    errors[which].append(float(error or 0))
                if fine.value not in CERTAIN and not errors_of[0]:
                    errorless.append((task.id, fine.value))
    # Near the end of a game, all playouts may have the same score.
    if len(errorless) > MOST_ERRORLESS * len(values):
        for name, value in errorless:
            log.found(name, f"a value of {value:.3g} has the error 0: no mean of playouts")
    certain = len(values) >= FEWEST_ESTIMATES and all(value in CERTAIN for value in values)
    if certain and not _finer_scale_shows_means(case, log):
        log.found("", f"all {len(values)} estimated values are 0, 1/2 or 1, as of one single playout each")
    # Estimates with the error 0 are excluded: few playouts may miss a rare result that more playouts find.
    both = [pair for pair in zip(errors["fine"], errors["coarse"], strict=True) if all(pair)]
    left = sum(fine for fine, _ in both) / (sum(rough for _, rough in both) or 1)
    if len(both) >= FEWEST_ESTIMATES and left > 0.8:
        log.found("", f"several times the playouts leave the error at {left:.0%}")
    if not values and not log.findings:
        raise NotApplicable("values are exact" if exact else "no value is estimated by playouts")
    return f"{len(values)} estimates" + (f", mean error {sum(errors['fine']) / len(values):.2g}" if values else "")


def _finer_scale_shows_means(case: Case, log: Log) -> bool:
    """Whether some value on the finer scale "utility" changes with the number of playouts.

    If random games are practically decided, as after random bids in bridge, only this scale distinguishes a mean from a
    single game.
    """
    for task, turns in case.asked:
        fine = case.audit.finer(task)
        if fine is None:
            continue
        for turn in turns[:1]:
            with log.guard(task.id):
                answer = Reply(turn.answers[len(turn.answers) // 2])
                values = {case.answer(asked, turn.seat, answer).value for asked in (fine, case.audit.coarse(fine))}
                if len(values) > 1 and not values <= set(CERTAIN):
                    return True
    return False


def tasks_distinct(case: Case, log: Log) -> str:
    """Tasks ask different questions, if there are enough questions."""
    first: dict[str, str] = {}
    twins: list[tuple[str, str]] = []
    for task, turns in case.asked:
        shown = question(turns)
        if shown in first:
            twins.append((task.id, first[shown]))
        first.setdefault(shown, task.id)
    exist = case.audit.question_count(case.tasks[0])
    if len(case.tasks) < 2:
        raise NotApplicable("there is only one task")
    wanted = len(case.asked) if exist is None else min(exist, len(case.asked))
    if len(first) < wanted:
        log.found(
            twins[0][0], f"{len(case.asked)} tasks ask {len(first)} different questions; the same is {twins[0][1]}"
        )
    return f"{len(first)} questions of {len(case.asked)} tasks; {'many' if exist is None else exist} exist"


def seeds_differ(case: Case, log: Log) -> str:
    """The tasks of the next seed ask other questions, if there are enough questions.

    An environment that adds the task's number to the seed shares nearly all tasks between two neighbouring seeds.
    """
    if not case.neighbours:
        raise NotApplicable("no other seed can be set")
    if is_remote(case.tasks[0]):
        raise NotApplicable("a server need not read the seed")
    if case.tasks[0].mode == "episode":
        raise NotApplicable("whole games may begin alike")
    if len(case.tasks) < FEWEST_TASKS:
        raise NotApplicable(f"fewer than {FEWEST_TASKS} tasks")
    exist = case.audit.question_count(case.tasks[0])
    if exist is not None and exist < MANY_QUESTIONS * len(case.tasks):
        raise NotApplicable(f"{exist} questions exist")
    here = {question(turns): task.id for task, turns in case.asked}
    there = set[str]()
    for task in case.neighbours:
        with log.guard(task.id):
            there.add(question(list(case.environment.start(task).turns())))
    shared = [name for shown, name in here.items() if shown in there]
    if len(shared) * 2 > len(there):
        log.found(shared[0], f"{len(shared)} of {len(there)} questions of the next seed are those of this seed")
    return f"{len(shared)} of {len(there)} questions of the next seed are the same"


def repeats_pay_no_more(case: Case, log: Log) -> str:
    """An answer given several times pays no more than given once, and the solution of one task does not pay in all."""
    firsts = [(task, turns[0]) for task, turns in case.asked if turns]
    known = [(task, turn, answer) for task, turn in firsts for answer in (turn.solution, *turn.answers) if answer]
    known = list({task.id: (task, turn, answer) for task, turn, answer in reversed(known)}.values())[::-1]
    if not known:
        raise NotApplicable("no answer is known")
    elsewhere: list[float] = []
    for place, (task, turn, answer) in enumerate(known):
        with log.guard(task.id):
            once = case.answer(task, turn.seat, Reply(answer)).value
            for count in REPEATED:
                value = case.answer(task, turn.seat, Reply("\n".join([answer] * count))).value
                if value > once:
                    log.found(task.id, f"an answer pays {once:.3g}, {count} times {value:.3g}: {quote(answer)}")
            elsewhere.append(case.answer(task, turn.seat, Reply(known[place - 1][2])).value)
    # A solution may begin with its steps, and two solutions may end in one answer.
    solutions = {turn.solution.rstrip().rpartition("\n\n")[2] for _, turn, _ in known} - {""}
    if len(solutions) >= FEWEST_SOLUTIONS and min(elsewhere, default=0.0) == 1:
        log.found(known[0][0].id, f"every task takes the solution of another, of {len(solutions)} different solutions")
    return f"{len(known)} answers"


def format_stated(case: Case, log: Log) -> str:
    """The prompt mentions the box if answers must be in a box."""
    boxed = [(task, turn) for task, turns in case.asked for turn in turns if _is_boxed(turn)]
    if case.tasks[0].manner.prompt == "brief":
        raise NotApplicable("prompt=brief shows only the position")
    if not boxed:
        raise NotApplicable("answers need no box")
    for task, turn in boxed:
        if BOX not in said(turn):
            log.found(task.id, f"the prompt does not name \\boxed{{}}: {quote(said(turn)[-60:])}")
    return f"{len(boxed)} prompts name \\boxed{{}}"


def _is_boxed(turn: Turn) -> bool:
    return any(BOX in answer for answer in (*turn.answers, turn.solution))


def settings_read(environment: Environment, settings: Mapping[str, Any], log: Log) -> str:
    """Every documented key of the configuration changes the tasks, and a selecting key selects every given name.

    Args:
        environment: The environment.
        settings: The settings in addition to the tested key.
        log: Records findings.
    """
    read = []
    for key, tried in environment.audit().settings.items():
        with log.guard(""):
            heads = [head for value in tried if (head := _head(environment, {**settings, key: value}))]
            if len(heads) < 2:
                continue
            read.append(key)
            if all(head == heads[0] for head in heads):
                log.found("", f"{key} is read by nobody: {tried[0]} and {tried[1]} give the same tasks")
            if key == "num_tasks_per_case" and (heads[0][0], heads[1][0]) != tuple(
                count * heads[0][0] // tried[0] for count in tried
            ):
                log.found("", f"num_tasks_per_case={tried} gives {heads[0][0]} and {heads[1][0]} tasks")
    if selection := environment.audit().selection:
        with log.guard(""):
            read.append(_selected(environment, *selection, log))
    if not read:
        raise NotApplicable("the environment reports no keys to test")
    return ", ".join(read)


def _head(environment: Environment, settings: Mapping[str, Any]) -> tuple[int, list[Task]] | None:
    """The number of tasks of a configuration, and the first ones; None if the configuration is invalid."""
    try:
        tasks = environment.catalogue(environment.read_config(settings), "train")
    except UserError:
        return None
    return len(tasks), list(tasks[:3])


def _selected(environment: Environment, key: str, names: Sequence[str], log: Log) -> str:
    given = ",".join(names)
    tasks = environment.catalogue(environment.read_config({key: given}), "train")
    # A name may be a case, or a group of tasks within a case.
    found = list(dict.fromkeys(task.case if task.case in names else environment.group(task) for task in tasks))
    if missing := [name for name in names if name not in found]:
        log.found("", f'{key}="{given}" gives {", ".join(found)} alone, without {", ".join(missing)}')
    return f"{key}={given}"
