"""The aim in a prompt agrees with the reward: the size of a gain if size is paid, otherwise winning."""

import pytest

from veritas_rl.envs.openspiel.cases import default_cases, load
from veritas_rl.envs.openspiel.env import OpenSpielEnvironment
from veritas_rl.envs.openspiel.games import GAMES, Game
from veritas_rl.envs.openspiel.perturbation import perturb
from veritas_rl.envs.registry import make_task

SIZE = "Your aim is to gain as many "
SCALES = ("auto", "result", "utility")


def first_cases() -> list[str]:
    return [default_cases(name)[0] for name in GAMES]


def pays_size(game: Game, scale: str) -> bool:
    """Whether a large gain is worth more than a small gain to the first player."""
    most = game.spiel.max_utility()
    rest = [-most / (game.players - 1)] * (game.players - 1) if game.players > 1 else []
    great = [most, *rest]
    small = [gain / 8 for gain in great]
    return game.outcome(great, 0, scale) > game.outcome(small, 0, scale)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("case", first_cases())
def test_the_aim_is_what_is_paid(case: str, scale: str) -> None:
    game = load(case)
    aim = game.objective(scale)
    # If a game is only won, drawn or lost, all gains have the same size.
    wins_only = (game.spiel.min_utility(), game.spiel.max_utility()) == (-1, 1)
    assert (SIZE in aim) == (pays_size(game, scale) and not wins_only)
    assert aim.startswith(SIZE if SIZE in aim else "Your aim is to ")


@pytest.mark.parametrize("prompt", ["full", "unlisted"])
@pytest.mark.parametrize("case", ["kuhn_poker", "leduc_poker"])
def test_poker_is_played_for_chips(case: str, prompt: str) -> None:
    task = make_task("openspiel", case, 3, reward="legal", prompt=prompt, scale="utility")
    sessions = [OpenSpielEnvironment().start(task)]
    if prompt == "full":
        sessions.append(perturb(OpenSpielEnvironment().start(task), "labels"))
    for session in sessions:
        (turn,) = session.turns()
        assert "as many chips as you can on average, losses subtracted" in turn.messages[0]["content"]
    (turn,) = OpenSpielEnvironment().start(task.replace(scale="result")).turns()
    assert "Your aim is to win" in turn.messages[0]["content"]


@pytest.mark.parametrize("case", first_cases())
def test_rules_do_not_state_another_aim(case: str) -> None:
    """The aim depends on the scale, so only the objective states it."""
    rules = load(case).rules()
    assert "More than 0 wins" not in rules
    assert "the more, the better" not in rules
