"""Liar's dice, goofspiel, backgammon, pig: the rules agree with OpenSpiel, and prompts show nothing hidden."""

import random
import warnings
from collections import Counter
from itertools import permutations

import pytest

from veritas_rl.envs.openspiel import playing, positions, text
from veritas_rl.envs.openspiel.cases import load
from veritas_rl.envs.openspiel.games import Decision, Game, State
from veritas_rl.errors import UserError


def decisions(case: str, count: int = 12) -> list[Decision]:
    return [positions.walk(load(case), random.Random(index)) for index in range(count)]


def play(case: str, chance: list[int], *names: str) -> State:
    """The state after these chance outcomes, in order, and moves by name; simultaneous moves are in order of seats."""
    game, dealt, moves = load(case), iter(chance), iter(names)
    state = game.spiel.new_initial_state()
    while not state.is_terminal():
        if state.is_chance_node():
            outcome = next(dealt, None)
            if outcome is None:
                break
            state.apply_action(outcome)
            continue
        chosen = {seat: next(moves, None) for seat in game.movers(state)}
        if None in chosen.values():
            break
        known = {seat: {name: a for a, name in game.action_names(state, seat).items()} for seat in chosen}
        game.apply(state, {seat: known[seat][str(name)] for seat, name in chosen.items()})
    assert next(moves, None) is None
    return state


CASES = (
    "liars_dice",
    "liars_dice(bidding_rule=reset-quantity,numdice=3)",
    "goofspiel(num_cards=6)",
    "goofspiel(imp_info=True,num_cards=6)",
    "goofspiel(imp_info=True,num_cards=5,points_order=descending,returns_type=total_points)",
    "backgammon",
    "backgammon(max_player_turns=7,scoring_type=full_scoring)",
    "pig",
    "pig(horizon=30,piglet=True,players=3,winscore=12)",
)


@pytest.mark.parametrize("case", CASES)
def test_every_prompt_of_random_games_is_made(case: str) -> None:
    game = load(case)
    for index in range(5 if "backgammon" in case else 30):
        chance = random.Random(index)
        state = game.spiel.new_initial_state()
        while not state.is_terminal():
            if state.is_chance_node():
                playing.apply_chance(state, chance.random())
                continue
            chosen = {}
            for seat in game.movers(state):
                names = game.action_names(state, seat)
                assert all("number" not in name for name in names.values())  # names are unique
                for prompt in ("full", "brief"):
                    assert text.messages(game, state, seat, names, prompt)[0]["content"]
                chosen[seat] = chance.choice(list(names))
            game.apply(state, chosen)


@pytest.mark.parametrize("case", [case for case in CASES if load(case).hidden])
def test_resampled_dice_agree_with_what_the_player_knows(case: str) -> None:
    game = load(case)
    assert game.can_resample
    varied = 0
    for index, (state, seat) in enumerate(decisions(case, 60)):
        other = game.resample(state, seat, random.Random(index).random)
        assert game.information_key(state, seat) == game.information_key(other, seat)
        assert state.information_state_string(seat) == other.information_state_string(seat)
        assert state.legal_actions(seat) == other.legal_actions(seat)
        varied += state.history() != other.history()
    assert varied > 10


# Liar's dice.


@pytest.mark.parametrize(
    ("bids", "winner"),
    [
        (("3x2", "liar"), 0),  # 1, 2, 6 and 2, 5, 5: two twos and the wild six
        (("4x2", "liar"), 1),
        (("1x1", "2x6", "liar"), 0),  # only one six: player 1's bid fails
        (("1x6", "2x5", "3x5", "liar"), 0),
        (("1x6", "2x5", "4x5", "liar"), 1),
    ],
)
def test_liars_dice_counts_wild_dice(bids: tuple[str, ...], winner: int) -> None:
    state = play("liars_dice(numdice=3)", [0, 5, 1, 4, 1, 4], *bids)
    assert state.is_terminal()
    assert state.returns()[winner] == 1


