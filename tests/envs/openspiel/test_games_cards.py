"""Gin rummy, hearts, euchre, bridge, cribbage, blackjack: the rules that are told are OpenSpiel's, nothing hidden is
shown, and what is dealt anew fits what is known."""

import random
from collections import Counter
from collections.abc import Iterator
from itertools import combinations

import pyspiel
import pytest

from veritas_rl.envs.openspiel import positions, text
from veritas_rl.envs.openspiel.cases import load
from veritas_rl.envs.openspiel.games import Decision, State
from veritas_rl.envs.openspiel.games.cards import deal

CASES = (
    "gin_rummy",
    "gin_rummy(hand_size=7,knock_card=8)",
    "gin_rummy(oklahoma=True)",
    "blackjack",
    "hearts",
    "hearts(avoid_all_tricks_bonus=True,can_lead_hearts_instead_of_qs=True,jd_bonus=True)",
    "hearts(must_break_hearts=False,no_pts_on_first_trick=False,pass_cards=False)",
    "euchre",
    "euchre(allow_lone_defender=True,stick_the_dealer=False)",
    "bridge(dealer=2,dealer_vul=True,use_double_dummy_result=False)",
    "cribbage",
)
EAGER = ("knock", "meld", "lay off")


def games(case: str, count: int) -> Iterator[list[State]]:
    """The decisions of random games, each as the list of its states; rare moves are made when they can be."""
    game = load(case)
    for index in range(count):
        chance = random.Random(index)
        state, states = game.spiel.new_initial_state(), []
        while not state.is_terminal():
            if state.is_chance_node():
                positions.apply_chance(state, chance.random())
                continue
            states.append(state.clone())
            names = game.action_names(state, state.current_player())
            rare = [action for action, name in names.items() if name.startswith(EAGER)]
            state.apply_action(chance.choice(rare or list(names)))
        states.append(state)
        yield states


def some_decisions(case: str, count: int) -> list[Decision]:
    """One decision of each of so many games, and the last but one of every third."""
    found = []
    if "cribbage" in case:
        count //= 4  # a game has hundreds of decisions
    for index, (*states, _) in enumerate(games(case, count)):
        state = states[-1] if index % 3 == 0 else random.Random(index).choice(states)
        found.append((state, state.current_player()))
    return found


def play(case: str, chance: list[int], *names: str) -> State:
    """The state after these outcomes of chance, in order (then the first possible), and the moves with these names."""
    game, dealt, moves = load(case), iter(chance), iter(names)
    state = game.spiel.new_initial_state()
    while not state.is_terminal():
        if state.is_chance_node():
            state.apply_action(next(dealt, state.legal_actions()[0]))
            continue
        name = next(moves, None)
        if name is None:
            break
        known = {name: action for action, name in game.action_names(state, state.current_player()).items()}
        state.apply_action(known[name])
    assert next(moves, None) is None
    return state


@pytest.mark.parametrize("case", CASES)
def test_every_prompt_of_random_games_is_made(case: str) -> None:
    game = load(case)
    for *states, _ in games(case, 3 if "cribbage" in case else 6):
        for state in states:
            seat = state.current_player()
            names = game.action_names(state, seat)
            assert all("number" not in name for name in names.values())  # no two actions share a name
            for prompt in ("full", "brief"):
                assert text.messages(game, state, seat, names, prompt)[0]["content"]


@pytest.mark.parametrize("case", CASES)
def test_what_is_dealt_anew_fits_what_is_known(case: str) -> None:
    game = load(case)
    assert game.can_resample
    varied = 0
    for index, (state, seat) in enumerate(some_decisions(case, 60)):
        uniform = random.Random(index).random
        other = game.resample(state, seat, uniform)
        assert game.information_key(state, seat) == game.information_key(other, seat)
        assert game.symmetry_key(state, seat) == game.symmetry_key(other, seat)
        names = game.action_names(state, seat)
        assert names == game.action_names(other, seat)
        for prompt in ("full", "brief"):
            assert text.messages(game, state, seat, names, prompt) == text.messages(game, other, seat, names, prompt)
        varied += str(state) != str(other)
    assert varied > (5 if "cribbage" in case else 25)


