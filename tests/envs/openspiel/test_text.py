"""Prompts: the aim agrees with the reward, and the notation of moves covers all moves.

The aim is the size of a gain if size is paid, otherwise winning.
"""

import re
from collections.abc import Callable, Iterator

import pytest

from veritas_rl.envs.base import Reply
from veritas_rl.envs.openspiel.cases import default_cases, load
from veritas_rl.envs.openspiel.env import OpenSpielEnvironment
from veritas_rl.envs.openspiel.games import GAMES, Game, State
from veritas_rl.envs.openspiel.parsing import read_action
from veritas_rl.envs.openspiel.perturbation import perturb
from veritas_rl.envs.registry import make_task

SIZE = "Your aim is to gain as many "
SCALES = ("auto", "result", "utility")
CARD, CELL = "[2-9TJQKA][cdhs]", "[a-h][1-8]"
FORMS = {
    "dots_and_boxes": {"a1-b1": f"{CELL}-{CELL}"},
    "clobber": {"a5b5": CELL * 2},
    "breakthrough": {"a4b5": CELL * 2},
    "checkers": {"a3b4": CELL * 2},
    "gin_rummy": {
        "draw upcard": "draw upcard",
        "draw stock": "draw stock",
        "pass": "pass",
        "knock": "knock",
        "discard 6s": f"discard {CARD}",
        "lay off 6s": f"lay off {CARD}",
        "meld 4s 5s 6s": f"meld( {CARD}){{3,}}",
    },
    "euchre": {
        "pass": "pass",
        "order up": "order up",
        "take it up": "take it up",
        "hearts": "clubs|diamonds|hearts|spades",
        "alone": "alone",
        "with the partner": "with the partner",
        "Js": CARD,
        "discard 9c": f"discard {CARD}",
    },
    "solitaire": {
        "2d onto 3s": f"{CARD} onto {CARD}",
        "As to foundation": f"{CARD} to foundation",
        "Kd to an empty column": "K[cdhs] to an empty column",
        "end": "end",
    },
    "cribbage": {"5h Qc": f"{CARD} {CARD}", "5h": CARD, "pass": "pass"},
}
"""The examples in the notation of moves, each with a regular expression for the moves that are written in this way."""


def first_cases() -> list[str]:
    return [default_cases(name)[0] for name in GAMES]


def pays_size(game: Game, scale: str) -> bool:
    """Whether a large gain is worth more than a small gain to the first player."""
    most = game.spiel.max_utility()
    rest = [-most / (game.players - 1)] * (game.players - 1) if game.players > 1 else []
    great = [most, *rest]
    small = [gain / 8 for gain in great]
    return game.outcome(great, 0, scale) > game.outcome(small, 0, scale)


def prompt_of(case: str, prompt: str) -> str:
    """A prompt of the case."""
    (turn,) = OpenSpielEnvironment().start(make_task("openspiel", case, 3, reward="legal", prompt=prompt)).turns()
    return turn.messages[0]["content"]


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


@pytest.mark.parametrize("case", first_cases())
def test_an_unlisted_prompt_has_the_notation_in_place_of_the_list(case: str) -> None:
    full, unlisted = (prompt_of(case, prompt) for prompt in ("full", "unlisted"))
    before, listed, after = re.split(r"(Legal actions \(number: name\):\n(?:[0-9]+: .+\n)+\n)", full)
    assert listed.count("\n") > 3
    written = load(case).written
    assert unlisted == before + (f"{written}\n\n" if written else "") + after


@pytest.mark.parametrize("name", FORMS)
def test_every_move_is_written_as_in_an_example_of_the_notation(
    name: str, games: Callable[[str, int], Iterator[list[State]]]
) -> None:
    case, forms = default_cases(name)[0], FORMS[name]
    notation = prompt_of(case, "unlisted").split("\n\n")[-2]
    for example, form in forms.items():
        assert re.search(rf"\b{example}\b", notation)
        assert re.fullmatch(form, example)
    game, seen = load(case), set[str]()
    for state in (state for states in games(case, 40) for state in states[:-1]):
        player = state.current_player()
        names = game.action_names(state, player)
        for action, move in names.items():
            (example,) = (example for example, form in forms.items() if re.fullmatch(form, move))
            seen.add(example)
            assert read_action(Reply(f"\\boxed{{{move}}}"), game, state, player, game.listed(names)) == action
    assert seen == forms.keys()
