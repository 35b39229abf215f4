"""Experts by name."""

import pytest

from veritas_rl.demonstrations.experts import EXPERTS, resolve_expert
from veritas_rl.envs.base import Task
from veritas_rl.envs.registry import get_environment
from veritas_rl.errors import UserError


@pytest.mark.parametrize("name", EXPERTS)
def test_every_expert_answers_legally(name: str) -> None:
    session = get_environment("openspiel").start(Task("openspiel", "tic_tac_toe", 5))
    turns = session.turns()
    (reply,) = resolve_expert(name)("7").act(turns)
    assert reply.text in turns[0].answers


def test_an_unknown_expert_is_told_with_the_known_ones() -> None:
    with pytest.raises(UserError, match=r"unknown expert 'exakt': did you mean exact\? known: exact, random"):
        resolve_expert("exakt")


def test_what_an_expert_does_not_take_is_refused() -> None:
    with pytest.raises(UserError, match="'100' after a colon"):
        resolve_expert("random:100")
