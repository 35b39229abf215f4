"""The settings of the trace environment."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar

from veritas_rl.envs.settings import at_least
from veritas_rl.envs.single import SingleAnswerConfig
from veritas_rl.envs.trace.injection import MOST_PRINTS
from veritas_rl.envs.trace.questions import FILE, LEVELS
from veritas_rl.envs.trace.task import TraceManner, TraceParameters, TracePay
from veritas_rl.errors import UserError


class TraceConfig(SingleAnswerConfig):
    """The settings of trace tasks.

    Attributes:
        cases: level_1 (the easiest) to level_10, or programs:FILE for users' own programs. FILE is a JSONL or parquet
            file with a column `program` and an optional column `inputs` for standard input. A list, or a text with
            commas; empty for all levels.
        prompt: "full" includes instructions; "brief" shows only the program and its input, for a model too small to
            follow instructions.
        reward: "outcome" pays only for the right output; "partial" pays a wrong output the share of its right lines.
        compare: "exact" ignores white space at the ends of lines and of the output; "lenient" also treats any white
            space between words as one space, and ignores white space before lines and empty lines.
        debug_prints: The most prints __DBG_0__, __DBG_1__, ... that are injected, 0 to 6.
    """

    user_keys: ClassVar[Mapping[str, str]] = {**SingleAnswerConfig.user_keys, "levels": "cases"}
    single: ClassVar[Mapping[str, Any]] = {"reward": "outcome"}
    part_types = (TraceParameters, TraceManner, TracePay)

    compare: str = "exact"
    debug_prints: Annotated[int, at_least(0)] = MOST_PRINTS

    def known_cases(self) -> tuple[str, ...]:
        """The levels."""
        return LEVELS

    def accepts(self, case: str) -> bool:
        """Whether a case names a file of programs.

        Raises:
            UserError: The file does not exist.
        """
        if not case.startswith(FILE):
            return False
        path = Path(case.removeprefix(FILE))
        if not path.is_file():
            raise UserError(f"the file {path} does not exist; give a JSONL or parquet file of programs after {FILE}")
        return True
