"""Amazons and oware: the rules agree with OpenSpiel, and keys contain everything that affects the rest of a game."""

import random

import pytest

from veritas_rl.envs.openspiel import positions, text
from veritas_rl.envs.openspiel.cases import canonical, load
from veritas_rl.envs.openspiel.games import Decision, Game, State
from veritas_rl.envs.openspiel.games.amazons import Amazons
from veritas_rl.envs.openspiel.games.oware import Oware
from veritas_rl.errors import UserError

CASES = (
    *(f"amazons(board_size={size})" for size in (6, 8, 10)),
    *("oware", "oware(num_seeds_per_house=3)", "oware(num_seeds_per_house=5)"),
    "oware(num_houses_per_player=2,num_seeds_per_house=1)",
)


def decisions(case: str, count: int = 12) -> list[Decision]:
    return [positions.walk(load(case), random.Random(index)) for index in range(count)]


def number(game: Game, state: State, name: str) -> int:
    return next(a for a, known in game.action_names(state, state.current_player()).items() if known == name)


def reach(case: str, *names: str) -> State:
    game = load(case)
    state = game.spiel.new_initial_state()
    for name in names:
        state.apply_action(number(game, state, name))
    return state


@pytest.mark.parametrize("case", CASES)
def test_every_position_of_random_games_has_a_prompt(case: str) -> None:
    game, known = load(case), {}
    assert game.case == case
    for index in range(6):
        dice, state = random.Random(index), game.spiel.new_initial_state()
        while not state.is_terminal():
            seat = state.current_player()
            shown = [
                text.messages(game, state, seat, game.action_names(state, seat), form)[0]["content"]
                for form in ("full", "brief")
            ]
            assert known.setdefault(game.information_key(state, seat), shown) == shown
            state.apply_action(dice.choice(state.legal_actions()))


def test_an_amazons_turn_has_three_parts() -> None:
    game = load("amazons(board_size=6)")
    root = game.spiel.new_initial_state()
    assert game.role(root.current_player()) == "X"
    assert game.position(root, 0) == (
        " 6 . O . . O .\n"
        " 5 O . . . . O\n"
        " 4 . . . . . .\n"
        " 3 . . . . . .\n"
        " 2 X . . . . X\n"
        " 1 . X . . X .\n"
        "   a b c d e f\n"
        "Choose which amazon moves."
    )
    assert set(game.action_names(root, 0).values()) == {"from a2", "from f2", "from b1", "from e1"}
    state = reach(game.case, "from a2")
    assert game.position(state, 0).split("\n")[4] == " 2 . . . . . X"
    assert game.position(state, 0).endswith("The amazon from a2 moves (it is taken off the board). Choose where to.")
    moves = {"a1", "a3", "a4", "b2", "c2", "d2", "e2", "b3", "c4", "d5"}  # e6 and b1 are occupied
    assert set(game.action_names(state, 0).values()) == {f"to {cell}" for cell in moves}
    state = reach(game.case, "from a2", "to a4")
    assert state.current_player() == 0
    assert game.position(state, 0).endswith("The amazon moved from a2 to a4. Choose where it shoots.")
    names = set(game.action_names(state, 0).values())
    assert {"shoot a2", "shoot a1", "shoot d1", "shoot b5"} <= names  # also back across its starting cell
    assert not {"shoot a5", "shoot c5", "shoot e1", "shoot a4"} & names
    state = reach(game.case, "from a2", "to a4", "shoot a2")
    assert state.current_player() == 1
    assert game.position(state, 1).split("\n")[2:5] == [" 4 X . . . . .", " 3 . . . . . .", " 2 # . . . . X"]
    assert game.brief(reach(game.case, "from a2"), 0).split("\n")[-1] == "a2"


@pytest.mark.parametrize("case", CASES[:3])
def test_the_player_that_cannot_move_an_amazon_loses(case: str) -> None:
    game, winners = load(case), set()
    assert isinstance(game, Amazons)
    for index in range(6):
        dice, state = random.Random(index), game.spiel.new_initial_state()
        last = -1
        while not state.is_terminal():
            last = state.current_player()
            state.apply_action(dice.choice(state.legal_actions()))
        assert len(state.history()) % 3 == 0
        assert state.returns()[last] == 1
        rows = game._rows(state)
        size = len(rows)
        for row in range(size):
            for column in range(size):
                if rows[row][column] == "XO"[1 - last]:
                    near = [
                        rows[r][c]
                        for r in range(max(0, row - 1), min(size, row + 2))
                        for c in range(max(0, column - 1), min(size, column + 2))
                    ]
                    assert "." not in near
        winners.add(last)
    assert winners == {0, 1}


