"""How a game is played up to a position: to what depth, and by which players.

A position that only random play reaches is no position of the game: chess has lost its pieces, bridge is bid to seven.
So each seat of a walk plays with a skill of its own, from one that chooses every move at random to one that chooses
every move well: by the game's own `sensible_action`, else by a short look at what random play makes of a few moves.
"""

from collections.abc import Iterator
from functools import lru_cache
from random import Random

from veritas_rl.envs.openspiel.cases import load
from veritas_rl.envs.openspiel.games import Decision, Game, State
from veritas_rl.envs.openspiel.positions.moves import apply_chance, replay
from veritas_rl.seeding import generator

LENGTH_GAMES = 16
"""How many random games show how long a game is."""
LOOKED_AT = 4
"""Among so many random moves a good player of the general kind chooses."""
LOOK_AHEAD = 8
"""How many moves each of them is played on for, at most."""
LOOKING_MOVES = 600
"""How many moves a walk may spend on looking ahead: in a long game not every move is looked for."""


def walk(game: Game, random: Random, depth: int = -1) -> Decision:
    """A decision of a random game.

    Args:
        game: The game.
        random: Chooses every move uniformly and every chance outcome by its probability.
        depth: -1: the game is played to its end, and one of its decision nodes is chosen uniformly. Otherwise a number
            of moves is chosen uniformly from 0 to `depth`; if the game ends before, its last decision node is taken.
    """
    moves = random.randint(0, depth) if depth >= 0 else -1
    state = game.spiel.new_initial_state()
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
    """How many entries a state's history has."""
    # A history is copied to be measured; where players move in turn it has an entry for every move.
    return len(state.history()) if game.simultaneous else state.move_number()


def candidates(game: Game, random: Random, third: int, count: int) -> Iterator[Decision]:
    """Decisions of one game in one third of it, in a random order.

    The depth of each is uniform over the third, measured by the usual length of a random game; if this game is shorter,
    by its own.

    Args:
        game: The game.
        random: Chooses the depths, the players and their moves.
        third: 0, 1 or 2.
        count: How many decisions, at most.
    """
    usual = usual_length(game.case)
    shares = [(third + random.random()) / 3 for _ in range(count)]
    wanted = {int(share * usual): share for share in shares}
    players = [_Player(game, random, usual) for _ in range(game.players)]
    state, found, lengths = game.spiel.new_initial_state(), [], []
    last = max(wanted)
    while not state.is_terminal():
        if state.is_chance_node():
            apply_chance(state, random.random())
            continue
        if len(lengths) in wanted:
            found.append(state.clone())
            if len(lengths) == last:
                break
        lengths.append(history_length(game, state))
        mover = state.current_player()
        state.apply_action(players[mover].choose(state) if mover >= 0 else random.choice(state.legal_actions()))
    if len(found) < len(wanted) and state.is_terminal():
        known = {length for number, length in enumerate(lengths) if number in wanted}
        short = {lengths[int(share * len(lengths))] for number, share in wanted.items() if number >= len(lengths)}
        found += [replay(game, tuple(state.history()[:length])) for length in sorted(short - known)]
    random.shuffle(found)
    return ((asked, random.choice(game.movers(asked))) for asked in found)


class _Player:
    """A seat's player in one walk.

    Args:
        game: The game.
        random: The walk's.
        usual: How many decisions a random game has.
    """

    def __init__(self, game: Game, random: Random, usual: float) -> None:
        self.game = game
        self.random = random
        self.skill = random.choice(game.walk_skills)
        ahead = min(usual, LOOK_AHEAD)
        looks = not game.simultaneous and not game.hidden
        self.looking = min(1.0, LOOKING_MOVES / (usual * LOOKED_AT * ahead)) if looks else 0.0

    def choose(self, state: State) -> int:
        """The action of the player to move."""
        actions = state.legal_actions()
        if len(actions) == 1:
            return actions[0]
        if self.random.random() < self.skill:
            sensible = self.game.sensible_action(state, self.random)
            if sensible is not None:
                return sensible
            if self.looking and self.random.random() < self.looking:
                return self._look(state, actions)
        return self.random.choice(actions)

    def _look(self, state: State, actions: list[int]) -> int:
        """Of a few moves the one after which a short random game goes best."""
        player, random = state.current_player(), self.random
        some = random.sample(actions, min(LOOKED_AT, len(actions)))
        return max(some, key=lambda action: self._try(state, action, player))

    def _try(self, state: State, action: int, player: int) -> float:
        end = state.child(action)
        for _ in range(LOOK_AHEAD):
            if end.is_terminal():
                break
            if end.is_chance_node():
                apply_chance(end, self.random.random())
            else:
                end.apply_action(self.random.choice(end.legal_actions()))
        return self.game.graded(state, end, player, "auto")


@lru_cache(maxsize=256)
def usual_length(case: str) -> float:
    """How many decisions a random game has, on average."""
    game, decisions = load(case), 0
    for index in range(LENGTH_GAMES):
        random, state = generator("usual length", case, index), game.spiel.new_initial_state()
        while not state.is_terminal():
            if state.is_chance_node():
                apply_chance(state, random.random())
            else:
                decisions += 1
                state.apply_action(random.choice(state.legal_actions()))
    return decisions / LENGTH_GAMES
