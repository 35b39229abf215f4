"""Games with ids as answers, with the turn protocol and the scores of affinetes' own environment."""

import random
from typing import Any

import pyspiel
import pytest

from veritas_rl.envs.base import Reason, Reply, Session
from veritas_rl.envs.openspiel import ids
from veritas_rl.envs.openspiel.env import OpenSpielEnvironment
from veritas_rl.envs.openspiel.id_session import read_id
from veritas_rl.envs.registry import make_task


def session(case: str, seed: int = 3) -> Session:
    task = make_task("openspiel", case, 0, mode="episode", seed=seed)
    return OpenSpielEnvironment().start_by_ids(task)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("4", 4),
        (" 4\n", 4),
        ("<think>5 or 12?</think>\n12", 12),
        ("I choose 5.", 5),
        ("Action 5 (a2), so: 5", 5),
        ("5 or 12", Reason.AMBIGUOUS),
        ("7", Reason.ILLEGAL),
        ("7 it is", Reason.ILLEGAL),
        ("99999999999999999999", Reason.ILLEGAL),
        ("a5", Reason.UNPARSEABLE),
        ("1.5", Reason.UNPARSEABLE),
        ("", Reason.EMPTY),
        ("\u0665", Reason.UNPARSEABLE),
    ],
)
def test_a_reply_says_one_legal_id(text: str, said: Any) -> None:
    assert read_id(Reply(text), (4, 5, 12)) == said


def test_a_chat_grows_and_three_mistakes_lose() -> None:
    played = session("tic_tac_toe")
    (turn,) = played.turns()
    assert [message["role"] for message in turn.messages] == ["system", "user"]
    assert "\n4 -> x(1,1)\n" in turn.messages[-1]["content"]
    for left in (2, 1):
        played.step({0: Reply("no")})
        (turn,) = played.turns()
        assert turn.messages[-1]["content"].endswith(f"Attempts left: {left}.")
    played.step({0: Reply("4")})
    (turn,) = played.turns()
    assert turn.seat == 1
    for _ in range(3):
        played.step({1: Reply("4")})
    scores = played.scores()
    assert (scores[1].reason, scores[1].value) == (Reason.ILLEGAL, 0.0)
    assert (scores[0].reason, scores[0].value) == (Reason.FORFEITED, 0.0)


def theirs(returns: list[float], seat: int, game: Any) -> float:
    """The score of returns in affinetes' environment, by its documentation and source of 2026-11."""
    if game.get_type().utility == pyspiel.GameType.Utility.ZERO_SUM:
        return (returns[seat] - game.min_utility()) / (game.max_utility() - game.min_utility())
    if len(returns) > 2:
        return 1 - sorted(returns, reverse=True).index(returns[seat]) / (len(returns) - 1)
    if len(returns) == 2:
        return 0.5 if returns[0] == returns[1] else float(returns[seat] > returns[1 - seat])
    return (returns[seat] - game.min_utility()) / (game.max_utility() - game.min_utility())


@pytest.mark.parametrize("index", range(len(ids.INDEXED_GAMES)))
def test_every_indexed_game_is_scored_alike_on_the_same_moves(index: int) -> None:
    case = ids.case_of(index, 0)
    played, dice = session(case, seed=index), random.Random(index)
    while turns := played.turns():
        played.step({turn.seat: Reply(dice.choice(turn.answers)) for turn in turns})
    scores = played.scores()
    game = pyspiel.load_game(case)
    returns = [scores[seat].details["return"] for seat in range(game.num_players())]
    for seat, score in scores.items():
        if score.reason is Reason.UNFINISHED:
            continue
        assert score.value == pytest.approx(theirs(returns, seat, game))  # type: ignore[arg-type]
        assert score.success == (score.value > 0.5)
