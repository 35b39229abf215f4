"""Exact evaluation against known results of small games: published values, hand-made policies, uniform play."""

import json
from collections.abc import Callable, Sequence

import pytest

from veritas_rl.envs.base import Reply, Turn, play
from veritas_rl.envs.openspiel.env import OpenSpielEnvironment
from veritas_rl.envs.openspiel.players.exact import ExactPlayer
from veritas_rl.envs.openspiel.policy_values import decisions_of, worth_of
from veritas_rl.envs.openspiel.view import View
from veritas_rl.envs.registry import make_task
from veritas_rl.errors import UserError
from veritas_rl.exact.policies import SAMPLES, questions_of, score_policy, score_reference
from veritas_rl.exact.report import KUHN_EQUILIBRIA
from veritas_rl.players.random import RandomPlayer


class Scripted:
    """A player that answers each turn by a function, and records the turns."""

    def __init__(self, reply: Callable[[Turn], str]) -> None:
        self.reply = reply
        self.asked: list[Turn] = []

    def act(self, turns: Sequence[Turn]) -> list[Reply]:
        self.asked += turns
        return [Reply(self.reply(turn)) for turn in turns]


class GivingProbabilities(Scripted):
    """A player that gives probabilities instead of replies."""

    gives_probabilities = True

    def __init__(self, row: Callable[[Turn], Sequence[float]]) -> None:
        super().__init__(lambda turn: pytest.fail("was asked for a reply"))
        self.row = row

    def answer_probabilities(self, turns: Sequence[Turn]) -> list[Sequence[float]]:
        return [self.row(turn) for turn in turns]


@pytest.mark.parametrize(("case", "states", "nash_conv"), [("kuhn_poker", 12, 0.9167), ("leduc_poker", 936, 4.7472)])
def test_uniform_play_has_its_known_nash_conv(case: str, states: int, nash_conv: float) -> None:
    report = score_reference("uniform", case)
    assert len(report.states) == states
    assert report.nash_conv == pytest.approx(nash_conv, abs=5e-5)
    assert (
        score_policy(GivingProbabilities(lambda turn: [1 / len(turn.answers)] * len(turn.answers)), case).worth
        == report.worth
    )


def test_a_random_player_comes_near_it_by_its_answers() -> None:
    report = score_policy(RandomPlayer(5), "kuhn_poker", samples=4000)
    assert (report.way, report.samples, report.metrics["illegal_max"]) == ("samples", 4000, 0)
    # The standard error of a probability is 0.008; NashConv changes by at most about 4 chips per unit of probability.
    assert report.nash_conv == pytest.approx(0.9167, abs=0.05)
    for state in report.states:
        assert state.probabilities[0] == pytest.approx(0.5, abs=4.5 * 0.0079)
    few = score_policy(RandomPlayer(5), "kuhn_poker")
    assert few.samples == SAMPLES
    assert few.floor > report.floor > 0


def test_the_optimum_has_next_to_none_and_its_draws_show_the_floor() -> None:
    report = score_reference("optimum", "kuhn_poker")
    assert 0 <= report.nash_conv < 0.01
    assert report.metrics["optimal_rate"] == pytest.approx(1, abs=1e-3)
    assert report.worth.game == pytest.approx((-1 / 18, 1 / 18), abs=1e-3)
    drawn = score_policy(ExactPlayer(seed=1), "kuhn_poker", samples=100)
    assert 0.01 < drawn.nash_conv < 4 * drawn.floor


@pytest.mark.parametrize("x", [0.0, 0.2, 1 / 3])
def test_the_equilibria_of_kuhn_1950_lie_in_the_ranges_that_are_drawn(x: float) -> None:
    own = {"0J": x, "0K": 3 * x, "0Qpb": x + 1 / 3}
    bets = {label: own.get(label, low) for label, (low, _) in KUHN_EQUILIBRIA.items()}
    assert all(low <= bets[label] <= high + 1e-9 for label, (low, high) in KUHN_EQUILIBRIA.items())
    policy = {d.key: {0: 1 - bets[d.label], 1: bets[d.label]} for d in decisions_of("kuhn_poker")}
    worth = worth_of("kuhn_poker", policy)
    assert worth.nash_conv == pytest.approx(0, abs=1e-9)
    assert worth.worst == pytest.approx((-1 / 18, 1 / 18))


def test_always_passing_in_kuhn_poker_loses_what_it_must() -> None:
    report = score_policy(Scripted(lambda turn: turn.answers[0]), "kuhn_poker", samples=1)
    # The policy folds to every bet, so an opponent that always bets wins the ante of 1 in every game.
    assert report.worth.worst == pytest.approx((-1.0, -1.0))
    assert report.nash_conv == pytest.approx(2.0)
    # Passing with the king loses value after a bet (0Kpb, 1Kb), and for the second player after a pass (1Kp).
    wrong = {state.label for state in report.states if state.losing}
    assert wrong == {"0Kpb", "1Kb", "1Kp"}
    assert report.metrics["value_losing_rate"] == pytest.approx(3 / 12)
    assert report.floor == 0