@pytest.mark.parametrize("case", CASES)
def test_every_play_stays_legal_when_dealt_anew(case: str) -> None:
    game = load(case)
    for index, (state, seat) in enumerate(some_decisions(case, 40)):
        copy = game.spiel.new_initial_state()
        for action in game.resample(state, seat, random.Random(index).random).history():
            assert copy.is_chance_node() or action in copy.legal_actions()
            copy.apply_action(action)


def test_a_deal_is_uniform_among_those_allowed() -> None:
    """Five cards; one is barred from a, one may go to b alone: counted against all deals by hand."""

    def may_hold(holder: str, card: int) -> bool:
        return holder != "a" if card == 0 else holder == "b" if card == 1 else True

    random_ = random.Random(2)
    drawn = Counter()
    for _ in range(3000):
        hands = deal(range(5), {"a": 2, "b": 2, "c": 1}, may_hold, random_.random)
        drawn[tuple(tuple(sorted(hand)) for hand in hands.values())] += 1
    # b has 1 and 0: the three others split 2 to 1. b has 1 and another (3): c has 0, a the last two.
    assert len(drawn) == 6
    assert max(drawn.values()) < 600
    assert min(drawn.values()) > 400
    with pytest.raises(pyspiel.SpielError, match="no deal"):
        deal(range(2), {"a": 2}, may_hold, random_.random)


# Gin rummy. Card 13 * suit + rank: 0 to 12 are spades, 13 to 25 clubs, 26 to 38 diamonds, 39 to 51 hearts.

RUN = [0, 1, 2, 3, 4, 5, 6, 7, 8, 22]  # As to 9s, and Tc
OTHER = [13, 15, 17, 19, 27, 29, 31, 33, 48, 50]


def test_gin_rummy_counts_deadwood_as_told() -> None:
    game = load("gin_rummy")
    state = play("gin_rummy", [*RUN, *OTHER, 9], "draw upcard")
    assert "(deadwood after the best discard 0)" in game.position(state, 0)
    state = play("gin_rummy", [*RUN, *OTHER, 25], "draw upcard")
    assert "(deadwood after the best discard 10)" in game.position(state, 0)
    names = game.action_names(state, 0)
    assert names[25] == "discard Kc"
    assert "knock" in names.values()


def test_gin_rummy_least_deadwood_is_what_a_discard_leaves() -> None:
    for *states, _ in games("gin_rummy(hand_size=7)", 5):
        for state in states:
            if state.current_phase().name == "DISCARD":
                seat = state.current_player()
                left = [state.child(a).deadwood()[seat] for a in state.legal_actions() if a < 52]
                assert state.deadwood()[seat] == min(left)


def test_gin_rummy_gin_pays_a_bonus_and_stops_laying_off() -> None:
    moves = ("draw upcard", "knock", "discard Tc", "meld As 2s 3s 4s 5s", "meld 6s 7s 8s 9s Ts", "pass")
    state = play("gin_rummy", [*RUN, *OTHER, 9], *moves)
    game = load("gin_rummy")
    assert "Laying off is over." in game.position(state, 1)
    assert list(game.action_names(state, 1).values()) == ["pass"]
    state.apply_action(54)
    values = sum(min(10, card % 13 + 1) for card in OTHER)
    assert state.returns() == [values + 25, -values - 25]


