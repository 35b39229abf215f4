"""The settings of the puzzles."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from veritas_rl.configs import split_list
from veritas_rl.envs.lgc_v2.kinds import KINDS
from veritas_rl.envs.lgc_v2.puzzle import LEVELS
from veritas_rl.envs.lgc_v2.task import DRAWN, LGCManner, LGCParameters
from veritas_rl.envs.single import SingleAnswerConfig, whole_number
from veritas_rl.envs.task import Pay
from veritas_rl.errors import UserError

_CASE = re.compile(r"(\w+)_level_(\d)")


@dataclass(frozen=True)
class LGCConfig(SingleAnswerConfig):
    """The settings of puzzle tasks.

    Attributes:
        cases: Types of puzzles, such as sudoku for all levels of this type or sudoku_level_1 for one level. A list, or
            a text with commas; empty for all types.
        num_tasks_per_case: Tasks of each case.
        seed: The seed of the set of tasks.
        prompt: "full" includes instructions; "brief" shows only the puzzle, for a model too small to follow
            instructions.
        reward: "outcome" pays for a right answer.
        legal_share: The share of the reward that is paid for an answer that could be read.
        levels: The levels, 1 (the easiest) to 5, of cases without a level: a list, or a text with commas; empty for
            all.
        language: The language of the questions, "en" or "zh".
        first_seed: The first of consecutive seeds, which replace random seeds. The puzzle of a seed has the task id
            type x 10^8 + seed. Training and validation may then share puzzles.
    """

    levels: Any = ()
    language: str = "en"
    first_seed: int = DRAWN

    def __post_init__(self) -> None:
        super().__post_init__()
        levels = tuple(dict.fromkeys(whole_number("levels", level, 1) for level in _listed(self.levels)))
        if wrong := [level for level in levels if level not in LEVELS]:
            raise UserError(f"levels go from {LEVELS[0]} (the easiest) to {LEVELS[-1]}, {wrong[0]} was given")
        object.__setattr__(self, "levels", levels)
        if levels:
            each = [
                [case] if split_case(case)[1] else [case_of(case, level) for level in levels] for case in self.cases
            ]
            object.__setattr__(self, "cases", tuple(dict.fromkeys(case for cases in each for case in cases)))
        if str(self.first_seed) != str(DRAWN):
            object.__setattr__(self, "first_seed", whole_number("first_seed", self.first_seed, 0))
        # The parts of a task check their values.
        LGCParameters(self.first_seed)
        LGCManner(prompt=self.prompt, language=self.language)
        Pay(reward=self.reward, legal_share=self.legal_share)

    def known_cases(self) -> tuple[str, ...]:
        """The types of puzzles."""
        return tuple(KINDS)

    def accepts(self, case: str) -> bool:
        """Whether a case names a type and a level."""
        name, level = split_case(case)
        return name in KINDS and level in LEVELS


def case_of(name: str, level: int) -> str:
    """The case of one level of a type."""
    return f"{name}_level_{level}"


def split_case(case: str) -> tuple[str, int]:
    """The type and the level of a case; level 0 for a case without a level."""
    found = _CASE.fullmatch(case)
    return (found[1], int(found[2])) if found else (case, 0)


def _listed(levels: Any) -> list[Any]:
    if isinstance(levels, Iterable) and not isinstance(levels, str):
        return list(levels)
    return list(split_list(levels, "levels") if isinstance(levels, str) else [levels])
