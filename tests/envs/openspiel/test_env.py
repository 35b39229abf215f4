"""Sessions: right answers are paid, wrong answers are not, and equal answers get equal rewards."""

import pytest

from veritas_rl.envs.base import Reason, Reply, Score, Session, play
from veritas_rl.envs.openspiel.cases import DEFAULT_CASES, load
from veritas_rl.envs.openspiel.env import OpenSpielConfig, OpenSpielEnvironment, View
from veritas_rl.envs.registry import make_task
from veritas_rl.errors import UserError
from veritas_rl.launch import next_steps
from veritas_rl.players.random import RandomPlayer

ENV = OpenSpielEnvironment()
pytestmark = pytest.mark.filterwarnings("ignore:.*has no description of its own")


def single(session: Session, text: str, truncated: bool = False) -> Score:
    (turn,) = session.turns()
    session.step({turn.seat: Reply(text, truncated)})
    assert not session.turns()
    ((seat, score),) = session.scores().items()
    assert seat == turn.seat
    return score


@pytest.mark.parametrize("case", DEFAULT_CASES)
@pytest.mark.parametrize("reward", ["legal", "outcome"])
def test_a_listed_answer_pays_the_same_twice(case: str, reward: str) -> None:
    for k in range(3):
        task = make_task("openspiel", case, k, reward=reward)
        (turn,) = ENV.start(task).turns()
        assert turn.seat in load(case).movers(turn.view.state)
        assert len(turn.answers) == len(turn.view.actions) == len(turn.view.state.legal_actions(turn.seat))
        for answer in (turn.answers[0], turn.answers[-1]):
            first, again = (single(ENV.start(task), answer) for _ in range(2))
            assert first == again
            assert (first.reason, first.legal) == (Reason.LEGAL, True)
            assert 0 <= first.value <= 1
            assert reward == "outcome" or (first.value, first.success) == (1, True)


@pytest.mark.parametrize("case", DEFAULT_CASES)
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", Reason.EMPTY),
        ("no idea", Reason.UNPARSEABLE),
        ("\\boxed{99999}", Reason.ILLEGAL),
        ("\\boxed{0}\\boxed{1}", Reason.AMBIGUOUS),
        ("x" * 1_000_000, Reason.OVERLONG),
    ],
)
def test_a_mistake_pays_nothing(case: str, text: str, reason: Reason) -> None:
    score = single(ENV.start(make_task("openspiel", case, 1)), text)
    assert (score.value, score.success, score.reason) == (0, False, reason)


def test_a_truncated_answer_pays_nothing() -> None:
    session = ENV.start(make_task("openspiel", "tic_tac_toe", 1))
    assert single(session, session.turns()[0].answers[0], truncated=True).reason is Reason.TRUNCATED


def test_names_and_numbers_are_one_answer() -> None:
    task = make_task("openspiel", "hex(board_size=11)", 4)
    action = ENV.start(task).turns()[0].view.actions[3]
    name = f"{'abcdefghijk'[action % 11]}{action // 11 + 1}"
    by_name, by_number = single(ENV.start(task), f"\\boxed{{{name}}}"), single(ENV.start(task), f"\\boxed{{{action}}}")
    assert by_name == by_number
    assert by_name.details["action"] == name
    assert by_name.details["value_source"] == "playouts"
    assert 0 < float(by_name.details["value_error"]) < 0.07  # at most sqrt(1/4/63)


def test_the_view_is_a_copy() -> None:
    session = ENV.start(make_task("openspiel", "tic_tac_toe", 0, depth=0, split="train"))
    view: View = session.turns()[0].view
    view.state.apply_action(view.actions[0])
    assert session.turns()[0].seat == 0
    assert single(session, f"\\boxed{{{view.actions[0]}}}").legal


def test_sessions_end_once() -> None:
    session = ENV.start(make_task("openspiel", "tic_tac_toe", 0))
    with pytest.raises(RuntimeError, match="not over"):
        session.scores()
    single(session, "")
    with pytest.raises(RuntimeError, match="over"):
        session.step({0: Reply("")})


@pytest.mark.parametrize(
    "case", [*DEFAULT_CASES, "goofspiel(num_cards=4)", "liars_dice", "battleship", "backgammon", "hearts"]
)
def test_whole_games_end_with_a_score_for_each_seat(case: str) -> None:
    task = make_task("openspiel", case, 0, mode="episode", opponent="random", seat=0, max_moves=100_000)
    first, again = (play([ENV.start(task)], RandomPlayer(3))[0] for _ in range(2))
    assert first == again
    assert sorted(first) == list(range(load(case).players))
    assert all(score.reason in (Reason.WON, Reason.LOST, Reason.DRAWN) for score in first.values())
    if load(case).zero_sum and load(case).players == 2:
        assert first[0].value + first[1].value == 1


