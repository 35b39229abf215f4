"""Logic puzzles as an environment: nine types with five levels each. A program checks each answer."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

from veritas_rl.envs.abilities import TaskName
from veritas_rl.envs.answers import FORMS, one_answer, visible_part
from veritas_rl.envs.audit import Audit
from veritas_rl.envs.base import Message, Reason, Reply, Score, Session, Turn
from veritas_rl.envs.environment import Environment
from veritas_rl.envs.lgc_v2.audit import LGCAudit
from veritas_rl.envs.lgc_v2.config import LGCConfig
from veritas_rl.envs.lgc_v2.puzzle import LEVELS, SEEDS, Puzzle, PuzzleKind, level_of
from veritas_rl.envs.lgc_v2.task import DRAWN, LGCManner, LGCParameters, LGCTask
from veritas_rl.envs.lgc_v2.task_ids import kind_of, parts_of, puzzle_of, task_id_of
from veritas_rl.envs.single import SingleAnswerSession, split_level, with_level
from veritas_rl.envs.task import Pay, Task
from veritas_rl.errors import UserError
from veritas_rl.permutation import Permutation
from veritas_rl.seeding import digest

VALIDATION_SHARE = 0.25
"""The share of forms in validation."""

SEEDS_OF_A_TASK = 64
"""The most seeds that a task tries until a puzzle belongs to its split."""

LAST_LINE, WHOLE = "line", "text"
"""The forms of the answer to a brief question: one line, or several lines."""


@dataclass(frozen=True)
class Question:
    """The puzzle of a task.

    Attributes:
        kind: The type of the puzzle.
        seed: The seed of the puzzle.
        puzzle: The puzzle.
    """

    kind: PuzzleKind
    seed: int
    puzzle: Puzzle

    @property
    def task_id(self) -> int:
        """The puzzle's task id."""
        return task_id_of(self.kind, self.seed)


