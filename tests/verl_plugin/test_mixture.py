"""A dataset of several environments: shares by weight, separate curricula and failure replay, exact resume."""

import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from veritas_rl.envs import registry
from veritas_rl.envs.registry import task_of
from veritas_rl.errors import UserError
from veritas_rl.verl_plugin.dataset import DynamicEnvDataset
from veritas_rl.verl_plugin.reward import compute_score

PLACES = {"sums": "arithmetic:Sums", "differences": "arithmetic:Differences", "products": "arithmetic:Products"}

STAGES = {
    "openspiel": [{"name": "easy", "cases": ["tic_tac_toe"]}, {"name": "hard", "cases": ["kuhn_poker"]}],
    "sums": [{"name": "small", "cases": ["small"]}, {"name": "large", "cases": ["large"]}],
}


@pytest.fixture(autouse=True)
def _arithmetic(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register three more environments, as if other packages offered them."""
    monkeypatch.syspath_prepend(Path(__file__).parent)
    monkeypatch.setattr(registry, "ENVIRONMENTS", {**registry.ENVIRONMENTS, **PLACES})


def open_mixture(weights: dict[str, float], split: str = "train", **more: Any) -> DynamicEnvDataset:
    """A dataset of these environments."""
    configs = {name: {"num_tasks_per_case": 2000} for name in weights} | {
        "openspiel": {"cases": "kuhn_poker", "num_tasks_per_case": 2000}
    }
    environments = {
        name: {"weight": weight, "config": configs[name], **more.get(name, {})} for name, weight in weights.items()
    }
    settings = {"env": "openspiel", "adapter_config": {}, "environments": environments}
    return DynamicEnvDataset(split, None, {"seed": 1, "custom_cls": {"config": settings}})


def with_outcomes() -> DynamicEnvDataset:
    """A dataset of two environments, each with its own curriculum and failure replay."""
    more: dict[str, Any] = {
        name: {"curriculum": {"stages": stages, "window": 8, "min_games": 8}, "failure_replay": {}}
        for name, stages in STAGES.items()
    }
    return open_mixture({"openspiel": 2, "sums": 1}, **more)


def both(value: bool) -> tuple[float, float]:
    """The value and success of a task that is solved or not."""
    return float(value), float(value)


def play(dataset: DynamicEnvDataset, rows: list[dict[str, Any]]) -> list[str]:
    """Record outcomes of rows: every third task fails."""
    return dataset.record({row["index"]: both(row["index"] % 3 > 0) for row in rows})


@pytest.mark.parametrize("split", ["train", "val"])
@pytest.mark.parametrize(
    "weights",
    [
        {"openspiel": 2, "sums": 1},
        {"openspiel": 1, "sums": 1, "products": 1},
        {"sums": 0.7, "openspiel": 0.2, "products": 0.1},
        {"sums": 3, "openspiel": 1, "products": 7, "differences": 2.5},
        {"openspiel": 1000, "sums": 1},
    ],
    ids=lambda weights: ":".join(map(str, weights.values())),
)
def test_any_100_consecutive_rows_hold_each_share_within_one_task(weights: dict[str, float], split: str) -> None:
    dataset = open_mixture(weights, split)
    sources = [dataset[index]["data_source"] for index in range(1500)]
    total = sum(weights.values())
    for start in range(len(sources) - 100):
        given = Counter(sources[start : start + 100])
        for name, weight in weights.items():
            assert abs(given[name] - 100 * weight / total) < 1 + 1e-9, (start, given)
    if len(sources) * min(weights.values()) > total:
        assert set(sources) == set(weights)


def test_rows_are_scored_by_their_own_environment() -> None:
    dataset = open_mixture({"openspiel": 1, "sums": 1})
    rows = [dataset[0] for _ in range(4)]
    assert {row["data_source"] for row in rows} == {"openspiel", "sums"}
    groups = set()
    for row in rows:
        task = task_of(row["extra_info"])
        (turn,) = registry.get_environment(task.env).start(task).turns()
        best = turn.solution or turn.answers[0]
        scored = compute_score(row["data_source"], best, row["reward_model"]["ground_truth"], row["extra_info"])
        assert scored["legal"] == 1.0
        groups.add(scored["group"])
    assert "openspiel/kuhn_poker" in groups
    assert groups - {"openspiel/kuhn_poker"} <= {"sums/small", "sums/large"}


@pytest.mark.parametrize("ahead", [0, 1, 17, 120], ids=lambda ahead: f"{ahead} not recorded")
def test_a_resumed_mixture_gives_the_rows_of_an_uninterrupted_one(ahead: int) -> None:
    unbroken = with_outcomes()
    for _ in range(30):
        play(unbroken, [unbroken[0] for _ in range(5)])
    waiting = [unbroken[0] for _ in range(ahead)]
    state = pickle.loads(pickle.dumps(unbroken.state_dict()))
    resumed = with_outcomes()
    resumed.load_state_dict(state)
    assert [resumed[0] for _ in range(ahead)] == waiting
    origins, stages = set(), set()
    for _ in range(40):
        rows = [unbroken[0] for _ in range(5)]
        assert [resumed[0] for _ in range(5)] == rows
        done = [*waiting, *rows][:5]
        waiting = [*waiting, *rows][5:]
        assert play(resumed, done) == play(unbroken, done)
        assert resumed.metrics() == unbroken.metrics()
        origins |= {(row["data_source"], row["extra_info"]["origin"]) for row in rows}
        stages |= {(row["data_source"], row["extra_info"]["stage"]) for row in rows}
    assert origins == {(name, origin) for name in STAGES for origin in ("fresh", "replay", "past")}
    assert {("openspiel", "hard"), ("sums", "large")} <= stages


def test_rows_that_are_still_being_played_do_not_come_again() -> None:
    """The asynchronous trainer itself stores games that are unfinished at a checkpoint."""
    unbroken = with_outcomes()
    rows = [unbroken[0] for _ in range(12)]
    resumed = with_outcomes()
    resumed.go_on_with(row["index"] for row in rows[::2])
    resumed.load_state_dict(pickle.loads(pickle.dumps(unbroken.state_dict())))
    again = [resumed[0] for _ in range(8)]
    assert again[:6] == rows[1::2]
    assert again[6:] == [unbroken[0] for _ in range(2)]
    assert play(resumed, [*rows, *again[6:]]) == play(unbroken, [*rows, *again[6:]])
    assert resumed.metrics() == unbroken.metrics()


def test_each_environment_has_a_curriculum_and_failures_of_its_own() -> None:
    dataset = with_outcomes()
    for _ in range(20):
        rows = [dataset[0] for _ in range(9)]
        # Every sum is correct, and every game is lost.
        dataset.record({row["index"]: both(row["data_source"] == "sums") for row in rows})
    metrics = dataset.metrics()
    assert (metrics["sums/curriculum/stage"], metrics["openspiel/curriculum/stage"]) == (2, 1)
    assert metrics["sums/failure_replay/size"] == 0
    assert metrics["openspiel/failure_replay/size"] > 0
    assert {name.partition("/")[0] for name in metrics} == {"sums", "openspiel"}


def test_a_state_of_other_environments_is_refused_in_words() -> None:
    state = open_mixture({"openspiel": 2, "sums": 1}).state_dict()
    with pytest.raises(UserError, match=r"environments openspiel, sums, .*openspiel, products"):
        open_mixture({"openspiel": 2, "products": 1}).load_state_dict(state)