def test_liars_dice_bids_rise_by_the_rules() -> None:
    for rule, lower, higher in (("reset-face", "1x6", "2x1"), ("reset-quantity", "6x1", "1x2")):
        case = f"liars_dice(bidding_rule={rule},numdice=3)"
        game, state = load(case), play(case, [0] * 6, lower)
        assert higher in game.action_names(state, 1).values()
        assert lower not in game.action_names(state, 1).values()
        last = play(case, [0] * 6, "6x6")
        assert list(game.action_names(last, 1).values()) == ["liar"]
    root = play("liars_dice", [0, 0])
    assert "liar" not in load("liars_dice").action_names(root, 0).values()
    assert load("liars_dice").action_names(root, 0)[8] == "2x3"


def test_liars_dice_names_are_openspiels_bids() -> None:
    for case in ("liars_dice(numdice=5)", "liars_dice(bidding_rule=reset-quantity,numdice=2)"):
        game, state = load(case), play(case, [0] * 10 if "5" in case else [0] * 4)
        for action, name in game.action_names(state, 0).items():
            assert state.action_to_string(0, action) == name.replace("x", "-")


def test_liars_dice_shows_own_dice_and_bids() -> None:
    state = play("liars_dice(numdice=3)", [4, 0, 2, 1, 5, 1], "1x3", "2x2")
    game = load("liars_dice(numdice=3)")
    assert game.position(state, 0) == "Your dice: 1 3 5\nBids so far: player 0: 1x3, player 1: 2x2"
    assert game.brief(state, 0) == "135 1x3 2x2"


# Goofspiel.


def test_goofspiel_shows_prize_hands_and_points() -> None:
    case = "goofspiel(num_cards=5)"
    state = play(case, [3, 1, 4], "card 5", "card 2", "card 3", "card 3")
    assert load(case).position(state, 1) == (
        "Prize of this round: 5\nPrizes still to come: 1 3\nYour cards: 1 4 5\nCards of player 0: 1 2 4\n"
        "Points: player 0: 4, player 1: 0"  # nobody won the prize 2
    )
    assert load(case).brief(state, 0) == "4:0 =5 +1 +3 -1 -4 -5"


@pytest.mark.parametrize(
    ("returns", "expected"), [("win_loss", [1, -1]), ("point_difference", [2, -2]), ("total_points", [7, 3])]
)
def test_goofspiel_pays_by_the_rules(returns: str, expected: list[float]) -> None:
    case = f"goofspiel(num_cards=4,points_order=descending,returns_type={returns})"
    state = play(case, [], "card 4", "card 3", "card 1", "card 4", "card 2", "card 1")
    assert state.is_terminal()  # the last cards, 3 and 2, are played automatically
    assert state.returns() == expected  # player 0 won the prizes 4, 2 and 1


def test_goofspiel_with_hidden_bids_shows_results_alone() -> None:
    case = "goofspiel(imp_info=True,num_cards=5,points_order=ascending)"
    state = play(case, [], "card 2", "card 4", "card 5", "card 1")
    assert load(case).position(state, 1) == (
        "Prize of this round: 3\nYour cards: 2 3 5\nPoints: player 0: 2, player 1: 1\n"
        "Rounds so far: prize 1, you bid 4, player 1 won; prize 2, you bid 1, player 0 won"
    )


def test_goofspiel_deals_hidden_bids_uniformly() -> None:
    case = "goofspiel(imp_info=True,num_cards=5,points_order=ascending)"
    game, state = load(case), play(case, [], "card 3", "card 4", "card 2", "card 1", "card 4", "card 5")
    fits = {  # player 1 won with more than 3, lost with less than 2, and won with more than 4
        bids for bids in permutations(range(1, 6), 3) if bids[0] > 3 and bids[1] < 2 and bids[2] > 4
    }
    assert fits == {(4, 1, 5)}
    state = play(case, [], "card 2", "card 4", "card 5", "card 1", "card 3", "card 5")
    fits = {bids for bids in permutations(range(1, 6), 3) if bids[0] > 2 and bids[1] < 5 and bids[2] > 3}
    random_ = random.Random(1)
    drawn = Counter()
    for _ in range(200 * len(fits)):
        history = game.resample(state, 0, random_.random).history()
        drawn[tuple(card + 1 for card in history[1::2])] += 1
    assert set(drawn) == fits
    assert max(drawn.values()) < 260
    assert min(drawn.values()) > 140