class LGCEnvironment(Environment):
    """Puzzles of nine types and five levels."""

    name: ClassVar[str] = "lgc-v2"
    config_type = LGCConfig
    task_type: ClassVar[type[Task]] = LGCTask
    stages: ClassVar[tuple[Mapping[str, Any], ...]] = (
        {"name": "easy", "levels": [1, 2]},
        {"name": "medium", "levels": [3, 4]},
        {"name": "hard", "levels": [5]},
    )
    answers, solved = "answers that could be read", "right answers"

    def catalogue(self, config: LGCConfig, split: str) -> Sequence[Task]:
        """The tasks: `num_tasks_per_case` of each case, case by case."""
        parameters, manner, pay = config.part(LGCParameters), config.part(LGCManner), config.part(Pay)

        def make(case: str, k: int) -> LGCTask:
            return LGCTask(
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
            UserError: The task belongs to another environment, or its case does not exist.
        """
        asked = _question_of(task)
        kind, puzzle, manner = asked.kind, asked.puzzle, task.manner
        assert isinstance(manner, LGCManner)
        brief = manner.prompt == "brief"
        turn = Turn(
            seat=0,
            messages=messages(asked, manner.prompt, manner.language),
            answers=(),
            dice=(task.chance_seed, 0, 0),
            solution=puzzle.answer if brief else worked(puzzle, manner.language),
            view=asked,
        )
        bare = WHOLE if "\n" in puzzle.answer else LAST_LINE
        form = bare if brief else kind.asked_in
        return SingleAnswerSession(task, turn, lambda reply: judge(reply, asked, form))

    def group(self, task: Task) -> str:
        """The type and the level."""
        name, level = split_level(task.case)
        return task.case if level else with_level(name, level_of(_question_of(task).seed))

    def name_of(self, task: Task) -> TaskName:
        """The puzzle's task id, its type, and its seed."""
        asked = _question_of(task)
        return TaskName(asked.task_id, asked.kind.name, asked.seed)

    def settings_from(self, task_id: int, count: int) -> Mapping[str, Any]:
        """The settings for `count` consecutive puzzles from a task id: the type and the first seed.

        Raises:
            UserError: No type has this number, or the type has fewer than `count` ids from `task_id`.
        """
        kind, seed = parts_of(task_id)
        if seed + count > SEEDS:
            last = task_id_of(kind, SEEDS - 1)
            raise UserError(
                f"the last task id of {kind.name} is {last}; from {task_id} on there are {SEEDS - seed}, not {count}"
            )
        return {"cases": kind.name, "first_seed": seed}

    def equivalence_class(self, task: Task, turn: Turn | None = None) -> str:
        """Puzzles belong to one class if they differ only in order and names."""
        return _form_of(_question_of(task) if turn is None else turn.view)

    def audit(self) -> Audit:
        """Checks of the answers with a second solver, and of wrong answers that must not pay."""
        return LGCAudit(self.start)

    def held_out(self, task: Task, turn: Turn) -> bool:
        """Whether the puzzle's form belongs to validation."""
        return split_of(_form_of(turn.view)) == "val"

    def next_step(self, cases: Collection[str]) -> tuple[str, str]:
        """The suggestion to train on puzzles of the level after the hardest; after the last, longer on all levels."""
        hardest = max((split_level(case)[1] for case in cases), default=2)
        last = hardest == LEVELS[-1]
        words = "a longer run with puzzles of all levels" if last else "harder puzzles"
        levels = f"'[{','.join(map(str, LEVELS))}]' trainer.total_training_steps=200" if last else hardest + 1
        return (
            f"{words}, on the same machine or on one with GPUs",
            f"bash train/scripts/lgc-v2-RL-GRPO-trainer.sh data.custom_cls.config.adapter_config.levels={levels} "
            "data.max_response_length=48",
        )


def messages(asked: Question, prompt: str, language: str) -> tuple[Message, ...]:
    """The messages for a puzzle. The full prompt ends with the rule of which answer counts."""
    full = f"{asked.puzzle.question(language)} {FORMS[asked.kind.asked_in].rule[language]}"
    return ({"role": "user", "content": asked.puzzle.brief if prompt == "brief" else full},)


def worked(puzzle: Puzzle, language: str) -> str:
    """A reply that solves a puzzle: the steps, then the answer."""
    return f"{puzzle.steps(language)}\n\n{puzzle.final(language)}"


def judge(reply: Reply, asked: Question, form: str) -> Score:
    """Score a reply: 1 for a right answer, else 0.

    Args:
        reply: Any reply.
        asked: The puzzle.
        form: The form that the prompt asks for, a key of `FORMS`; it is tried first.
    """
    shown = visible_part(reply)
    said = shown if isinstance(shown, Reason) else one_answer(shown, asked.puzzle.read, form)
    if isinstance(said, Reason):
        return Score(0.0, False, said)
    right = asked.puzzle.is_right(said)
    return Score(float(right), right, Reason.CORRECT if right else Reason.WRONG, {"task_id": asked.task_id})


def split_of(form: str) -> str:
    """The split of a form, independent of the seed."""
    return "val" if digest("split", "lgc-v2", form) < VALIDATION_SHARE * 2**64 else "train"


def _form_of(asked: Question) -> str:
    return f"{asked.kind.name}/{digest('form', asked.puzzle.form):016x}"


def _question_of(task: Task) -> Question:
    if not isinstance(task, LGCTask):
        raise UserError(f"{task.id} is no lgc-v2 task")
    return _question(task.case, task.k, task.seed, task.split, task.parameters.first_seed)


@lru_cache(maxsize=4096)
def _question(case: str, k: int, seed: int, split: str, first_seed: int) -> Question:
    name, level = split_level(case)
    kind = kind_of(name)
    if level and level not in LEVELS:
        raise UserError(f"{case!r} is no case of lgc-v2; levels go from {LEVELS[0]} to {LEVELS[-1]}")
    if first_seed != DRAWN:
        number = first_seed + (k if not level else _to_level(first_seed, level) + k * len(LEVELS))
        return Question(kind, number, puzzle_of(name, number))
    each = SEEDS // len(LEVELS) if level else SEEDS
    order = Permutation(each, "lgc-v2", name, level, seed)
    for attempt in range(SEEDS_OF_A_TASK):
        drawn = order[(k * SEEDS_OF_A_TASK + attempt) % each]
        number = drawn * len(LEVELS) + level - 1 if level else drawn
        asked = Question(kind, number, puzzle_of(name, number))
        if split_of(_form_of(asked)) == split:
            return asked
    raise UserError(f"{case} has no puzzle for task {k} of the split {split}")


def _to_level(seed: int, level: int) -> int:
    """The distance to the next seed of a level."""
    return (level - level_of(seed)) % len(LEVELS)