def test_gin_rummy_lays_off_and_undercuts() -> None:
    """Player 0 knocks with Tc; player 1 lays off Ts on the run and has less left: undercut."""
    other = [9, 10, 13, 14, 15, 28, 29, 30, 39, 40]  # Ts Js; Ac 2c 3c; 3d 4d 5d; Ah 2h
    moves = ("draw upcard", "knock", "discard Kc", "meld As 2s 3s 4s", "meld 5s 6s 7s 8s 9s", "pass")
    game = load("gin_rummy")
    state = play("gin_rummy", [*RUN, *other, 25], *moves)
    assert "Your opponent's cards outside melds: Tc" in game.position(state, 1)
    assert "Your opponent laid down: As 2s 3s 4s; 5s 6s 7s 8s 9s" in game.position(state, 1)
    assert set(game.action_names(state, 1).values()) == {"lay off Ts", "pass"}
    moves += ("lay off Ts", "lay off Js", "pass", "meld Ac 2c 3c", "meld 3d 4d 5d", "pass")
    state = play("gin_rummy", [*RUN, *other, 25], *moves)
    assert state.returns() == [3 - 10 - 25, 32]  # ace and two are left of player 1, against a ten


def test_gin_rummy_is_drawn_as_told() -> None:
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


def test_gin_rummy_stock_ends_with_a_chance_to_knock() -> None:
    game = load("gin_rummy")
    walls = 0
    for *states, last in games("gin_rummy(knock_card=0)", 6):
        state = states[-1]
        if state.current_phase().name == "WALL":
            walls += 1
            assert "Cards in the stock: 2" in game.position(state, state.current_player())
            assert last.returns() == [0, 0]
    assert walls


def test_gin_rummy_names_of_suits_do_not_matter() -> None:
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


# Blackjack. Card 13 * suit + rank, aces first.


@pytest.mark.parametrize(
    ("chance", "moves", "value"),
    [
        ([9, 22, 8, 7], ("stand",), 1),  # 20 against 9 and 8: the dealer stands on 17
        ([9, 22, 8, 6, 4], ("stand",), -1),  # 9 and 7 are 16: the dealer takes a 5, 21
        ([9, 22, 8, 6, 10], ("stand",), 1),  # the dealer is bust
        ([9, 7, 23, 20], ("stand",), 0),  # 18 each
        ([9, 7, 23, 20, 3], ("hit",), -1),  # bust with 22, and the dealer does not play
        ([0, 5, 9, 10, 4, 11], ("hit", "hit"), -1),  # ace 6 5 Q: 22 with the ace as 1
        ([0, 5, 8, 7], ("stand",), 0),  # ace and 6 are 17
        ([0, 9, 22, 8, 1], ("stand",), 1),  # 21 with two cards pays as any 21
        ([9, 22, 0, 5], ("stand",), 1),  # the dealer stands on 17 with an ace as 11
    ],
)
def test_blackjack_pays_as_told(chance: list[int], moves: tuple[str, ...], value: float) -> None:
    state = play("blackjack", chance, *moves)
    assert state.is_terminal()
    assert state.returns() == [value]


def test_blackjack_shows_one_card_of_the_dealer() -> None:
    game = load("blackjack")
    state = play("blackjack", [0, 18, 24, 22, 3], "hit")
    assert game.position(state, 0) == "Your cards: Ac 6d 4c (total 21, with an ace as 11)\n" + (
        "Dealer's cards: Td and one face down"
    )
    assert game.brief(state, 0) == "A64 T"
    hidden = {game.resample(state, 0, random.Random(index).random).history()[2] for index in range(1500)}
    assert hidden == set(range(52)) - {0, 18, 22, 3}


def test_blackjack_ten_and_face_cards_are_alike() -> None:
    game = load("blackjack")
    one, two = play("blackjack", [9, 4, 0, 10]), play("blackjack", [17, 38, 5, 12])
    assert game.symmetry_key(one, 0) == game.symmetry_key(two, 0) == "5T T"


# Hearts. Card 4 * rank + suit, suits c d h s; seat by seat a card is dealt.


