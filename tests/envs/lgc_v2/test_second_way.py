"""An independent solver, which reads only the text of the question, confirms every answer and rejects wrong ones."""

import pytest

from veritas_rl.envs.audit import NotApplicable
from veritas_rl.envs.lgc_v2 import second
from veritas_rl.envs.lgc_v2.kinds import KINDS
from veritas_rl.envs.lgc_v2.task_ids import puzzle_of


def disagreements(name: str, seeds: range) -> list[tuple[int, str]]:
    """The seeds with a wrong answer or a near miss that is accepted, each with a description of the error.

    Skips the test if the solver is not installed.
    """
    found: list[tuple[int, str]] = []
    for seed in seeds:
        puzzle = puzzle_of(name, seed)
        try:
            wrong = second.disagreement(name, puzzle.question("en"), puzzle.answer)
        except NotApplicable as error:
            pytest.skip(str(error))
        if wrong:
            found.append((seed, wrong))
        for kind, missed in puzzle.near_misses():
            said = puzzle.read(missed)
            if said is not None and puzzle.is_right(said):
                found.append((seed, f"{kind} is right"))
    return found


def test_every_type_has_a_second_way() -> None:
    assert second.CHECKS.keys() == KINDS.keys()


@pytest.mark.parametrize("name", KINDS)
def test_a_second_way_agrees(name: str) -> None:
    assert disagreements(name, range(50)) == []


@pytest.mark.long
@pytest.mark.parametrize("start", [0, 50_000_000])
@pytest.mark.parametrize("name", KINDS)
def test_a_second_way_agrees_on_10_000_tasks(name: str, start: int) -> None:
    assert disagreements(name, range(start, start + 5_000)) == []


@pytest.mark.parametrize("name", KINDS)
def test_a_second_way_refuses_near_misses(name: str) -> None:
    for seed in range(25):
        puzzle = puzzle_of(name, seed)
        for kind, wrong in puzzle.near_misses():
            if puzzle.read(wrong) is None:
                continue
            try:
                assert second.disagreement(name, puzzle.question("en"), wrong), (seed, kind, wrong)
            except NotApplicable as error:
                pytest.skip(str(error))