def test_illegal_answers_are_counted_and_the_rest_is_judged() -> None:
    def reply(turn: Turn) -> str:
        shown = turn.messages[0]["content"]
        if "\n0J" in shown:
            return "\\boxed{7}"
        return turn.answers[0] if turn.dice[-1] == 0 else "I fold."

    report = score_policy(Scripted(reply), "kuhn_poker", prompt="brief", samples=4)
    assert report.mistakes == {"illegal": 8, "unparseable": 30}
    assert report.metrics["states_without_legal_answer"] == 2
    assert report.metrics["illegal_mean"] == pytest.approx((2 * 1 + 10 * 0.75) / 12)
    assert report.metrics["illegal_max"] == 1
    for state in report.states:
        assert sum(state.probabilities) + state.illegal == pytest.approx(1)
        assert state.optimal + state.losing + state.illegal == pytest.approx(1)
    rows = {
        d.key: {0: 0.5, 1: 0.5} if d.label.startswith("0J") else {0: 1.0, 1: 0.0} for d in decisions_of("kuhn_poker")
    }
    assert report.worth == worth_of("kuhn_poker", rows)
    tenth = score_policy(GivingProbabilities(lambda turn: [0.1 / len(turn.answers)] * len(turn.answers)), "kuhn_poker")
    assert tenth.metrics["illegal_mean"] == pytest.approx(0.9)
    assert tenth.metrics["optimal_rate"] == pytest.approx(
        0.1 * score_reference("uniform", "kuhn_poker").metrics["optimal_rate"]
    )
    assert tenth.nash_conv == pytest.approx(0.9167, abs=5e-5)


def test_a_name_in_another_spelling_is_an_answer_to_the_parser() -> None:
    by_number = score_policy(Scripted(lambda turn: "\\boxed{1}"), "kuhn_poker", samples=1)
    by_name = score_policy(Scripted(lambda turn: "Let me see. \\boxed{ BET }"), "kuhn_poker", samples=1)
    assert by_name.states == by_number.states
    assert not by_name.mistakes


def test_perfect_play_of_tic_tac_toe_loses_no_value_in_any_position() -> None:
    report = score_policy(ExactPlayer(seed=2), "tic_tac_toe", samples=1)
    assert len(report.states) == 4520
    assert report.metrics["value_losing_rate"] == 0
    assert report.metrics["optimal_rate"] == 1
    assert (report.nash_conv, report.worth.worst) == (0, (0, 0))


def test_random_play_of_tic_tac_toe_loses_value_in_42_percent_of_its_moves() -> None:
    report = score_reference("uniform", "tic_tac_toe")
    assert report.metrics["value_losing_rate"] == pytest.approx(1 - 0.580, abs=5e-4)
    expected = report.metrics["value_losing_rate"] * len(report.states)
    assert report.metrics["value_losing_rate_there"] * report.metrics["states_where_a_move_can_lose"] == pytest.approx(
        expected
    )
    # The best response to a random player wins almost always, but not always.
    assert all(-1 < worst < -0.9 for worst in report.worth.worst)
    drawn = score_policy(RandomPlayer(1), "tic_tac_toe", samples=1)
    assert drawn.metrics["value_losing_rate"] == pytest.approx(0.420, abs=4.5 * 0.5 / len(report.states) ** 0.5)


def test_backward_induction_agrees_with_open_spiel() -> None:
    pyspiel = pytest.importorskip("pyspiel")
    report = score_reference("uniform", "hex(board_size=2)")
    game = pyspiel.load_game("hex(board_size=2)")
    assert report.nash_conv == pytest.approx(pyspiel.nash_conv(game, pyspiel.UniformRandomPolicy(game)))


@pytest.mark.parametrize(
    ("case", "prompt"), [("kuhn_poker", "full"), ("leduc_poker", "brief"), ("tic_tac_toe", "unlisted")]
)
def test_prompts_are_those_of_whole_games(case: str, prompt: str) -> None:
    questions = {str(question.turn.messages): question.turn for question in questions_of(case, prompt)}
    assert len(questions) == len(questions_of(case, prompt))
    environment = OpenSpielEnvironment()
    player = Scripted(lambda turn: RandomPlayer(1).act([turn])[0].text)
    play([environment.start(make_task("openspiel", case, k, mode="episode", prompt=prompt)) for k in range(60)], player)
    single = [environment.start(make_task("openspiel", case, k, prompt=prompt)).turns()[0] for k in range(60)]
    assert len(player.asked) > 120
    for turn in [*player.asked, *single]:
        asked = questions[str(turn.messages)]  # word for word
        view: View = asked.view
        assert (asked.seat, asked.answers, view.actions) == (turn.seat, turn.answers, turn.view.actions)


def test_every_state_and_draw_has_dice_of_its_own() -> None:
    player = Scripted(lambda turn: turn.answers[0])
    score_policy(player, "kuhn_poker", samples=3)
    assert len({turn.dice for turn in player.asked}) == len(player.asked) == 36


def test_a_report_is_plain_and_the_same_each_time() -> None:
    done: list[int] = []
    first = score_policy(RandomPlayer(3), "leduc_poker", samples=2, advance=done.append)
    assert sum(done) == 936
    assert first == score_policy(RandomPlayer(3), "leduc_poker", samples=2)
    values = json.loads(json.dumps(first.to_dict()))
    assert values["metrics"] == first.metrics
    assert values["states"][0]["actions"] == ["call", "raise"]


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("hex(board_size=5)", "too large to be judged exactly: it has more than 1e9 lines of play by an estimate"),
        ("clobber(rows=4,columns=4)", "too large to be judged exactly: it has more than 50,000 states"),
        ("phantom_ttt", "too large to be judged exactly"),
        ("pig", "cannot be judged exactly: that needs two players in turn"),
        ("blackjack", "cannot be judged exactly"),
        ("kuhn_poker(players=3)", "cannot be judged exactly"),
        ("goofspiel(num_cards=4)", "cannot be judged exactly"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*has no description of its own")
def test_games_that_cannot_be_judged_exactly_are_one_line(case: str, message: str) -> None:
    with pytest.raises(UserError) as refused:
        score_policy(RandomPlayer(), case)
    assert message in str(refused.value)
    assert "without --exact" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_at_least_one_answer_is_drawn() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        score_policy(RandomPlayer(), "kuhn_poker", samples=0)
