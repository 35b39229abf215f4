"""Plays games up to positions, with players of different skills.

Random play alone reaches unrealistic positions: most chess pieces are lost, and bridge auctions reach level seven. So
each seat of a walk has its own skill, from random moves to good moves only. Good moves come from the game's own
`sensible_action`, or else from a short look-ahead with a few random moves.
"""

from collections.abc import Iterator
from functools import lru_cache
from random import Random
from statistics import linear_regression

from veritas_rl.envs.openspiel.cases import load
from veritas_rl.envs.openspiel.games import Decision, Game, State
from veritas_rl.envs.openspiel.playing import apply_chance, replay
from veritas_rl.seeding import generator

MEASURED_GAMES = 16
"""The number of games for an estimate of the length."""
MEASURED_POINTS = 3
"""The number of decisions of each game from which the rest of the game is played again."""
LONGEST = 0.9
"""The share of games that are over at the end of the last third."""
LOOKED_AT = 4
"""The number of random moves that a look-ahead compares."""
LOOK_AHEAD = 8
"""The maximum number of moves of a look-ahead, including the compared move."""
LOOKING_MOVES = 600
"""The approximate maximum of look-ahead moves in a walk; in a long game not every move is chosen by look-ahead."""


def walk(game: Game, random: Random, depth: int = -1) -> Decision:
    """A decision of a random game.

    Args:
        game: The game.
        random: Chooses every move uniformly and every chance outcome by its probability.
        depth: -1: the game is played to its end, and one of its decision nodes is chosen uniformly. Otherwise a number
            of moves is chosen uniformly from 0 to `depth`; if the game ends earlier, its last decision node is taken.
    """
    moves = random.randint(0, depth) if depth >= 0 else -1
    state = game.new_game()
    lengths: list[int] = []
    while not state.is_terminal():
        if state.is_chance_node():
            apply_chance(state, random.random())
            continue
        lengths.append(history_length(game, state))
        if len(lengths) - 1 == moves:
            break
        state.apply_action(random.choice(state.legal_actions()))
    length = random.choice(lengths) if depth < 0 else lengths[-1]
    asked = replay(game, tuple(state.history()[:length]))
    return asked, random.choice(game.movers(asked))


def history_length(game: Game, state: State) -> int:
    """The length of a state's history."""
    # `history` makes a copy. If players move in turn, `move_number` gives the same length without a copy.
    return len(state.history()) if game.simultaneous else state.move_number()


def candidates(game: Game, random: Random, third: int, count: int) -> list[Decision]:
    """Decisions from one third of a random game, in random order; empty if the game ends before this third.

    Args:
        game: The game.
        random: Chooses the depths, the players and their moves.
        third: 0, 1 or 2.
        count: The maximum number of decisions. Their depths are uniform over the third.
    """
    begin, end = stages(game.case)[third : third + 2]
    wanted = {int(begin + random.random() * (end - begin)) for _ in range(count)}
    decisions = _decisions(game, game.new_game(), random)
    found = [
        state.clone() for number, state in zip(range(max(wanted) + 1), decisions, strict=False) if number in wanted
    ]
    random.shuffle(found)
    return [(asked, random.choice(game.movers(asked))) for asked in found]


def moves_left(game: Game, state: State, random: Random) -> int:
    """The number of decisions until the end of a game that players of random skill continue from a state."""
    return sum(1 for _ in _decisions(game, state.clone(), random))


def _decisions(game: Game, state: State, random: Random) -> Iterator[State]:
    """The decisions of a game that continues from a state; the same state object is changed each time."""
    players = [_Player(game, random, random.choice(game.walk_skills)) for _ in range(game.players)]
    while not state.is_terminal():
        if state.is_chance_node():
            apply_chance(state, random.random())
            continue
        yield state
        mover = state.current_player()
        state.apply_action(players[mover].choose(state) if mover >= 0 else random.choice(state.legal_actions()))


@lru_cache(maxsize=256)
def stages(case: str) -> tuple[float, float, float, float]:
    """The numbers of decisions after which the three thirds of a game begin, and after which it ends.

    A decision with m moves made and l moves left is at m / (m + l) of the game. A line fitted over some games predicts
    l from m.
    """
    game = load(case)
    made, left, lengths = [], [], []
    for index in range(MEASURED_GAMES):
        random = generator("stages", case, index)
        states = [state.clone() for state in _decisions(game, game.new_game(), random)]
        lengths.append(len(states))
        for number in random.sample(range(len(states)), min(MEASURED_POINTS, len(states))):
            made.append(number)
            left.append(moves_left(game, states[number], random))
    slope, first = linear_regression(made, left) if len(set(made)) > 1 else (-1.0, max(lengths))
    end = float(sorted(lengths)[int(LONGEST * (len(lengths) - 1))])
    begins = [share * first / max(1e-9, 1 - share - share * slope) for share in (1 / 3, 2 / 3)]
    return 0.0, min(begins[0], end / 2), min(begins[1], 0.75 * end), end


class _Player:
    """A seat's player in one walk.

    Args:
        game: The game.
        random: The random numbers of the walk.
        skill: The probability of a good move.
    """

    def __init__(self, game: Game, random: Random, skill: float) -> None:
        self.game = game
        self.random = random
        self.skill = skill
        self.looking = 0.0
        if skill and not game.simultaneous and not game.hidden:
            self.looking = min(1.0, LOOKING_MOVES / (LOOKED_AT * LOOK_AHEAD * usual_length(game.case)))

    def choose(self, state: State) -> int:
        """The action of the player to move."""
        actions = state.legal_actions()
        if len(actions) == 1:
            return actions[0]
        if self.random.random() < self.skill:
            sensible = self.game.sensible_action(state, self.random)
            if sensible is not None:
                return sensible
            if self.random.random() < self.looking:
                return self._look(state, actions)
        return self.random.choice(actions)

    def _look(self, state: State, actions: list[int]) -> int:
        """The best of a few moves by a short random game after each."""
        player, random = state.current_player(), self.random
        some = random.sample(actions, min(LOOKED_AT, len(actions)))
        return max(some, key=lambda action: self._try(state, action, player))

    def _try(self, state: State, action: int, player: int) -> float:
        end, moves = state.child(action), 1
        while not end.is_terminal() and moves < LOOK_AHEAD:
            if end.is_chance_node():
                apply_chance(end, self.random.random())
            else:
                end.apply_action(self.random.choice(end.legal_actions()))
                moves += 1
        return self.game.graded(state, end, player, "auto")


@lru_cache(maxsize=256)
def usual_length(case: str) -> float:
    """The mean number of decisions of a random game."""
    game, random, decisions = load(case), generator("usual length", case), 0
    for _ in range(MEASURED_GAMES):
        state = game.new_game()
        while not state.is_terminal():
            if state.is_chance_node():
                apply_chance(state, random.random())
            else:
                decisions += 1
                state.apply_action(random.choice(state.legal_actions()))
    return decisions / MEASURED_GAMES
