"""The setting `engine` changes the reward of a move."""

from collections.abc import Callable

from veritas_rl.envs.base import Reason, Reply
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


def test_a_game_that_is_stopped_is_worth_what_the_engine_says(installed: Installed, pool: EnginePool) -> None:
    name = str(installed("uci:stockfish:nodes=2000"))
    config = {"cases": "chess", "engine": name, "mode": "episode", "max_moves": 5, "num_tasks_per_case": 1}
    (task,) = open_catalogue({"env": "openspiel", "adapter_config": config}, "train")
    session, game, state = OpenSpielEnvironment().start(task), load("chess"), load("chess").spiel.new_initial_state()
    while turns := session.turns():
        for turn in turns:
            state.apply_action(turn.view.actions[0])
        session.step({turn.seat: Reply(turn.answers[0]) for turn in turns})
    values = engine_values(game, state, state.current_player(), name)
    assert values is not None
    scores = session.scores()
    assert {score.reason for score in scores.values()} == {Reason.UNFINISHED}
    assert scores[state.current_player()].value == max(values.values())
    assert scores[0].value + scores[1].value == 1.0
