"""What a worker writes to TransferQueue in addition to the tokens, and what it prepares."""

import threading
from collections.abc import Sequence
from itertools import product

import pytest
from verl.experimental.agent_loop.agent_loop import AgentLoopMetrics, AgentLoopOutput

from veritas_rl.envs.base import Reply
from veritas_rl.envs.openspiel.positions import tasks as positions
from veritas_rl.envs.openspiel.values import ladder, playouts
from veritas_rl.envs.registry import open_catalogue
from veritas_rl.envs.task import Task
from veritas_rl.launch.configuration import compose_configuration
from veritas_rl.verl_plugin.agent_loop import start
from veritas_rl.verl_plugin.dataset import row_of
from veritas_rl.verl_plugin.loop_manager import TaskLoopManager
from veritas_rl.verl_plugin.loop_worker import _prepare, play_seed, seeds_replies, tag


@pytest.mark.parametrize(("said", "first"), [({"min_global_steps": 0}, 0), ({"min_global_steps": None}, 4), ({}, 4)])
def test_weights_of_step_0_are_known_as_such(said: dict[str, int | None], first: int) -> None:
    output = AgentLoopOutput(
        prompt_ids=[1], response_ids=[2], response_mask=[1], metrics=AgentLoopMetrics(), extra_fields=said
    )
    assert tag(output, step=5)["min_global_steps"] == first


def test_each_play_has_its_own_seed() -> None:
    # The third row is the first task, drawn again in the same step.
    tasks = open_catalogue({"env": "openspiel", "adapter_config": {"cases": "tic_tac_toe"}}, "train")
    rows = [row_of(tasks[number], index) for index, number in enumerate((0, 1, 0))]
    plays = [(seed, row, copy, step) for seed in (1, 2) for row in rows for copy in range(4) for step in (1, 2, 3)]
    trained, shown = ({play_seed(*play, validate) for play in plays} for validate in (False, True))
    assert len(trained) == len(plays)
    # All validations share their seeds, so a validation differs from the last one only by the weights.
    assert len(shown) == len(plays) / 3
    assert not trained & shown


def test_replies_are_seeded_where_it_costs_nothing() -> None:
    rollout = compose_configuration(["hardware=cpu", "start=made"]).actor_rollout_ref.rollout
    found = {}
    for rollout.name, rollout.full_determinism in product(("transformers", "vllm", "sglang"), (False, True)):
        found[rollout.name, rollout.full_determinism] = seeds_replies(rollout)
    assert {case for case, seeded in found.items() if seeded} == {
        ("transformers", False),
        ("transformers", True),
        # verl would seed all requests alike.
        ("vllm", True),
    }


SETTINGS = {"env": "openspiel", "adapter_config": {"cases": "othello", "playouts": 4, "reward": "optimal"}}


def prepared(tasks: Sequence[Task], until: threading.Event) -> None:
    """As a worker does it, in a thread, whose priority cannot be raised again."""
    for kept in (positions._decision, ladder._known, playouts.visit_sample):
        kept.cache_clear()
    thread = threading.Thread(target=_prepare, args=(tasks, until))
    thread.start()
    thread.join()


def test_a_prepared_task_needs_only_the_playouts_of_its_answer() -> None:
    tasks = list(open_catalogue(SETTINGS, "train")[:12])
    prepared(tasks, threading.Event())
    caches = (positions._decision, playouts.visit_sample)
    before = [kept.cache_info().misses for kept in caches]
    for task in tasks:
        session = start(task)
        session.step({turn.seat: Reply(turn.answers[0]) for turn in session.turns()})
    drawn, played = (kept.cache_info().misses - count for kept, count in zip(caches, before, strict=True))
    assert drawn == 0
    assert 0 < played <= len(tasks)


def test_play_ends_the_preparation() -> None:
    until = threading.Event()
    until.set()
    prepared(open_catalogue(SETTINGS, "train")[:3], until)
    assert not positions._decision.cache_info().misses


@pytest.mark.parametrize("count", [0, 1, 2, 9, 10])
def test_a_task_is_prepared_where_it_will_be_played(count: int) -> None:
    manager = object.__new__(TaskLoopManager)
    manager.agent_loop_workers = ["first", "second", "third"]
    tasks = list(open_catalogue(SETTINGS, "train")[:count])
    rows = [{"extra_info": {"task_id": task.id}} for task in reversed(tasks)]
    shares = [(worker, [task.id for task in some]) for worker, some in manager._deal(tasks, lambda task: task.id)]
    assert shares == [
        (worker, [row["extra_info"]["task_id"] for row in some])
        for worker, some in manager._deal(rows, lambda row: row["extra_info"]["task_id"])
    ]
    assert sorted(name for _, some in shares for name in some) == sorted(task.id for task in tasks)
