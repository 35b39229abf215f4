"""Prompts show a player's own information, every legal action, and action names that agree with the board."""

import random
import re

import pytest

from veritas_rl.envs.openspiel import playing, positions, text
from veritas_rl.envs.openspiel.cases import DEFAULT_CASES, load
from veritas_rl.envs.openspiel.games import Decision, Game, State

GENERIC = (
    "nim",
    "y(board_size=5)",
    "mancala",
    "first_sealed_auction",
    "oshi_zumo(coins=6,size=2)",
    "dark_hex(board_size=3)",
)
VARIANTS = ("go(board_size=5)", "goofspiel(num_cards=4)")
pytestmark = pytest.mark.filterwarnings("ignore:.*has no description of its own")


def decisions(case: str, count: int = 12) -> list[Decision]:
    return [positions.walk(load(case), random.Random(index)) for index in range(count)]


def reach(case: str, *names: str) -> State:
    """The state after moves by name, with the first outcome at each chance node."""
    game = load(case)
    state = game.spiel.new_initial_state()
    for name in names:
        while state.is_chance_node():
            state.apply_action(state.legal_actions()[0])
        state.apply_action(
            next(a for a, known in game.action_names(state, state.current_player()).items() if known == name)
        )
    return state


@pytest.mark.parametrize("case", [*DEFAULT_CASES, *VARIANTS, *GENERIC])
def test_every_legal_action_is_shown_once(case: str) -> None:
    game = load(case)
    for state, seat in decisions(case):
        names = game.action_names(state, seat)
        assert list(names) == state.legal_actions(seat)
        assert len(set(names.values())) == len(names)
        assert all(name == str(action) or not name.isdigit() for action, name in names.items())
        full = text.messages(game, state, seat, names, "full")[0]["content"]
        assert [f"{action}: {name}" for action, name in names.items()] == full.split("name):\n")[1].split("\n\n")[
            0
        ].split("\n")
        brief = text.messages(game, state, seat, names, "brief")[0]["content"]
        shown = re.findall(r"\d", brief) if game.brief_shows_actions else brief.split("\n")[0].split()
        assert shown == [str(action) for action in names]


@pytest.mark.parametrize("case", [*DEFAULT_CASES, *VARIANTS, *GENERIC])
def test_a_prompt_depends_on_the_information_state_alone(case: str) -> None:
    """Resampling hidden information changes no prompt and no key, so nothing hidden is shown."""
    game = load(case)
    if not game.can_resample:
        pytest.skip("OpenSpiel cannot resample this game")
    for index, (state, seat) in enumerate(decisions(case)):
        other = game.resample(state, seat, random.Random(index).random)
        for prompt in ("full", "brief"):
            shown = [text.messages(game, s, seat, game.action_names(s, seat), prompt) for s in (state, other)]
            assert shown[0] == shown[1]
        assert game.information_key(state, seat) == game.information_key(other, seat)
        assert game.symmetry_key(state, seat) == game.symmetry_key(other, seat)


def test_hidden_cards_are_really_redealt() -> None:
    game = load("leduc_poker")
    state = reach("leduc_poker", "call")
    histories = {tuple(game.resample(state, 1, random.Random(index).random).history()) for index in range(50)}
    assert len(histories) == 5  # the opponent has one of five cards


def test_the_prompts_example_is_no_legal_answer() -> None:
    for case in DEFAULT_CASES:
        for decision in decisions(case, 3):
            assert "ACTION" not in load(case).action_names(*decision).values()


def test_tic_tac_toe_is_brief() -> None:
    game, state = load("tic_tac_toe"), reach("tic_tac_toe", "b1", "c2")
    content = text.messages(game, state, 0, game.action_names(state, 0), "brief")[0]["content"]
    assert content == "0b2\n34F\n678"


def test_tic_tac_toe_names_agree_with_the_board() -> None:
    state = reach("tic_tac_toe", "c1", "a3")
    assert load("tic_tac_toe").position(state, 0) == "  a b c\n1 . . x\n2 . . .\n3 o . ."


def test_connect_four_discs_fall_in_the_named_column() -> None:
    state = reach("connect_four", "column 3", "column 3", "column 6")
    assert load("connect_four").position(state, 0).split("\n")[-3:] == [
        ". . . o . . .",
        ". . . x . . x",
        "0 1 2 3 4 5 6",
    ]


def test_hex_rules_are_those_of_the_prompt() -> None:
    case = "hex(board_size=3)"
    assert load(case).position(reach(case, "b1", "c2"), 0) == "  a b c\n1 . x .\n 2 . . o\n  3 . . ."
    won = reach(case, "c1", "a1", "b2", "a2", "a3")  # below and one to the left: x joins top and bottom
    assert won.returns() == [1, -1]
    assert not reach(case, "a1", "a2", "b2", "a3", "c3").is_terminal()  # below and one to the right does not touch
    won = reach(case, "a1", "a2", "c1", "b2", "a3", "c2")  # o joins left and right along a row
    assert won.returns() == [-1, 1]


