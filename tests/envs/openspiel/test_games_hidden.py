"""Phantom and latent tic-tac-toe, battleship: the rules agree with OpenSpiel, and prompts show nothing hidden."""

import random
from collections import Counter

import pytest

from veritas_rl.envs.openspiel import positions, text
from veritas_rl.envs.openspiel.cases import load
from veritas_rl.envs.openspiel.games import Decision, Game, State
from veritas_rl.errors import UserError

TIC_TAC_TOES = (
    "phantom_ttt",
    "phantom_ttt(obstype=reveal-numturns)",
    "phantom_ttt(gameversion=abrupt)",
    "phantom_ttt(gameversion=abrupt,obstype=reveal-numturns)",
    "latent_ttt",
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


def images(game: Game, state: State, image: dict[str, str]) -> State:
    """Replay the game with the letters and digits of every action name replaced."""
    copy, original = game.spiel.new_initial_state(), game.spiel.new_initial_state()
    for action in state.history():
        name = game.action_names(original, original.current_player())[action]
        copy.apply_action(number(game, copy, "".join(image.get(char, char) for char in name)))
        original.apply_action(action)
    return copy


def reconsidered(game: Game, state: State, seat: int, count: int) -> list[State]:
    """Sample states from a player's information, and check that the player cannot distinguish them."""
    drawn = []
    for index in range(count):
        copy = game.resample(state, seat, random.Random(index).random)
        assert copy.current_player() == seat
        assert copy.legal_actions() == state.legal_actions()
        # OpenSpiel's own text defines the player's information.
        assert copy.information_state_string(seat) == state.information_state_string(seat)
        assert game.information_key(copy, seat) == game.information_key(state, seat)
        assert game.position(copy, seat) == game.position(state, seat)
        drawn.append(copy)
    return drawn


@pytest.mark.parametrize("case", [*TIC_TAC_TOES, "battleship"])
def test_every_position_of_random_games_has_a_prompt(case: str) -> None:
    game, known = load(case), {}
    for index in range(2 if case == "battleship" else 40):
        dice, state = random.Random(index), game.spiel.new_initial_state()
        while not state.is_terminal():
            seat = state.current_player()
            shown = [
                text.messages(game, state, seat, game.action_names(state, seat), form)[0]["content"]
                for form in ("full", "brief")
            ]
            facts = (shown, state.information_state_string(seat))
            assert known.setdefault(game.information_key(state, seat), facts) == facts
            state.apply_action(dice.choice(state.legal_actions()))


@pytest.mark.parametrize("case", [*TIC_TAC_TOES, "battleship"])
def test_hidden_parts_are_resampled(case: str) -> None:
    game, varied = load(case), 0
    for state, seat in decisions(case, 40):
        drawn = reconsidered(game, state, seat, 5)
        varied += len({tuple(copy.history()) for copy in drawn}) > 1
    assert varied > 20


@pytest.mark.parametrize("case", TIC_TAC_TOES)
def test_the_square_has_eight_symmetries(case: str) -> None:
    game, differs = load(case), 0
    turn = dict(zip("abc", "cba", strict=True))
    for state, seat in decisions(case, 20):
        copy = images(game, state, turn)
        transposed = game.spiel.new_initial_state()
        for action in state.history():
            transposed.apply_action(3 * (action % 3) + action // 3)
        keys = {game.symmetry_key(s, seat) for s in (state, copy, transposed)}
        assert len(keys) == 1
        differs += game.information_key(copy, seat) != game.information_key(state, seat)
    assert differs > 5
    assert game.symmetry_key(reach(case, "a1", "b2"), 0) != game.symmetry_key(reach(case, "b1", "b2"), 0)
    assert game.symmetry_key(reach(case, "a1", "b2"), 0) == game.symmetry_key(reach(case, "c3", "b2"), 0)


def test_a_phantom_try_of_a_taken_cell_shows_it_and_the_turn_continues() -> None:
    game, state = load("phantom_ttt"), reach("phantom_ttt", "b2", "b2")
    assert state.current_player() == 1
    assert game.position(state, 1) == "  a b c\n1 . . .\n2 . x .\n3 . . .\nYour tries so far, in order: b2 taken"
    state = reach("phantom_ttt", "b2", "b2", "a1")
    assert game.position(state, 0) == "  a b c\n1 . . .\n2 . x .\n3 . . .\nYour tries so far, in order: b2 put"
    assert "a1" in game.action_names(state, 0).values()
    assert game.brief(reach("phantom_ttt", "b2", "b2", "a1", "a1"), 0) == "x\no..\n.x.\n...\nb2a1"
    assert reach("phantom_ttt", "b2", "a1", "b1", "a3", "b3").returns() == [1, -1]
    full = reach("phantom_ttt", "a1", "b2", "c3", "b1", "b3", "a3", "c1", "c2", "a2")
    assert full.returns() == [0, 0]


def test_an_abrupt_phantom_try_of_a_taken_cell_loses_the_turn() -> None:
    assert reach("phantom_ttt(gameversion=abrupt)", "b2", "b2").current_player() == 0
    rules = load("phantom_ttt(gameversion=abrupt)").rules()
    assert "nothing is put, and your turn is over" in rules
    assert "nothing is put, and your turn goes on" in load("phantom_ttt").rules()


def test_the_number_of_the_opponents_tries_is_shown_where_it_is_known() -> None:
    names = ("b2", "b2", "a1", "c3")
    shown, shown_more = (load(case).position(reach(case, *names), 1).split("\n")[-1] for case in TIC_TAC_TOES[:2])
    assert shown == "Your tries so far, in order: b2 taken, a1 put"
    assert shown_more == "Tries so far, in order: ?, b2 taken, a1 put, ? (? is a try of the opponent)"


@pytest.mark.parametrize("case", TIC_TAC_TOES[:4])
def test_phantom_lines_of_play_are_drawn_by_their_probability(case: str) -> None:
    """x has b2 and a1 and found c3 occupied. o's first mark may be elsewhere, and o may have tried b2 and a1.

    The expected probabilities are those of a game in which o plays at random, found by an exhaustive search.
    """
    abrupt = "abrupt" in case
    names = ("b2", "c3", "a1", "c2", "c3", "a3") if abrupt else ("b2", "c3", "a1", "c2", "c3")
    game, state = load(case), reach(case, *names)
    known = state.information_state_string(0)
    lines: dict[tuple[int, ...], float] = {}

    def extend(copy: State, probability: float) -> None:
        if copy.is_terminal() or len(copy.history()) > 9:
            return
        if copy.current_player() == 0 and copy.information_state_string(0) == known:
            lines[tuple(copy.history())] = probability
            return
        own = [action for player, action in pairs(copy) if player == 0]
        if copy.current_player() == 0:
            following = [action for player, action in pairs(state) if player == 0][len(own) : len(own) + 1]
        else:
            following = copy.legal_actions()
        chance = probability if copy.current_player() == 0 else probability / len(following)
        for action in following:
            extend(copy.child(action), chance)

    def pairs(copy: State) -> list[tuple[int, int]]:
        return [(step.player, step.action) for step in copy.full_history()]

    extend(game.spiel.new_initial_state(), 1.0)
    dice, total, count = random.Random(1), sum(lines.values()), 6_000
    drawn = Counter(tuple(game.resample(state, 0, dice.random).history()) for _ in range(count))
    assert drawn.keys() <= lines.keys()
    # Lines are grouped by the number of o's tries, which determines their probability.
    for length in {len(line) for line in lines}:
        expected = sum(worth for line, worth in lines.items() if len(line) == length) / total
        found = sum(times for line, times in drawn.items() if len(line) == length) / count
        assert abs(found - expected) < 4 * (expected * (1 - expected) / count) ** 0.5 + 1e-9
    assert max(lines.values()) > 2 * min(lines.values()) or "numturns" in case or abrupt


def test_latent_choices_are_seen_one_choice_later() -> None:
    game = load("latent_ttt")
    state = reach("latent_ttt", "b2")
    assert game.position(state, 1) == "  a b c\n1 . . .\n2 . . .\n3 . . .\nChoices so far, in order: x hidden"
    assert "b2" in game.action_names(state, 1).values()
    state = reach("latent_ttt", "b2", "b2", "a1")
    assert state.current_player() == 1  # the turn was lost
    assert game.position(state, 1).split("\n")[1:] == [
        "1 . . .",
        "2 . x .",
        "3 . . .",
        "Choices so far, in order: x b2, o b2 (taken: turn lost), x hidden",
    ]
    # x learns of o's b1 too late, and loses.
    assert game.role(0) == "x"
    assert reach("latent_ttt", "a1", "a3", "a2", "b3", "b1", "c3").returns() == [-1, 1]


def test_the_latent_choice_is_drawn_from_all_that_did_not_end_the_game() -> None:
    game, state = load("latent_ttt"), reach("latent_ttt", "a1", "c3", "a2", "c2", "b2", "b1")
    drawn = {copy.history()[-1] for copy in reconsidered(game, state, 0, 200)}
    # o sees a1, a2, c2 and c3. b2 is possible as a lost turn; c1 would have ended the game.
    assert {game.action_name(state, 0, action) for action in drawn} == {"b1", "b2", "a3", "b3"}


FLEETS = (
    ("a1 right", "a10 right", "a2 right", "a9 right", "a3 right", "a8 right", "a4 right", "a7 right"),
    ("a5 down", "j1 down"),
)


def test_a_battleship_board_shows_ships_shots_and_answers() -> None:
    game = load("battleship")
    state = reach("battleship", *FLEETS[0])
    assert game.position(state, 0).split("\n")[-2:] == [
        "Your ships: length 2 at a1 right, length 3 at a2 right, length 3 at a3 right, length 4 at a4 right",
        "You now place your ship of length 5.",
    ]
    assert "a6 right" in game.action_names(state, 0).values()
    assert not {"a4 right", "d4 down", "g6 right", "a7 down"} & set(game.action_names(state, 0).values())
    state = reach("battleship", *FLEETS[0], *FLEETS[1], "a10", "a1", "j2", "f6", "b10", "j10")
    assert game.position(state, 0) == (
        "Your board (# ship, X ship that was hit, o water that was shot at, . other water):\n"
        "   a b c d e f g h i j\n"
        " 1 X # . . . . . . . .\n"
        " 2 # # # . . . . . . .\n"
        " 3 # # # . . . . . . .\n"
        " 4 # # # # . . . . . .\n"
        " 5 # . . . . . . . . .\n"
        " 6 # . . . . o . . . .\n"
        " 7 # . . . . . . . . .\n"
        " 8 # . . . . . . . . .\n"
        " 9 # . . . . . . . . .\n"
        "10 . . . . . . . . . o\n"
        "Your ships: length 2 at a1 right (1 hit), length 3 at a2 right (not hit), length 3 at a3 right (not hit), "
        "length 4 at a4 right (not hit), length 5 at a5 down (not hit)\n"
        "The other's board (X hit, S hit that sank a ship, o water, . not shot at):\n"
        "   a b c d e f g h i j\n"
        " 1 . . . . . . . . . .\n"
        " 2 . . . . . . . . . X\n"
        + "".join(f" {row} . . . . . . . . . .\n" for row in range(3, 10))
        + "10 X S . . . . . . . .\n"
        "Your shots so far, in order: a10 hit, j2 hit, b10 sunk\n"
        "The other's shots so far, in order: a1, f6, j10\n"
        "You have 47 shots left."
    )


def test_the_ships_that_are_sunk_decide_a_battleship_game() -> None:
    fleet = (*FLEETS[0], *FLEETS[1])
    idle = ["j10"] * 100
    sinking = ["a10", "b10", *idle[:48]]  # player 0 sinks the ship of length 2, then misses
    shots = [shot for pair in zip(sinking, ["a5", "a6", "a7", "a8", *idle[:46]], strict=True) for shot in pair]
    assert not reach("battleship", *fleet, *shots[:-1]).is_terminal()
    assert reach("battleship", *fleet, *shots).returns() == [1, -1]  # four hits without a sunk ship score nothing
    targets = [
        f"{column}{row}" for row, columns in ((1, "ab"), (2, "abc"), (3, "abc"), (4, "abcd")) for column in columns
    ]
    targets += [f"a{row}" for row in range(5, 10)]
    shots = [shot for pair in zip(sinking, targets, strict=False) for shot in pair]
    assert reach("battleship", *fleet, *shots).returns() == [1 - 5, 5 - 1]
    again = load("battleship(allow_repeated_shots=False)")
    state = reach(again.case, *fleet, "a1", "a1")
    assert "a1" not in again.action_names(state, 0).values()
    assert "A cell may be shot at only once." in again.rules()


def test_battleship_boards_may_be_mirrored() -> None:
    game, differs = load("battleship"), 0
    area, flips = 100, (lambda row, column: (row, 9 - column), lambda row, column: (column, row))
    lengths = (2, 3, 3, 4, 5)
    for state, seat in decisions("battleship", 8):
        for flip in flips:
            copy, placed = game.spiel.new_initial_state(), [0, 0]
            for step in state.full_history():
                if (step.action < area) == (step.player == seat):  # only the own board: own ships, opponent's shots
                    copy.apply_action(step.action)
                    placed[step.player] += step.action >= area
                    continue
                kind, cell = divmod(step.action, area)
                cells = [divmod(cell, 10)]
                if kind:
                    length = lengths[placed[step.player]]
                    placed[step.player] += 1
                    cells = [divmod(cell + i * (1 if kind == 1 else 10), 10) for i in range(length)]
                row, column = min(flip(*cell) for cell in cells)
                if kind and len({flip(*cell)[0] for cell in cells}) == 1:
                    kind = 1
                elif kind:
                    kind = 2
                copy.apply_action(kind * area + row * 10 + column)
            assert game.symmetry_key(copy, seat) == game.symmetry_key(state, seat)
            differs += game.information_key(copy, seat) != game.information_key(state, seat)
    assert differs > 8


def test_the_ship_that_is_not_found_may_lie_wherever_it_fits() -> None:
    game = load("battleship")
    sunk = [*zip("ab", "AA", strict=True), *zip("abc", "999", strict=True), *zip("abc", "888", strict=True)]
    sunk += [*zip("abcd", "7777", strict=True)]
    found = [f"{column}{row}".replace("A", "10") for column, row in sunk]
    water = [f"{column}{row}" for column in "efghi" for row in range(1, 10, 2)]
    state = reach("battleship", *FLEETS[0], *FLEETS[1], *[shot for cell in [*found, *water] for shot in (cell, "j10")])
    shot = {step.action for step in state.full_history()[10:] if step.player == 0}
    fitting = {100 + 10 * row + col for row in range(10) for col in range(6)}
    fitting = {place for place in fitting if not shot & set(range(place - 100, place - 95))}
    standing = {200 + 10 * row + col for row in range(6) for col in range(10)}
    fitting |= {place for place in standing if not shot & set(range(place - 200, place - 150, 10))}
    dice = random.Random(1)
    drawn = Counter(game.resample(state, 0, dice.random).history()[9] for _ in range(8 * len(fitting)))
    assert drawn.keys() == fitting
    assert max(drawn.values()) < 25


def test_parameters_are_checked() -> None:
    with pytest.raises(UserError, match="reveal-nothing"):
        load("phantom_ttt(obstype=reveal-all)")
    assert load("latent_tic_tac_toe").case == "latent_ttt"
