"""lgc-v2 as an environment: settings, tasks, splits, and scores of replies."""

from typing import Any

import pytest

from veritas_rl.envs.answers import FORMS
from veritas_rl.envs.base import Reason, Reply
from veritas_rl.envs.lgc_v2.env import SEEDS_OF_A_TASK
from veritas_rl.envs.lgc_v2.kinds import KINDS
from veritas_rl.envs.lgc_v2.puzzle import LANGUAGES, LEVELS, SEEDS
from veritas_rl.envs.lgc_v2.task import PROMPTS
from veritas_rl.envs.registry import get_environment, make_task, open_catalogue
from veritas_rl.envs.task import Task
from veritas_rl.errors import UserError

ENV = get_environment("lgc-v2")


def tasks(split: str = "train", **config: Any) -> list[Task]:
    return list(open_catalogue({"env": "lgc-v2", "adapter_config": config}, split))


def asked(task: Task) -> Any:
    return ENV.start(task).turns()[0].view


def classes(split: str, **config: Any) -> set[str]:
    return {ENV.equivalence_class(task) for task in tasks(split, **config)}


def test_without_settings_there_are_all_types() -> None:
    found = tasks(num_tasks_per_case=2)
    assert [task.case for task in found[::2]] == list(KINDS)
    assert len(tasks()) == 1000 * len(KINDS)
    assert found[0].id == "lgc-v2/dyck_language/move#0"


@pytest.mark.parametrize(
    ("config", "cases"),
    [
        ({"cases": "sudoku"}, ["sudoku"]),
        ({"cases": ["sudoku", "dyck_language", "sudoku"]}, ["sudoku", "dyck_language"]),
        ({"cases": "sudoku_level_2"}, ["sudoku_level_2"]),
        ({"cases": "sudoku_level_2,dyck_language", "levels": 1}, ["sudoku_level_2", "dyck_language_level_1"]),
        ({"cases": "sudoku", "levels": "1,2"}, ["sudoku_level_1", "sudoku_level_2"]),
        ({"cases": "sudoku", "levels": [5, "4", 5]}, ["sudoku_level_5", "sudoku_level_4"]),
        ({"task_types": "sudoku,dyck_language"}, ["sudoku", "dyck_language"]),
    ],
)
def test_cases_and_levels(config: dict[str, Any], cases: list[str]) -> None:
    found = tasks(num_tasks_per_case=3, **config)
    assert [task.case for task in found] == [case for case in cases for _ in range(3)]
    assert [task.k for task in found] == [0, 1, 2] * len(cases)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", ["sudoku", "dyck_language"])
def test_a_case_with_a_level_has_puzzles_of_that_level_alone(name: str, level: int) -> None:
    found = tasks(cases=f"{name}_level_{level}", num_tasks_per_case=6)
    seeds = [asked(task).seed for task in found]
    assert {seed % 5 + 1 for seed in seeds} == {level}
    assert len(set(seeds)) == 6
    assert {ENV.group(task) for task in found} == {f"{name}_level_{level}"}


