"""Which state a single-move task asks about: a function of (case, seed, split, depth, k), the same in every process.

A small game is enumerated once per process, and a task picks from all its information states. In a larger game a task
is a seeded random walk. Either way states are split between training and validation by a hash of their symmetry class,
whatever the seed: no state, nor its mirror image, is ever on both sides.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from random import Random
from threading import Lock

from veritas_rl.envs.openspiel.cases import load
from veritas_rl.envs.openspiel.games import Decision, Game, State
from veritas_rl.errors import UserError
from veritas_rl.seeding import digest, generator, uniform

VALIDATION_SHARE = 0.25
"""The share of symmetry classes that is kept for validation."""
MIN_CLASSES = 100
"""A game with fewer symmetry classes is not split: training and validation share them."""
MAX_STATES = 50_000
"""Up to this many states a game is enumerated."""
MAX_LINES = 1e9
"""A game with more lines of play than this, by the estimate of `lines`, is not even tried."""
BLOCK = 128
"""Walks in one block of consecutive tasks end in different information states."""
MAX_WALKS = 4_000
MAX_REPEATS = 32

History = tuple[int, ...]


def decision_of(case: str, k: int, seed: int, split: str, depth: int = -1) -> Decision:
    """The state of a task, and the seat that is asked there.

    Args:
        case: The case, in any spelling.
        k: Which task, from 0. Where fewer states than tasks exist, states come again.
        seed: The seed of the set of tasks.
        split: "train" or "val".
        depth: The most moves by players before the state; -1 for any state of a random game.

    Raises:
        UserError: No state of this split is that near to the start.
    """
    state, seat = _decision(load(case).case, k, seed, split, depth)
    return state.clone(), seat


@lru_cache(maxsize=1024)  # a task is started to be shown, to be played and to be judged
def _decision(case: str, k: int, seed: int, split: str, depth: int) -> Decision:
    if enumerate_states(case) is not None:
        pool = _pool(case, seed, split, depth)
        found = pool[k % len(pool)]
    else:
        found = _block(case, seed, split, depth, k // BLOCK).draw(k % BLOCK)
    return replay(load(case), found.history), found.seat


@lru_cache(maxsize=64)
def is_split(case: str) -> bool:
    """Whether training and validation have different states; otherwise they share all, and validation is "seen"."""
    found = enumerate_states(load(case).case)
    return found is None or len({position.group for position in found}) >= MIN_CLASSES


def split_of(game: Game, state: State, player: int) -> str:
    """The split that the symmetry class of a player's decision falls in, where the game is split."""
    return _split_of_class(game.case, game.symmetry_key(state, player))


def _split_of_class(case: str, group: str) -> str:
    return "val" if digest("split", case, group) < VALIDATION_SHARE * 2**64 else "train"


def count(case: str, split: str, depth: int = -1) -> int | None:
    """How many different states a split of an enumerated game has within a depth; None for larger games."""
    found = enumerate_states(load(case).case)
    return None if found is None else sum(1 for _ in _members(load(case).case, split, depth))


@dataclass(frozen=True)
class Position:
    """A decision: how to reach it, who is asked, and in an enumerated game after how many moves and its symmetry
    class."""

    history: History
    seat: int
    depth: int = -1
    group: str = ""


@lru_cache(maxsize=64)
def enumerate_states(case: str) -> tuple[Position, ...] | None:
    """One decision for each information state, nearest first; None if there are more than `MAX_STATES` states."""
    game = load(case)
    if lines(game) > MAX_LINES:
        return None
    found: dict[str, Position] = {}
    root = game.spiel.new_initial_state()
    seen = {game.state_key(root)}
    level, depth = [root], 0
    while level:
        following: list[State] = []
        for state in level:  # grows while it is read: what chance leads to is no move deeper
            for seat in game.movers(state):
                information = game.information_key(state, seat)
                if information not in found:
                    group = game.symmetry_key(state, seat)
                    found[information] = Position(tuple(state.history()), seat, depth, group)
            for action in state.legal_actions():
                child = state.child(action)
                key = None if child.is_terminal() else game.state_key(child)
                if key is None or key in seen:
                    continue
                seen.add(key)
                if len(seen) > MAX_STATES:
                    return None
                (level if state.is_chance_node() else following).append(child)
        level, depth = following, depth + 1
    return tuple(found.values())


