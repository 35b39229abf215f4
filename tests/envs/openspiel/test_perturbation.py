"""Perturbed sessions have the same game and rewards, and accept only the new labels."""

import re
from collections.abc import Sequence

import pytest

from veritas_rl.envs.base import Reason, Reply, Session, Turn, play
from veritas_rl.envs.openspiel.cases import load
from veritas_rl.envs.openspiel.env import OpenSpielEnvironment
from veritas_rl.envs.openspiel.perturbation import MIRRORED, Perturbed
from veritas_rl.envs.openspiel.players.exact import ExactPlayer
from veritas_rl.envs.registry import make_task
from veritas_rl.envs.task import Task
from veritas_rl.errors import UserError
from veritas_rl.judging.held_out import judge
from veritas_rl.players.random import RandomPlayer

ENV = OpenSpielEnvironment()
TASK = make_task("openspiel", "tic_tac_toe", 5, reward="optimal")


def start_relabelled(task: Task, seed: int = 0) -> Session:
    return ENV.start_perturbed(task, "labels", seed)


def start_mirrored(task: Task) -> Session:
    return ENV.start_perturbed(task, "mirrored")


def listed(session: Session) -> dict[str, tuple[str, str]]:
    """The new and the original name of each action, by its number in the prompt."""
    (turn,) = session.turns()
    lines = re.findall(r"^(\d+): (\w+) \((\w+)\)$", turn.messages[0]["content"], re.MULTILINE)
    return {number: (name, own) for number, name, own in lines}


def one(session: Session) -> Turn:
    (turn,) = session.turns()
    return turn


def test_every_action_has_another_label_and_means_what_it_says() -> None:
    plain = one(ENV.start(TASK))
    shown = listed(start_relabelled(TASK))
    own = re.findall(r"^(\d+): (\w+)$", plain.messages[0]["content"], re.MULTILINE)
    assert sorted(name for _, name in own) == sorted(name for _, name in shown.values())
    assert len({name for name, _ in shown.values()}) == len(shown) == len(own)
    assert [int(number) for number in shown] == sorted(map(int, shown))
    for number, (name, means) in shown.items():
        for said in (number, name, name.upper()):
            session = start_relabelled(TASK)
            session.step({one(session).seat: Reply(f"\\boxed{{{said}}}")})
            assert session.scores()[plain.seat].details["action"] == means


def test_original_labels_are_illegal_after_relabelling() -> None:
    shown = listed(start_relabelled(TASK))
    wrong = 0
    for _, (_, means) in shown.items():
        session = start_relabelled(TASK)
        seat = one(session).seat
        session.step({seat: Reply(f"\\boxed{{{means}}}")})
        wrong += session.scores()[seat].reason is Reason.ILLEGAL
    assert wrong == len(shown)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", Reason.EMPTY),
        ("a1", Reason.UNPARSEABLE),
        ("\\boxed{1} \\boxed{2}", Reason.AMBIGUOUS),
        ("\\boxed{99}", Reason.ILLEGAL),
        ("x" * 100_001, Reason.OVERLONG),
    ],
)
def test_mistakes_keep_their_reasons(text: str, reason: Reason) -> None:
    session = start_relabelled(TASK)
    seat = one(session).seat
    session.step({seat: Reply(text)})
    assert session.scores()[seat].reason is reason
    cut = start_relabelled(TASK)
    cut.step({seat: Reply("\\boxed{1}", truncated=True)})
    assert cut.scores()[seat].reason is Reason.TRUNCATED


def test_labels_depend_on_the_seed_and_the_task_alone() -> None:
    assert listed(start_relabelled(TASK, 1)) == listed(start_relabelled(TASK, 1))
    assert listed(start_relabelled(TASK, 1)) != listed(start_relabelled(TASK, 2))


@pytest.mark.parametrize("case", ["tic_tac_toe", "kuhn_poker", "hex(board_size=5)"])
@pytest.mark.parametrize("perturbation", ["labels", "mirrored"])
def test_perturbed_whole_games_have_the_same_moves(case: str, perturbation: str) -> None:
    """Bots choose by position in the list, so the same dice give the same game with any labels."""
    if perturbation == "mirrored" and case not in ("tic_tac_toe", "hex(board_size=5)"):
        with pytest.raises(UserError, match="needs one of connect_four, hex, tic_tac_toe"):
            start_mirrored(make_task("openspiel", case, 0))
        return
    for k in range(4):
        task = make_task("openspiel", case, k, mode="episode")
        plain = play([ENV.start(task)], RandomPlayer(1))
        assert play([ENV.start_perturbed(task, perturbation)], RandomPlayer(1)) == plain


@pytest.mark.parametrize("case", ["tic_tac_toe", "connect_four", "hex(board_size=5)", "hex(num_cols=4,num_rows=6)"])
@pytest.mark.parametrize("prompt", ["full", "brief"])
def test_a_mirror_image_is_the_same_problem(case: str, prompt: str) -> None:
    """Compares the game's symmetry keys, which depend on the board and not on the actions."""
    changed = 0
    for k in range(12):
        task = make_task("openspiel", case, k, prompt=prompt, reward="optimal")
        plain, session = one(ENV.start(task)), start_mirrored(task)
        shown = one(session)
        assert isinstance(session, Perturbed)
        image = session.shown_state(plain.view.state)
        game = load(case)
        assert game.symmetry_key(image, plain.seat) == game.symmetry_key(plain.view.state, plain.seat)
        assert len(image.legal_actions()) == len(plain.answers)
        changed += shown.messages != plain.messages
        # Equal positions in both lists of answers are the same move.
        session.step({shown.seat: Reply(shown.answers[0])})
        same = ENV.start(task)
        same.step({plain.seat: Reply(plain.answers[0])})
        assert session.scores() == same.scores()
    assert changed > 6
    assert case.partition("(")[0] in MIRRORED


def test_perturbations_cost_a_memorizing_player_and_not_an_exact_one() -> None:
    class ByHeart:
        """Answers each position with the action's original number, as learned in training."""

        def act(self, turns: Sequence[Turn]) -> list[Reply]:
            views = [turn.view.actions for turn in turns]
            replies = ExactPlayer().act(turns)
            return [
                Reply(f"\\boxed{{{view[turn.answers.index(reply.text)]}}}")
                for turn, view, reply in zip(turns, views, replies, strict=True)
            ]

    tasks = [make_task("openspiel", "tic_tac_toe", k, reward="optimal") for k in range(40)]
    for player, loses in ((ExactPlayer(), False), (ByHeart(), True)):
        plain = judge(player, tasks)
        assert plain.optimal_rate.mean == 1.0
        for start in (start_relabelled, start_mirrored):
            assert (judge(player, tasks, session_of=start).gain_over(plain).high < 0) == loses


def test_a_prompt_without_a_list_is_refused() -> None:
    with pytest.raises(UserError, match="prompt=full, and not brief"):
        start_relabelled(make_task("openspiel", "tic_tac_toe", 0, prompt="brief"))
    with pytest.raises(UserError, match="unknown perturbation"):
        ENV.start_perturbed(TASK, "mask")