def test_a_case_without_a_level_has_puzzles_of_all() -> None:
    groups = {ENV.group(task) for task in tasks(cases="dyck_language", num_tasks_per_case=60)}
    assert groups == {f"dyck_language_level_{level}" for level in LEVELS}


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"cases": "dyck_langage"}, "did you mean dyck_language"),
        ({"cases": "sudoku_level_6"}, r"unknown case 'sudoku_level_6'"),
        ({"cases": "sudoku_level_0"}, r"unknown case 'sudoku_level_0'"),
        ({"cases": "sudoku(size=4)"}, r"unknown case 'sudoku\(size=4\)'"),
        ({"levels": 6}, r"levels go from 1 \(the easiest\) to 5, 6 was given"),
        ({"levels": "1,0"}, "levels must be a whole number of at least 1, 0 was given"),
        ({"levels": "easy"}, "levels must be a whole number"),
        ({"levels": 1.5}, "levels must be a whole number"),
        ({"language": "fr"}, "unknown language 'fr'"),
        ({"prompt": "unlisted"}, "unknown prompt 'unlisted'"),
        ({"reward": "partial"}, "unknown reward 'partial'"),
        ({"reward": "outcome", "reward_mode": "outcome"}, "are the same setting"),
        ({"legal_share": 2}, "legal_share"),
        ({"first_seed": -2}, "first_seed must be a whole number of at least 0, -2 was given"),
        ({"first_seed": SEEDS}, "first_seed must lie between -1 and 99999999"),
        ({"num_tasks_per_case": 0}, "at least 1"),
        ({"level": 3}, "did you mean levels"),
    ],
)
def test_a_mistake_is_one_clear_line(config: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said) as error:
        tasks(**config)
    assert "\n" not in str(error.value)


def test_a_task_that_cannot_be_is_one_clear_line() -> None:
    with pytest.raises(UserError, match="is no case of lgc-v2; levels go from 1 to 5"):
        ENV.start(make_task("lgc-v2", "sudoku_level_7", 0))
    with pytest.raises(UserError, match="unknown puzzle type 'chess'"):
        ENV.start(make_task("lgc-v2", "chess", 0))
    with pytest.raises(UserError, match="is no lgc-v2 task"):
        ENV.start(make_task("trace", "level_1", 0))
    last = make_task("lgc-v2", "sudoku", 0, first_seed=SEEDS - 1)
    assert asked(last).seed == SEEDS - 1
    with pytest.raises(UserError, match="must lie between 0 and 99999999, 100000000 was given"):
        ENV.start(last.replace(k=1))


@pytest.mark.parametrize(
    "config", [{"cases": "dyck_language_level_1"}, {"cases": "dyck_language"}, {"cases": "sudoku_level_1"}]
)
def test_splits_share_no_form_whatever_the_seed(config: dict[str, Any]) -> None:
    """dyck_language has so few puzzles of level 1 that 150 draws per split would otherwise share some."""
    config = {**config, "num_tasks_per_case": 150 if "dyck" in config["cases"] else 40}
    train = classes("train", **config) | classes("train", seed=7, **config)
    val = classes("val", **config) | classes("val", seed=7, **config)
    assert len(train) > 30
    assert len(val) > 15
    assert not train & val
    for split, held in (("train", False), ("val", True)):
        for task in tasks(split, **config)[:20]:
            assert ENV.held_out(task, ENV.start(task).turns()[0]) is held
            assert ENV.equivalence_class(task, ENV.start(task).turns()[0]) == ENV.equivalence_class(task)


def test_tasks_of_a_split_do_not_repeat_and_depend_on_the_seed() -> None:
    def seeds(**config: Any) -> list[int]:
        return [asked(task).seed for task in tasks(cases="dyck_language", num_tasks_per_case=300, **config)]

    assert len(set(seeds())) == 300
    assert seeds() == seeds()
    assert not set(seeds()) & set(seeds(seed=7))
    assert SEEDS_OF_A_TASK * 300 < SEEDS


@pytest.mark.parametrize("split", ["train", "val"])
def test_first_seed_gives_consecutive_task_ids(split: str) -> None:
    found = tasks(split, cases="sudoku,dyck_language", num_tasks_per_case=7, first_seed=1003)
    assert [asked(task).task_id for task in found] == [
        *range(700_001_003, 700_001_010),
        *range(1003, 1010),
    ]
    assert ENV.group(found[0]) == "sudoku_level_4"
    leveled = tasks(split, cases="sudoku_level_2", num_tasks_per_case=3, first_seed=1003)
    assert [asked(task).seed for task in leveled] == [1006, 1011, 1016]


