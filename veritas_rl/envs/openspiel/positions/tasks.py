"""The position of each task: from the pool of a small game, or from walks through a larger one; and its split."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from veritas_rl.envs.openspiel.cases import load
from veritas_rl.envs.openspiel.enumeration import Position, enumerate_states, states_within
from veritas_rl.envs.openspiel.games import Decision, Game, State
from veritas_rl.envs.openspiel.playing import replay
from veritas_rl.envs.openspiel.positions.screening import screen
from veritas_rl.envs.openspiel.positions.walks import candidates, usual_length, walk
from veritas_rl.errors import UserError
from veritas_rl.seeding import digest, generator

VALIDATION_SHARE = 0.25
"""The share of symmetry classes in validation."""
ALL = "all"
"""The part of all positions, beside the splits "train" and "val"."""
MIN_CLASSES = 100
"""The minimum number of symmetry classes of a split game; in smaller games training and validation share them."""
NEAR_STATES = 2_000
"""If more states than this are within a depth, each split is assumed to have some of them."""
MAX_FRUITLESS, MAX_FORCED, MAX_WALKS = 32, 160, 4_000
"""The maximum numbers of walks of a task: fruitless walks in its third of the game, fruitless walks before a position
with one legal action is accepted, and walks in total. A fruitless walk yields no new position with a choice."""
SHARES = 4
"""The number of shares into which the information states of a third are divided. A task uses one share, so that not all
tasks use the few common states."""
PER_WALK = 6
"""The maximum number of decisions considered in one walk."""
SCREENED = 3
"""The number of screened positions of which a task uses the one with the highest confidence. The search ends earlier at
a confidence of at least 1."""


def decision_of(case: str, k: int, seed: int, split: str, depth: int = -1) -> Decision:
    """The state of a task, and the seat to move.

    Args:
        case: The case, in any spelling.
        k: The number of the task, from 0. States repeat if there are fewer states than tasks.
        seed: The seed of the set of tasks.
        split: "train", "val" or `ALL`.
        depth: The maximum number of random moves by players before the state; -1 for a state from any stage of
            the game.

    Raises:
        UserError: The split has no state within the depth, or no state of the game has a choice.
    """
    state, seat = _decision(load(case).case, k, seed, split, depth)
    return state.clone(), seat


@lru_cache(maxsize=8192)  # a task is started for its prompt, its play and its judgement, in each epoch
def _decision(case: str, k: int, seed: int, split: str, depth: int) -> Decision:
    if _positions(case, depth) is not None:
        pool = _pool(case, seed, split, depth)
        found = pool[k % len(pool)]
    else:
        found = _drawn(load(case), k, seed, split, depth)
    return replay(load(case), found.history), found.seat


@lru_cache(maxsize=256)
def _positions(case: str, depth: int, forced: bool = False) -> tuple[Position, ...] | None:
    """All positions that tasks use; None if there are too many to list. Positions with one legal action are used only
    if they are asked for, or a depth allows no others."""
    found = enumerate_states(case)
    if found is not None:
        found = tuple(position for position in found if depth < 0 or position.depth <= depth)
    elif depth >= 0:
        found = states_within(load(case), depth, NEAR_STATES)
    if found is None or forced:
        return found
    return tuple(position for position in found if not position.forced) or (found if depth >= 0 else ())


@lru_cache(maxsize=256)
def is_split(case: str, depth: int = -1) -> bool:
    """Whether training and validation have different states; otherwise they share all states, and validation is "seen".

    They share the states of a game with few symmetry classes. They also share the states within a depth if one split
    would otherwise have none, for example if only the root remains.
    """
    case = load(case).case
    found = _positions(case, -1)
    if found is not None and len({position.group for position in found}) < MIN_CLASSES:
        return False
    near = _positions(case, depth)
    return near is None or len({_split_of_class(case, position.group) for position in near}) == 2


def split_of(game: Game, state: State, player: int) -> str:
    """The split of a player's decision by its symmetry class, if the game is split."""
    return _split_of_class(game.case, game.symmetry_key(state, player))


def _split_of_class(case: str, group: str) -> str:
    return "val" if digest("split", case, group) < VALIDATION_SHARE * 2**64 else "train"


