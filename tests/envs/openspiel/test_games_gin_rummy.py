"""Gin rummy and blackjack: the rules in the prompts agree with OpenSpiel."""

import random
from collections.abc import Callable, Iterator

import pytest

from veritas_rl.envs.openspiel.cases import load
from veritas_rl.envs.openspiel.games import Decision, State

Play = Callable[..., State]
Games = Callable[[str, int], Iterator[list[State]]]
Decisions = Callable[[str, int], list[Decision]]

# Gin rummy. A card is 13 * suit + rank: 0 to 12 are spades, 13 to 25 clubs, 26 to 38 diamonds, 39 to 51 hearts.

RUN = [0, 1, 2, 3, 4, 5, 6, 7, 8, 22]  # As to 9s, and Tc
OTHER = [13, 15, 17, 19, 27, 29, 31, 33, 48, 50]


def test_gin_rummy_counts_deadwood_by_the_rules(play: Play) -> None:
    game = load("gin_rummy")
    state = play("gin_rummy", [*RUN, *OTHER, 9], "draw upcard")
    assert "(deadwood after the best discard 0)" in game.position(state, 0)
    state = play("gin_rummy", [*RUN, *OTHER, 25], "draw upcard")
    assert "(deadwood after the best discard 10)" in game.position(state, 0)
    names = game.action_names(state, 0)
    assert names[25] == "discard Kc"
    assert "knock" in names.values()


def test_gin_rummy_least_deadwood_is_what_a_discard_leaves(games: Games) -> None:
    for *states, _ in games("gin_rummy(hand_size=7)", 5):
        for state in states:
            if state.current_phase().name == "DISCARD":
                seat = state.current_player()
                left = [state.child(a).deadwood()[seat] for a in state.legal_actions() if a < 52]
                assert state.deadwood()[seat] == min(left)


def test_gin_rummy_gin_pays_a_bonus_and_stops_laying_off(play: Play) -> None:
    moves = ("draw upcard", "knock", "discard Tc", "meld As 2s 3s 4s 5s", "meld 6s 7s 8s 9s Ts", "pass")
    state = play("gin_rummy", [*RUN, *OTHER, 9], *moves)
    game = load("gin_rummy")
    assert "Laying off is over." in game.position(state, 1)
    assert list(game.action_names(state, 1).values()) == ["pass"]
    state.apply_action(54)
    values = sum(min(10, card % 13 + 1) for card in OTHER)
    assert state.returns() == [values + 25, -values - 25]


def test_gin_rummy_lays_off_and_undercuts(play: Play) -> None:
    """Player 0 knocks with Tc; player 1 lays off Ts and Js on the run and undercuts with less deadwood."""
    other = [9, 10, 13, 14, 15, 28, 29, 30, 39, 40]  # Ts Js; Ac 2c 3c; 3d 4d 5d; Ah 2h
    moves = ("draw upcard", "knock", "discard Kc", "meld As 2s 3s 4s", "meld 5s 6s 7s 8s 9s", "pass")
    game = load("gin_rummy")
    state = play("gin_rummy", [*RUN, *other, 25], *moves)
    assert "Your opponent's cards outside melds: Tc" in game.position(state, 1)
    assert "Your opponent laid down: As 2s 3s 4s; 5s 6s 7s 8s 9s" in game.position(state, 1)
    assert set(game.action_names(state, 1).values()) == {"lay off Ts", "pass"}
    moves += ("lay off Ts", "lay off Js", "pass", "meld Ac 2c 3c", "meld 3d 4d 5d", "pass")
    state = play("gin_rummy", [*RUN, *other, 25], *moves)
    assert state.returns() == [3 - 10 - 25, 32]  # player 1 keeps an ace and a two, player 0 a ten


def test_gin_rummy_is_drawn_by_the_rules(play: Play) -> None:
    again = ("draw upcard", "discard Kc")
    state = play("gin_rummy", [*RUN, *OTHER, 25], *again)
    assert "has just taken this upcard and discarded it again" in load("gin_rummy").position(state, 1)
    assert play("gin_rummy", [*RUN, *OTHER, 25], *again, *again).returns() == [0, 0]
    game = load("gin_rummy")
    state, taken, upcard = play("gin_rummy", [*RUN, *OTHER, 25], "pass", "pass", "draw stock"), 0, None
    while not state.is_terminal():
        seat = state.current_player()
        if 52 in state.legal_actions():
            assert f"Upcards drawn so far: {taken}\n" in game.position(state, seat) + "\n"
            upcard = state.upcard()
            state.apply_action(52)
            taken += 1
        else:
            state.apply_action(next(a for a in state.legal_actions() if a != upcard))
    assert taken == 50
    assert state.returns() == [0, 0]


