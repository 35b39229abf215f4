"""The settings of the puzzles."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BeforeValidator

from veritas_rl.envs.lgc_v2.kinds import KINDS
from veritas_rl.envs.lgc_v2.puzzle import LEVELS
from veritas_rl.envs.lgc_v2.task import DRAWN, LGCManner, LGCParameters
from veritas_rl.envs.settings import numbers, whole_number
from veritas_rl.envs.single import LevelledConfig, split_level
from veritas_rl.envs.task import Pay
from veritas_rl.errors import UserError


def _known(levels: tuple[int, ...]) -> tuple[int, ...]:
    if wrong := [level for level in levels if level not in LEVELS]:
        raise UserError(f"levels go from {LEVELS[0]} (the easiest) to {LEVELS[-1]}, {wrong[0]} was given")
    return tuple(dict.fromkeys(levels))


def _first_seed(given: Any) -> int:
    return DRAWN if str(given) == str(DRAWN) else whole_number("first_seed", given, 0)


class LGCConfig(LevelledConfig):
    """The settings of puzzle tasks.

    Attributes:
        cases: Types of puzzles, such as sudoku for all levels of this type or sudoku_level_1 for one level. A list, or
            a text with commas; empty for all types.
        prompt: "full" includes instructions; "brief" shows only the puzzle, for a model too small to follow
            instructions.
        reward: "outcome" pays for a right answer.
        levels: The levels, 1 (the easiest) to 5, of cases without a level: a list, or a text with commas; empty for
            all.
        language: The language of the questions, "en" or "zh".
        first_seed: The first of consecutive seeds, which replace random seeds. The puzzle of a seed has the task id
            type x 10^8 + seed. Training and validation may then share puzzles.
    """

    user_keys: ClassVar[Mapping[str, str]] = {**LevelledConfig.user_keys, "task_types": "cases"}
    part_types = (LGCParameters, LGCManner, Pay)

    levels: Annotated[Any, numbers(1), AfterValidator(_known)] = ()
    language: str = "en"
    first_seed: Annotated[int, BeforeValidator(_first_seed)] = DRAWN

    def known_cases(self) -> tuple[str, ...]:
        """The types of puzzles."""
        return tuple(KINDS)

    def accepts(self, case: str) -> bool:
        """Whether a case names a type and a level."""
        name, level = split_level(case)
        return name in KINDS and level in LEVELS
