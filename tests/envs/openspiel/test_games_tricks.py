"""Hearts, euchre and bridge: the rules in the prompts agree with OpenSpiel."""

from collections.abc import Callable, Iterator

import pytest

from veritas_rl.envs.openspiel.cases import load
from veritas_rl.envs.openspiel.games import State

Play = Callable[..., State]
Games = Callable[[str, int], Iterator[list[State]]]

# Hearts. A card is 4 * rank + suit, with the suits c d h s; the seats get one card at a time in turn.


def dealt_by_suit(*order: int) -> list[int]:
    """A deal in which seat i has all cards of the suit order[i]."""
    return [4 * rank + suit for rank in range(13) for suit in order]


def test_hearts_deal_agrees_with_openspiel(games: Games) -> None:
    game = load("hearts(jd_bonus=True)")
    for *states, _ in games(game.case, 6):
        for state in states:
            seat = state.current_player()
            shown = game.position(state, seat)
            seen = state.to_observation_struct(seat)
            hand = next(line for line in shown.split("\n") if line.startswith("Your hand: "))
            assert {card.lower() for card in hand.split()[2:]} == {card.lower() for card in seen.hands[seat]}
            if "Points taken" in shown:
                points_taken = ", ".join(f"player {other}: {int(points)}" for other, points in enumerate(seen.points))
                assert f"Points taken: {points_taken}" in shown
                assert ("Hearts may be led: yes" in shown) == state.hearts_broken()


def test_hearts_leads_and_follows_by_the_rules(play: Play) -> None:
    case = "hearts"
    state = play(case, [0, *dealt_by_suit(0, 1, 2, 3)])
    assert list(load(case).action_names(state, 0).values()) == ["2c"]
    hearts = play(case, [0, *dealt_by_suit(0, 1, 2, 3)], "2c", "2d")
    assert len(hearts.legal_actions()) == 13  # the player has only hearts for the first trick
    spades = play(case, [0, *dealt_by_suit(0, 1, 2, 3)], "2c", "2d", "2h")
    assert "Qs" not in load(case).action_names(spades, 3).values()
    any_club = play("hearts(can_lead_any_club=True)", [0, *dealt_by_suit(0, 1, 2, 3)])
    assert len(any_club.legal_actions()) == 13


@pytest.mark.parametrize(
    ("parameters", "returns"),
    [("", [26, 0, 0, 0]), ("(avoid_all_tricks_bonus=True)", [26, 0, 0, 0]), ("(jd_bonus=True)", [36, 0, 0, 0])],
)
def test_hearts_moon_is_paid_by_the_rules(parameters: str, returns: list[float], play: Play) -> None:
    state = play(f"hearts{parameters}", [0, *dealt_by_suit(0, 1, 2, 3)])
    while not state.is_terminal():
        state.apply_action(state.legal_actions()[-1])
    assert state.returns() == returns  # 26 minus the points; player 0 took all 26