def test_tasks_of_whole_games_deal_differently() -> None:
    deals = set()
    for split in ("train", "val"):
        for k in range(30):
            (turn,) = ENV.start(make_task("openspiel", "leduc_poker", k, mode="episode", split=split)).turns()
            deals.add(tuple(turn.view.state.history()))
    assert len(deals) > 20


def test_a_mistake_forfeits_a_whole_game_and_nobody_profits() -> None:
    session = ENV.start(make_task("openspiel", "tic_tac_toe", 0, mode="episode"))
    session.step({0: Reply("\\boxed{b2}")})
    assert session.turns()[0].seat == 1
    session.step({1: Reply("\\boxed{b2}")})
    assert not session.turns()
    scores = session.scores()
    assert (scores[1].reason, scores[0].reason) == (Reason.ILLEGAL, Reason.FORFEITED)
    assert not any(score.value or score.success for score in scores.values())


def test_a_won_game_pays_1_and_a_lost_one_0() -> None:
    session = ENV.start(make_task("openspiel", "tic_tac_toe", 0, mode="episode"))
    for ply, cell in enumerate(("a1", "a2", "b1", "b2", "c1")):
        session.step({ply % 2: Reply(f"\\boxed{{{cell}}}")})
    assert [session.scores()[seat].reason for seat in (0, 1)] == [Reason.WON, Reason.LOST]
    assert [session.scores()[seat].value for seat in (0, 1)] == [1, 0]


def test_tasks_of_unknown_games_and_seats_are_refused() -> None:
    with pytest.raises(UserError, match="did you mean"):
        ENV.start(make_task("openspiel", "tic_tac_to", 0))
    with pytest.raises(UserError, match="seats"):
        ENV.start(make_task("openspiel", "tic_tac_toe", 0, mode="episode", seat=2))


@pytest.mark.parametrize("mode", ["move", "episode"])
def test_a_scale_that_no_play_comes_near_is_refused(mode: str) -> None:
    with pytest.raises(UserError, match=r"2048: scale=utility pays a share of 20,480 points.* pays 1/2 for 2,000"):
        OpenSpielConfig(cases="connect_four,2048", scale="utility", mode=mode)
    assert OpenSpielConfig(cases="connect_four,blackjack", scale="utility", mode=mode).scale == "utility"


def test_every_task_has_its_own_prompt() -> None:
    tasks = ENV.catalogue(OpenSpielConfig(game_types="hex,leduc_poker,tic_tac_toe"), "train")
    prompts = {ENV.start(task).turns()[0].messages[0]["content"] for task in tasks}
    assert len(prompts) == len(tasks)


def test_equivalent_tasks_are_those_of_one_symmetry_class() -> None:
    tasks = [make_task("openspiel", "tic_tac_toe", k, split=split) for split in ("train", "val") for k in range(3472)]
    assert len({ENV.equivalence_class(task) for task in tasks}) == 627 - 34  # full but one cell: a single move
    games = [make_task("openspiel", "tic_tac_toe", k, mode="episode") for k in range(3)]
    assert len({ENV.equivalence_class(task) for task in games}) == 3


def test_simultaneous_moves_ask_every_seat_at_once() -> None:
    session = ENV.start(make_task("openspiel", "goofspiel(num_cards=4)", 0, mode="episode"))
    turns = session.turns()
    assert [turn.seat for turn in turns] == [0, 1]
    assert all(len(turn.answers) == 4 for turn in turns)
    session.step({0: Reply(turns[0].answers[3]), 1: Reply(turns[1].answers[0])})
    for turn in session.turns():
        assert len(turn.answers) == 3
    (scores,) = play([session], RandomPlayer(1))
    assert scores[0].value + scores[1].value == 1


def test_a_mistake_forfeits_at_once_without_retries() -> None:
    session = ENV.start(make_task("openspiel", "tic_tac_toe", 0, mode="episode"))
    session.step({0: Reply("\\boxed{99}")})
    assert session.rejected == {0: Reason.ILLEGAL}
    assert not session.turns()
    assert {seat: score.reason for seat, score in session.scores().items()} == {0: Reason.ILLEGAL, 1: Reason.FORFEITED}


def test_a_mistake_may_be_made_good_as_often_as_the_task_says() -> None:
    session = ENV.start(make_task("openspiel", "tic_tac_toe", 0, mode="episode", retries=2))
    (first,) = session.turns()
    session.step({0: Reply("I take the middle")})
    (again,) = session.turns()
    assert session.rejected == {0: Reason.UNPARSEABLE}
    assert again.messages[0] == first.messages[0]
    assert again.messages[1] == {"role": "assistant", "content": "I take the middle"}
    assert "no legal answer (unparseable)" in again.messages[2]["content"]
    session.step({0: Reply(again.answers[4])})
    assert session.rejected == {}
    assert session.turns()[0].seat == 1
    session.step({1: Reply("")})  # retries count per seat
    assert session.turns()[0].seat == 1
    session.step({1: Reply(session.turns()[0].answers[0])})
    for _ in range(2):
        session.step({0: Reply("")})
    assert not session.turns()
    score = session.scores()[0]
    assert (score.reason, score.details["mistakes"]) == (Reason.EMPTY, 3)


