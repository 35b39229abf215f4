"""Any player name can be the name of an expert."""

import pytest

from veritas_rl.demonstrations.experts import make_expert
from veritas_rl.envs.base import Turn
from veritas_rl.envs.registry import get_environment, make_task
from veritas_rl.errors import UserError


def turns(case: str) -> list[Turn]:
    return list(get_environment("openspiel").start(make_task("openspiel", case, 3)).turns())


@pytest.mark.parametrize(
    ("name", "case"),
    [("exact", "tic_tac_toe"), ("exact", "leduc_poker"), ("mcts:20", "othello"), ("random", "backgammon")],
)
def test_every_expert_answers_legally(name: str, case: str) -> None:
    asked = turns(case)
    (reply,) = make_expert(name, "openspiel", "7", [case]).act(asked)
    assert reply.text in asked[0].answers


def test_a_stronger_model_behind_a_server_demonstrates(chat_server) -> None:
    player = make_expert(chat_server().url, "openspiel", "7", ["tic_tac_toe"])
    (reply,) = player.act(turns("tic_tac_toe"))
    assert reply.tokens > 0


@pytest.mark.parametrize(
    ("name", "case", "message"),
    [
        ("exakt", "tic_tac_toe", "no player 'exakt'"),
        ("random:100", "tic_tac_toe", "unknown player 'random:100'"),
        ("mcts:0", "tic_tac_toe", "of a search must be at least 1"),
        ("exact", "backgammon", "cannot be solved"),
    ],
)
def test_players_that_cannot_demonstrate_are_refused(name: str, case: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        make_expert(name, "openspiel", "7", [case])