def test_goofspiel_seats_have_one_problem() -> None:
    case = "goofspiel(num_cards=5)"
    game = load(case)
    state = play(case, [3, 1], "card 5", "card 2")
    swapped = play(case, [3, 1], "card 2", "card 5")
    assert game.symmetry_key(state, 0) == game.symmetry_key(swapped, 1)
    assert game.symmetry_key(state, 0) != game.symmetry_key(state, 1)
    assert game.information_key(state, 0) != game.information_key(swapped, 1)


def test_a_word_that_a_parameter_cannot_have_is_a_persons_mistake() -> None:
    with pytest.raises(UserError, match="unknown points_order of goofspiel 'up'"):
        load("goofspiel(points_order=up)")
    assert isinstance(load("goofspiel(num_cards=16)"), Game)


# Backgammon. Chance outcomes 0 and 1 are the roll 1-2, 2 and 3 are 1-3, and so on. At the root, x starts after an even
# outcome and o after an odd outcome. In later rolls, outcomes from 30 on are doubles.


def test_backgammon_shows_the_board_from_the_movers_side() -> None:
    state = play("backgammon", [2])  # x rolls 1 and 3
    assert load("backgammon").position(state, 0) == (
        " 13  14  15  16  17  18 | 19  20  21  22  23  24\n"
        " x5   .   .   .  o3   . | o5   .   .   .   .  x2\n"
        "\n"
        " o5   .   .   .  x3   . | x5   .   .   .   .  o2\n"
        " 12  11  10   9   8   7 |  6   5   4   3   2   1\n"
        "On the bar: x 0, o 0\nBorne off: x 0, o 0\nTurns played so far: 0\nYour dice: 1, 3"
    )
    assert load("backgammon").brief(state, 0).split("\n") == [
        "13",
        "2..........5....3.5..... 0 0",
        ".....5.3....5..........2 0 0",
    ]


def test_backgammon_names_say_what_moves_where() -> None:
    game = load("backgammon")
    for index in range(6):
        chance, state = random.Random(index), game.spiel.new_initial_state()
        while not state.is_terminal():
            if state.is_chance_node():
                playing.apply_chance(state, chance.random())
                continue
            seat = state.current_player()
            before = game.brief(state, seat).split("\n")
            mine = [0, *(int(char, 16) if char != "." else 0 for char in before[1].split()[0][::-1])]
            bar, off = map(int, before[1].split()[1:])
            hits = int(before[2].split()[1])
            action, name = chance.choice(list(game.action_names(state, seat).items()))
            for step in name.split():
                if "/" not in step:  # a pass, or which die comes first
                    continue
                start, end = step.removesuffix("*").split("/")
                bar -= start == "bar"
                off += end == "off"
                hits += step.endswith("*")
                if start != "bar":
                    mine[int(start)] -= 1
                if end != "off":
                    mine[int(end)] += 1
            state.apply_action(action)
            points = [state.board(seat, 24 - point if seat == 0 else point - 1) for point in range(1, 25)]
            assert mine[1:] == points
            assert (state.board(seat, 100), state.board(1 - seat, 100)) == (bar, hits)
            scores = state.observation_string(0).strip().split("\n")[-1].removeprefix("Scores, X: ").split(", O: ")
            assert int(scores[seat]) == off


def test_backgammon_turns_are_counted() -> None:
    case = "backgammon(max_player_turns=7)"
    game = load(case)
    for index in range(20):
        chance, state, turns = random.Random(index), load(case).spiel.new_initial_state(), -1
        while not state.is_terminal():
            if state.is_chance_node():
                playing.apply_chance(state, chance.random())
                turns += 1
                continue
            assert f"Turns played so far: {turns}\n" in game.position(state, state.current_player())
            state.apply_action(chance.choice(state.legal_actions()))
        assert turns == 7  # the eighth turn was the last
        assert state.returns() == [0, 0]


def test_backgammon_doubles_are_two_moves() -> None:
    state = play("backgammon", [2, 32], "8/5 6/5")  # then o rolls a double of three
    game = load("backgammon")
    assert game.position(state, 1).endswith("Your dice: 3, 3 (a double; first of two moves)")
    state = play("backgammon", [2, 32], "8/5 6/5", "24/21 24/21")
    assert game.position(state, 1).endswith("Your dice: 3, 3 (a double; second of two moves)")
    assert game.brief(state, 1).startswith("33+\n")


