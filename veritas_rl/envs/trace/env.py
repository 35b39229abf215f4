"""Code tracing as an environment: the prompt shows a Python program and asks for its exact output."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from veritas_rl.envs.audit import Audit
from veritas_rl.envs.base import Session, Turn
from veritas_rl.envs.environment import Environment
from veritas_rl.envs.single import SingleAnswerSession
from veritas_rl.envs.task import Task
from veritas_rl.envs.trace import text
from veritas_rl.envs.trace.asking import begin, question_of
from veritas_rl.envs.trace.audit import TraceAudit
from veritas_rl.envs.trace.config import TraceConfig
from veritas_rl.envs.trace.questions import FILE, LEVELS, Identity, Question, level_of, split_of
from veritas_rl.envs.trace.scoring import judge
from veritas_rl.envs.trace.survey import survey
from veritas_rl.envs.trace.task import TraceManner, TraceParameters, TracePay, TraceTask
from veritas_rl.envs.trace.truths import Truths
from veritas_rl.errors import UserError


class TraceEnvironment(Environment):
    """Programs of ten levels, and users' own programs."""

    name: ClassVar[str] = "trace"
    config_type = TraceConfig
    task_type: ClassVar[type[Task]] = TraceTask
    stages: ClassVar[tuple[Mapping[str, Any], ...]] = (
        {"name": "easy", "cases": ["level_1", "level_2"]},
        {"name": "medium", "cases": ["level_3", "level_4", "level_5"]},
        {"name": "hard", "cases": ["level_6", "level_7", "level_8", "level_9", "level_10"]},
    )
    answers, solved = "answers that could be read", "exact outputs"

    def catalogue(self, config: TraceConfig, split: str) -> Sequence[Task]:
        """The tasks: `num_tasks_per_case` of each case, case by case."""
        parameters, manner, pay = config.part(TraceParameters), config.part(TraceManner), config.part(TracePay)

        def make(case: str, k: int) -> TraceTask:
            return TraceTask(
                self.name,
                case,
                k,
                seed=config.seed,
                split=split,
                parameters=parameters,
                manner=manner,
                pay=pay,
            )

        return config.tasks(split, make)

    def start(self, task: Task) -> Session:
        """A new session of a task.

        Raises:
            UserError: The task belongs to another environment, its case does not exist, or it has no usable program.
        """
        asked = question_of(_identity(task))
        manner, pay = task.manner, task.pay
        assert isinstance(pay, TracePay)
        shown = f"{asked.source}\n{asked.stdin}"
        turn = Turn(
            seat=0,
            messages=text.messages(asked, manner.prompt),
            answers=(),
            dice=(task.chance_seed, 0, 0),
            solution=text.solution(asked.truth, manner.prompt),
            view=asked,
        )
        return SingleAnswerSession(task, turn, lambda reply: judge(reply, asked.truth, pay, shown))

    def prepare(self, tasks: Iterable[Task]) -> None:
        """Run the programs of tasks that start soon, in the background."""
        begin([_identity(task) for task in tasks])

    def survey(self, tasks: Iterable[Task], progress: Callable[[str, int, int], None]) -> Sequence[str]:
        """A line for each file of users' programs of which some are not asked. The programs are run for it.

        Raises:
            UserError: A file has no program that can be asked.
        """
        files: dict[str, list[Identity]] = {}
        for asked in map(_identity, tasks):
            if asked.case.startswith(FILE):
                files.setdefault(asked.case, []).append(asked)
        with Truths() as running:
            said = [
                survey(case, max(one.debug_prints for one in some), {one.split for one in some}, running, progress)
                for case, some in files.items()
            ]
        return [line for line in said if line]

    def next_step(self, cases: Collection[str]) -> tuple[str, str]:
        """The suggestion to train on programs of the level after the hardest; after the last, longer on all levels."""
        hardest = max((level_of(case) for case in cases if case in LEVELS), default=1)
        last = hardest == len(LEVELS)
        words = "a longer run with programs of all levels" if last else "harder programs"
        levels = f"'[{','.join(LEVELS)}]' trainer.total_training_steps=200" if last else LEVELS[hardest]
        return (
            f"{words}, on the same machine or on one with GPUs",
            f"bash train/scripts/trace-GRPO-trainer.sh data.custom_cls.config.adapter_config.levels={levels} "
            "data.max_response_length=384",
        )

    def group(self, task: Task) -> str:
        """The level, or "programs" for users' own programs."""
        return FILE.rstrip(":") if task.case.startswith(FILE) else task.case

    def equivalence_class(self, task: Task, turn: Turn | None = None) -> str:
        """Programs belong to one class if they differ only in names, comments and layout."""
        asked: Question = question_of(_identity(task)) if turn is None else turn.view
        return asked.form

    def audit(self) -> Audit:
        """Checks by other runs of the programs."""
        return TraceAudit(self.start)

    def held_out(self, task: Task, turn: Turn) -> bool:
        """Whether the program's form belongs to validation."""
        asked: Question = turn.view
        return split_of(asked.form) == "val"


def _identity(task: Task) -> Identity:
    if not isinstance(task, TraceTask):
        raise UserError(f"{task.id} is no trace task")
    return Identity(task.case, task.k, task.seed, task.split, task.parameters.debug_prints)
