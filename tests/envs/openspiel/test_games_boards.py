"""Board games of stones and lines: the rules in the prompts agree with OpenSpiel, and mirror images are one class."""

import random
import re

import pytest

from veritas_rl.envs.openspiel import playing, positions, text
from veritas_rl.envs.openspiel.cases import load
from veritas_rl.envs.openspiel.games import Game, State
from veritas_rl.envs.openspiel.games.boards import symmetries

VARIANTS = (
    "othello",
    *(f"clobber(rows={size},columns={size})" for size in (5, 6, 7)),
    *(f"go(board_size={size},komi=7.5)" for size in (5, 7, 9)),
    *(f"dots_and_boxes(num_cols={size},num_rows={size})" for size in (3, 4, 5)),
    "dots_and_boxes(num_cols=3,num_rows=2,utility_margin=True)",
    "chess",
    "checkers",
    "checkers(columns=7,rows=7)",
    "checkers(columns=10,egocentric=True,rows=12)",
    *(f"quoridor(board_size={size},wall_count={walls})" for size in (7, 9) for walls in (8, 10)),
    "quoridor(board_size=10)",
)


def reach(case: str, *names: str) -> State:
    """The state after moves by name."""
    game = load(case)
    state = game.spiel.new_initial_state()
    for name in names:
        play(game, state, name)
    return state


def play(game: Game, state: State, name: str) -> None:
    names = game.action_names(state, state.current_player())
    state.apply_action(next(action for action, known in names.items() if known == name))


def names_of(case: str, state: State) -> set[str]:
    return set(load(case).action_names(state, state.current_player()).values())


def random_games(case: str, count: int) -> list[State]:
    """Finished random games."""
    found = []
    for index in range(count):
        dice, state = random.Random(index), load(case).spiel.new_initial_state()
        while not state.is_terminal():
            state.apply_action(dice.choice(state.legal_actions()))
        found.append(state)
    return found


def board(case: str, state: State) -> list[str]:
    return load(case).position(state, max(state.current_player(), 0)).split("\n")


@pytest.mark.parametrize("case", VARIANTS)
def test_every_prompt_of_random_games_is_built(case: str) -> None:
    game = load(case)
    assert type(game) is not Game
    for index in range(30):
        state, seat = positions.walk(game, random.Random(index))
        again = playing.replay(game, tuple(state.history()))
        shown = [
            [text.messages(game, copy, seat, game.action_names(copy, seat), prompt) for prompt in ("full", "brief")]
            + [game.information_key(copy, seat), game.symmetry_key(copy, seat)]
            for copy in (state, again)
        ]
        assert shown[0] == shown[1]
        # Other text of OpenSpiel than the board is described in other words or must not be shown.
        assert not {"GoState", "Terminal", "Board size"} & set(re.findall(r"[A-Z]\w+(?: size)?", str(shown[0])))


def test_the_symmetries_of_a_square_are_eight_and_of_an_oblong_four() -> None:
    assert len(set(symmetries(3, 3))) == 8
    assert set(symmetries(2, 3)) == {(0, 1, 2, 3, 4, 5), (2, 1, 0, 5, 4, 3), (3, 4, 5, 0, 1, 2), (5, 4, 3, 2, 1, 0)}


def test_othello_flanked_discs_turn_in_every_direction() -> None:
    state = reach("othello", "d3", "c3")
    assert board("othello", state) == [
        "  a b c d e f g h",
        "1 . . . . . . . .",
        "2 . . . . . . . .",
        "3 . . o x . . . .",
        "4 . . . o x . . .",
        "5 . . . x o . . .",
        "6 . . . . . . . .",
        "7 . . . . . . . .",
        "8 . . . . . . . .",
        "Discs: x 3, o 3",
    ]
    assert board("othello", reach("othello", "d3", "c3", "b3"))[3] == "3 . x x x . . . ."
    assert load("othello").brief(state, 0) == "x -18 +19 -27 +28 +35 -36"


