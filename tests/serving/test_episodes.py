"""Sessions on a server: limited in number, ended when idle, with one step and one shown turn at a time."""

import threading

import pyspiel
import pytest

from veritas_rl.envs.base import Reply
from veritas_rl.envs.registry import make_task
from veritas_rl.envs.task import Task
from veritas_rl.serving.episodes import KEPT_RESULTS, Episode, Episodes, Refused


def game(case: str, opponent: str = "none", seat: int = 0, seed: int = 3) -> Task:
    return make_task("openspiel", case, 0, mode="episode", opponent=opponent, seat=seat, seed=seed)


def play(episode: Episode, pick: int = 0) -> list[int]:
    """Answer every turn with one of its legal answers; return the seats of the turns."""
    seats = []
    while (turn := episode.shown.turn) is not None:
        seats.append(turn.seat)
        episode.answer(Reply(turn.answers[pick % len(turn.answers)]))
    return seats


def test_a_client_alone_answers_for_both_seats() -> None:
    episode = Episode(game("tic_tac_toe"))
    seats = play(episode)
    assert seats == [0, 1, 0, 1, 0, 1, 0]
    state = pyspiel.load_game("tic_tac_toe").new_initial_state()
    for action in range(7):  # the first answer is always the first empty cell
        state.apply_action(action)
    assert state.is_terminal()
    assert state.returns() == [1.0, -1.0]
    assert episode.shown.rewards == {0: 1.0, 1: 0.0}
    assert episode.shown.reward == 1.0, "the first player acted last"


def test_the_text_of_a_conversation_is_what_is_new_to_a_client_that_keeps_the_chat() -> None:
    episode = Episode(game("tic_tac_toe").replace(context="conversation"))
    texts: dict[int, list[str]] = {0: [], 1: []}
    while (turn := episode.shown.turn) is not None:
        texts[turn.seat].append(episode.shown.text)
        assert texts[turn.seat] == [message["content"] for message in turn.messages if message["role"] == "user"]
        episode.answer(Reply(turn.answers[0]))
    assert len(texts[0]) > 2


def test_a_bot_takes_the_other_seats_and_moves_first_where_it_sits_first() -> None:
    episode = Episode(game("tic_tac_toe", "random", seat=1))
    assert len(episode.history) == 1
    assert set(play(episode)) == {1}
    assert [seat for seat, _ in episode.history] == [i % 2 for i in range(len(episode.history))]


def test_of_seats_that_move_at_once_one_is_shown_after_the_other() -> None:
    episode = Episode(game("goofspiel(num_cards=4,points_order=descending)"))
    first = episode.shown.turn
    assert first is not None
    episode.answer(Reply(first.answers[0]))
    second = episode.shown.turn
    assert second is not None
    assert (first.seat, second.seat) == (0, 1)
    assert not episode.history, "nobody moved before both had answered"
    episode.answer(Reply(second.answers[0]))
    assert [seat for seat, _ in episode.history] == [0, 1]


def test_a_bot_moves_at_once_with_the_client() -> None:
    episode = Episode(game("goofspiel(num_cards=4,points_order=descending)", "random"))
    seats = play(episode)
    assert set(seats) == {0}
    assert sum(seat == 0 for seat, _ in episode.history) == sum(seat == 1 for seat, _ in episode.history)


def test_a_client_never_sees_hidden_moves_of_others() -> None:
    episode = Episode(game("phantom_ttt", "random", seat=1))
    assert episode.history
    shown = str(episode.describe()) + episode.shown.text
    assert "action_history" not in shown
    assert episode.history[0][1] not in episode.describe()


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_an_unused_session_ends_and_gives_its_place_to_others() -> None:
    clock = Clock()
    episodes = Episodes(most=2, idle=10, clock=clock)
    old, _ = episodes.open(lambda: Episode(game("tic_tac_toe")))
    clock.now = 6
    used, episode = episodes.open(lambda: Episode(game("tic_tac_toe")))
    with pytest.raises(Refused, match="2 sessions are open") as full:
        episodes.open(lambda: Episode(game("tic_tac_toe")))
    assert full.value.code == 503
    clock.now = 12
    with pytest.raises(Refused, match="nobody used it for 10 s") as gone:
        episodes.answer(old, Reply("x"))
    assert gone.value.code == 404
    assert episode.shown.turn is not None
    episodes.answer(used, Reply(episode.shown.turn.answers[0]))
    clock.now = 21
    assert len(episodes) == 1, "it was used at 12"
    clock.now = 23
    assert len(episodes) == 0


def test_a_finished_session_takes_no_place_but_can_be_looked_at() -> None:
    episodes = Episodes(most=1, idle=10)
    name, episode = episodes.open(lambda: Episode(game("tic_tac_toe")))
    while (turn := episode.shown.turn) is not None:
        episodes.answer(name, Reply(turn.answers[0]))
    assert len(episodes) == 0
    assert episodes.look(name).shown.done
    with pytest.raises(Refused, match="over"):
        episodes.answer(name, Reply("1"))
    assert episodes.drop(name)
    assert not episodes.drop(name)
    assert KEPT_RESULTS > 0


def test_two_steps_of_one_session_do_not_run_at_once() -> None:
    episodes = Episodes(most=10, idle=10)
    name, episode = episodes.open(lambda: Episode(game("tic_tac_toe")))
    inside, leave = threading.Event(), threading.Event()
    step = episode.session.step

    def slow(replies: object) -> None:
        inside.set()
        leave.wait(10)
        step(replies)  # type: ignore[arg-type]

    episode.session.step = slow  # type: ignore[method-assign]
    assert episode.shown.turn is not None
    reply = Reply(episode.shown.turn.answers[0])
    first = threading.Thread(target=episodes.answer, args=(name, reply))
    first.start()
    inside.wait(10)
    with pytest.raises(Refused, match="another step"):
        episodes.answer(name, reply)
    leave.set()
    first.join(10)
    assert len(episode.history) == 1


def test_a_session_whose_step_breaks_off_is_gone() -> None:
    episodes = Episodes(most=10, idle=10)
    name, episode = episodes.open(lambda: Episode(game("tic_tac_toe")))

    def broken(replies: object) -> None:
        raise RuntimeError("a fault")

    episode.session.step = broken  # type: ignore[method-assign]
    with pytest.raises(RuntimeError):
        episodes.answer(name, Reply("1"))
    with pytest.raises(Refused):
        episodes.look(name)


def test_a_task_that_does_not_start_takes_no_place() -> None:
    episodes = Episodes(most=1, idle=10)
    for _ in range(3):
        with pytest.raises(ValueError, match="no_such_game"):
            episodes.open(lambda: Episode(game("no_such_game")))
    assert len(episodes) == 0
