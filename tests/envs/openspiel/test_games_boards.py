"""Board games of two players: the rules that are told are those of OpenSpiel, and mirror images are one class."""

import random
import re

import pytest

from veritas_rl.envs.openspiel import positions, text
from veritas_rl.envs.openspiel.cases import load
from veritas_rl.envs.openspiel.games import Game, State
from veritas_rl.envs.openspiel.games.boards import symmetries
from veritas_rl.errors import UserError

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
        again = positions.replay(game, tuple(state.history()))
        shown = [
            [text.messages(game, copy, seat, game.action_names(copy, seat), prompt) for prompt in ("full", "brief")]
            + [game.information_key(copy, seat), game.symmetry_key(copy, seat)]
            for copy in (state, again)
        ]
        assert shown[0] == shown[1]
        # What OpenSpiel prints beyond the board is either told in our words or wrong to show.
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
    assert load("othello").brief(state, 0).startswith("x\n........\n")


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
    # The three answers to a first move: parallel, diagonal, perpendicular.
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
    assert not {"b1a1", "b1b2", "e1d1", "c1b1"} & names_of(case, state)  # empty, an own stone, empty, not the own one


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
    # x surrounds c3 but for d3, o surrounds d3 but for c3; then each takes the other's stone.
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
    assert "d3" in names_of(case, state)  # after a move elsewhere it is open again
    corner = reach(case, "b1", "e5", "a2")
    assert "a1" not in names_of(case, corner)
    assert "may not play now: a1" in board(case, corner)[-1]


def test_go_ends_after_two_passes_and_counts_areas_and_komi() -> None:
    wall = ("b1", "c1", "b2", "c2", "b3", "pass")  # x has column b and reaches column a; c3 is nobody's
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


def test_go_tells_the_moves_that_would_draw() -> None:
    """In random games: exactly those moves after which OpenSpiel ends the game although nobody passed."""
    case, told = "go(board_size=2)", 0
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
                told += 1
    assert told > 5


KNIGHTS_OUT_AND_HOME = ("Nf3", "Nf6", "Ng1", "Ng8")


def test_chess_board_and_rights_are_shown() -> None:
    state = reach("chess", "e4", "a6", "e5", "d5", "Ke2", "Nc6", "Ke1", "Nb8")
    assert board("chess", state) == [
        "8 r n b q k b n r",
        "7 . p p . p p p p",
        "6 p . . . . . . .",
        "5 . . . p P . . .",
        "4 . . . . . . . .",
        "3 . . . . . . . .",
        "2 P P P P . P P P",
        "1 R N B Q K B N R",
        "  a b c d e f g h",
        "Castling rights: white none; black O-O and O-O-O",
        "Moves by both players since the last capture or pawn's move: 4 (100 are a draw)",
        "Moves to a position that then occurs for the second time: Ke2",
    ]
    assert load("chess").role(state.current_player()) == "white (capital letters)"
    passant = reach("chess", "e4", "a6", "e5", "d5")
    assert "A capture en passant is possible on d6" in board("chess", passant)
    assert "exd6" in names_of("chess", passant)
    assert "exd6" not in names_of("chess", state)


def test_chess_castling_promotion_and_the_names_of_moves() -> None:
    italian = ("e4", "e5", "Nf3", "Nc6", "Bc4", "Bc5")
    assert board("chess", reach("chess", *italian, "O-O"))[7] == "1 R N B Q . R K ."
    assert "Nbd2" in names_of("chess", reach("chess", "d4", "d5", "Nf3", "Nf6"))
    state = reach("chess", "e4", "d5", "exd5", "c6", "dxc6", "a6", "cxb7", "a5")
    assert {f"bxa8={piece}" for piece in "QRBN"} <= names_of("chess", state)


def test_chess_mate_wins_and_stalemate_draws() -> None:
    assert reach("chess", "f3", "e5", "g4", "Qh4#").returns() == [1, -1]  # player 0 is black
    loyd = "e3 a5 Qh5 Ra6 Qxa5 h5 h4 Rah6 Qxc7 f6 Qxd7+ Kf7 Qxb7 Qd3 Qxb8 Qh7 Qxc8 Kg6 Qe6"
    state = reach("chess", *loyd.split())
    assert state.is_terminal()
    assert state.returns() == [0, 0]