def dealt_by_suit(*order: int) -> list[int]:
    """A deal in which seat i has all cards of the suit order[i]."""
    return [4 * rank + suit for rank in range(13) for suit in order]


def test_hearts_deal_agrees_with_openspiel() -> None:
    game = load("hearts(jd_bonus=True)")
    for *states, _ in games(game.case, 6):
        for state in states:
            seat = state.current_player()
            shown = game.position(state, seat)
            seen = state.to_observation_struct(seat)
            hand = next(line for line in shown.split("\n") if line.startswith("Your hand: "))
            assert {card.lower() for card in hand.split()[2:]} == {card.lower() for card in seen.hands[seat]}
            if "Points taken" in shown:
                told = ", ".join(f"player {other}: {int(points)}" for other, points in enumerate(seen.points))
                assert f"Points taken: {told}" in shown
                assert ("Hearts may be led: yes" in shown) == state.hearts_broken()


def test_hearts_leads_and_follows_as_told() -> None:
    case = "hearts"
    state = play(case, [0, *dealt_by_suit(0, 1, 2, 3)])
    assert list(load(case).action_names(state, 0).values()) == ["2c"]
    hearts = play(case, [0, *dealt_by_suit(0, 1, 2, 3)], "2c", "2d")
    assert len(hearts.legal_actions()) == 13  # nothing but hearts is left to play to the first trick
    spades = play(case, [0, *dealt_by_suit(0, 1, 2, 3)], "2c", "2d", "2h")
    assert "Qs" not in load(case).action_names(spades, 3).values()
    any_club = play("hearts(can_lead_any_club=True)", [0, *dealt_by_suit(0, 1, 2, 3)])
    assert len(any_club.legal_actions()) == 13


@pytest.mark.parametrize(
    ("parameters", "returns"),
    [("", [26, 0, 0, 0]), ("(avoid_all_tricks_bonus=True)", [26, 0, 0, 0]), ("(jd_bonus=True)", [36, 0, 0, 0])],
)
def test_hearts_moon_is_paid_as_told(parameters: str, returns: list[float]) -> None:
    state = play(f"hearts{parameters}", [0, *dealt_by_suit(0, 1, 2, 3)])
    while not state.is_terminal():
        state.apply_action(state.legal_actions()[-1])
    assert state.returns() == returns  # 26 less the points: all 26 were taken by player 0


@pytest.mark.parametrize("parameters", ["", "(avoid_all_tricks_bonus=True,jd_bonus=True)"])
def test_hearts_counts_as_told(parameters: str) -> None:
    game, kinds = load(f"hearts{parameters}"), set()
    for *_, last in games(game.case, 25):
        tricks = hearts_tricks(tuple(last.history()))
        points = {seat: 0 for seat in range(4)}
        for winner, cards in tricks:
            points[winner] += (
                sum(card % 4 == 2 for card in cards) + 13 * (43 in cards) - 10 * (37 in cards and bool(parameters))
            )
        if parameters:
            for seat in set(range(4)) - {winner for winner, _ in tricks}:
                points[seat] -= 5
                kinds.add("no trick")
        assert last.returns() == [26 - points[seat] for seat in range(4)]
    assert bool(kinds) == bool(parameters)