def test_breakthrough_rules_are_those_of_the_prompt() -> None:
    case = "breakthrough(columns=6,rows=6)"
    game, root = load(case), load(case).spiel.new_initial_state()
    board = game.position(root, 0).split("\n")
    assert (board[0], board[4], board[6]) == ("6 b b b b b b", "2 w w w w w w", "  a b c d e f")
    assert game.role(root.current_player()) == "black (b)"
    assert {"a5a4", "a5b4"} <= set(game.action_names(root, 0).values())
    state = reach(case, "a5a4", "a2a3")  # face to face: neither piece can move straight ahead
    assert "a4a3" not in game.action_names(state, state.current_player()).values()
    state = reach(case, "b5b4", "a2a3")
    taken = reach(case, "b5b4", "a2a3", "b4a3")
    assert "b4a3" in game.action_names(state, state.current_player()).values()
    assert game.position(taken, 0).count("w") == 11


def test_kuhn_poker_shows_the_own_card_and_the_betting() -> None:
    state = load("kuhn_poker").spiel.new_initial_state()
    for action in (2, 0, 0, 1):  # king, jack, pass, bet
        state.apply_action(action)
    game = load("kuhn_poker")
    assert game.position(state, 0) == "Your card: K\nBetting so far: player 0: pass, player 1: bet"
    assert game.brief(state, 0) == "0Kpb"
    assert game.action_names(state, 0) == {0: "pass", 1: "bet"}


def test_leduc_poker_shows_cards_betting_and_chips() -> None:
    state = load("leduc_poker").spiel.new_initial_state()
    for action in (0, 3, 1, 2, 1, 4, 1):  # Jh, Qs; call, raise, call; public Kh; call
        state.apply_action(action)
    assert load("leduc_poker").position(state, 1) == (
        "Your card: Qs\nPublic card: Kh\nBetting in round 1: player 0: call, player 1: raise, player 0: call\n"
        "Betting in round 2: player 0: call\nChips put in so far: player 0: 3, player 1: 3"
    )
    assert load("leduc_poker").brief(state, 1) == "1 Qs crc Kh c"


@pytest.mark.parametrize(
    ("names", "end"),
    [
        (("raise", "fold"), "player 1: fold\nChips won or lost: player 0: +1, player 1: -1"),
        (("call", "raise", "fold"), "player 0: fold\nChips won or lost: player 0: -1, player 1: +1"),
        (("raise", "call", "raise", "call"), "player 1: call\nChips won or lost: player 0: +0, player 1: +0"),
    ],
)
def test_leduc_poker_ends_with_what_was_won(names: tuple[str, ...], end: str) -> None:
    # With the first chance outcomes, each player has a jack and the public card is a queen.
    assert load("leduc_poker").position(reach("leduc_poker", *names), 0).endswith(end)


def image_of(state: State, game: Game, image: dict[str, str]) -> State:
    """Replay the game with every action replaced by its image under a symmetry."""
    copy, original = game.spiel.new_initial_state(), game.spiel.new_initial_state()
    for action in state.history():
        name = game.action_names(original, original.current_player())[action]
        wanted = "".join(image.get(char, char) for char in name)
        copy.apply_action(
            next(a for a, known in game.action_names(copy, copy.current_player()).items() if known == wanted)
        )
        original.apply_action(action)
    return copy


@pytest.mark.parametrize(
    ("case", "image"),
    [
        ("tic_tac_toe", dict(zip("abc", "cba", strict=True))),
        ("connect_four", dict(zip("0123456", "6543210", strict=True))),
        ("hex(board_size=5)", dict(zip("abcde12345", "edcba54321", strict=True))),
        ("breakthrough(columns=6,rows=6)", dict(zip("abcdef", "fedcba", strict=True))),
    ],
)
def test_mirror_images_are_one_class(case: str, image: dict[str, str]) -> None:
    game = load(case)
    differs = 0
    for state, seat in decisions(case):
        copy = image_of(state, game, image)
        assert game.symmetry_key(copy, seat) == game.symmetry_key(state, seat)
        differs += game.information_key(copy, seat) != game.information_key(state, seat)
    assert differs > 3


def test_the_diagonal_is_a_symmetry_of_tic_tac_toe() -> None:
    game = load("tic_tac_toe")
    for state, seat in decisions("tic_tac_toe"):
        transposed = playing.replay(game, tuple(3 * (action % 3) + action // 3 for action in state.history()))
        assert game.symmetry_key(transposed, seat) == game.symmetry_key(state, seat)


def test_different_positions_are_different_classes() -> None:
    game = load("hex(board_size=5)")
    keys = {cell: game.symmetry_key(reach(game.case, cell), 1) for cell in ("a1", "b1", "e5", "e1")}
    assert keys["a1"] != keys["b1"]
    assert keys["a1"] == keys["e5"]
    assert keys["a1"] != keys["e1"]  # a quarter turn is no symmetry of Hex


def test_a_generic_game_says_so_once() -> None:
    load.cache_clear()
    with pytest.warns(UserWarning, match="ultimate_tic_tac_toe has no description"):
        load("ultimate_tic_tac_toe")
    with pytest.warns(UserWarning, match=r"hex\(board_size=11,swap=True\) has no description"):
        load("hex(swap=True)")