def test_gin_rummy_shows_that_both_passed_and_who_discarded(games: Games) -> None:
    game, passed, discarded = load("gin_rummy"), 0, 0
    for *states, _ in games(game.case, 24):
        for state in states:
            seat = state.current_player()
            shown = game.position(state, seat)
            if "both players have passed" in shown:
                assert set(game.action_names(state, seat).values()) == {"draw stock"}
                passed += 1
            pile = state.to_observation_struct(seat).discard_pile
            steps = [step for step in state.full_history() if step.player >= 0]
            for card in pile:
                owners = [
                    step.player for step in steps if state.action_to_string(step.player, step.action).endswith(card)
                ]
                name = "first upcard" if not owners else "you" if owners[-1] == seat else "your opponent"
                assert f"{card} ({name})" in shown
                discarded += 1
    assert passed
    assert discarded


def test_gin_rummy_stock_ends_with_a_chance_to_knock(games: Games) -> None:
    game = load("gin_rummy")
    walls = 0
    for *states, last in games("gin_rummy(knock_card=0)", 6):
        state = states[-1]
        if state.current_phase().name == "WALL":
            walls += 1
            assert "Cards in the stock: 2" in game.position(state, state.current_player())
            assert last.returns() == [0, 0]
    assert walls


def test_gin_rummy_names_of_suits_do_not_matter(some_decisions: Decisions) -> None:
    game = load("gin_rummy")
    differs = 0
    for state, seat in some_decisions("gin_rummy", 12):
        copy = game.spiel.new_initial_state()
        for action in state.history():
            if action < 52:
                copy.apply_action((action + 13) % 52)
            elif action < 56:
                copy.apply_action(action)
            else:
                shown = state.action_to_string(0, action).rpartition(" ")[2].translate(str.maketrans("scdh", "cdhs"))
                cards = {shown[start : start + 2] for start in range(0, len(shown), 2)}
                names = game.action_names(copy, copy.current_player())
                copy.apply_action(next(a for a, name in names.items() if set(name.split()[1:]) == cards))
        assert game.symmetry_key(copy, seat) == game.symmetry_key(state, seat)
        differs += game.information_key(copy, seat) != game.information_key(state, seat)
    assert differs == 12


# Blackjack. A card is 13 * suit + rank, aces first.


@pytest.mark.parametrize(
    ("chance", "moves", "value"),
    [
        ([9, 22, 8, 7], ("stand",), 1),  # 20 against 9 and 8: the dealer stands on 17
        ([9, 22, 8, 6, 4], ("stand",), -1),  # the dealer has 9 and 7, and draws a 5 to 21
        ([9, 22, 8, 6, 10], ("stand",), 1),  # the dealer is bust
        ([9, 7, 23, 20], ("stand",), 0),  # 18 each
        ([9, 7, 23, 20, 3], ("hit",), -1),  # bust with 22, and the dealer does not play
        ([0, 5, 9, 10, 4, 11], ("hit", "hit"), -1),  # ace 6 5 Q: 22 with the ace as 1
        ([0, 5, 8, 7], ("stand",), 0),  # ace and 6 are 17
        ([0, 9, 22, 8, 1], ("stand",), 1),  # 21 with two cards pays like any 21
        ([9, 22, 0, 5], ("stand",), 1),  # the dealer stands on 17 with an ace as 11
    ],
)
def test_blackjack_pays_by_the_rules(chance: list[int], moves: tuple[str, ...], value: float, play: Play) -> None:
    state = play("blackjack", chance, *moves)
    assert state.is_terminal()
    assert state.returns() == [value]


def test_blackjack_shows_one_card_of_the_dealer(play: Play) -> None:
    game = load("blackjack")
    state = play("blackjack", [0, 18, 24, 22, 3], "hit")
    assert game.position(state, 0) == "Your cards: Ac 6d 4c (total 21, with an ace as 11)\n" + (
        "Dealer's cards: Td and one face down"
    )
    assert game.brief(state, 0) == "A64 T"
    hidden = {game.resample(state, 0, random.Random(index).random).history()[2] for index in range(1500)}
    assert hidden == set(range(52)) - {0, 18, 22, 3}


def test_blackjack_ten_and_face_cards_are_alike(play: Play) -> None:
    game = load("blackjack")
    one, two = play("blackjack", [9, 4, 0, 10]), play("blackjack", [17, 38, 5, 12])
    assert game.symmetry_key(one, 0) == game.symmetry_key(two, 0) == "5T T"
