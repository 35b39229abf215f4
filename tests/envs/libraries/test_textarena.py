"""The games of TextArena: each one is started and played, and ends with a score for every seat."""

import os
import random
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from veritas_rl.envs.base import Player, Reason, Reply, Score, Session, Turn, play, shape
from veritas_rl.envs.libraries.textarena import games
from veritas_rl.envs.registry import get_environment, make_task, open_catalogue
from veritas_rl.envs.task import Task
from veritas_rl.errors import UserError
from veritas_rl.players.random import RandomPlayer

TO_THE_END = ("TicTacToe-v0", "ConnectFour-v0", "KuhnPoker-v0", "Othello-v0-tiny", "LiarsDice-v0", "ThreePlayerIPD-v0")

PLAYED = """
import sys
from veritas_rl.envs.base import play
from veritas_rl.envs.registry import get_environment, make_task
from veritas_rl.players.random import RandomPlayer
for case in sys.argv[1:]:
    session = get_environment("textarena").start(make_task("textarena", case, 0))
    play([session], RandomPlayer(1))
    print(session.scores(), session.board(0))
"""


def tasks_of(split: str = "train", **settings: Any) -> Sequence[Task]:
    return open_catalogue({"env": "textarena", "adapter_config": settings}, split)


def started(case: str, **values: Any) -> Session:
    return get_environment("textarena").start(make_task("textarena", case, 0, **values))


def said(session: Session, *texts: str) -> None:
    """Answer one turn after the other."""
    for text in texts:
        (turn,) = session.turns()
        session.step({turn.seat: Reply(text)})


def result(session: Session) -> list[tuple[float, Reason]]:
    return [(score.value, score.reason) for _, score in sorted(session.scores().items())]


class Noting:
    """A random player that keeps the questions."""

    def __init__(self) -> None:
        self.asked: dict[tuple[str | int, ...], str] = {}
        self._player: Player = RandomPlayer(1)

    def act(self, turns: Sequence[Turn]) -> Sequence[Reply]:
        self.asked.update({turn.dice: turn.messages[0]["content"] for turn in turns})
        return self._player.act(turns)


def played(cases: Sequence[str]) -> tuple[dict[tuple[str | int, ...], str], list[dict[int, Score]]]:
    """The questions and the scores of games that are played together."""
    player = Noting()
    scores = play([started(case, max_moves=40) for case in cases], player)
    return player.asked, scores


def test_every_game_starts_and_plays() -> None:
    """In all other ways to play a game only numbers differ."""
    plain = [case for case in games.names() if case.endswith("-v0")]
    assert len(plain) == 72 + len(games.UNREADABLE) * (sys.version_info >= (3, 12))
    for case in plain:
        session = started(case, max_moves=5)
        (scores,) = play([session], RandomPlayer(1))
        assert list(scores) == list(range(games.least_seats(case))), case
        assert all(score.value == 0 or score.legal for score in scores.values()), case


@pytest.mark.parametrize("case", TO_THE_END)
def test_a_random_player_ends_games_by_their_rules(case: str) -> None:
    ends = [play([started(case, seed=seed)], RandomPlayer(seed))[0] for seed in range(3)]
    assert {score.reason for scores in ends for score in scores.values()} <= {Reason.WON, Reason.LOST, Reason.DRAWN}


def test_games_that_are_played_together_are_those_that_are_played_alone() -> None:
    """And the global generator of the process is not touched."""
    before = random.getstate()
    together = played(TO_THE_END)
    alone = [played([case]) for case in TO_THE_END]
    assert random.getstate() == before
    assert together[0] == {dice: text for asked, _ in alone for dice, text in asked.items()}
    assert together[1] == [scores for _, (scores,) in alone]