def test_chess_the_third_occurrence_draws_and_is_told_before() -> None:
    state = reach("chess", *KNIGHTS_OUT_AND_HOME)
    assert "This position occurs for the second time" in board("chess", state)
    state = reach("chess", *KNIGHTS_OUT_AND_HOME, *KNIGHTS_OUT_AND_HOME[:3])
    told = "Moves to a position that then occurs for the third time, which is a draw: Ng8"
    assert board("chess", state)[-1] == told
    play(load("chess"), state, "Ng8")
    assert state.is_terminal()
    assert state.returns() == [0, 0]


@pytest.mark.parametrize(
    ("fen", "drawn"),
    [
        ("8/8/4k3/8/8/8/4K3/8", True),
        ("8/8/4k3/8/8/3NK3/8/8", True),
        ("8/8/4kb2/8/8/2B1K3/8/8", True),  # bishops on squares of one colour
        ("8/8/4k1b1/8/8/2B1K3/8/8", False),
        ("8/8/4k3/8/8/2NNK3/8/8", False),
        ("8/8/4k3/8/8/3PK3/8/8", False),
    ],
)
def test_chess_ends_without_enough_material(fen: str, drawn: bool) -> None:
    assert load("chess").spiel.new_initial_state(f"{fen} w - - 0 1").is_terminal() == drawn


def test_chess_fifty_moves_draw_unless_the_last_one_mates() -> None:
    state = load("chess").spiel.new_initial_state("7k/5K2/8/8/8/8/8/6R1 w - - 99 80")
    results = {state.action_to_string(1, action): state.child(action) for action in state.legal_actions()}
    assert all(child.is_terminal() for child in results.values())
    assert {name for name, child in results.items() if child.returns() == [-1, 1]} == {"Rh1#"}
    assert {tuple(child.returns()) for child in results.values()} == {(0, 0), (-1, 1)}


def test_chess_keys() -> None:
    game = load("chess")
    start, back = reach("chess"), reach("chess", *KNIGHTS_OUT_AND_HOME)
    assert game.information_key(start, 1) != game.information_key(back, 1)
    assert game.symmetry_key(start, 1) == game.symmetry_key(back, 1)
    one, other = reach("chess", "e4", "e5", "Nf3"), reach("chess", "Nf3", "e5", "e4")
    assert game.symmetry_key(one, 0) == game.symmetry_key(other, 0)
    # Mirror images are one class only where nobody may castle.
    new = game.spiel.new_initial_state
    fens = ("4k3/8/8/8/8/8/P7/4K3 w - - 0 1", "3k4/8/8/8/8/8/7P/3K4 w - - 0 1")
    assert len({game.symmetry_key(new(fen), 1) for fen in fens}) == 1
    fens = ("r3k3/8/8/8/8/8/8/4K2R w Kq - 0 1", "r3k3/8/8/8/8/8/8/4K2R w K - 0 1", "3k3r/8/8/8/8/8/8/R2K4 w - - 0 1")
    assert len({game.symmetry_key(new(fen), 1) for fen in fens}) == 3


def test_checkers_men_move_forward_and_must_jump() -> None:
    state = reach("checkers")
    assert names_of("checkers", state) == {"a3b4", "c3b4", "c3d4", "e3d4", "e3f4", "g3f4", "g3h4"}
    state = reach("checkers", "c3d4", "b6c5")
    assert board("checkers", state) == [
        "8 . x . x . x . x",
        "7 x . x . x . x .",
        "6 . . . x . x . x",
        "5 . . x . . . . .",
        "4 . . . o . . . .",
        "3 o . . . o . o .",
        "2 . o . o . o . o",
        "1 o . o . o . o .",
        "  a b c d e f g h",
        "Moves since the last capture: 2 (40 are a draw)",
    ]
    assert load("checkers").role(state.current_player()) == "o (men o, kings O)"
    assert names_of("checkers", state) == {"d4b6"}
    play(load("checkers"), state, "d4b6")
    assert "x" not in board("checkers", state)[3]
    assert names_of("checkers", state) == {"a7c5", "c7a5"}


