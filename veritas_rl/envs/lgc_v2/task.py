"""The task of a puzzle."""

from dataclasses import dataclass
from typing import ClassVar

from veritas_rl.envs.lgc_v2.puzzle import LANGUAGES, SEEDS
from veritas_rl.envs.task import Manner, Parameters, Task, check_choice
from veritas_rl.errors import UserError

PROMPTS = ("full", "brief")
DRAWN = -1
"""The value of `first_seed` for random seeds."""


@dataclass(frozen=True)
class LGCParameters(Parameters):
    """The environment's own part of the identity.

    Attributes:
        first_seed: In both splits, task k is puzzle k of consecutive seeds from this seed, counting only seeds of the
            case's level if the case names one. -1 draws seeds, so that no puzzle of validation is in training.
    """

    first_seed: int = DRAWN

    def __post_init__(self) -> None:
        if not DRAWN <= self.first_seed < SEEDS:
            raise UserError(f"first_seed must lie between {DRAWN} and {SEEDS - 1}, {self.first_seed} was given")


@dataclass(frozen=True)
class LGCManner(Manner):
    """How a puzzle is shown: "full" with the rules and the answer format, "brief" with only the puzzle.

    Attributes:
        language: The language of the question, "en" or "zh".
    """

    prompts: ClassVar[tuple[str, ...]] = PROMPTS

    language: str = "en"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("language", self.language, LANGUAGES)


@dataclass(frozen=True)
class LGCTask(Task):
    """One puzzle."""

    parameters: LGCParameters = LGCParameters()
    manner: LGCManner = LGCManner()