def test_processes_play_the_same_games() -> None:
    found = {
        subprocess.run(
            [sys.executable, "-c", PLAYED, "SimpleTak-v0", "Mastermind-v0", "SecretMafia-v0"],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1
    assert found != {b""}


def test_tasks_of_a_game_differ_by_its_chance() -> None:
    shown = {session.turns()[0].messages[0]["content"] for session in map(_start, tasks_of(cases="KuhnPoker-v0")[:20])}
    assert 1 < len(shown) <= 6


def _start(task: Task) -> Session:
    return get_environment(task.env).start(task)


def test_winning_losing_and_drawing() -> None:
    won = started("TicTacToe-v0")
    said(won, "[0]", "I take \\boxed{[3]}", "<answer>1</answer>", "4", "<think>[8] or [5]?</think>[2]")
    assert result(won) == [(1, Reason.WON), (0, Reason.LOST)]
    drawn = started("TicTacToe-v0")
    said(drawn, *"012436587")
    assert result(drawn) == [(0.5, Reason.DRAWN), (0.5, Reason.DRAWN)]
    assert not drawn.scores()[0].success


def test_a_mistake_is_corrected_once_and_then_ends_the_game() -> None:
    session = started("TicTacToe-v0")
    said(session, "[0]", "[0]")
    assert (session.rejected, session.actions) == ({1: Reason.ILLEGAL}, {})
    (turn,) = session.turns()
    assert turn.seat == 1
    assert "invalid move" in turn.messages[0]["content"]
    said(session, "[1]", "[2]")
    assert (session.rejected, session.actions) == ({}, {0: "[2]"})
    said(session, "[2]", "anything")
    assert result(session) == [(0, Reason.FORFEITED), (0, Reason.ILLEGAL)]
    assert session.scores()[1].details["mistakes"] == 3


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Reply("<think>hm</think>"), Reason.EMPTY),
        (Reply("[4]", truncated=True), Reason.TRUNCATED),
        (Reply("\\boxed{4} \\boxed{5}"), Reason.AMBIGUOUS),
        (Reply("I may play [4] or [5]"), Reason.AMBIGUOUS),
    ],
)
def test_a_reply_without_an_answer_ends_the_game(reply: Reply, reason: Reason) -> None:
    session = started("TicTacToe-v0")
    session.step({0: reply})
    assert result(session) == [(0, reason), (0, Reason.FORFEITED)]
    assert not session.turns()
    assert shape(session.scores()[0], session.task) == 0


def test_what_the_library_fails_on_is_no_answer() -> None:
    """Python converts no text of more than 4,300 digits to a number."""
    session = started("TicTacToe-v0")
    said(session, f"[{'9' * 5000}]")
    assert result(session) == [(0, Reason.ILLEGAL), (0, Reason.FORFEITED)]


def test_hostile_answers_end_every_game_with_scores() -> None:
    for case in (case for case in games.names() if case.endswith("-v0")):
        for answer in ("[[[]]]", "]" * 50, "[-1]", "[nan]", "[1e999 0]", "[GAME] Player 0 wins", "\u0000[0]\u202e"):
            session = started(case, max_moves=4)
            while session.turns():
                said(session, answer)
            assert all(0 <= score.value <= 1 for score in session.scores().values()), (case, answer)


def test_a_game_of_one_seat_pays_what_was_reached() -> None:
    found = set()
    for seed in range(8):
        session = started("GuessTheNumber-v0", seed=seed)
        for number in range(1, 21):
            if session.turns():
                said(session, f"[{number}]")
        ((value, reason),) = result(session)
        assert (value == 1) == session.scores()[0].success == (reason is Reason.WON)
        found.add(reason)
    assert found == {Reason.WON, Reason.LOST}


def test_seats_and_long_games() -> None:
    session = started("Snake-v0", seats=4, max_moves=3)
    assert get_environment("textarena").players_of(session.task) == 4
    play([session], RandomPlayer(1))
    assert len(session.scores()) == 4
    assert {reason for _, reason in result(started_to_its_limit())} == {Reason.UNFINISHED}
    with pytest.raises(UserError, match=r"Nim-v0 of textarena cannot be started with 5 seats: .*has to be 2"):
        started("Nim-v0", seats=5)
    with pytest.raises(UserError, match="Nim-v0 has the seats 0 to 1, 3 was given"):
        started("Nim-v0", seat=3)


def started_to_its_limit() -> Session:
    session = started("ConnectFour-v0", max_moves=4)
    said(session, "[1]", "[2]", "[1]", "[2]")
    return session


def test_every_game_can_be_shown_briefly_or_says_that_it_cannot() -> None:
    """And each of its positions can be copied, for the random player."""
    shown = [task.case for task in tasks_of(prompt="brief", num_tasks_per_case=1) if task.case.endswith("-v0")]
    assert len(shown) == len([case for case in games.names() if case.endswith("-v0")]) - 1
    for case in shown:
        (turn,) = started(case, prompt="brief").turns()
        assert turn.view.accepts("") in (True, False)
    with pytest.raises(UserError, match="LightsOut-v0 of textarena cannot be shown briefly; use prompt=full"):
        started("LightsOut-v0", prompt="brief")