def hearts_tricks(history: tuple[int, ...]) -> list[tuple[int, tuple[int, ...]]]:
    """The winner and the cards of each trick, from the order of play alone: who wins leads."""
    start = 65 if history[0] else 53
    holder = {card: seat % 4 for seat, card in enumerate(history[1:53])}
    for place, card in enumerate(history[53:start]):
        holder[card] = (place // 3 + history[0]) % 4
    tricks = [history[first : first + 4] for first in range(start, len(history), 4)]
    return [(holder[max(card for card in cards if card % 4 == cards[0] % 4)], cards) for cards in tricks]


def test_hearts_passes_in_the_told_direction() -> None:
    game = load("hearts")
    deal_ = dealt_by_suit(0, 1, 2, 3)
    moves = ["2c", "3c", "4c", "2d", "3d", "4d", "2h", "3h", "4h", "2s", "3s", "4s"]
    state = play("hearts", [1, *deal_], *moves[:4])
    assert "You received" not in game.position(state, 1)  # not before all have passed
    assert "three cards to player 2 (the left)" in game.position(state, 1)
    for direction, giver in ((1, 0), (2, 3), (3, 2)):
        state = play("hearts", [direction, *deal_], *moves)
        assert f"You received from player {giver}:" in game.position(state, 1)
        assert state.current_player() == direction  # the 2c has gone there


def test_hearts_seats_have_one_problem() -> None:
    game = load("hearts")
    state, turned = play("hearts", [1, *dealt_by_suit(0, 1, 2, 3)]), play("hearts", [1, *dealt_by_suit(3, 0, 1, 2)])
    for card in ("2s", "3s", "4s"):
        turned.apply_action(next(a for a, name in game.action_names(turned, 0).items() if name == card))
    assert game.symmetry_key(state, 0) == game.symmetry_key(turned, 1)
    assert game.information_key(state, 0) != game.information_key(turned, 1)


# Euchre. Card 4 * rank + suit, ranks 9 T J Q K A, suits c d h s; a card is dealt from the dealer on.


def test_euchre_deal_agrees_with_openspiel() -> None:
    for case in ("euchre", "euchre(allow_lone_defender=True,stick_the_dealer=False)"):
        game = load(case)
        for *states, last in games(case, 40):
            shown = ""
            for state in states:
                seat = state.current_player()
                shown = game.position(state, seat)
                hand = next(line for line in shown.split("\n") if line.startswith("Your hand: "))
                held = [card for card, holder in enumerate(state.card_holder()) if holder == seat]
                names = ["9TJQKA"[card // 4] + "cdhs"[card % 4] for card in held]
                assert hand.split()[2:] == names
                assert f"Dealer: player {state.dealer()}\n" in shown
                if "Trump" in shown:
                    assert f"Declarer: player {state.declarer()}" in shown
            if "Tricks: " in shown:
                winners = [trick.winner() for trick in last.tricks()]
                assert [int(line[-1]) for line in shown.split("\n") if "; taken" in line] == winners[:4]
                makers = sum(winner % 2 == last.declarer() % 2 for winner in winners)
                alone = bool(last.declarer_go_alone())
                lost = -4 if last.lone_defender() >= 0 else -2
                points = lost if makers < 3 else (4 if alone else 2) if makers == 5 else 1
                assert last.returns()[last.declarer()] == points


def euchre_deal(dealer: int, *hands: str) -> list[int]:
    """Dealer, the hands from the dealer's on, and the upcard last."""
    cards = [["9TJQKA".index(card[0]) * 4 + "cdhs".index(card[1]) for card in hand.split()] for hand in hands]
    return [dealer, *(cards[seat][turn] for turn in range(5) for seat in range(4)), cards[4][0]]


EUCHRE = euchre_deal(0, "9c Tc Qc Kc Ac", "9d Td Jd Qd Kd", "9h Th Jh Qh Kh", "9s Ts Js Qs Ks", "Jc")


def test_euchre_bids_as_told() -> None:
    game = load("euchre")
    state = play("euchre", EUCHRE, "pass", "pass", "pass")
    assert set(game.action_names(state, 0).values()) == {"pass", "take it up"}
    state = play("euchre", EUCHRE, "pass", "order up")
    assert state.current_player() == 0
    assert list(game.action_names(state, 0).values()) == [f"discard {card}" for card in ("9c", "Tc", "Qc", "Kc", "Ac")]
    passes = ("pass",) * 7
    assert set(game.action_names(play("euchre", EUCHRE, *passes), 0).values()) == {"diamonds", "hearts", "spades"}
    loose = "euchre(stick_the_dealer=False)"
    assert play(loose, EUCHRE, *passes, "pass").returns() == [0, 0, 0, 0]


def test_euchre_bowers_are_trumps_and_alone_pays_four() -> None:
    game = load("euchre")
    moves = ("pass", "pass", "pass", "take it up", "discard 9c", "alone")
    state = play("euchre", EUCHRE, *moves, "9d", "Js")  # player 2 does not play; the jack of spades is a trump
    assert "This trick: player 1 9d, player 3 Js\n" in game.position(state, 0)
    state = play("euchre", EUCHRE, *moves, "9d", "Js", "Jc")
    assert state.current_player() == 0  # the jack of clubs beats it
    assert "taken by player 0" in game.position(state, 0)
    clubs = play("euchre", EUCHRE, *moves, "9d", "9s", "Jc", "Ac", "Td")
    assert list(game.action_names(clubs, 3).values()) == ["Js"]  # clubs were led, and it is one
    while not state.is_terminal():
        state.apply_action(state.legal_actions()[0])
    assert state.returns() == [4, -4, 4, -4]  # no other trump was left


def test_euchre_discard_is_shown_to_the_dealer_alone() -> None:
    game = load("euchre")
    state = play("euchre", EUCHRE, "pass", "pass", "order up", "discard 9c", "with the partner")
    assert "9c" not in game.position(state, 1) + game.information_key(state, 1) + game.brief(state, 1)
    state = play("euchre", EUCHRE, "pass", "pass", "order up", "discard 9c", "with the partner", "9d", "9h", "9s")
    assert "you discarded 9c" in game.position(state, 0)


def test_euchre_seats_and_colours_have_one_problem() -> None:
    game = load("euchre")
    state = play("euchre", EUCHRE, "pass", "order up", "discard Tc", "with the partner")
    turned = [2, *(card // 4 * 4 + (1, 0, 3, 2)[card % 4] for card in EUCHRE[1:])]
    other = play("euchre", turned, "pass", "order up", "discard Td", "with the partner")
    assert game.symmetry_key(state, 1) == game.symmetry_key(other, 3)
    mixed = [0, *(card // 4 * 4 + (1, 0, 2, 3)[card % 4] for card in EUCHRE[1:])]  # the left bower is another card
    other = play("euchre", mixed, "pass", "order up", "discard Td", "with the partner")
    assert game.symmetry_key(state, 3) != game.symmetry_key(other, 3)


# Bridge. Card 4 * rank + suit, suits c d h s; the card of turn i goes to seat i % 4.

BRIDGE = "bridge(use_double_dummy_result=False)"


def test_bridge_deal_agrees_with_openspiel() -> None:
    case = "bridge(dealer=2,dealer_vul=True,use_double_dummy_result=False)"
    game = load(case)
    for *states, _ in games(case, 6):
        for state in states[::3]:
            seat = state.current_player()
            shown, printed = game.position(state, seat), state.observation_string(seat)
            assert "Vulnerable: North and South\n" in shown
            marks = str.maketrans("♠♥♦♣", "shdc")
            rows = printed.split("you hold:\n")[1].split("\n")[:4]
            held = {rank.replace("10", "T") + row[0].translate(marks) for row in rows for rank in row.split()[1:]}
            hand = next(line for line in shown.split("\n") if line.startswith("Your hand: "))
            assert {card.rstrip(",") for card in hand.split()[2:]} == held - {"none" + suit for suit in "shdc"}
            if "Contract: " in printed:
                contract = printed.split("Contract: ")[1].split("\n")[0]
                assert shown.split("Contract: ")[1].split(",")[0] == contract.split()[0].rstrip("X").translate(
                    str.maketrans("♠♥♦♣", "SHDC")
                )
                assert f"declarer {contract.split()[-1]}" in shown
                winners = [line.split("Won by ")[1].rstrip(".") for line in printed.split("\n") if "Won by" in line]
                taken = [line.split("taken by ")[1] for line in shown.split("\n") if "taken by" in line]
                assert taken == winners


def test_bridge_calls_as_told() -> None:
    game = load(BRIDGE)
    state = play(BRIDGE, [], "1H")
    names = set(game.action_names(state, 1).values())
    assert {"pass", "double", "1S", "2C"} <= names
    assert not {"1H", "1D", "redouble"} & names
    state = play(BRIDGE, [], "1H", "double")
    assert "redouble" in game.action_names(state, 2).values()
    assert "double" not in game.action_names(play(BRIDGE, [], "1H", "pass"), 2).values()
    assert play(BRIDGE, [], *["pass"] * 4).returns() == [0] * 4
    assert load("bridge(dealer=3,use_double_dummy_result=False)").movers(
        play("bridge(dealer=3,use_double_dummy_result=False)", [])
    ) == (3,)


def test_bridge_declarer_plays_the_dummy() -> None:
    game = load(BRIDGE)
    deal_ = list(range(52))  # North has all clubs, East all diamonds, South all hearts, West all spades
    calls = ("1H", "pass", "2S", "pass", "4H", "pass", "pass", "pass")
    state = play(BRIDGE, deal_, *calls)
    assert "Contract: 4H, declarer North" in game.position(state, 1)
    assert "Dummy" not in game.position(state, 1)
    state = play(BRIDGE, deal_, *calls, "2d")
    assert state.current_player() == 0
    assert game.position(state, 0).endswith("It is the dummy's turn: choose the card that South plays.")
    assert "Dummy: South, Ah Kh Qh Jh Th 9h 8h 7h 6h 5h 4h 3h 2h\n" in game.position(state, 0)
    state = play(BRIDGE, deal_, *calls, "2d", "2h", "2s")
    assert state.current_player() == 0  # and now for the own hand
    assert "Dummy: South, Ah Kh Qh Jh Th 9h 8h 7h 6h 5h 4h 3h\n" in game.position(state, 0)
    state = play(BRIDGE, deal_, *calls, "2d", "2h", "2s", "2c")
    assert "taken by South" in game.position(state, 0)  # a trump


@pytest.mark.parametrize(
    ("calls", "vulnerable", "score"),
    [
        ("1H", "", 30 + 50 + 6 * 30),
        ("4H", "", 120 + 300 + 3 * 30),
        ("4H double", "", 240 + 300 + 50 + 3 * 100),
        ("4H double redouble", "", 480 + 300 + 100 + 3 * 200),
        ("5D", "", -50 * 11),
        ("2D double", "", -(100 + 200 + 200 + 300 * 5)),
        ("2D double redouble", "", -2 * (100 + 200 + 200 + 300 * 5)),
        ("6H", "", 180 + 300 + 500 + 30),
        ("7H", "", 210 + 300 + 1000),
        ("7H double", "dealer_vul=True,", 420 + 500 + 1500 + 50),
        ("4H double", "dealer_vul=True,", 240 + 500 + 50 + 3 * 200),
        ("6H", "dealer_vul=True,", 180 + 500 + 750 + 30),
        ("1D", "dealer_vul=True,", -100 * 7),
        ("1D double", "dealer_vul=True,", -(200 + 300 * 6)),
    ],
)
def test_bridge_scores_as_told(calls: str, vulnerable: str, score: int) -> None:
    """North has all hearts: with hearts as trump all tricks are his, with diamonds none, because East has those."""
    case = f"bridge({vulnerable}use_double_dummy_result=False)"
    chance = [4 * rank + suit for rank in range(13) for suit in (2, 1, 0, 3)]
    state = play(case, chance, *calls.split(), "pass", "pass", "pass")
    while not state.is_terminal():
        state.apply_action(state.legal_actions()[0])
    assert state.returns() == [score, -score, score, -score]


def test_bridge_scores_no_trump_as_told() -> None:
    """North leads nothing: East, who has all diamonds, leads and takes all tricks."""
    chance = [4 * rank + suit for rank in range(13) for suit in (2, 1, 0, 3)]
    for bid, score in (("1NT", -50 * 7), ("3NT", -50 * 9)):
        state = play(BRIDGE, chance, bid, "pass", "pass", "pass")
        while not state.is_terminal():
            state.apply_action(state.legal_actions()[0])
        assert state.returns()[0] == score
    state = play(BRIDGE, chance, "pass", "pass", "pass", "3NT", "pass", "pass", "pass")
    while not state.is_terminal():
        state.apply_action(state.legal_actions()[0])
    assert state.returns()[3] == -50 * 9


def test_bridge_by_default_ends_with_the_auction() -> None:
    chance = [4 * rank + suit for rank in range(13) for suit in (2, 1, 0, 3)]
    game, state = load("bridge"), play("bridge", chance, "4H", "pass", "pass")
    assert "There is no card play" in game.rules()
    state.apply_action(52)
    assert state.returns() == [510, -510, 510, -510]


# Cribbage. Card 13 * suit + rank, suits c d h s; six cards are dealt to player 0, then six to player 1.


def rank(card: str) -> int:
    return "A23456789TJQK".index(card[0])


def value(card: str) -> int:
    return min(10, rank(card) + 1)


def lines_of(state: State) -> dict[str, list[str]]:
    """What OpenSpiel prints of the true state, by the head of each line."""
    found = (line.partition(":") for line in str(state).split("\n") if ":" in line)
    return {head: rest.split() for head, _, rest in found}


def play_points(cards: list[str]) -> int:
    """What the last card of a count scores, as told."""
    points = 2 * (sum(map(value, cards)) == 15)
    same = next((n for n in range(len(cards), 0, -1) if len({rank(card) for card in cards[-n:]}) == 1), 0)
    points += {2: 2, 3: 6, 4: 12}.get(same, 0)
    for number in range(min(7, len(cards)), 2, -1):
        ranks = sorted(map(rank, cards[-number:]))
        if ranks == list(range(ranks[0], ranks[0] + number)):
            return points + number
    return points


def hand_points(hand: list[str], starter: str) -> int:
    """What four cards and the starter count, as told."""
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


def test_cribbage_counts_as_told() -> None:
    game = load("cribbage")
    for index in range(4):
        chance, state = random.Random(index), game.spiel.new_initial_state()
        points, hands, last = [0, 0], {}, 0
        while not state.is_terminal():
            before, seat = lines_of(state), state.current_player()
            if state.is_chance_node():
                positions.apply_chance(state, chance.random())
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


def test_cribbage_shows_what_a_player_may_know() -> None:
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


def test_cribbage_pass_tells_what_is_not_in_a_hand() -> None:
    """Player 0 passed at 26: no card of 5 or less is dealt to that hand anew."""
    game = load("cribbage")
    chance = [9, 5, 11, 24, 1, 0, 22, 12, 25, 26, 28, 27, 2]
    state = play("cribbage", chance, "Ac 2c", "2h 3h", "Td", "6c", "Kc", "pass")
    assert "Count: 26\n" in game.position(state, 1)
    for index in range(100):
        other = game.resample(state, 1, random.Random(index).random)
        assert min(value(card) for card in lines_of(other)["P0 Hand"]) > 5


def test_cribbage_names_of_suits_do_not_matter() -> None:
    game = load("cribbage")
    chance = [0, 13, 26, 39, 1, 14, 2, 15, 28, 41, 3, 16, 7]
    one = play("cribbage", chance, "As 2c", "3s 4c", "3c")
    two = play("cribbage", [(card + 13) % 52 for card in chance], "Ac 2d", "3c 4d", "3d")
    assert game.symmetry_key(one, 0) == game.symmetry_key(two, 0)
    assert game.information_key(one, 0) != game.information_key(two, 0)
