"""lgc-v2's own checks find nothing in the real environment, and each planted defect is found by its check."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest

from veritas_rl.envs.answers import FORMS
from veritas_rl.envs.audit import NotApplicable
from veritas_rl.envs.base import Reason, Reply, Score, Session
from veritas_rl.envs.lgc_v2.audit import LGCAudit
from veritas_rl.envs.lgc_v2.env import LGCEnvironment, Question, judge, messages
from veritas_rl.envs.lgc_v2.kinds import KINDS
from veritas_rl.envs.lgc_v2.kinds.sudoku import SudokuPuzzle
from veritas_rl.envs.lgc_v2.task import LGCManner
from veritas_rl.envs.lint import Verdict, lint
from veritas_rl.envs.registry import open_catalogue
from veritas_rl.envs.single import SingleAnswerSession
from veritas_rl.envs.task import Task


def tasks(cases: str = "sudoku_level_2", count: int = 2, **config: Any) -> Sequence[Task]:
    settings = {"cases": cases, "num_tasks_per_case": count, **config}
    return list(open_catalogue({"env": "lgc-v2", "adapter_config": settings}, "train"))


class Broken(LGCEnvironment):
    """The real environment with a changed puzzle or judge."""

    def changed(self, task: Task, asked: Question) -> Question:
        """The question that replaces `asked`."""
        return asked

    def score(self, reply: Reply, asked: Question) -> Score:
        """The score that replaces the real one."""
        return judge(reply, asked, asked.kind.asked_in)

    def start(self, task: Task) -> Session:
        (turn,) = super().start(task).turns()
        manner = task.manner
        assert isinstance(manner, LGCManner)
        asked = self.changed(task, turn.view)
        shown = messages(asked, manner.prompt, manner.language)
        return SingleAnswerSession(
            task, dataclasses.replace(turn, messages=shown, view=asked), lambda reply: self.score(reply, asked)
        )


class BrokenSudoku(Broken):
    """Asks a changed sudoku."""

    def other(self, puzzle: SudokuPuzzle) -> SudokuPuzzle:
        """The sudoku that replaces `puzzle`."""
        raise NotImplementedError

    def changed(self, task: Task, asked: Question) -> Question:
        assert isinstance(asked.puzzle, SudokuPuzzle)
        return dataclasses.replace(asked, puzzle=self.other(asked.puzzle))


class WrongLabel(BrokenSudoku):
    """Two digits of the label are swapped."""

    def other(self, puzzle: SudokuPuzzle) -> SudokuPuzzle:
        return dataclasses.replace(puzzle, solution=puzzle.solution[1::-1] + puzzle.solution[2:])


class SecondSolution(BrokenSudoku):
    """A puzzle without the digits 1 and 2 among its givens."""

    def other(self, puzzle: SudokuPuzzle) -> SudokuPuzzle:
        return dataclasses.replace(puzzle, givens=puzzle.givens.translate(str.maketrans("12", "..")))


class NoSolution(BrokenSudoku):
    """A puzzle with one wrong given."""

    def other(self, puzzle: SudokuPuzzle) -> SudokuPuzzle:
        empty = puzzle.givens.index(".")
        wrong = next(digit for digit in "123456789" if digit != puzzle.solution[empty])
        return dataclasses.replace(puzzle, givens=puzzle.givens[:empty] + wrong + puzzle.givens[empty + 1 :])


class AnyGrid(Broken):
    """A grid is accepted if its rows and columns are valid, without a check of boxes and givens."""

    def score(self, reply: Reply, asked: Question) -> Score:
        score = super().score(reply, asked)
        blocks = FORMS["block"].find(reply.text)
        said = asked.puzzle.read(blocks[0]) if blocks else None
        if score.reason is Reason.WRONG and isinstance(said, str):
            lines = [said[row : row + 9] for row in range(0, 81, 9)] + [said[column::9] for column in range(9)]
            if all(len(set(line)) == 9 for line in lines):
                return Score(1.0, True, Reason.CORRECT)
        return score


class ClosedIsEnough(Broken):
    """A reply is accepted if it contains the right sequence of brackets, even with more brackets around it."""

    def score(self, reply: Reply, asked: Question) -> Score:
        right = asked.puzzle.answer in reply.text
        return Score(float(right), right, Reason.CORRECT if right else Reason.WRONG)


class ReadableIsPaid(Broken):
    """A wrong but readable answer is paid 0.1."""

    def score(self, reply: Reply, asked: Question) -> Score:
        score = super().score(reply, asked)
        return Score(0.1, False, score.reason) if score.reason is Reason.WRONG else score


class LastAnswerCounts(Broken):
    """The last of several answers counts."""

    def score(self, reply: Reply, asked: Question) -> Score:
        blocks = FORMS["block"].find(reply.text)
        return super().score(Reply(f"```\n{blocks[-1]}\n```" if blocks else reply.text), asked)


class BoxesAlone(Broken):
    """Only boxed answers are read."""

    def score(self, reply: Reply, asked: Question) -> Score:
        return super().score(reply, asked) if "\\boxed" in reply.text else Score(0.0, False, Reason.UNPARSEABLE)


class RenamedInTraining(Broken):
    """Training asks the puzzles of validation with permuted digits and rows."""

    def changed(self, task: Task, asked: Question) -> Question:
        if task.split == "val":
            return asked
        (turn,) = LGCEnvironment().start(task.replace(split="val")).turns()
        grids = (turn.view.puzzle.givens, turn.view.puzzle.solution)
        moved = [(grid[9:27] + grid[:9] + grid[27:]).translate(str.maketrans("123", "231")) for grid in grids]
        return dataclasses.replace(asked, puzzle=SudokuPuzzle(*moved))


SECOND, MISSES = "a second way to the answer", "near misses refused"
WAYS, SPLITS = "every way to write it", "splits share no puzzle"


@pytest.mark.parametrize(
    ("environment", "case", "check", "text"),
    [
        (WrongLabel, "sudoku_level_2", SECOND, "is not the solution"),
        (SecondSolution, "sudoku_level_2", SECOND, "the grid has a second solution"),
        (NoSolution, "sudoku_level_2", SECOND, "the grid has no solution"),
        (AnyGrid, "sudoku_level_2", MISSES, "another full grid was paid 1"),
        (AnyGrid, "sudoku_level_2", MISSES, "two swapped rows was paid 1"),
        (ClosedIsEnough, "dyck_language", MISSES, "a pair too many was paid 1"),
        (ReadableIsPaid, "dyck_language", MISSES, "a pair too many was paid 0.1"),
        (LastAnswerCounts, "sudoku_level_2", WAYS, "the right answer and one wrong digit were taken as wrong"),
        (BoxesAlone, "dyck_language", WAYS, "the right answer in a statement is no success"),
        (BoxesAlone, "sudoku_level_2", WAYS, "the right answer in a code block is no success"),
        (RenamedInTraining, "sudoku_level_2", SPLITS, "the same puzzle is lgc-v2/sudoku_level_2/move#"),
    ],
)
def test_a_planted_defect_is_found(environment: type[Broken], case: str, check: str, text: str) -> None:
    found: list[tuple[str, str]] = []
    checked = tasks(case)
    environment().audit().checks[check](checked, lambda task, what: found.append((task, what)))
    assert any(text in what for _, what in found), found
    assert {task for task, _ in found} <= {task.replace(seed=seed).id for task in checked for seed in (42, 43)}
    clean: list[tuple[str, str]] = []
    LGCEnvironment().audit().checks[check](checked, lambda task, what: clean.append((task, what)))
    assert not clean


def test_the_real_environment_is_clean() -> None:
    rows = lint("lgc-v2", list(KINDS), 2)
    assert not [(row.case, row.check, row.findings) for row in rows if row.verdict is Verdict.FINDING]
    applied = {(row.case, row.check) for row in rows if row.verdict is Verdict.OK}
    own = set(LGCEnvironment().audit().checks) - {SECOND}
    assert applied >= {(case, check) for case in KINDS for check in own}
    assert ("sudoku", SECOND) in applied
    assert ("all", "settings read") in applied


def test_consecutive_seeds_are_not_kept_apart() -> None:
    with pytest.raises(NotApplicable, match="first_seed"):
        LGCEnvironment().audit().checks[SPLITS](tasks(first_seed=0), lambda task, what: None)


def test_the_audit_says_who_acts_and_that_nothing_is_hidden() -> None:
    (turn,) = LGCEnvironment().start(tasks()[0]).turns()
    facts = LGCAudit(LGCEnvironment().start).facts(turn)
    assert (facts.to_act, facts.legal, facts.hidden) == ((0,), (), False)