def test_checkers_a_piece_jumps_on_until_it_cannot_or_becomes_a_king() -> None:
    again, crowned = 0, 0
    game = load("checkers")
    for finished in random_games("checkers", 30):
        state, jumper = game.spiel.new_initial_state(), ""
        for step in finished.full_history():
            name = game.action_name(state, step.player, step.action)
            row = {line[0]: line[2:].split() for line in board("checkers", state)[:8]}
            man = row[name[1]]["abcdefgh".index(name[0])] in "ox"
            if jumper:
                again += 1
                assert {name[:2] for name in names_of("checkers", state)} == {jumper}
                assert board("checkers", state)[-1].startswith(f"You have just captured with the piece on {jumper} ")
            state.apply_action(step.action)
            jumped = abs(int(name[3]) - int(name[1])) == 2
            jumper = name[2:] if jumped and state.current_player() == step.player else ""
            if man and name[3] == "81"[step.player]:
                crowned += 1
                assert {line[0]: line[2:].split() for line in board("checkers", state)[:8]}[name[3]][
                    "abcdefgh".index(name[2])
                ] == "OX"[step.player]
                assert not jumper
    assert again > 20
    assert crowned > 20


def test_checkers_is_lost_without_a_move_and_drawn_after_forty_without_a_capture() -> None:
    results = set()
    for state in random_games("checkers", 60):
        clock = load("checkers").brief(state, 0).split("\n")[0].split()[1]
        last = state.full_history()[-1].player
        assert state.player_return(last) == (0 if clock == "40" else 1)
        results.add(state.player_return(last))
    assert results == {0, 1}


def test_checkers_with_more_columns_than_rows_is_refused() -> None:
    with pytest.raises(UserError, match="10 and 8 were given"):
        load("checkers(rows=8,columns=10)")


def test_checkers_mirror_images_are_one_class_where_the_board_has_them() -> None:
    case = "checkers(rows=7,columns=7)"
    game = load(case)
    one, other = reach(case, "b3c4"), reach(case, "f3e4")
    assert game.information_key(one, 1) != game.information_key(other, 1)
    assert game.symmetry_key(one, 1) == game.symmetry_key(other, 1)
    assert game.symmetry_key(one, 1) != game.symmetry_key(reach(case, "b3a4"), 1)


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
    assert load(SQUARE).brief(state, 0) == "A 1 0\n10\n110\n11\n000\n00"
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


def test_quoridor_walls_and_pawns_are_drawn_where_their_names_say() -> None:
    case = "quoridor(board_size=5,wall_count=3)"
    assert "x starts on c5" in load(case).rules()
    state = reach(case, "a1h", "c4v", "c4", "d3h")
    assert board(case, state) == [
        "  a   b   c   d   e",
        "1 .   .   o   .   .",
        " --- ---",
        "2 .   .   .   .   .",
        "",
        "3 .   .   .   .   .",
        "             --- ---",
        "4 .   .   x | .   .",
        "",
        "5 .   .   . | .   .",
        "Walls on the board: a1h c4v d3h",
        "Walls left: x 2, o 1",
        "Moves so far: 4 of at most 100",
    ]
    assert load(case).brief(state, 0) == "x c4 2\no c1 1\na1h c4v d3h"
    legal = names_of(case, state)
    assert {"c3", "c5", "b4"} <= legal  # not d4, behind the wall
    assert "d4" not in legal
    assert not {"a1h", "b1h", "c3v", "c5v", "c4v", "c4h", "e1h", "a5v"} & legal  # overlapping, crossing, off the board
    assert {"a1v", "b1v", "c1h", "a2h", "c2v"} - legal == {"a1v"}  # a1v would cross a1h


def test_quoridor_pawns_jump() -> None:
    case = "quoridor(board_size=5,wall_count=3)"

    def steps(*names: str) -> set[str]:
        return {name for name in names_of(case, reach(case, *names)) if len(name) == 2}

    assert steps("c4", "c2", "c3") == {"b2", "d2", "c1", "c4"}  # o on c2 jumps over x on c3
    assert steps("c4", "c2", "c3", "c1h") == {"b2", "d2", "b3", "d3", "c4"}  # a wall behind o: x goes beside it
    assert steps("c4", "c2", "c3", "b2v", "a4v", "c1h") == {"d2", "d3", "c4"}  # but not through a wall
    assert steps("c4", "c2", "c3", "c2h") == {"b3", "d3", "c4"}  # a wall between them: no jump


