"""A recorded game agrees with the played game, according to OpenSpiel."""

import json
from collections.abc import Sequence
from typing import Any

import pyspiel
import pytest

from veritas_rl.envs.base import Player, Reply, Turn, play
from veritas_rl.envs.openspiel import cases
from veritas_rl.envs.openspiel.games import GAMES
from veritas_rl.envs.openspiel.players.mcts import MCTSPlayer
from veritas_rl.envs.registry import get_environment, make_task
from veritas_rl.envs.task import Task
from veritas_rl.players.random import RandomPlayer
from veritas_rl.viewing.recording import PlayedGame, RecordedSession


class Saying:
    """A player that gives these replies in order, and then repeats the last one."""

    def __init__(self, *words: str) -> None:
        self.words = list(words)

    def act(self, turns: Sequence[Turn]) -> list[Reply]:
        return [Reply(self.words.pop(0) if self.words[1:] else self.words[0]) for _ in turns]


def recorded(task: Task) -> RecordedSession:
    session = get_environment(task.env).start(task)
    return RecordedSession(session, lambda seat: "model" if seat == task.manner.seat else "bot")


def played(task: Task, *players: Player) -> PlayedGame:
    session = recorded(task)
    play([session], dict(enumerate(players)))
    return session.game()


TIC_TAC_TOE = make_task("openspiel", "tic_tac_toe", 3, mode="episode", seat=1)


def test_a_game_between_bots_is_recorded_move_by_move() -> None:
    game = played(TIC_TAC_TOE, RandomPlayer(1), MCTSPlayer(20))
    state = pyspiel.load_game("tic_tac_toe").new_initial_state()
    for turn in game.turns:
        assert turn.accepted
        assert (turn.seat, turn.role) == (state.current_player(), "xo"[state.current_player()])
        assert turn.player == ("model" if turn.seat == 1 else "bot")
        rows = [line.split(" ", 1)[1].replace(" ", "") for line in turn.board.splitlines()[1:]]
        assert "\n".join(rows) == str(state)
        assert turn.board in turn.messages[0]["content"]
        action = int(turn.reply.removeprefix("\\boxed{").removesuffix("}"))
        assert turn.action == "abc"[action % 3] + "123"[action // 3]
        state.apply_action(action)
    assert state.is_terminal()
    assert [(end.seat, end.role, end.player) for end in game.endings] == [(0, "x", "bot"), (1, "o", "model")]
    assert [end.value for end in game.endings] == [(result + 1) / 2 for result in state.returns()]
    assert all(end.board.count("x") == str(state).count("x") for end in game.endings)
    assert (game.task_id, game.game, game.seat, game.opponent) == (TIC_TAC_TOE.id, "tic_tac_toe", 1, "bot")


def test_a_recorded_game_is_played_as_any_other() -> None:
    session = get_environment("openspiel").start(TIC_TAC_TOE)
    (plain,) = play([session], RandomPlayer(1))
    again = recorded(TIC_TAC_TOE)
    assert play([again], RandomPlayer(1)) == [plain]


def test_a_mistake_stands_in_the_record_with_its_reason() -> None:
    task = make_task("openspiel", "tic_tac_toe", 0, mode="episode", seat=0, retries=1)
    game = played(task, Saying("hm", "\\boxed{b2}", "\\boxed{b2}"), Saying("\\boxed{a1}"))
    assert [(turn.seat, turn.reply, turn.accepted, turn.action) for turn in game.turns] == [
        (0, "hm", False, "unparseable"),
        (0, "\\boxed{b2}", True, "b2"),
        (1, "\\boxed{a1}", True, "a1"),
        (0, "\\boxed{b2}", False, "illegal"),
    ]
    assert game.turns[1].messages[1] == {"role": "assistant", "content": "hm"}
    assert [(end.reason, end.value) for end in game.endings] == [("illegal", 0.0), ("forfeited", 0.0)]


def test_a_chat_that_grows_is_recorded_as_it_grew() -> None:
    task = make_task("openspiel", "tic_tac_toe", 0, mode="episode", seat=0, context="conversation")
    game = played(task, RandomPlayer(1), RandomPlayer(2))
    mine = [turn.messages[0]["content"] for turn in game.turns if turn.seat == 0]
    assert "You are playing" in mine[0]
    assert len(mine) > 1
    for update in mine[1:]:
        assert update.startswith("It is your turn again.")


def test_the_whole_chat_before_each_reply_is_known() -> None:
    task = make_task("openspiel", "tic_tac_toe", 0, mode="episode", seat=0, context="conversation", retries=1)
    for changed in (task, task.replace(context="turn")):
        shown: list[tuple[dict[str, str], ...]] = []

        class Listening(Saying):
            def act(self, turns: Sequence[Turn], shown: list[Any] = shown) -> list[Reply]:
                shown += [turn.messages for turn in turns]
                return super().act(turns)

        game = played(
            changed, Listening("hm", "\\boxed{b2}", "\\boxed{c3}", "hm"), Saying("\\boxed{a1}", "\\boxed{a2}")
        )
        assert len(shown) > 3
        assert [chat for _, chat in game.chats(0)] == shown


def test_moves_at_the_same_time_are_all_recorded() -> None:
    task = make_task("openspiel", cases.canonical("goofspiel(num_cards=4,imp_info=True)"), 0, mode="episode", seat=1)
    game = played(task, RandomPlayer(1), RandomPlayer(2))
    assert [turn.seat for turn in game.turns] == [0, 1] * (len(game.turns) // 2)
    assert all(turn.action in turn.messages[0]["content"] for turn in game.turns)


def test_a_game_that_goes_on_has_no_record_yet() -> None:
    with pytest.raises(RuntimeError, match="not over"):
        recorded(TIC_TAC_TOE).game()


@pytest.mark.parametrize("name", GAMES)
def test_every_game_can_be_drawn_to_its_end(name: str) -> None:
    case = cases.default_cases(name)[0]
    task = make_task("openspiel", case, 1, mode="episode", seat=0, max_moves=1000)
    game = played(task, *[RandomPlayer(1)] * cases.load(case).players)
    assert all(turn.board and turn.board in turn.messages[0]["content"] for turn in game.turns)
    assert all(end.board for end in game.endings)
    assert PlayedGame.from_dict(json.loads(json.dumps(game.to_dict()))) == game
