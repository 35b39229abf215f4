"""The named players, for training, evaluation, tournaments and demonstrations.

random         a uniformly random legal answer; where answers cannot be listed, the solution of another task
solution       the environment's own solution, if the environment has one
empty          an empty reply

An environment adds players of its own (`Environment.players`): OpenSpiel has mcts:SIMS and exact. Training also
accepts:

none            no opponent: the session's player plays every seat
self            the trained model plays every seat
checkpoint:WHO  a player that `players.loading` opens: a folder, a checkpoint, an adapter, a hub id, a server's address
past            an earlier checkpoint of the same run, drawn for each game
"""

import re
from collections.abc import Iterable

from veritas_rl.envs.base import Player
from veritas_rl.envs.environment import PlayerKind
from veritas_rl.envs.registry import get_environment
from veritas_rl.errors import UserError
from veritas_rl.players.empty import EmptyPlayer
from veritas_rl.players.random import RandomPlayer
from veritas_rl.players.solution import SOLUTION, SolutionPlayer

SELF = "self"
ALL_SEATS = ("none", SELF)
"""The opponents for which the trained model plays every seat."""

CHECKPOINT, PAST = "checkpoint:", "past"
"""The forms of opponents that are models."""

KINDS = (
    PlayerKind(
        forms=("random",),
        pattern="random",
        description="a uniformly random legal answer, or where answers cannot be listed the solution of another task",
        make=lambda name, seed: RandomPlayer(seed),
        level=lambda name: "easy",
    ),
    PlayerKind(
        forms=(SOLUTION,),
        pattern=SOLUTION,
        description="the environment's own solution",
        make=lambda name, seed: SolutionPlayer(),
    ),
    PlayerKind(
        forms=("empty",),
        pattern="empty",
        description="an empty reply, which no environment should pay",
        make=lambda name, seed: EmptyPlayer(),
        level=lambda name: "easy",
    ),
)
"""The players of every environment."""


def kinds_of(env: str) -> tuple[PlayerKind, ...]:
    """The kinds of bots of an environment.

    Raises:
        UserError: There is no such environment.
    """
    return (*KINDS, *get_environment(env).players)


def forms_of(env: str) -> tuple[str, ...]:
    """The forms of the names of an environment's bots."""
    return tuple(form for kind in kinds_of(env) for form in kind.forms)


def kind_of(name: str, env: str) -> PlayerKind:
    """The kind of the bot of this name.

    Raises:
        UserError: There is no such bot.
    """
    for kind in kinds_of(env):
        if re.fullmatch(kind.pattern, name):
            return kind
    raise UserError(
        f"unknown player {name!r}: {env} has {', '.join(forms_of(env))}; training also accepts {CHECKPOINT}WHO, {PAST} "
        f"and {SELF}"
    )


def describe(env: str) -> str:
    """The bots of an environment, one kind per line, for the help of a command line."""
    rows = [(", ".join(kind.forms), kind.description) for kind in kinds_of(env)]
    width = max(len(forms) for forms, _ in rows)
    return "".join(f"  {forms:<{width}}  {description}\n" for forms, description in rows)


def is_bot(name: str, env: str) -> bool:
    """Whether a name refers to a bot, or is meant to, such as "mcts:many"."""
    words = {form.partition(":")[0] for form in forms_of(env)}
    return name.partition(":")[0] in words


def make_bot(name: str, env: str, seed: int | str = 0) -> Player:
    """The bot of this name.

    Raises:
        UserError: There is no such bot.
    """
    return kind_of(name, env).make(name, seed)


def is_model(name: str) -> bool:
    """Whether an opponent is a model other than the trained one."""
    return name == PAST or name.startswith(CHECKPOINT)


def check_bot(name: str, env: str, cases: Iterable[str]) -> None:
    """Check that a bot exists and can play these cases.

    Raises:
        UserError: It does not exist, or cannot play a case; the message says why.
    """
    kind = kind_of(name, env)
    kind.make(name, 0)
    for case in cases:
        kind.check(name, case)


def notes_of(names: Iterable[str], env: str, cases: Iterable[str]) -> list[str]:
    """Notes on the play of these bots in these cases, a sentence each."""
    kinds = [(name, kind_of(name, env)) for name in names if is_bot(name, env)]
    notes = (kind.note(name, case) for case in cases for name, kind in kinds)
    return list(dict.fromkeys(note for note in notes if note))


def stand_in(name: str, env: str, case: str) -> str:
    """The opponent of a case in training: the named one, or its `PlayerKind.stand_in` if it cannot play the case.

    A stage of a curriculum has one opponent for all its games, and a few games cannot be searched.
    """
    if name in ALL_SEATS or is_model(name):
        return name
    kind = kind_of(name, env)
    try:
        kind.check(name, case)
    except UserError:
        return kind.stand_in or name
    return name
