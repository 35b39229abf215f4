"""Demonstrations of experts: good moves, no repeated or held-out questions, and counts that cover every drawn state."""

from collections.abc import Sequence

import pytest

from veritas_rl.demonstrations import generate as generating
from veritas_rl.demonstrations.dataset import ask_again, row_of
from veritas_rl.demonstrations.generate import Counts, Settings, generate
from veritas_rl.envs.base import Reply, Turn
from veritas_rl.envs.openspiel import positions
from veritas_rl.envs.openspiel.cases import load
from veritas_rl.envs.openspiel.values.minimax import ExactSolver
from veritas_rl.envs.registry import get_environment
from veritas_rl.errors import UserError

GAME = load("tic_tac_toe")
SOLVER = ExactSolver(GAME)


def settings(**changes: object) -> Settings:
    values: dict = {"games": "tic_tac_toe", "expert": "exact", "number": 300, "prompt": "brief"}
    return Settings(**{**values, **changes})


def add_up(counts: Counts) -> bool:
    left_out = counts.in_evaluation_set + counts.duplicates + counts.rejected_by_quality
    return counts.drawn == counts.kept + left_out + sum(counts.mistakes.values())


def test_every_label_of_the_exact_solver_is_optimal_and_every_question_is_asked_once() -> None:
    made, counts = generate(settings())
    assert len(made) == counts.kept == 300
    assert add_up(counts)
    assert len({str(demonstration.messages) for demonstration in made}) == 300
    for demonstration in made:
        _, turn = ask_again(row_of(demonstration, 0, settings())["extra_info"])
        best = SOLVER.optimal_actions(turn.view.state)
        assert demonstration.response in {turn.answers[turn.view.actions.index(action)] for action in best}


def test_all_optimal_moves_are_drawn_by_the_seed_and_one_seed_gives_one_set() -> None:
    first, again = generate(settings())[0], generate(settings())[0]
    assert first == again
    answers = [
        {str(made.messages): made.response for made in generate(settings(number=3000, seed=seed))[0]} for seed in (1, 2)
    ]
    both = answers[0].keys() & answers[1].keys()
    assert len(both) > 2000
    assert any(answers[0][question] != answers[1][question] for question in both)


def test_quality_rejects_moves_that_lose_something() -> None:
    made, counts = generate(settings(expert="random", min_value=1.0))
    assert add_up(counts)
    # A random legal move is optimal with probability 0.58 (tests/players/test_bots.py).
    assert 0.5 < 1 - counts.rejected_by_quality / counts.drawn < 0.66
    for demonstration in made[:50]:
        _, turn = ask_again(row_of(demonstration, 0, settings())["extra_info"])
        chosen = turn.view.actions[turn.answers.index(demonstration.response)]
        assert chosen in SOLVER.optimal_actions(turn.view.state)


def test_whole_games_give_the_experts_moves_alone_and_nothing_that_is_held_out() -> None:
    chosen = settings(mode="episode", opponent="random", min_value=0.5, number=200)
    made, counts = generate(chosen)
    assert add_up(counts)
    assert counts.in_evaluation_set > 0
    assert counts.duplicates > 0
    assert any(demonstration.said for demonstration in made)
    for demonstration in made:
        task, turn = ask_again(row_of(demonstration, 0, chosen)["extra_info"])
        assert (list(turn.messages), turn.seat) == ([*demonstration.messages], task.manner.seat)
        assert positions.split_of(GAME, turn.view.state, turn.seat) == "train"
        assert demonstration.value >= 0.5
        best = SOLVER.optimal_actions(turn.view.state)
        assert turn.view.actions[turn.answers.index(demonstration.response)] in best


def test_a_conversation_is_one_demonstration_for_each_seat_and_ends_before_held_out_positions() -> None:
    chosen = settings(mode="episode", opponent="random", number=150, config=(("context", "conversation"),))
    made, counts = generate(chosen)
    assert add_up(counts)
    assert counts.in_evaluation_set > 0
    lengths = set()
    for demonstration in made:
        task, turn = ask_again(row_of(demonstration, 0, chosen)["extra_info"])
        assert list(turn.messages) == [*demonstration.messages]
        replies = [message["content"] for message in turn.messages if message["role"] == "assistant"]
        lengths.add(len(replies))
        # The turns of the chat, from the start: all are in the training part, and all replies are the expert's.
        session = get_environment(task.env).start(task)
        for said in (*demonstration.said, demonstration.response):
            (asked,) = session.turns()
            if asked.seat == task.manner.seat:
                assert positions.split_of(GAME, asked.view.state, asked.seat) == "train"
                assert said == (*replies, demonstration.response)[(len(asked.messages) - asked.opening) // 2]
            session.step({asked.seat: Reply(said)})
    assert lengths >= {0, 1, 2}
    # No chat begins another one of the same game.
    games = {(demonstration.task.id, demonstration.task.manner.seat) for demonstration in made}
    assert len(games) == len(made)


def test_cases_take_turns_and_a_game_that_is_exhausted_ends_alone() -> None:
    made, _ = generate(settings(games="tic_tac_toe,hex(board_size=3)", number=20_000))
    cases = [demonstration.task.case for demonstration in made]
    assert set(cases[:600]) == {"tic_tac_toe", "hex(board_size=3)"}
    for case in set(cases):
        assert cases.count(case) == positions.count(case, "train")


def test_a_game_that_cannot_be_split_is_refused() -> None:
    with pytest.raises(UserError, match="every question of kuhn_poker is a validation question"):
        generate(settings(games="kuhn_poker", expert="random"))


class Mumbler:
    """A player that gives the first legal answer, but an unparseable reply every third time."""

    def __init__(self) -> None:
        self.asked = 0

    def act(self, turns: Sequence[Turn]) -> list[Reply]:
        replies = []
        for turn in turns:
            self.asked += 1
            replies.append(Reply("hm" if self.asked % 3 == 0 else turn.answers[0]))
        return replies


def test_mistakes_are_counted_by_reason_and_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    player = Mumbler()
    monkeypatch.setattr(generating, "make_expert", lambda name, env, seed, cases: player)
    made, counts = generate(settings(expert="mumbler"))
    assert set(counts.mistakes) == {"unparseable"}
    assert counts.mistakes["unparseable"] == (counts.kept + counts.mistakes["unparseable"]) // 3
    assert counts.kept == 300 < player.asked
    assert all(demonstration.response != "hm" for demonstration in made)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"number": 0}, "at least 1, got 0"),
        ({"min_value": 1.5}, r"be in \[0, 1\], got 1.5"),
        ({"opponent": "random"}, "opponent needs mode=episode"),
        ({"games": "nonsense"}, "nonsense"),
        ({"games": "backgammon"}, "cannot be solved by minimax"),
    ],
)
def test_impossible_settings_are_one_line(changes: dict, message: str) -> None:
    with pytest.raises(UserError, match=message):
        generate(settings(**changes))