@pytest.mark.parametrize("case", CASES[:3])
def test_left_and_right_are_alike_in_amazons(case: str) -> None:
    game, differs = load(case), 0
    size = game.parameters["board_size"]
    for state, seat in decisions(case, 20):
        mirrored = game.spiel.new_initial_state()
        for action in state.history():
            mirrored.apply_action(action // size * size + size - 1 - action % size)
        assert game.symmetry_key(mirrored, seat) == game.symmetry_key(state, seat)
        differs += game.information_key(mirrored, seat) != game.information_key(state, seat)
    assert differs > 10


def test_the_parts_of_an_amazons_turn_are_different_decisions() -> None:
    game = load("amazons(board_size=6)")
    parts = ((), ("from a2",), ("from b1",), ("from a2", "to a3"), ("from a2", "to a1"), ("from b1", "to a1"))
    keys = [game.symmetry_key(reach(game.case, *names), 0) for names in parts]
    assert len(set(keys)) == len(keys)
    assert game.symmetry_key(reach(game.case, "from f2", "to f3"), 0) == keys[3]


def test_amazons_keys_forget_how_a_position_came_about() -> None:
    game = load("amazons(board_size=6)")
    west, east = ("from a2", "to b2", "shoot c2"), ("from e1", "to d1", "shoot c1")
    replies = ("from a5", "to b5", "shoot c5"), ("from f5", "to f4", "shoot e4")
    one, other = (reach(game.case, *a, *replies[0], *b, *replies[1]) for a, b in ((west, east), (east, west)))
    assert one.history() != other.history()
    assert game.information_key(one, 0) == game.information_key(other, 0)


def test_the_sizes_of_amazons() -> None:
    assert canonical("amazons") == "amazons(board_size=10)"
    with pytest.raises(UserError, match="does not load"):
        load("amazons(board_size=7)")
    with pytest.raises(UserError, match="between 6 and 10"):
        load("amazons(board_size=12)")


def test_oware_is_sown_in_the_order_of_the_houses() -> None:
    game = load("oware")
    state = reach("oware", "C")
    assert game.position(state, 1) == (
        " f  e  d  c  b  a\n"
        " 4  4  4  4  4  5\n"
        " 4  4  0  5  5  5\n"
        " A  B  C  D  E  F\n"
        "Captured so far: player 0: 0, player 1: 0\n"
        "Moves since the last capture: C\n"
        "Moves that would bring an earlier position again, and so end the game: none"
    )
    assert game.role(1) == "player 1 (houses a to f)"
    assert game.brief(state, 1) == "5 4 4 4 4 4\n4 4 0 5 5 5\n0 0\n2"


def capture_of(before: list[int], player: int, house: int) -> tuple[list[int], int]:
    """The seeds after a move and the number of captured seeds, by the rules in the prompt."""
    seeds, count = list(before), len(before)
    half = count // 2
    start = place = player * half + house
    hand, seeds[start] = seeds[start], 0
    while hand:
        place = (place + 1) % count
        if place != start:
            seeds[place] += 1
            hand -= 1
    theirs = range((1 - player) * half, (2 - player) * half)
    taken = []
    while place in theirs and seeds[place] in (2, 3):
        taken.append(place)
        place -= 1
    if sum(seeds[h] for h in taken) == sum(seeds[h] for h in theirs):
        return seeds, 0
    return [0 if h in taken else n for h, n in enumerate(seeds)], sum(seeds[h] for h in taken)


@pytest.mark.parametrize("case", CASES[3:])
def test_oware_captures_and_ends_by_the_rules(case: str) -> None:
    game = load(case)
    assert isinstance(game, Oware)
    seen = {"capture": 0, "slam": 0, "long": 0, "again": 0, "no move": 0, "half": 0, "must feed": 0}
    half, total = game._houses, 2 * game._houses * game.parameters["num_seeds_per_house"]
    for index in range(150):
        dice, state = random.Random(index), game.spiel.new_initial_state()
        visited = {(0, *game._board(state)[0])}
        while True:
            player = state.current_player()
            (seeds, score), house = game._board(state), dice.choice(state.legal_actions())
            mine = range(player * half, (player + 1) * half)
            theirs = [n for h, n in enumerate(seeds) if h not in mine]
            moves = [h for h in range(half) if seeds[mine[h]]]
            if not any(theirs):
                moves = [h for h in moves if seeds[mine[h]] > half - 1 - h]
                seen["must feed"] += 1
            assert state.legal_actions() == moves
            expected, gain = capture_of(seeds, player, house)
            last = (mine[house] + seeds[mine[house]]) % (2 * half)
            seen["capture"] += gain > 0
            seen["slam"] += not gain and last not in mine and expected[last] in (2, 3)
            seen["long"] += seeds[mine[house]] >= 2 * half
            score[player] += gain
            visited = set() if gain else visited
            again = (1 - player, *expected) in visited
            visited.add((1 - player, *expected))
            if index < 30 or again:
                named = game.position(state, player).rpartition("end the game: ")[2].split()
                assert (game.action_name(state, player, house) in named) == again
            state.apply_action(house)
            if not state.is_terminal():
                assert game._board(state) == (expected, score)
                assert not again
                continue
            if max(score) > total // 2 or score[0] == score[1] == total // 2:
                seen["half"] += 1
            if again or max(score) <= total // 2:
                score = [score[0] + sum(expected[:half]), score[1] + sum(expected[half:])]
                seen["again" if again else "no move"] += 1
            assert state.returns() == [
                (score[0] > score[1]) - (score[1] > score[0]),
                (score[1] > score[0]) - (score[0] > score[1]),
            ]
            break
    assert seen["capture"]
    assert seen["again"] + seen["no move"]
    if case == "oware":
        assert all(seen.values()), seen


def test_an_oware_key_holds_the_positions_that_may_come_again() -> None:
    """Equal board, scores and mover with different earlier positions are different decisions."""
    game = load("oware(num_houses_per_player=2,num_seeds_per_house=1)")
    found: dict[str, set[str]] = {}
    for state, seat in decisions(game.case, 200):
        found.setdefault(state.observation_string(seat), set()).add(game.information_key(state, seat))
    assert max(map(len, found.values())) > 1
