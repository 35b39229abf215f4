"""The facts of the puzzles for the linter, and this environment's own checks.

A second solver verifies each answer from only the text of the question, see `second`.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar

from veritas_rl.envs.audit import NotApplicable
from veritas_rl.envs.base import Reason, Reply, Score, Session, Turn
from veritas_rl.envs.lgc_v2 import second
from veritas_rl.envs.lgc_v2.puzzle import LANGUAGES
from veritas_rl.envs.lgc_v2.task import PROMPTS
from veritas_rl.envs.single import SingleAnswerAudit
from veritas_rl.envs.task import Pay, Task

Note = Callable[[str, str], None]


class LGCAudit(SingleAnswerAudit):
    """Checks of the answers and of their judgement.

    Args:
        start: Starts a session of a task.
    """

    selection: ClassVar = ("cases", ("dyck_language", "sudoku"))
    settings: ClassVar = {
        "num_tasks_per_case": (3, 5),
        "seed": (41, 43),
        "levels": ((1,), (2,)),
        "prompt": PROMPTS,
        "language": LANGUAGES,
        "reward": Pay.rewards,
        "legal_share": (0.0, 0.5),
    }

    def __init__(self, start: Callable[[Task], Session]) -> None:
        super().__init__(start)
        self.checks = {
            "a second way to the answer": self.second_way,
            "near misses refused": self.near_misses_refused,
            "every way to write it": self.every_way_to_write_it,
            "splits share no puzzle": self.splits_share_no_puzzle,
        }

    def second_way(self, tasks: Sequence[Task], note: Note) -> str:
        """A second solver agrees with the answer, given only the text of the question."""
        count = 0
        for task, turn in self._asked(tasks, prompt="full", language="en"):
            count += 1
            if wrong := second.disagreement(turn.view.kind.name, turn.messages[-1]["content"], turn.view.puzzle.answer):
                note(task.id, wrong)
        return f"{count} questions"

    def near_misses_refused(self, tasks: Sequence[Task], note: Note) -> str:
        """An answer that is almost right pays nothing."""
        count = 0
        for task, turn in self._asked(tasks, legal_share=0.0, reward="outcome"):
            for kind, wrong in turn.view.puzzle.near_misses():
                for text in (f"```\n{wrong}\n```", f"\\boxed{{{wrong}}}"):
                    count += 1
                    score = self._score(task, text)
                    if score.success or score.value:
                        note(task.id, f"{kind} was paid {score.value:.3g}")
        return f"{count} near misses"

    def every_way_to_write_it(self, tasks: Sequence[Task], note: Note) -> str:
        """The right answer pays in every form, even if the prompt asks for another form. Two different answers in the
        same form are ambiguous."""
        count = 0
        for task, turn in self._asked(tasks, reward="outcome"):
            answer = turn.view.puzzle.answer
            ways = {"a code block": f"Done.\n```\n{answer}\n```", "the last paragraph": f"First I think.\n\n{answer}"}
            if "\n" not in answer:
                ways |= {"a box": f"So \\boxed{{{answer}}}.", "the last line": f"First I think.\n{answer}"}
                ways["a statement"] = f"The answer is {answer}."
            for way, text in ways.items():
                count += 1
                if not self._score(task, text).success:
                    note(task.id, f"the right answer in {way} is no success")
            for kind, wrong in turn.view.puzzle.near_misses():
                if turn.view.puzzle.read(wrong) is not None:
                    both = self._score(task, f"```\n{answer}\n```\nor\n```\n{wrong}\n```")
                    if both.reason is not Reason.AMBIGUOUS:
                        note(task.id, f"the right answer and {kind} were taken as {both.reason}")
                    break
        return f"{count} ways"

    def splits_share_no_puzzle(self, tasks: Sequence[Task], note: Note) -> str:
        """No puzzle of validation is in training, not even in another order or with other names."""
        if getattr(tasks[0].parameters, "first_seed", -1) >= 0:
            raise NotApplicable("with first_seed the splits may share puzzles")
        seeds = (tasks[0].seed, tasks[0].seed + 1)
        forms: dict[str, dict[str, str]] = {"train": {}, "val": {}}
        for split, found in forms.items():
            each = [task.replace(split=split, seed=seed) for seed in seeds for task in tasks]
            for task, turn in self._asked(each):
                found.setdefault(turn.view.puzzle.form, task.id)
        for form in forms["train"].keys() & forms["val"].keys():
            note(forms["train"][form], f"the same puzzle is {forms['val'][form]} of validation")
        return f"{len(forms['train'])} puzzles of training and {len(forms['val'])} of validation"

    def _score(self, task: Task, text: str) -> Score:
        session = self._start(task)
        session.step({0: Reply(text)})
        return session.scores()[0]

    def _asked(self, tasks: Sequence[Task], **changes: object) -> Iterator[tuple[Task, Turn]]:
        return self.asked(task.replace(**changes) if changes else task for task in tasks)
