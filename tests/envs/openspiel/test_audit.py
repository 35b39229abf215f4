"""The facts about games that the environment reports to the linter agree with OpenSpiel."""

import pytest

from veritas_rl.envs.openspiel import positions
from veritas_rl.envs.openspiel.cases import load
from veritas_rl.envs.openspiel.env import OpenSpielEnvironment
from veritas_rl.envs.registry import make_task

AUDIT = OpenSpielEnvironment().audit()
pytestmark = pytest.mark.filterwarnings("ignore:.*has no description of its own")


@pytest.mark.parametrize("case", ["leduc_poker", "liars_dice", "phantom_ttt", "gin_rummy", "hearts"])
def test_redealt_states_show_the_player_the_same(case: str) -> None:
    game, found = load(case), 0
    for k in range(3):
        task = make_task("openspiel", case, k, reward="legal")
        state, seat = positions.decision_of(case, k, task.seed, task.split)
        others = AUDIT.redealt(task, 2) or ()
        found += len(others)
        for turn in others:
            other = turn.view.state
            assert turn.seat == seat
            assert other.history() != state.history()
            if game.type.provides_information_state_string:
                assert other.information_state_string(seat) == state.information_state_string(seat)
            else:
                assert other.observation_string(seat) == state.observation_string(seat)
    assert found


def test_nothing_is_redealt_where_nothing_is_hidden() -> None:
    assert AUDIT.redealt(make_task("openspiel", "tic_tac_toe", 0), 3) is None


@pytest.mark.parametrize(
    ("case", "alike"),
    [
        ("goofspiel(num_cards=4)", True),
        ("goofspiel(num_cards=4,players=3)", True),
        ("matrix_rps", True),
        ("matrix_pd", True),
        ("matrix_mp", False),  # matching pennies: one player wins with equal sides, the opponent with different sides
        ("tic_tac_toe", False),
        ("leduc_poker", False),
    ],
)
def test_which_games_are_the_same_from_every_seat(case: str, alike: bool) -> None:
    assert AUDIT.seats_alike(case) is alike


def test_facts_at_a_simultaneous_node() -> None:
    (turn,) = OpenSpielEnvironment().start(make_task("openspiel", "goofspiel(num_cards=4)", 0)).turns()
    facts = AUDIT.facts(turn)
    assert facts is not None
    assert facts.to_act == (0, 1)
    assert [legal.replies[0] for legal in facts.legal] == list(turn.answers)
    assert not facts.hidden


def test_facts_at_a_chance_node() -> None:
    (turn,) = OpenSpielEnvironment().start(make_task("openspiel", "leduc_poker", 0)).turns()
    root = load("leduc_poker").spiel.new_initial_state()
    object.__setattr__(turn.view, "state", root)
    facts = AUDIT.facts(turn)
    assert facts is not None
    assert (facts.to_act, facts.legal) == ((), ())