def lines(game: Game) -> float:
    """A rough size of the game tree (Knuth 1975): the median product of branching factors over 9 random games."""
    sizes = []
    for index in range(9):
        random, state, size = generator("lines", game.case, index), game.spiel.new_initial_state(), 1.0
        while not state.is_terminal() and size <= MAX_LINES:
            actions = state.legal_actions()
            size *= len(actions)
            state.apply_action(random.choice(actions))
        sizes.append(size)
    return sorted(sizes)[4]


def _members(case: str, split: str, depth: int) -> Iterator[Position]:
    parted = is_split(case)
    for position in enumerate_states(case) or ():
        near = depth < 0 or position.depth <= depth
        if near and (not parted or _split_of_class(case, position.group) == split):
            yield position


@lru_cache(maxsize=64)
def _pool(case: str, seed: int, split: str, depth: int) -> tuple[Position, ...]:
    members = list(_members(case, split, depth))
    if not members:
        raise _too_shallow(case, split, depth)
    generator("order", case, seed, split, depth).shuffle(members)
    return tuple(members)


def _too_shallow(case: str, split: str, depth: int) -> UserError:
    return UserError(
        f"no position of {case} at most {depth} moves from the start belongs to the split {split!r}: raise"
        " max_random_steps"
    )


@dataclass
class _Block:
    """The walks of `BLOCK` consecutive tasks, drawn in order and only as far as they are asked for."""

    case: str
    seed: int
    split: str
    depth: int
    number: int
    drawn: list[Position] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    lock: Lock = field(default_factory=Lock)

    def draw(self, index: int) -> Position:
        with self.lock:  # one order of drawing, whoever asks
            while len(self.drawn) <= index:
                self._extend()
            return self.drawn[index]

    def _extend(self) -> None:
        game = load(self.case)
        k = self.number * BLOCK + len(self.drawn)
        repeats: list[Position] = []
        for attempt in range(MAX_WALKS):
            random = generator("walk", self.case, self.seed, self.split, self.depth, k, attempt)
            state, seat = walk(game, random, self.depth)
            if split_of(game, state, seat) != self.split:
                continue
            key = game.information_key(state, seat)
            found = Position(tuple(state.history()), seat)
            if key not in self.seen:
                self.seen.add(key)
                self.drawn.append(found)
                return
            repeats.append(found)
            if len(repeats) == MAX_REPEATS:
                break
        if not repeats:
            raise _too_shallow(self.case, self.split, self.depth)
        self.drawn.append(repeats[0])


@lru_cache(maxsize=256)
def _block(case: str, seed: int, split: str, depth: int, number: int) -> _Block:
    return _Block(case, seed, split, depth, number)


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
        # A history is copied to be measured; where players move in turn it has an entry for every move.
        lengths.append(len(state.history()) if game.simultaneous else state.move_number())
        if len(lengths) - 1 == moves:
            break
        state.apply_action(random.choice(state.legal_actions()))
    length = random.choice(lengths) if depth < 0 else lengths[-1]
    asked = replay(game, tuple(state.history()[:length]))
    return asked, random.choice(game.movers(asked))


def deal(state: State, luck: str) -> None:
    """Draw what chance does now, in place, up to the next decision or the end: from the luck and the ply alone."""
    while state.is_chance_node():
        apply_chance(state, uniform("chance", luck, state.move_number()))


def apply_chance(state: State, drawn: float) -> None:
    """Apply an outcome of a chance node by its probability.

    Args:
        state: A chance node; it is changed in place.
        drawn: A number in [0, 1). The outcomes share that interval out in their order; the last one takes what rounding
            leaves.
    """
    action, upto = -1, 0.0
    for action, probability in state.chance_outcomes():  # noqa: B007
        upto += probability
        if drawn < upto:
            break
    state.apply_action(action)


def replay(game: Game, history: History) -> State:
    """The state that a history leads to."""
    state = game.spiel.new_initial_state()
    if not game.simultaneous:
        for action in history:
            state.apply_action(action)
        return state
    steps = iter(history)
    for action in steps:
        if state.is_simultaneous_node():
            # A history holds one action of every player there.
            state.apply_actions([action, *itertools.islice(steps, game.players - 1)])
        else:
            state.apply_action(action)
    return state
