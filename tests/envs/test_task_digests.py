"""Tasks stay the same: digests of 1,000 tasks of each environment agree with `task_digests.json`.

A digest covers ids, prompts in each form and language, answers, solutions, classes, splits, chance seeds,
demonstrations and values. Runs of different versions are compared by these tasks. For an intended change,
`python tests/envs/test_task_digests.py` writes the file.
"""

import hashlib
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from veritas_rl.demonstrations.experts import make_expert
from veritas_rl.envs.base import Reply
from veritas_rl.envs.registry import get_environment, open_catalogue
from veritas_rl.envs.task import SPLITS, Task

FILE = Path(__file__).with_name("task_digests.json")
TASKS = 1_000
"""The number of tasks of each environment, at least."""
QUICK = 2
"""The number of tasks of each case and split that have a digest of their own, for a quick test."""

MANNERS: dict[str, tuple[dict[str, str], ...]] = {
    "openspiel": ({"prompt": "full"}, {"prompt": "unlisted"}, {"prompt": "brief"}),
    "lgc-v2": tuple(
        {"prompt": prompt, "language": language} for prompt in ("full", "brief") for language in ("en", "zh")
    ),
    "trace": ({"prompt": "full"}, {"prompt": "brief"}),
}
"""The environments, and how their tasks are shown."""
SETTINGS: dict[str, dict[str, Any]] = {
    "openspiel": {"reward_mode": "outcome", "playouts": 4},
    "lgc-v2": {"levels": [1, 2, 3, 4, 5]},
    "trace": {},
}


def cases_of(env: str) -> tuple[str, ...]:
    settings = {"env": env, "adapter_config": {**SETTINGS[env], "num_tasks_per_case": 1}}
    return tuple(task.case for task in open_catalogue(settings, "train"))


def rows(env: str, case: str, split: str, count: int) -> Iterator[list[Any]]:
    """What the first tasks of a case ask, show, teach and pay."""
    environment = get_environment(env)
    config = {**SETTINGS[env], "cases": [case], "num_tasks_per_case": count}
    settings = {"env": env, "adapter_config": {key: value for key, value in config.items() if key != "levels"}}
    expert = make_expert(environment.teacher, env, "digests", (case,))
    for task in open_catalogue(settings, split)[:count]:
        asked = [task.replace(**manner) for manner in MANNERS[env]]
        turns = [environment.start(each).turns()[0] for each in asked]
        first = turns[0]
        shown = [[turn.messages, turn.solution, "", turn.dice] for turn in turns]
        keys = [
            environment.equivalence_class(task),
            environment.equivalence_class(task, first),
            environment.group(task),
        ]
        demonstration = expert.act([first])[0].text
        replies = dict.fromkeys((*first.answers[:1], *first.answers[-1:], first.solution, demonstration))
        values = [paid(each, reply) for each in asked[:1] for reply in replies if reply]
        held_out = environment.held_out(task, first)
        yield [task.id, task.chance_seed, shown, first.answers, keys, held_out, demonstration, values]


def paid(task: Task, reply: str) -> list[Any]:
    session = get_environment(task.env).start(task)
    (turn, *_) = session.turns()
    session.step({turn.seat: Reply(reply)})
    score = session.scores()[turn.seat]
    return [reply, repr(score.value), score.success, score.reason]


def digests(env: str, case: str, count: int) -> list[str]:
    """The digests of the first `QUICK` tasks of both splits and, for a larger count, of all."""
    quick, whole = hashlib.sha256(), hashlib.sha256()
    for split in SPLITS:
        for index, row in enumerate(rows(env, case, split, count)):
            text = json.dumps(row).encode()
            whole.update(text)
            if index < QUICK:
                quick.update(text)
    return [quick.hexdigest()[:16], *([whole.hexdigest()[:16]] if count > QUICK else [])]


def per_split(env: str) -> int:
    """The number of tasks of each case and split."""
    return -(-TASKS // (len(SPLITS) * len(cases_of(env))))


KEPT: dict[str, dict[str, list[str]]] = json.loads(FILE.read_text("utf-8")) if FILE.is_file() else {}


@pytest.mark.parametrize("env", MANNERS)
def test_the_first_tasks_of_each_case_are_those_that_they_were(env: str) -> None:
    assert set(KEPT[env]) == set(cases_of(env))
    changed = [case for case, (quick, _) in KEPT[env].items() if digests(env, case, QUICK) != [quick]]
    assert not changed


@pytest.mark.long
@pytest.mark.parametrize("env", MANNERS)
def test_a_thousand_tasks_are_those_that_they_were(env: str) -> None:
    changed = [case for case, kept in KEPT[env].items() if digests(env, case, per_split(env)) != kept]
    assert not changed


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    made = {env: {case: digests(env, case, per_split(env)) for case in cases_of(env)} for env in MANNERS}
    FILE.write_text(json.dumps(made, indent=1) + "\n", "utf-8")
