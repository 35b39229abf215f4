"""Board games with pieces that move: the rules in the prompts agree with OpenSpiel."""

import random

import pytest

from veritas_rl.envs.openspiel import positions
from veritas_rl.envs.openspiel.cases import load
from veritas_rl.envs.openspiel.games import Game, State
from veritas_rl.errors import UserError


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
    assert "The pawn that has just moved two squares passed over d6, where a pawn attacks it en passant" in board(
        "chess", passant
    )
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


def test_chess_the_third_occurrence_draws_and_is_shown_before() -> None:
    state = reach("chess", *KNIGHTS_OUT_AND_HOME)
    assert "This position occurs for the second time" in board("chess", state)
    state = reach("chess", *KNIGHTS_OUT_AND_HOME, *KNIGHTS_OUT_AND_HOME[:3])
    line = "Moves to a position that then occurs for the third time, which is a draw: Ng8"
    assert board("chess", state)[-1] == line
    play(load("chess"), state, "Ng8")
    assert state.is_terminal()
    assert state.returns() == [0, 0]


@pytest.mark.parametrize(
    ("fen", "drawn"),
    [
        ("8/8/4k3/8/8/8/4K3/8", True),
        ("8/8/4k3/8/8/3NK3/8/8", True),
        ("8/8/4kb2/8/8/2B1K3/8/8", True),  # bishops on squares of the same color
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


def test_chess_keys_hold_repetitions_and_mirror_images() -> None:
    game = load("chess")
    start, back = reach("chess"), reach("chess", *KNIGHTS_OUT_AND_HOME)
    assert game.information_key(start, 1) != game.information_key(back, 1)
    assert game.symmetry_key(start, 1) == game.symmetry_key(back, 1)
    one, other = reach("chess", "e4", "e5", "Nf3"), reach("chess", "Nf3", "e5", "e4")
    assert game.symmetry_key(one, 0) == game.symmetry_key(other, 0)
    # Mirror images are one class only if nobody may castle.
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
    assert {"c3", "c5", "b4"} <= legal  # without d4, behind the wall
    assert "d4" not in legal
    assert not {"a1h", "b1h", "c3v", "c5v", "c4v", "c4h", "e1h", "a5v"} & legal  # overlapping, crossing, off the board
    assert {"a1v", "b1v", "c1h", "a2h", "c2v"} - legal == {"a1v"}  # a1v would cross a1h


def test_quoridor_pawns_jump() -> None:
    case = "quoridor(board_size=5,wall_count=3)"

    def steps(*names: str) -> set[str]:
        return {name for name in names_of(case, reach(case, *names)) if len(name) == 2}

    assert steps("c4", "c2", "c3") == {"b2", "d2", "c1", "c4"}  # o on c2 jumps over x on c3
    assert steps("c4", "c2", "c3", "c1h") == {"b2", "d2", "b3", "d3", "c4"}  # with a wall behind o, x moves beside o
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
    """A wall is excluded only if it overlaps, crosses or closes a pawn's last way, by an independent search."""
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
    """Whether a pawn can reach a row of a 5 x 5 board, without regard to the other pawn."""
    seen, waiting = {start}, [start]
    while waiting:
        cell = waiting.pop()
        if cell[1] == goal:
            return True
        column, row = ord(cell[0]), int(cell[1])
        for across, down in ((1, 0), (-1, 0), (0, 1), (0, -1)):
            to = f"{chr(column + across)}{row + down}"
            left, top = min(column, column + across), min(row, row + down)
            # The two walls that would separate the cells.
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
