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
        cases: Which programs: level_1 (the easiest) to level_10, and programs:FILE for your own, a JSONL or parquet
            file with a column `program` and, where they read something, `inputs`. A list, or a text with commas; empty
            for all levels.
        num_tasks_per_case: Tasks of each case.
        seed: The seed of the set of tasks.
        prompt: "full" says what is asked; "brief" shows the program alone, for a model too small to read.
        reward: "outcome" pays for the right output alone; "partial" pays a wrong one the share of its lines that are
            right.
        legal_share: The share of the reward that is paid for an answer that could be read.
        compare: "exact" ignores white space at the ends of lines and of the output; "lenient" also takes any white
            space between words for a space, and ignores empty lines.
        debug_prints: At most so many prints __DBG_0__ .. are injected, 0 to 6.
    """

    compare: str = "exact"
    debug_prints: int = MOST_PRINTS

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "debug_prints", whole_number("debug_prints", self.debug_prints, 0))
        # Each part of a task checks its values.
        TraceParameters(self.debug_prints)
        TraceManner(prompt=self.prompt)
        TracePay(reward=self.reward, legal_share=self.legal_share, compare=self.compare)

    def known_cases(self) -> tuple[str, ...]:
        """The levels."""
        return LEVELS

    def accepts(self, case: str) -> bool:
        """Whether a case names a file.

        Raises:
            UserError: The file does not exist.
        """
        if not case.startswith(FILE):
            return False
        path = Path(case.removeprefix(FILE))
        if not path.is_file():
            raise UserError(f"the file {path} does not exist; give a JSONL or parquet file of programs after {FILE}")
        return True