@pytest.mark.parametrize("parameters", ["", "(avoid_all_tricks_bonus=True,jd_bonus=True)"])
def test_hearts_counts_by_the_rules(parameters: str, games: Games) -> None:
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
    """The winner and the cards of each trick, from the dealt and passed cards and the order of play."""
    start = 65 if history[0] else 53
    holder = {card: seat % 4 for seat, card in enumerate(history[1:53])}
    for place, card in enumerate(history[53:start]):
        holder[card] = (place // 3 + history[0]) % 4
    tricks = [history[first : first + 4] for first in range(start, len(history), 4)]
    return [(holder[max(card for card in cards if card % 4 == cards[0] % 4)], cards) for cards in tricks]


def test_hearts_passes_in_the_given_direction(play: Play) -> None:
    game = load("hearts")
    deal_ = dealt_by_suit(0, 1, 2, 3)
    moves = ["2c", "3c", "4c", "2d", "3d", "4d", "2h", "3h", "4h", "2s", "3s", "4s"]
    state = play("hearts", [1, *deal_], *moves[:4])
    assert "You received" not in game.position(state, 1)  # not before all seats have passed cards
    assert "three cards to player 2 (the left)" in game.position(state, 1)
    for direction, giver in ((1, 0), (2, 3), (3, 2)):
        state = play("hearts", [direction, *deal_], *moves)
        assert f"You received from player {giver}:" in game.position(state, 1)
        assert state.current_player() == direction  # the 2c was passed to this player


def test_hearts_seats_have_one_problem(play: Play) -> None:
    game = load("hearts")
    state, turned = play("hearts", [1, *dealt_by_suit(0, 1, 2, 3)]), play("hearts", [1, *dealt_by_suit(3, 0, 1, 2)])
    for card in ("2s", "3s", "4s"):
        turned.apply_action(next(a for a, name in game.action_names(turned, 0).items() if name == card))
    assert game.symmetry_key(state, 0) == game.symmetry_key(turned, 1)
    assert game.information_key(state, 0) != game.information_key(turned, 1)


# Euchre. A card is 4 * rank + suit, with the ranks 9 T J Q K A and the suits c d h s; dealing begins with the dealer.


def test_euchre_deal_agrees_with_openspiel(games: Games) -> None:
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
    """The chance outcomes of a deal: the dealer, the hands beginning with the dealer's, and the upcard."""
    cards = [["9TJQKA".index(card[0]) * 4 + "cdhs".index(card[1]) for card in hand.split()] for hand in hands]
    return [dealer, *(cards[seat][turn] for turn in range(5) for seat in range(4)), cards[4][0]]


EUCHRE = euchre_deal(0, "9c Tc Qc Kc Ac", "9d Td Jd Qd Kd", "9h Th Jh Qh Kh", "9s Ts Js Qs Ks", "Jc")


def test_euchre_bids_by_the_rules(play: Play) -> None:
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


def test_euchre_bowers_are_trumps_and_alone_pays_four(play: Play) -> None:
    game = load("euchre")
    moves = ("pass", "pass", "pass", "take it up", "discard 9c", "alone")
    state = play("euchre", EUCHRE, *moves, "9d", "Js")  # player 2 sits out; the jack of spades is a trump
    assert "This trick: player 1 9d, player 3 Js\n" in game.position(state, 0)
    state = play("euchre", EUCHRE, *moves, "9d", "Js", "Jc")
    assert state.current_player() == 0  # the jack of clubs beats the jack of spades
    assert "taken by player 0" in game.position(state, 0)
    clubs = play("euchre", EUCHRE, *moves, "9d", "9s", "Jc", "Ac", "Td")
    assert list(game.action_names(clubs, 3).values()) == ["Js"]  # clubs were led, and the jack of spades is a club
    while not state.is_terminal():
        state.apply_action(state.legal_actions()[0])
    assert state.returns() == [4, -4, 4, -4]  # no other trump was left


def test_euchre_defender_asked_to_play_alone_is_shown_no_trick(play: Play) -> None:
    case = "euchre(allow_lone_defender=True)"
    game = load(case)
    asked = play(case, EUCHRE, "pass", "pass", "order up", "discard 9c", "with the partner")
    assert set(game.action_names(asked, asked.current_player()).values()) == {"alone", "with the partner"}
    assert "trick" not in game.position(asked, asked.current_player()).lower()
    leads = play(case, EUCHRE, *("pass", "pass", "order up", "discard 9c"), *["with the partner"] * 3)
    assert "This trick: you lead" in game.position(leads, leads.current_player())


def test_euchre_discard_is_shown_to_the_dealer_alone(play: Play) -> None:
    game = load("euchre")
    state = play("euchre", EUCHRE, "pass", "pass", "order up", "discard 9c", "with the partner")
    assert "9c" not in game.position(state, 1) + game.information_key(state, 1) + game.brief(state, 1)
    state = play("euchre", EUCHRE, "pass", "pass", "order up", "discard 9c", "with the partner", "9d", "9h", "9s")
    assert "you discarded 9c" in game.position(state, 0)


def test_euchre_seats_and_colours_have_one_problem(play: Play) -> None:
    game = load("euchre")
    state = play("euchre", EUCHRE, "pass", "order up", "discard Tc", "with the partner")
    turned = [2, *(card // 4 * 4 + (1, 0, 3, 2)[card % 4] for card in EUCHRE[1:])]
    other = play("euchre", turned, "pass", "order up", "discard Td", "with the partner")
    assert game.symmetry_key(state, 1) == game.symmetry_key(other, 3)
    mixed = [0, *(card // 4 * 4 + (1, 0, 2, 3)[card % 4] for card in EUCHRE[1:])]  # the left bower is a different card
    other = play("euchre", mixed, "pass", "order up", "discard Td", "with the partner")
    assert game.symmetry_key(state, 3) != game.symmetry_key(other, 3)


# Bridge. A card is 4 * rank + suit, with the suits c d h s; the i-th dealt card goes to seat i % 4.

BRIDGE = "bridge(use_double_dummy_result=False)"


def test_bridge_deal_agrees_with_openspiel(games: Games) -> None:
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


def test_bridge_calls_by_the_rules(play: Play) -> None:
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


def test_bridge_declarer_plays_the_dummy(play: Play) -> None:
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
    assert state.current_player() == 0  # now for the declarer's own hand
    assert "Dummy: South, Ah Kh Qh Jh Th 9h 8h 7h 6h 5h 4h 3h\n" in game.position(state, 0)
    state = play(BRIDGE, deal_, *calls, "2d", "2h", "2s", "2c")
    assert "taken by South" in game.position(state, 0)  # South's heart is a trump


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
def test_bridge_scores_by_the_rules(calls: str, vulnerable: str, score: int, play: Play) -> None:
    """North has all hearts and East all diamonds: North takes all tricks with hearts as trump, none with diamonds."""
    case = f"bridge({vulnerable}use_double_dummy_result=False)"
    chance = [4 * rank + suit for rank in range(13) for suit in (2, 1, 0, 3)]
    state = play(case, chance, *calls.split(), "pass", "pass", "pass")
    while not state.is_terminal():
        state.apply_action(state.legal_actions()[0])
    assert state.returns() == [score, -score, score, -score]


def test_bridge_scores_no_trump_by_the_rules(play: Play) -> None:
    """North declares, so East leads and takes all tricks with the diamonds."""
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


def test_bridge_by_default_ends_with_the_auction(play: Play) -> None:
    chance = [4 * rank + suit for rank in range(13) for suit in (2, 1, 0, 3)]
    game, state = load("bridge"), play("bridge", chance, "4H", "pass", "pass")
    assert "There is no card play" in game.rules()
    state.apply_action(52)
    assert state.returns() == [510, -510, 510, -510]