def test_a_game_that_pays_a_number_of_things_pays_a_share() -> None:
    session = started("Set-v0", seed=1)
    play([session], RandomPlayer(1))
    (score,) = session.scores().values()
    assert (score.value * 20) % 1 == 0
    assert games.COUNTED == {"Set": 20}


def test_people_type_answers_that_the_game_accepts() -> None:
    session = started("Nim-v0")
    assert session.reply_of(0, "[0 3]") == "[0 3]"
    assert session.reply_of(0, "[0 9]") == ""
    assert session.turns()


def test_a_game_with_a_fault_of_the_library_is_nobodys_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    """Golf of three seats calls a method that does not exist when it ends."""
    with pytest.raises(UserError, match="Golf-v0 of textarena fails at its end with 3 seats; use 2"):
        started("Golf-v0", seats=3)
    monkeypatch.setattr(games, "ENDLESS", {})
    session = started("Golf-v0", seats=3, max_moves=500, seed=2)
    said(session, *["[draw]", "[discard]"] * 3)
    player = RandomPlayer(1)
    while session.turns():
        session.step(
            {turn.seat: reply for turn, reply in zip(session.turns(), player.act(session.turns()), strict=True)}
        )
    assert {reason for _, reason in result(session)} == {Reason.UNFINISHED}
    assert int(session.scores()[0].details["moves"]) < 500
    assert str(session.scores()[0].details["fault"]).startswith("AttributeError: ")


def test_brief_questions_leave_out_earlier_boards() -> None:
    asked: dict[str, str] = {}
    for prompt in ("full", "brief"):
        session = started("TicTacToe-v0", prompt=prompt)
        said(session, "[4]", "[0]")
        asked[prompt] = session.turns()[0].messages[0]["content"]
    assert asked["full"].count("Current Board") == 3
    assert asked["brief"].count("Current Board") == 1


def test_the_trained_model_meets_itself_in_training_and_a_random_player_in_validation() -> None:
    settings: Mapping[str, Any] = {"cases": ["Nim-v0", "2048-v0"], "num_tasks_per_case": 4, "opponent": "self"}
    train = tasks_of(**settings)
    assert [task.manner.opponent for task in train] == ["self"] * 4 + ["none"] * 4
    assert [task.manner.seat for task in train] == [0, 1, 0, 1, 0, 0, 0, 0]
    assert {task.manner.opponent for task in tasks_of("val", **settings)[:4]} == {"random"}
    assert {task.manner.opponent for task in tasks_of(**settings, past_opponent_share=1.0)[:4]} == {"past"}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"cases": "Wordle-v0"}, "Wordle-v0 of textarena cannot be used: it needs word lists that NLTK downloads"),
        ({"cases": "GuessWho-v0"}, "needs a key and the network"),
        ({"cases": "Sudoku-v0-hard"}, "Sudoku-v0-hard of textarena cannot be used: the library needs minutes"),
        ({"cases": "Nim-v0-raw"}, "unknown case 'Nim-v0-raw'"),
        ({"cases": "nim"}, "unknown case 'nim'"),
        ({"mode": "move"}, "unknown mode 'move'"),
        ({"reward": "legal"}, "unknown reward 'legal': known: outcome"),
        ({"prompt": "unlisted"}, "unknown prompt 'unlisted'"),
        ({"max_moves": 0}, "max_moves must be"),
        ({"past_opponent_share": 2.0}, "past_opponent_share must lie in"),
    ],
)
def test_what_cannot_be_played_is_refused_in_one_line(settings: Mapping[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said) as caught:
        tasks_of(**settings)
    assert "\n" not in str(caught.value)


def test_a_missing_library_and_another_version_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(games, "VERSION", "9.9")
    games.registered.cache_clear()
    try:
        with pytest.raises(UserError, match=r"textarena 0\.7\.4 is installed, and its games differ; install 9\.9"):
            games.registered()
        monkeypatch.setattr(games, "NAME", "no-such-library")
        with pytest.raises(UserError, match=r"no-such-library is not installed; install it: bash train/scripts/setup"):
            games.registered()
    finally:
        games.registered.cache_clear()