def count(case: str, split: str, depth: int = -1) -> int | None:
    """The number of different states of a split or of `ALL` within a depth; None if there are too many to count."""
    case = load(case).case
    return None if _positions(case, depth) is None else len(_members(case, split, depth))


def _members(case: str, split: str, depth: int) -> list[Position]:
    if split == ALL:
        return list(_positions(case, depth, forced=True) or ())
    shared = not is_split(case, depth)
    found = _positions(case, depth) or ()
    return [position for position in found if shared or _split_of_class(case, position.group) == split]


@lru_cache(maxsize=64)
def _pool(case: str, seed: int, split: str, depth: int) -> tuple[Position, ...]:
    """The positions of a split in the order of the tasks: random with a depth; otherwise each third of the game in
    turn, until its positions are used up."""
    members = _members(case, split, depth)
    if not members:
        raise _no_choice(case)
    generator("order", case, seed, split, depth).shuffle(members)
    if depth >= 0:
        return tuple(members)
    usual = usual_length(case)
    thirds: list[list[Position]] = [[], [], []]
    for position in members:
        thirds[min(2, int(3 * position.depth / max(usual, position.depth + 1)))].append(position)
    # Sorting by the place within a third, then by the third, takes the thirds in turn.
    places = [(place, third) for third, of in enumerate(thirds) for place in range(len(of))]
    return tuple(thirds[third][place] for place, third in sorted(places))


def _no_choice(case: str) -> UserError:
    return UserError(f"{case} asks nobody to choose: each of its positions has one legal action, so it makes no task")


def _too_shallow(case: str, split: str, depth: int) -> UserError:
    return UserError(
        f"no position of {case} at most {depth} moves from the start belongs to the split {split!r}: raise"
        " max_random_steps"
    )


@dataclass
class _Search:
    """The progress of the search for one task's position.

    Attributes:
        best: The screened position with the highest confidence that its moves differ.
        score: The confidence of `best`, see `screen`.
        screened: The number of screened positions.
        forced: The first position found with one legal action.
        fruitless: The number of walks without a position to screen.
    """

    best: Position | None = None
    score: float = -1.0
    screened: int = 0
    forced: Position | None = None
    fruitless: int = 0

    @property
    def over(self) -> bool:
        """Whether the search needs no further position."""
        return self.screened >= SCREENED or self.score >= 1.0


def _drawn(game: Game, k: int, seed: int, split: str, depth: int) -> Position:
    """The position of a task of a game with too many positions to list, independent of all other tasks."""
    search, third = _Search(), game.walk_thirds[k % len(game.walk_thirds)]
    open_ = [0, 1, 2]
    for attempt in range(MAX_WALKS):
        random = generator("walk", game.case, seed, split, depth, k, attempt)
        if depth >= 0:
            found: Iterable[Decision] = [walk(game, random, depth)]
        else:
            found = candidates(game, random, third if third in open_ else random.choice(open_), PER_WALK)
        share = k // len(game.walk_thirds) % SHARES if third in open_ and depth < 0 else None
        _look_at(game, found, split, depth, share, search)
        if search.over:
            break
        if search.fruitless >= MAX_FRUITLESS:
            if search.best or (search.fruitless >= MAX_FORCED and search.forced):
                break
            if third in open_:
                open_.remove(third)
    position = search.best or search.forced
    if position is None:
        raise _too_shallow(game.case, split, depth) if depth >= 0 else _no_choice(game.case)
    return position


def _look_at(game: Game, found: Iterable[Decision], split: str, depth: int, share: int | None, search: _Search) -> None:
    """Screen the decisions of a walk in turn until the search is over."""
    before = search.screened
    for state, seat in found:
        forced = len(state.legal_actions(seat)) == 1
        if (forced and depth < 0) or split not in (ALL, split_of(game, state, seat)):
            continue
        position = Position(tuple(state.history()), seat)
        if forced:
            search.forced = search.forced or position
            continue
        if share is not None and digest("share", game.information_key(state, seat)) % SHARES != share:
            continue
        score = screen(game, state, seat) if game.can_resample else 1.0
        search.screened += 1
        if score > search.score:
            search.best, search.score = position, score
        if search.over:
            return
    search.fruitless += search.screened == before
