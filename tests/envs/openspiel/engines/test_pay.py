"""The setting `engine` changes the reward of a move."""

from collections.abc import Callable

from veritas_rl.envs.base import Reply
from veritas_rl.envs.openspiel.cases import load
from veritas_rl.envs.openspiel.engines import EngineSpec, engine_values
from veritas_rl.envs.openspiel.engines.process import EnginePool
from veritas_rl.envs.openspiel.env import OpenSpielEnvironment
from veritas_rl.envs.registry import open_catalogue

Installed = Callable[[str], EngineSpec]


def test_a_move_is_paid_what_the_engine_says(installed: Installed, pool: EnginePool) -> None:
    name = str(installed("gnubg"))
    config = {"cases": "backgammon", "engine": "gnubg", "num_tasks_per_case": 2, "reward_mode": "outcome"}
    for task in open_catalogue({"env": "openspiel", "adapter_config": config}, "train"):
        session = OpenSpielEnvironment().start(task)
        (turn,) = session.turns()
        values = engine_values(load(task.case), turn.view.state, turn.seat, name)
        assert values is not None
        best = max(turn.view.actions, key=values.__getitem__)
        session.step({turn.seat: Reply(turn.answers[turn.view.actions.index(best)])})
        score = session.scores()[turn.seat]
        assert score.details["value_source"] == "engine"
        assert score.value == values[best]
        assert score.success