def test_backgammon_sides_have_one_problem() -> None:
    game = load("backgammon")
    x, o = play("backgammon", [2]), play("backgammon", [3])
    assert game.symmetry_key(x, 0) == game.symmetry_key(o, 1)
    assert game.information_key(x, 0) != game.information_key(o, 1)
    assert list(game.action_names(x, 0).values()) != []
    assert set(game.action_names(x, 0).values()) == set(game.action_names(o, 1).values())


def test_backgammon_pays_by_the_rules() -> None:
    """Compares returns with the parsed last position: who bore off all checkers, and the opponent's checkers."""
    game = load("backgammon(scoring_type=full_scoring)")
    seen = set()
    for index in range(12):
        chance, state = random.Random(index), game.spiel.new_initial_state()
        while not state.is_terminal():
            if state.is_chance_node():
                playing.apply_chance(state, chance.random())
            else:
                state.apply_action(chance.choice(state.legal_actions()))
        lines = state.observation_string(0).strip().split("\n")
        off = [int(part) for part in lines[-1].removeprefix("Scores, X: ").split(", O: ")]
        winner, loser = (0, 1) if off[0] == 15 else (1, 0)
        home = range(18, 24) if winner == 0 else range(6)
        behind = state.board(loser, 100) or any(state.board(loser, point) for point in home)
        points = 1 if off[loser] else 3 if behind else 2
        assert state.returns()[winner] == points
        seen.add(points)
    assert len(seen) > 1


# Pig.


def test_pig_shows_scores_and_what_is_at_stake() -> None:
    state = play("pig(winscore=20)", [5, 3, 4, 0, 2], "roll", "roll", "stop", "roll", "roll", "roll")
    game = load("pig(winscore=20)")
    assert game.position(state, 0) == (
        "Scores: player 0: 10, player 1: 0\nPoints of this turn so far: 3\nMoves made so far: 6"
    )
    assert game.brief(state, 0) == "3 10 0"


def test_pig_ends_by_the_rules() -> None:
    case = "pig(horizon=4,winscore=10)"
    won = play(case, [5, 4], "roll", "roll", "stop")
    assert won.returns() == [1, -1]
    state = play(case, [5, 4], "roll", "roll")
    assert list(load(case).action_names(state, 0).values()) == ["stop"]
    assert play(case, [5, 1], "roll", "roll", "stop", "stop").returns() == [0, 0]
    assert play("pig(players=3,winscore=2)", [1], "stop", "roll", "stop").returns() == [-0.5, 1, -0.5]
    piglet = play("pig(piglet=True,winscore=3)", [1, 1], "roll", "roll")
    assert load("pig(piglet=True,winscore=3)").brief(piglet, 0) == "2 0 0"


def test_pig_seats_have_one_problem() -> None:
    game = load("pig")
    one = play("pig", [5, 4], "roll", "stop", "roll", "stop")
    two = play("pig", [5, 4], "stop", "roll", "stop", "roll", "stop")
    assert game.symmetry_key(one, 0) == "0 6 5"
    assert game.symmetry_key(two, 1) == "0 6 5"


@pytest.mark.parametrize(
    "case",
    [
        *(f"goofspiel(num_cards={cards},players=2,points_order=random)" for cards in (8, 10, 12, 14, 16)),
        "liars_dice(numdice=5)",
        *(f"gin_rummy(hand_size={size},knock_card={knock})" for size in (7, 8, 9) for knock in (8, 9, 10)),
        *(
            f"hearts(avoid_all_tricks_bonus={a},jd_bonus={b},pass_cards={c})"
            for a in (False, True)
            for b in (False, True)
            for c in (False, True)
        ),
        *(f"euchre(allow_lone_defender={a},stick_the_dealer={b})" for a in (False, True) for b in (False, True)),
        *("backgammon", "blackjack", "bridge", "pig", "cribbage"),
    ],
)
def test_the_variants_that_users_know_are_described(case: str) -> None:
    load.cache_clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert type(load(case)) is not Game
