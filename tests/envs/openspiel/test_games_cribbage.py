"""Cribbage: the rules in the prompt agree with OpenSpiel."""

import random
from collections.abc import Callable
from itertools import combinations

from veritas_rl.envs.openspiel import playing
from veritas_rl.envs.openspiel.cases import load
from veritas_rl.envs.openspiel.games import State

Play = Callable[..., State]

# Cribbage. A card is 13 * suit + rank, with the suits c d h s; six cards are dealt to player 0, then six to player 1.


def rank(card: str) -> int:
    return "A23456789TJQK".index(card[0])


def value(card: str) -> int:
    return min(10, rank(card) + 1)


def lines_of(state: State) -> dict[str, list[str]]:
    """The lines of OpenSpiel's text of the true state, by their headings."""
    found = (line.partition(":") for line in str(state).split("\n") if ":" in line)
    return {head: rest.split() for head, _, rest in found}


def play_points(cards: list[str]) -> int:
    """The score of the last card of a count by the rules in the prompt."""
    points = 2 * (sum(map(value, cards)) == 15)
    same = next((n for n in range(len(cards), 0, -1) if len({rank(card) for card in cards[-n:]}) == 1), 0)
    points += {2: 2, 3: 6, 4: 12}.get(same, 0)
    for number in range(min(7, len(cards)), 2, -1):
        ranks = sorted(map(rank, cards[-number:]))
        if ranks == list(range(ranks[0], ranks[0] + number)):
            return points + number
    return points


def hand_points(hand: list[str], starter: str) -> int:
    """The score of four cards and the starter by the rules in the prompt."""
    cards = [*hand, starter]
    groups = [group for size in range(2, 6) for group in combinations(cards, size)]
    points = sum(2 for group in groups if sum(map(value, group)) == 15)
    points += sum(2 for one, two in combinations(cards, 2) if rank(one) == rank(two))
    for size in (5, 4, 3):
        runs = [g for g in groups if len(g) == size and len({*map(rank, g)}) == size]
        runs = [g for g in runs if max(map(rank, g)) - min(map(rank, g)) == size - 1]
        if runs:
            points += size * len(runs)
            break
    if len({card[1] for card in hand}) == 1:
        points += 5 if starter[1] == hand[0][1] else 4
    return points + sum(card[0] == "J" and card[1] == starter[1] for card in hand)


def test_cribbage_counts_by_the_rules() -> None:
    game = load("cribbage")
    for index in range(4):
        chance, state = random.Random(index), game.spiel.new_initial_state()
        points, hands, last = [0, 0], {}, 0
        while not state.is_terminal():
            before, seat = lines_of(state), state.current_player()
            if state.is_chance_node():
                playing.apply_chance(state, chance.random())
                after = lines_of(state)
                if before["Phase"] == ["Play"]:
                    points[int(after["Dealer"][0])] += 2 * (after["Starter"][0][0] == "J")
                    hands = {player: after[f"P{player} Hand"] for player in (0, 1)}
            else:
                action = chance.choice(state.legal_actions())
                assert f"Points: player 0: {points[0]}, player 1: {points[1]}\n" in game.position(state, seat)
                if before["Phase"] == ["Play"]:
                    assert f"Count: {before['Running total'][0]}\n" in game.position(state, seat)
                card = state.action_to_string(seat, action).removeprefix("Choose ")
                state.apply_action(action)
                after = lines_of(state)
                if before["Phase"] == ["Card"]:
                    continue
                if card != "Pass":
                    points[seat] += play_points([*before["Played cards"], card])
                    last = seat
                if after["Played cards"] == []:  # the count is over
                    total = int(before["Running total"][0]) + (value(card) if card != "Pass" else 0)
                    points[last] += 2 if total == 31 else 1
                    if before["P0 Hand"] + before["P1 Hand"] in ([], [card]):
                        for player in (0, 1):
                            points[player] += hand_points(hands[player], before["Starter"][0])
                        points[int(before["Dealer"][0])] += hand_points(before["Crib"], before["Starter"][0])
            assert list(map(float, after["Scores"])) == points
        winner = 0 if points[0] >= 121 else 1
        assert points[winner] >= 121
        assert state.returns()[winner] == points[winner] + 1000
        assert state.returns()[1 - winner] == points[1 - winner] - 1000


def test_cribbage_shows_what_a_player_may_know(play: Play) -> None:
    game = load("cribbage")
    chance = [0, 13, 26, 39, 1, 14, 2, 15, 28, 41, 3, 16, 7]
    state = play("cribbage", chance)
    assert game.position(state, 0) == (
        "Deal 1, dealer: you\nPoints: player 0: 0, player 1: 0\nYour hand: Ac Ad Ah As 2c 2d\n"
        "Choose two cards for the crib, which is yours."
    )
    state = play("cribbage", chance, "As 2c", "3s 4c", "3c", "Ac", "4d")
    assert game.position(state, 0) == (
        "Deal 1, dealer: you\nPoints: player 0: 0, player 1: 0\nYour hand: Ad Ah 2d\nYou put into the crib: As 2c\n"
        "Starter: 8c\nPlayed in earlier counts: nothing\n"
        "Played in this count: player 1 3c, player 0 Ac, player 1 4d\nCount: 8\n"
        "Cards left in the hand of player 1: 2"
    )
    assert game.brief(state, 0) == "0 0 d\nAd Ah 2d\nAs 2c 8c\n8 -3c Ac -4d\n"


def test_cribbage_pass_shows_what_is_not_in_a_hand(play: Play) -> None:
    """Player 0 passed at 26, so resampling gives player 0 no card of 5 or less."""
    game = load("cribbage")
    chance = [9, 5, 11, 24, 1, 0, 22, 12, 25, 26, 28, 27, 2]
    state = play("cribbage", chance, "Ac 2c", "2h 3h", "Td", "6c", "Kc", "pass")
    assert "Count: 26\n" in game.position(state, 1)
    for index in range(100):
        other = game.resample(state, 1, random.Random(index).random)
        assert min(value(card) for card in lines_of(other)["P0 Hand"]) > 5


def test_cribbage_names_of_suits_do_not_matter(play: Play) -> None:
    game = load("cribbage")
    chance = [0, 13, 26, 39, 1, 14, 2, 15, 28, 41, 3, 16, 7]
    one = play("cribbage", chance, "As 2c", "3s 4c", "3c")
    two = play("cribbage", [(card + 13) % 52 for card in chance], "Ac 2d", "3c 4d", "3d")
    assert game.symmetry_key(one, 0) == game.symmetry_key(two, 0)
    assert game.information_key(one, 0) != game.information_key(two, 0)