@pytest.mark.parametrize("prompt", PROMPTS)
@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", KINDS)
def test_a_session_is_one_question_that_its_solution_solves(name: str, prompt: str, language: str) -> None:
    for task in tasks(cases=name, levels="1,3", num_tasks_per_case=2, prompt=prompt, language=language):
        session = ENV.start(task)
        (turn,) = session.turns()
        (message,) = turn.messages
        puzzle = turn.view.puzzle
        assert message["role"] == "user"
        rule = FORMS[turn.view.kind.asked_in].rule[language]
        assert message["content"] == (puzzle.brief if prompt == "brief" else f"{puzzle.question(language)} {rule}")
        session.step({0: Reply(turn.solution)})
        score = session.scores()[0]
        assert (score.value, score.success, score.reason) == (1, True, Reason.CORRECT)
        assert score.details["task_id"] == turn.view.task_id
        assert not session.turns()
        with pytest.raises(RuntimeError, match="is over"):
            session.step({0: Reply("")})


def test_language_and_prompt_are_no_part_of_the_identity() -> None:
    (task,) = tasks(cases="sudoku", num_tasks_per_case=1)
    (other,) = tasks(cases="sudoku", num_tasks_per_case=1, language="zh", prompt="brief")
    assert task.id == other.id
    assert asked(task) == asked(other)
    (fixed,) = tasks(cases="sudoku", num_tasks_per_case=1, first_seed=0)
    assert fixed.id != task.id
    assert "first_seed=0" in fixed.id


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Reply("{box}"), Reason.CORRECT),
        (Reply("{block}"), Reason.CORRECT),
        (Reply("<think>{other}</think>{block}"), Reason.CORRECT),
        (Reply("{other}\n{block}"), Reason.AMBIGUOUS),
        (Reply("I try {other}</think>{block}"), Reason.CORRECT),
        (Reply("<answer>{answer}</answer>"), Reason.CORRECT),
        (Reply("<answer>{block}</answer> {other}"), Reason.AMBIGUOUS),
        (Reply("{other}"), Reason.WRONG),
        (Reply("{other}\n{block2}"), Reason.WRONG),
        (Reply("{block}\n{block2}"), Reason.AMBIGUOUS),
        (Reply("{block}\n{block}"), Reason.CORRECT),
        (Reply("{answer}"), Reason.CORRECT),
        (Reply("{answer}\nThat is all."), Reason.UNPARSEABLE),
        (Reply("I cannot solve this."), Reason.UNPARSEABLE),
        (Reply(""), Reason.EMPTY),
        (Reply("<think>{block}"), Reason.EMPTY),
        (Reply("{block}", truncated=True), Reason.TRUNCATED),
        (Reply("{block}" + " " * 100_000), Reason.OVERLONG),
    ],
)
def test_each_kind_of_reply_has_its_reason(reply: Reply, reason: Reason) -> None:
    (task,) = tasks(cases="sudoku", num_tasks_per_case=1)
    answer = asked(task).puzzle.answer
    wrong = answer[1] + answer[0] + answer[2:]
    filled = reply.text.format(
        answer=answer,
        block=f"```\n{answer}\n```",
        block2=f"```\n{wrong}\n```",
        box=f"\\boxed{{{answer}}}",
        other=f"\\boxed{{{wrong}}}",
    )
    session = ENV.start(task)
    session.step({0: Reply(filled, truncated=reply.truncated)})
    score = session.scores()[0]
    assert score.reason is reason
    assert score.success == (reason is Reason.CORRECT)
    assert score.value == float(score.success)


def test_a_brief_prompt_is_answered_by_the_bare_grid() -> None:
    (task,) = tasks(cases="sudoku", num_tasks_per_case=1, prompt="brief")
    puzzle = asked(task).puzzle
    for text, right in ((puzzle.answer, True), (f"```\n{puzzle.answer}\n```", True), (puzzle.brief, False)):
        session = ENV.start(task)
        session.step({0: Reply(text)})
        assert session.scores()[0].success is right