def test_quoridor_a_pawn_moves_to_the_named_cell_and_wins_on_its_goal_row() -> None:
    case = "quoridor(board_size=5,wall_count=4)"
    game, results = load(case), set()
    for finished in random_games(case, 40):
        state = game.spiel.new_initial_state()
        for step in finished.full_history():
            name = game.action_name(state, step.player, step.action)
            state.apply_action(step.action)
            own = game.brief(state, step.player).split("\n")
            assert name == own[0].split()[1] or name in own[2].split()
        row = game.brief(finished, finished.full_history()[-1].player).split("\n")[0].split()[1][1]
        last = finished.full_history()[-1].player
        drawn = len(finished.history()) == 100
        assert drawn or row == "15"[last]
        assert finished.player_return(last) == (0 if drawn else 1)
        results.add(drawn)
    assert results == {True, False}


def test_quoridor_no_wall_shuts_a_pawn_in() -> None:
    """Every wall that is legal by the other rules and not offered would close a way, by a search of our own."""
    case, closed = "quoridor(board_size=5,wall_count=8)", 0
    game = load(case)
    for index in range(25):
        state, seat = positions.walk(game, random.Random(index), 20)
        own, other, *built = game.brief(state, seat).split("\n")
        if own.split()[2] == "0":
            continue
        goals = "15" if seat == 0 else "51"
        pawns = [(line.split()[1], goal) for line, goal in zip((own, other), goals, strict=True)]
        walls = set(built[0].split()) if built else set()
        offered = {name for name in names_of(case, state) if len(name) == 3}
        for wall in {f"{column}{row}{kind}" for column in "abcd" for row in "1234" for kind in "hv"} - walls:
            fits = not walls & conflicts(wall)
            open_ways = all(reaches(pawn, goal, walls | {wall}) for pawn, goal in pawns)
            assert (wall in offered) == (fits and open_ways)
            closed += fits and not open_ways
    assert closed


def conflicts(wall: str) -> set[str]:
    """The walls that overlap or cross a wall."""
    column, row, kind = ord(wall[0]), int(wall[1]), wall[2]
    beside = [(column - 1, row), (column + 1, row)] if kind == "h" else [(column, row - 1), (column, row + 1)]
    return {f"{chr(c)}{r}{kind}" for c, r in beside} | {wall, wall[:2] + "vh"["hv".index(kind)]}


def reaches(start: str, goal: str, walls: set[str]) -> bool:
    """Whether a pawn can come to a row of a board of 5 x 5, the other pawn left aside."""
    seen, waiting = {start}, [start]
    while waiting:
        cell = waiting.pop()
        if cell[1] == goal:
            return True
        column, row = ord(cell[0]), int(cell[1])
        for across, down in ((1, 0), (-1, 0), (0, 1), (0, -1)):
            to = f"{chr(column + across)}{row + down}"
            left, top = min(column, column + across), min(row, row + down)
            # The two walls that would stand between both cells.
            kind, back = ("v", (0, 1)) if across else ("h", (1, 0))
            between = {f"{chr(left)}{top}{kind}", f"{chr(left - back[0])}{top - back[1]}{kind}"}
            if to[0] in "abcde" and to[1:] in "12345" and to not in seen and not between & walls:
                seen.add(to)
                waiting.append(to)
    return False


def test_quoridor_mirror_images_are_one_class() -> None:
    case = "quoridor(board_size=5,wall_count=3)"
    game = load(case)
    one, other = reach(case, "a1h", "c4v", "b5", "d1"), reach(case, "d1h", "b4v", "d5", "b1")
    assert game.information_key(one, 0) != game.information_key(other, 0)
    assert game.symmetry_key(one, 0) == game.symmetry_key(other, 0)
    assert game.symmetry_key(one, 0) != game.symmetry_key(reach(case, "a1h", "c4v", "b5", "b1"), 0)
    later = reach(case, "a1h", "c4v", "b5", "d1", "a5", "e1", "b5", "d1")
    assert game.symmetry_key(one, 0) == game.symmetry_key(later, 0)
    assert game.information_key(one, 0) != game.information_key(later, 0)
