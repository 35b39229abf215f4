"""Task ids of 12 digits, GGGGCCCCCCCC: the index of a game, and the number of its variant.

The numbering is the community's. A variant selects a configuration of its game; configurations repeat after a few
variants. Every variant is a separate task with its own deals: variant C of a game is task number C of the selected
case. So 200000042 is leduc_poker with k = 42. Numbers beyond the list are errors.

An id names one task of the split "train", in training and in validation, so training and validation by id use the same
tasks. Tasks of the split "val" have no ids.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from veritas_rl.envs.openspiel.cases import canonical, write_case
from veritas_rl.errors import UserError

VARIANTS = 10**8
"""The number of variants of a game."""

Parameters = Mapping[str, Any]


def _bits(*names: str) -> Callable[[int], Parameters]:
    return lambda c: {name: bool(c >> bit & 1) for bit, name in enumerate(names)}


@dataclass(frozen=True)
class IndexedGame:
    """One game of the numbering.

    Attributes:
        name: OpenSpiel's short name.
        configurations: The number of different configurations, after which they repeat.
        parameters: The parameters of a variant.
    """

    name: str
    configurations: int = 1
    parameters: Callable[[int], Parameters] = lambda c: {}

    def case(self, variant: int) -> str:
        """The canonical case of a variant."""
        return canonical(write_case(self.name, dict(self.parameters(variant % self.configurations))))


INDEXED_GAMES = (
    IndexedGame("goofspiel", 5, lambda c: {"num_cards": 8 + 2 * c, "points_order": "random"}),
    IndexedGame("liars_dice", 1, lambda c: {"numdice": 5}),
    IndexedGame("leduc_poker"),
    IndexedGame("gin_rummy", 9, lambda c: {"hand_size": 7 + c // 3, "knock_card": 10 - c % 3}),
    IndexedGame("othello"),
    IndexedGame("backgammon"),
    IndexedGame("hex", 4, lambda c: {"board_size": 5 + 2 * c}),
    IndexedGame("clobber", 3, lambda c: {"rows": 5 + c, "columns": 5 + c}),
    IndexedGame("hearts", 8, _bits("pass_cards", "jd_bonus", "avoid_all_tricks_bonus")),
    IndexedGame("euchre", 4, _bits("allow_lone_defender", "stick_the_dealer")),
    IndexedGame("dots_and_boxes", 3, lambda c: {"num_rows": 3 + c, "num_cols": 3 + c}),
    IndexedGame("go", 2, lambda c: {"board_size": 5 + 2 * c, "komi": 7.5}),
    IndexedGame("chess"),
    IndexedGame("checkers"),
    IndexedGame("quoridor", 4, lambda c: {"board_size": 7 + 2 * (c // 2), "wall_count": 8 + 2 * (c % 2)}),
    IndexedGame("blackjack"),
    IndexedGame("phantom_ttt", 2, lambda c: {"obstype": ("reveal-nothing", "reveal-numturns")[c]}),
    IndexedGame("2048"),
    IndexedGame("solitaire"),
    # In the community's list, variants 1 and 2 name parameters that OpenSpiel lacks; here they are vulnerabilities.
    IndexedGame("bridge", 3, lambda c: {"dealer_vul": c > 0, "non_dealer_vul": c > 1}),
    IndexedGame("amazons", 3, lambda c: {"board_size": 6 + 2 * c}),
    # In the community's list, the parameter has a name that OpenSpiel lacks.
    IndexedGame("oware", 3, lambda c: {"num_seeds_per_house": (4, 3, 5)[c]}),
)
"""The games in the order of their indices."""


def case_of(index: int, variant: int) -> str:
    """The canonical case of a variant of an indexed game.

    Raises:
        UserError: The index or the variant is out of range.
    """
    if not 0 <= index < len(INDEXED_GAMES):
        raise UserError(
            f"game index {index} is out of range; indices go from 0 ({INDEXED_GAMES[0].name}) to"
            f" {len(INDEXED_GAMES) - 1} ({INDEXED_GAMES[-1].name})"
        )
    if not 0 <= variant < VARIANTS:
        raise UserError(f"variant {variant} is out of range; variants go from 0 to {VARIANTS - 1:,}")
    return _case(index, variant % INDEXED_GAMES[index].configurations)


@lru_cache(maxsize=256)
def _case(index: int, configuration: int) -> str:
    return INDEXED_GAMES[index].case(configuration)


def decode(task_id: int | str) -> tuple[str, int]:
    """The case and the task number, in the split "train", of a task id.

    Args:
        task_id: A number, or up to 12 digits.

    Raises:
        UserError: It is no task id, or it is out of range.
    """
    text = str(task_id).strip()
    if isinstance(task_id, bool) or not (text.isascii() and text.isdigit()) or len(text) > 12:
        raise UserError(f"a task id has up to 12 digits, GGGGCCCCCCCC, {task_id!r} was given")
    index, variant = divmod(int(text), VARIANTS)
    return case_of(index, variant), variant


def encode(case: str, k: int) -> str:
    """The 12 digits of a training task: the inverse of `decode`.

    Raises:
        UserError: The case is no configuration of an indexed game, or is not the case of variant `k`.
    """
    name = case.partition("(")[0]
    for index, game in enumerate(INDEXED_GAMES):
        if game.name == name:
            if case_of(index, k) == canonical(case):
                return f"{index:04}{k:08}"
            raise UserError(f"{case} with k={k} has no task id: variant {k} of {name} is {case_of(index, k)}")
    raise UserError(f"{case} has no task id: {name} is not among the indexed games")