def test_othello_needs_a_flanked_disc_and_passes_only_without() -> None:
    assert names_of("othello", reach("othello")) == {"d3", "c4", "f5", "e6"}
    passes = 0
    for state in random_games("othello", 30):
        again = load("othello").spiel.new_initial_state()
        for action in state.history():
            passes += action == 64
            assert (64 in again.legal_actions()) == (again.legal_actions() == [64])
            if action == 64:
                assert names_of("othello", again) == {"pass"}
            again.apply_action(action)
    assert passes > 5


def test_othello_is_won_by_the_greater_number_of_discs() -> None:
    for state in random_games("othello", 20):
        _, x, _, o = board("othello", state)[-1].replace(",", "").split()[1:]
        won = (int(x) > int(o)) - (int(x) < int(o))
        assert state.returns() == [won, -won]
    wiped_out = reach("othello", "e6", "f4", "e3", "f6", "g5", "d6", "e7", "f5", "c5")
    assert board("othello", wiped_out)[-1] == "Discs: x 13, o 0"
    assert wiped_out.returns() == [1, -1]


def test_othello_turned_and_mirrored_positions_are_one_class() -> None:
    game = load("othello")
    keys = [game.symmetry_key(reach("othello", cell), 1) for cell in ("d3", "c4", "f5", "e6")]
    assert len(set(keys)) == 1
    assert len({game.information_key(reach("othello", cell), 1) for cell in ("d3", "c4", "f5", "e6")}) == 4
    # The three classes of answers to a first move: parallel, diagonal, perpendicular.
    assert len({game.symmetry_key(reach("othello", "d3", cell), 0) for cell in ("c3", "e3", "c5")}) == 3


def test_clobber_every_move_captures_a_neighbour() -> None:
    case = "clobber(rows=5,columns=5)"
    start = reach(case)
    assert board(case, start) == [
        "5 o x o x o",
        "4 x o x o x",
        "3 o x o x o",
        "2 x o x o x",
        "1 o x o x o",
        "  a b c d e",
    ]
    assert load(case).role(start.current_player()) == "o"
    assert {"a1a2", "a1b1"} == {name for name in names_of(case, start) if name.startswith("a1")}
    state = reach(case, "a1b1", "d1c1")
    assert board(case, state)[4:] == ["1 . o x . o", "  a b c d e"]
    assert "b1c1" in names_of(case, state)
    assert not {"b1a1", "b1b2", "e1d1", "c1b1"} & names_of(case, state)  # empty, own stone, empty, opponent's stone


@pytest.mark.parametrize("case", ["clobber(rows=5,columns=5)", "clobber(rows=6,columns=6)"])
def test_clobber_is_won_by_the_last_move(case: str) -> None:
    for state in random_games(case, 20):
        last = state.full_history()[-1].player
        assert state.player_return(last) == 1
        assert state.player_return(1 - last) == -1
    assert board(case, reach(case))[-2].split()[1] == "o"


def test_clobber_turned_and_mirrored_positions_are_one_class() -> None:
    case = "clobber(rows=5,columns=5)"
    game = load(case)
    keys = {move: game.symmetry_key(reach(case, move), 1) for move in ("a1a2", "a1b1", "e5e4", "a5a4", "a3a4", "c3c4")}
    assert len({keys[move] for move in ("a1a2", "a1b1", "e5e4", "a5a4")}) == 1
    assert len(set(keys.values())) == 3


def test_go_captures_and_forbids_suicide_and_ko() -> None:
    case = "go(board_size=5)"
    # x surrounds c3 except for d3, and o surrounds d3 except for c3. o captures d3, so x may not recapture directly.
    state = reach(case, "c4", "d4", "b3", "e3", "c2", "d2", "d3", "c3")
    assert board(case, state) == [
        "5 . . . . .",
        "4 . . x o .",
        "3 . x o . o",
        "2 . . x o .",
        "1 . . . . .",
        "  a b c d e",
        "Moves so far: 8 of at most 50",
        "Empty points where you may not play now: d3",
    ]
    assert "d3" not in names_of(case, state)
    play(load(case), state, "a1")
    play(load(case), state, "a5")
    assert "d3" in names_of(case, state)  # legal again after a move elsewhere
    corner = reach(case, "b1", "e5", "a2")
    assert "a1" not in names_of(case, corner)
    assert "may not play now: a1" in board(case, corner)[-1]


