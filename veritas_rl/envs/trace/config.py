"""The settings of the trace environment."""

from dataclasses import dataclass
from pathlib import Path

from veritas_rl.envs.single import SingleAnswerConfig, whole_number
from veritas_rl.envs.trace.injection import MOST_PRINTS
from veritas_rl.envs.trace.questions import FILE, LEVELS
from veritas_rl.envs.trace.task import TraceManner, TraceParameters, TracePay
from veritas_rl.errors import UserError


@dataclass(frozen=True)
class TraceConfig(SingleAnswerConfig):
    """The settings of trace tasks.

    Attributes:
        cases: level_1 (the easiest) to level_10, or programs:FILE for users' own programs. FILE is a JSONL or parquet
            file with a column `program` and an optional column `inputs` for standard input. A list, or a text with
            commas; empty for all levels.
        num_tasks_per_case: Tasks of each case.
        seed: The seed of the set of tasks.
        prompt: "full" includes instructions; "brief" shows only the program and its input, for a model too small to
            follow instructions.
        reward: "outcome" pays only for the right output; "partial" pays a wrong output the share of its right lines.
        legal_share: The share of the reward that is paid for an answer that could be read.
        compare: "exact" ignores white space at the ends of lines and of the output; "lenient" also treats any white
            space between words as one space, and ignores white space before lines and empty lines.
        debug_prints: The most prints __DBG_0__, __DBG_1__, ... that are injected, 0 to 6.
    """

    compare: str = "exact"
    debug_prints: int = MOST_PRINTS

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "debug_prints", whole_number("debug_prints", self.debug_prints, 0))
        # The parts of a task check their values.
        TraceParameters(self.debug_prints)
        TraceManner(prompt=self.prompt)
        TracePay(reward=self.reward, legal_share=self.legal_share, compare=self.compare)

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
