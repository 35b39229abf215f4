"""The lessons and tasks of the small model before RL, and tasks that are refused as too large for it."""

from pathlib import Path

import pytest

from veritas_rl.chat_template import prompt_ids
from veritas_rl.envs.registry import cases_by_environment, get_environment, make_task, open_catalogue, words_of
from veritas_rl.envs.task import Task
from veritas_rl.errors import UserError
from veritas_rl.launch import small_model
from veritas_rl.launch.answering import Answering
from veritas_rl.launch.tiny_model import build_tiny_model, byte_tokenizer
from veritas_rl.launch.warmup import warm_up
from veritas_rl.players.language_model import load_language_model

ASKED = Answering(tokens=8, context=64, at_once=256, temperature=1.0, draws=1, seed=0)


def tasks_of(case: str, count: int = 8, split: str = "train") -> list[Task]:
    settings = {"env": "openspiel", "adapter_config": {"cases": [case], "prompt": "brief", "num_tasks_per_case": count}}
    return list(open_catalogue(settings, split))


@pytest.mark.parametrize(
    "case", ["hex(board_size=5)", "breakthrough(columns=6,rows=6)", "liars_dice", "goofspiel", "othello"]
)
def test_each_legal_action_is_one_token_in_the_question_and_in_the_answer(case: str) -> None:
    tasks = tasks_of(case)
    tokenizer = byte_tokenizer(words_of(cases_by_environment(tasks)))
    for task in tasks:
        (turn,) = get_environment(task.env).start(task).turns()
        ids = prompt_ids(tokenizer, list(turn.messages))
        assert tokenizer.decode(ids).count(turn.messages[0]["content"]) == 1
        shown = [tokenizer.decode([token]) for token in ids]
        for answer in turn.answers:
            number = answer.removeprefix("\\boxed{").removesuffix("}")
            assert shown.count(f" {number}") == 1
            tokens = [tokenizer.decode([token]) for token in tokenizer.encode(answer)]
            assert tokens == ["\\boxed{", number, "}"]


def test_a_lesson_has_every_reply_that_the_teacher_may_give() -> None:
    (task,) = tasks_of("hex(board_size=3)", 1)
    (turn,) = get_environment(task.env).start(task).turns()
    (lesson,) = small_model.lessons_of(task, "0")
    assert lesson.messages == turn.messages
    assert lesson.replies == turn.answers
    traced = make_task("trace", "level_1", 3, prompt="brief")
    (turn,) = get_environment("trace").start(traced).turns()
    (shown,) = small_model.lessons_of(traced, "0")
    assert shown.replies == (turn.solution,)


def test_a_task_without_a_solution_has_no_lesson() -> None:
    assert small_model.lessons_of(make_task("reasoning-gym", "graph_color", 0), "0") == []


def test_games_too_large_for_the_small_model_are_refused_by_name() -> None:
    tasks = tasks_of("tic_tac_toe", 4) + tasks_of("othello", 4)
    words = words_of(cases_by_environment(tasks))
    small_model.check_size(tasks, words, tokens=160, answers=600)
    with pytest.raises(UserError, match=r"othello is too large .*prompts of \d+ tokens.*AGENT_MODEL_REPO_ID"):
        small_model.check_size(tasks, words, tokens=25, answers=600)
    with pytest.raises(UserError, match=r"tic_tac_toe is too large .*\(9 answers; the limits are .* and 5 answers\)"):
        small_model.check_size(tasks, words, tokens=160, answers=5)


def test_the_warm_up_goes_on_until_held_out_replies_are_legal(tmp_path: Path) -> None:
    tasks = tasks_of("kuhn_poker", 64)
    model = build_tiny_model(tmp_path / "model", 0, words=words_of(cases_by_environment(tasks)))
    exam = small_model.Exam(tasks_of("kuhn_poker", 64, "val"), ASKED)
    assert exam.share(*load_language_model(model)) < 0.1
    found = warm_up(
        model,
        tmp_path / "warm",
        [lesson for task in tasks for lesson in small_model.lessons_of(task, "0")],
        steps=400,
        batch_size=16,
        learning_rate=3e-3,
        seed=0,
        enough=0.95,
        measure=exam.share,
        on_step=lambda now: None,
    )
    assert found["steps"] < 400
    assert exam.share(*load_language_model(tmp_path / "warm")) == found["measured"] > 0.95


def test_why_a_warm_up_ended_is_said() -> None:
    exam = small_model.Exam(tasks_of("kuhn_poker", 4, "val"), ASKED)
    found = {"steps": 80.0, "tokens": 2e6, "seconds": 9.0, "loss": 0.5, "measured": 0.99}
    limits = {"steps": 100, "tokens": 3_000_000, "enough": 0.98}
    assert small_model.described(found, exam, **limits) == (
        "warm-up: 80 updates (2,000,000 tokens) in 9 s, loss 0.500, 99.0% legal moves of 4 held-out replies"
    )
    for change, bound in (({"steps": 100.0}, "steps=100"), ({}, "tokens=3000000")):
        line = small_model.described(found | change | {"measured": 0.6}, exam, **limits)
        assert line.endswith(
            f"60.0% legal moves of 4 held-out replies; it ended at veritas_rl.warm_up.{bound}, before the goal of 98%"
        )
