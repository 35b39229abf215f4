"""The digest of tasks: what changes it, and what does not."""

from typing import Any

import pytest

from veritas_rl.envs.registry import open_catalogue
from veritas_rl.envs.tasks_digest import catalogues_of, tasks_digest


def digest_of(env: str = "openspiel", **config: Any) -> str:
    return tasks_digest(catalogues_of({"env": env, "adapter_config": config}))


HEX = {"game_types": "hex(board_size=4)", "prompt": "brief"}


@pytest.mark.parametrize(
    "changes",
    [
        {"prompt": "full"},
        {"seed": 1},
        {"mode": "episode"},
        {"game_types": "hex(board_size=5)"},
        {"game_types": ["hex(board_size=4)", "tic_tac_toe"]},
        {"max_random_steps": 2},
    ],
)
def test_whatever_is_asked_counts(changes: dict[str, Any]) -> None:
    assert digest_of(**{**HEX, **changes}) != digest_of(**HEX)


@pytest.mark.parametrize("changes", [{"num_tasks_per_case": 999}, {"reward_mode": "legal"}, {"gamma": 0.5}])
def test_the_number_of_tasks_and_their_pay_do_not_count(changes: dict[str, Any]) -> None:
    assert digest_of(**{**HEX, **changes}) == digest_of(**HEX)


def test_both_splits_count() -> None:
    settings = {"env": "lgc-v2", "adapter_config": {"cases": "dyck_language", "num_tasks_per_case": 8}}
    train, val = (open_catalogue(settings, split) for split in ("train", "val"))
    assert tasks_digest([train, val]) == tasks_digest(catalogues_of(settings))
    assert len({tasks_digest(part) for part in ([train], [val], [train, val], [val, train])}) == 4


def test_every_case_of_a_catalogue_counts() -> None:
    cases = [f"hex(board_size={size})" for size in (3, 4, 5)]
    settings = {
        "env": "openspiel",
        "adapter_config": {"game_types": cases, "num_tasks_per_case": 50, "prompt": "brief"},
    }
    tasks = list(open_catalogue(settings, "train"))
    for first in (0, 50, 100):
        changed = [*tasks]
        changed[first] = tasks[first].replace(prompt="full")
        assert tasks_digest([changed]) != tasks_digest([tasks])


def test_all_environments_of_a_mixture_count() -> None:
    both = {"openspiel": {"config": {**HEX, "num_tasks_per_case": 20}}, "lgc-v2": {"config": {"num_tasks_per_case": 2}}}
    mixed = {"environments": both}
    harder = {"environments": {**both, "lgc-v2": {"config": {"num_tasks_per_case": 2, "levels": 5}}}}
    assert tasks_digest(catalogues_of(mixed)) != tasks_digest(catalogues_of(harder))
    assert len(list(catalogues_of(mixed))) == 4