def test_of_two_who_answer_at_once_only_the_one_who_erred_is_asked_again() -> None:
    session = ENV.start(make_task("openspiel", "goofspiel(num_cards=4)", 0, mode="episode", retries=1))
    answers = [turn.answers for turn in session.turns()]
    session.step({0: Reply(answers[0][3]), 1: Reply("nothing")})
    (turn,) = session.turns()
    assert turn.seat == 1
    session.step({1: Reply(turn.answers[0])})
    assert [len(turn.answers) for turn in session.turns()] == [3, 3]
    assert answers[0][3] not in session.turns()[0].answers


def test_a_game_ends_at_its_most_moves_and_nobody_has_won() -> None:
    session = ENV.start(make_task("openspiel", "tic_tac_toe", 0, mode="episode", max_moves=3))
    (scores,) = play([session], RandomPlayer(1))
    assert {score.reason for score in scores.values()} == {Reason.UNFINISHED}
    assert sum(score.value for score in scores.values()) == 1
    assert all(not score.success and score.details["moves"] == 3 for score in scores.values())


def test_a_conversation_shows_the_whole_chat_and_later_positions_without_the_rules() -> None:
    task = make_task("openspiel", "hex(board_size=5)", 0, mode="episode", context="conversation", retries=1)
    session = ENV.start(task)
    (first,) = session.turns()
    assert "moves first" in first.messages[0]["content"]
    assert first.opening == len(first.messages) == 1
    mistake = "hm" * 5000
    session.step({0: Reply(mistake)})
    (again,) = session.turns()
    session.step({0: Reply(again.answers[0])})
    (other,) = session.turns()
    assert (other.seat, len(other.messages)) == (1, 1)
    session.step({1: Reply(other.answers[0])})
    (turn,) = session.turns()
    assert [message["role"] for message in turn.messages] == ["user", "assistant"] * 2 + ["user"]
    assert turn.messages[:1] == first.messages
    assert [turn.messages[place]["content"] for place in (1, 3)] == [mistake, again.answers[0]]
    last = turn.messages[-1]["content"]
    assert "moves first" not in last
    assert all(f"\n{action}: " in last for action in turn.view.actions)
    assert turn.opening == 1
    (alone,) = ENV.start(task.replace(context="turn")).turns()
    assert (alone.messages, alone.opening) == (first.messages, 0)


def test_what_to_try_with_a_model_asks_it_as_in_training() -> None:
    task = make_task("openspiel", "tic_tac_toe", 0, mode="episode", prompt="brief")
    assert all("context" not in command for _, command in next_steps.trials(ENV, task, "model"))
    trials = next_steps.trials(ENV, task.replace(context="conversation"), "model")
    assert len(trials) == 2
    assert all(command.endswith(" --prompt brief --config context=conversation") for _, command in trials)


def test_deals_and_dice_do_not_depend_on_the_players_of_the_seats() -> None:
    """Tasks that differ only in seat, opponent or prompt get the same deals and dice, for paired comparisons."""
    base = make_task("openspiel", "leduc_poker", 5, mode="episode")
    others = [base.replace(seat=1), base.replace(opponent="random"), base.replace(prompt="brief", reward="legal")]
    hands = {ENV.start(task).turns()[0].view.state.information_state_string(0) for task in [base, *others]}
    assert len(hands) == 1
    assert {ENV.start(task).turns()[0].dice for task in [base, *others]} == {ENV.start(base).turns()[0].dice}
    assert ENV.start(base.replace(k=6)).turns()[0].dice != ENV.start(base).turns()[0].dice


def test_the_answers_to_all_decisions_are_valued_under_a_policy() -> None:
    environment = OpenSpielEnvironment()
    decisions = environment.decisions(make_task("openspiel", "kuhn_poker", 3, mode="episode", opponent="self"))
    turns = [turn for session in decisions for turn in session.turns()]
    views: list[View] = [turn.view for turn in turns]
    uniform = [[0.5, 0.5]] * len(turns)
    values, measures = environment.valued("kuhn_poker", uniform)
    assert measures == {"nash_conv": pytest.approx(11 / 12)}
    histories = {view.state.information_state_string(): row for view, row in zip(views, values, strict=True)}
    # Returns are -2 to 2 chips. A king that bets wins 1 or 2. One that passes wins 1, or faces a bet: -1 or 2.
    assert histories["2"] == pytest.approx([(0.75 + 2) / 4, (1.5 + 2) / 4])
    assert histories["0b"] == pytest.approx([(-1 + 2) / 4, 0])
    # If the first seat bets every card and the second folds, a bet wins a chip.
    bets = [[0.0, 1.0] if len(view.state.history()) == 2 else [1.0, 0.0] for view in views]
    values, _ = environment.valued("kuhn_poker", bets)
    assert {row[1] for view, row in zip(views, values, strict=True) if len(view.state.history()) == 2} == {0.75}