def group(cells: dict[complex, str], point: complex) -> tuple[set[complex], set[complex]]:
    """The points of a stone's group, and the group's liberties."""
    found, liberties, waiting = {point}, set(), [point]
    while waiting:
        here = waiting.pop()
        for near in (here + 1j**turn for turn in range(4)):
            if cells.get(near) == ".":
                liberties.add(near)
            elif cells.get(near) == cells[here] and near not in found:
                found.add(near)
                waiting.append(near)
    return found, liberties


def captures(cells: dict[complex, str], point: complex, mark: str) -> tuple[set[complex], bool]:
    """The stones that a move captures, and whether its group then has a liberty, by an independent search."""
    after = {**cells, point: mark}
    taken: set[complex] = set()
    for near in (point + 1j**turn for turn in range(4)):
        if after.get(near, ".") not in (".", mark) and not group(after, near)[1]:
            taken |= group(after, near)[0]
    return taken, bool(group({**after, **dict.fromkeys(taken, ".")}, point)[1])


def test_go_closed_points_are_suicide_or_ko() -> None:
    case, kos, suicides = "go(board_size=5)", 0, 0
    game = load(case)
    for finished in random_games(case, 40):
        state, ko = game.spiel.new_initial_state(), None
        for step in finished.full_history():
            mark, enemy = "xo"[step.player], "ox"[step.player]
            rows = [row.split()[1:] for row in board(case, state)[4::-1]]
            cells = {complex(column, row): cell for row, line in enumerate(rows) for column, cell in enumerate(line)}
            for point in (point for point, cell in cells.items() if cell == "."):
                alive = captures(cells, point, mark)[1]
                assert (int(point.imag * 5 + point.real) in state.legal_actions()) == (alive and point != ko)
                kos, suicides = kos + (alive and point == ko), suicides + (not alive)
            ko = None
            if step.action != 25:
                point = complex(step.action % 5, step.action // 5)
                taken = captures(cells, point, mark)[0]
                if len(taken) == 1 and all(cells.get(point + 1j**turn, enemy) == enemy for turn in range(4)):
                    ko = taken.pop()
            state.apply_action(step.action)
    assert kos
    assert suicides > 100


def test_go_columns_leave_out_i() -> None:
    state = reach("go(board_size=9)", "h1", "j9")
    assert board("go(board_size=9)", state)[:1] == ["9 . . . . . . . . o"]
    assert board("go(board_size=9)", state)[8:10] == ["1 . . . . . . . x .", "  a b c d e f g h j"]
    assert board("go(board_size=19)", reach("go(board_size=19)", "t19"))[0] == f"19{' .' * 18} x"


def test_go_ends_after_two_passes_and_counts_areas_and_komi() -> None:
    wall = ("b1", "c1", "b2", "c2", "b3", "pass")  # x has column b and reaches column a; c3 is neutral
    state = reach("go(board_size=3,komi=3)", *wall)
    assert board("go(board_size=3,komi=3)", state)[-1].startswith("The last move was a pass")
    for komi, result in (("3", [1, -1]), ("4", [0, 0]), ("4.5", [-1, 1])):
        assert reach(f"go(board_size=3,komi={komi})", *wall, "pass").returns() == result
        assert f"komi is {komi} points" in load(f"go(board_size=3,komi={komi})").rules()
    assert reach("go(board_size=3,max_game_length=3)", "b1", "c1", "b2").is_terminal()


def test_go_the_positions_before_are_part_of_what_is_known() -> None:
    case = "go(board_size=5)"
    game = load(case)
    one, other = reach(case, "a1", "b2", "c3", "d4"), reach(case, "c3", "d4", "a1", "b2")
    assert board(case, one) == board(case, other)
    assert game.information_key(one, 0) != game.information_key(other, 0)
    assert game.symmetry_key(one, 0) == game.symmetry_key(other, 0)
    turned = reach(case, "e5", "d4", "c3", "b2")
    assert game.symmetry_key(turned, 0) == game.symmetry_key(one, 0)
    assert game.symmetry_key(reach(case, "a1", "b2", "c3", "e4"), 0) != game.symmetry_key(one, 0)


def test_go_lists_the_moves_that_would_draw() -> None:
    """In random games, the listed moves are exactly those after which OpenSpiel ends the game without passes."""
    case, listed = "go(board_size=2)", 0
    game = load(case)
    for state in random_games(case, 60):
        again = game.spiel.new_initial_state()
        for action in state.history()[: game.parameters["max_game_length"] - 2]:
            again.apply_action(action)
            if again.is_terminal():
                break
            ends = {a for a in again.legal_actions() if a != 4 and again.child(a).is_terminal()}
            lines = [line for line in board(case, again) if "repeat" in line]
            assert bool(lines) == bool(ends)
            if lines:
                names = game.action_names(again, again.current_player())
                assert lines[0].endswith(f"draw: {', '.join(names[a] for a in sorted(ends))}")
                listed += 1
    assert listed > 5


SQUARE = "dots_and_boxes(num_cols=2,num_rows=2)"


def test_dots_and_boxes_a_box_gives_another_move() -> None:
    state = reach(SQUARE, "a1-b1", "a1-a2", "b1-b2", "b2-c2", "a2-b2")
    assert board(SQUARE, state) == [
        "  a   b   c",
        "1 +---+   +",
        "  |   |",
        "2 +---+---+",
        "",
        "3 +   +   +",
        "Boxes: A 1, B 0",
    ]
    assert load(SQUARE).role(state.current_player()) == "player A"
    assert load(SQUARE).brief(state, 0) == "A1:0 +0 +2 +3 +6 +7"
    play(load(SQUARE), state, "c2-c3")
    assert load(SQUARE).role(state.current_player()) == "player B"
    assert board(SQUARE, state)[4] == "          |"


def test_dots_and_boxes_is_won_by_more_boxes() -> None:
    results = set()
    for case, margin in ((SQUARE, False), (SQUARE[:-1] + ",utility_margin=True)", True)):
        for state in random_games(case, 30):
            a, b = re.findall(r"\d", board(case, state)[-1])
            assert int(a) + int(b) == 4
            difference = int(a) - int(b)
            results.add(difference)
            assert state.returns()[0] == (difference if margin else (difference > 0) - (difference < 0))
        assert ("difference" in load(case).rules()) == margin
    assert {-4, -2, 0, 2, 4} >= results > {0}


def test_dots_and_boxes_turned_and_mirrored_positions_are_one_class() -> None:
    game = load("dots_and_boxes(num_cols=3,num_rows=3)")
    corners = ("a1-b1", "c1-d1", "a1-a2", "a3-a4", "a4-b4", "c4-d4", "d1-d2", "d3-d4")
    assert len({game.symmetry_key(reach(game.case, line), 1) for line in corners}) == 1
    kinds = ("a1-b1", "b1-c1", "a2-b2", "b2-c2")
    assert len({game.symmetry_key(reach(game.case, line), 1) for line in kinds}) == 4
    assert game.symmetry_key(reach(game.case, "b1-b2"), 1) == game.symmetry_key(reach(game.case, "a2-b2"), 1)
    oblong = load("dots_and_boxes(num_cols=3,num_rows=2)")
    one, other = (oblong.symmetry_key(reach(oblong.case, line), 1) for line in ("a1-b1", "a1-a2"))
    assert one != other


def test_dots_and_boxes_scores_are_part_of_what_is_known() -> None:
    game = load(SQUARE)
    for index in range(40):
        state, seat = positions.walk(game, random.Random(index))
        own, other = game.information_key(state, seat).split()[1:3]
        assert int(own) + int(other) == sum(
            set(box) <= set(state.history()) for box in ((0, 2, 6, 7), (1, 3, 7, 8), (2, 4, 9, 10), (3, 5, 10, 11))
        )
