"""Environments of one question and one answer, and what their authors forget."""

import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from veritas_rl.envs import own_code
from veritas_rl.envs.base import Reason, Reply, play, shape
from veritas_rl.envs.one_turn import OneTurn
from veritas_rl.envs.registry import environment_named, get_environment, make_task
from veritas_rl.errors import UserError

pytestmark = pytest.mark.usefixtures("own_environments")

ROOT = Path(__file__).resolve().parents[2]
HEAD = "from veritas_rl.envs.one_turn import Question, environment\n"
SUMS = (
    HEAD
    + """
@environment("sums", cases=("small", "large"), form=r"-?[0-9]+")
def sums(case, random):
    first, second = (random.randrange(50 if case == "small" else 900) for _ in range(2))
    return Question(f"{first} + {second} = ?", str(first + second))
"""
)


def written(folder: Path, text: str, name: str = "mine.py") -> Path:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return file


def opened(folder: Path, text: str = SUMS, name: str = "sums") -> OneTurn:
    """The environment of a file with this text, whose questions have been looked at."""
    written(folder, text)
    environment = get_environment(environment_named(f"mine.py:{name}", folder))
    environment.catalogue(environment.read_config({}), "train")
    assert isinstance(environment, OneTurn)
    return environment


def test_equal_tasks_have_equal_questions_and_the_splits_share_none(tmp_path: Path) -> None:
    environment = opened(tmp_path)
    config = environment.read_config({"cases": "large", "num_tasks_per_case": 200})
    asked = {
        split: [
            environment.start(task).turns()[0].messages[0]["content"] for task in environment.catalogue(config, split)
        ]
        for split in ("train", "val")
    }
    assert not set(asked["train"]) & set(asked["val"])
    assert len(set(asked["train"])) > 150
    code = (
        "from pathlib import Path; from veritas_rl.envs.registry import *; "
        "name = environment_named('mine.py:sums', Path()); "
        "task = make_task(name, 'large', 7); print(get_environment(name).question(task).text)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == environment.question(make_task("sums", "large", 7)).text


def test_another_process_finds_the_environment_by_its_name(tmp_path: Path) -> None:
    opened(tmp_path)
    code = "from veritas_rl.envs.registry import get_environment; print(get_environment('sums').name)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "sums\n"


def test_the_solution_is_paid_and_other_replies_are_not(tmp_path: Path) -> None:
    environment = opened(tmp_path)
    task = make_task("sums", "small", 3)
    truth = environment.question(task).truth
    for text, reason, value in (
        (f"So \\boxed{{{truth}}}", Reason.CORRECT, 1.0),
        ("\\boxed{-1}", Reason.WRONG, 0.0),
        ("\\boxed{many}", Reason.ILLEGAL, 0.0),
        (truth, Reason.UNPARSEABLE, 0.0),
    ):
        session = environment.start(task)
        session.step({0: Reply(text)})
        (score,) = session.scores().values()
        assert (score.reason, shape(score, task)) == (reason, value)


def test_each_keyword_has_its_effect(tmp_path: Path) -> None:
    text = (
        HEAD
        + """
@environment(
    "parts",
    form=r"[0-9.]+",
    levels=2,
    score=lambda question, answer: 1.0 if answer == question.truth else 0.5,
    split_by=lambda question: "".join(sorted(question.text)),
    demonstration=lambda question: f"It is {question.truth}.",
    teacher=lambda question: f"\\\\boxed{{{question.truth}}}",
)
def parts(case, level, random):
    number = random.randrange(10**level)
    return Question(f"level {level}: {number}", str(number))
"""
    )
    environment = opened(tmp_path, text, "parts")
    assert environment.read_config({}).cases == ("all_level_1", "all_level_2")
    assert [stage["cases"] for stage in environment.stages] == [["all_level_1"], ["all_level_1", "all_level_2"]]
    task = make_task("parts", "all_level_2", 0)
    (turn,) = environment.start(task).turns()
    question = environment.question(task)
    assert turn.solution == f"It is {question.truth}.\n\n\\boxed{{{question.truth}}}"
    teacher = environment.players[0].make("teacher", 0)
    (scores,) = play([environment.start(task)], teacher)
    assert scores[0].success
    session = environment.start(task)
    session.step({0: Reply("\\boxed{100}")})
    assert session.scores()[0].value == 0.5
    assert not session.scores()[0].success
    mirrored = [
        one
        for k in range(60)
        for one in [make_task("parts", "all_level_2", k)]
        if len(environment.question(one).truth) == 2
    ]
    by_digits = {tuple(sorted(environment.question(one).truth)): environment.equivalence_class(one) for one in mirrored}
    for one in mirrored:
        assert environment.equivalence_class(one) == by_digits[tuple(sorted(environment.question(one).truth))]


def test_spellings_of_one_answer_are_equal(tmp_path: Path) -> None:
    text = SUMS.replace('form=r"-?[0-9]+"', 'form=r"[0-9.]+", canonical=float')
    environment = opened(tmp_path, text)
    task = make_task("sums", "small", 1)
    truth = environment.question(task).truth
    for answer, reason in ((f"{truth}.0", Reason.CORRECT), ("1.2.3", Reason.ILLEGAL)):
        session = environment.start(task)
        session.step({0: Reply(f"\\boxed{{{answer}}}")})
        assert session.scores()[0].reason == reason


@pytest.mark.parametrize(("word", "said"), [("teacher", "it gave None"), ("demonstration", "it gave 7")])
def test_a_teacher_and_a_demonstration_give_text(word: str, said: str, tmp_path: Path) -> None:
    given = "None" if word == "teacher" else "7"
    environment = opened(tmp_path, SUMS.replace("form=", f"{word}=lambda question: {given}, form="))
    task = make_task("sums", "small", 1)
    with pytest.raises(UserError, match=f"mine.py:3: {said} and no text"):
        play([environment.start(task)], environment.players[0].make("teacher", 0))


def test_threads_look_in_turns_and_the_output_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(tmp_path, SUMS)
    environment = get_environment(environment_named("mine.py:sums", tmp_path))
    config = environment.read_config({})
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: len(environment.catalogue(config, "train")), range(32)))
    print("still here")
    assert capsys.readouterr().out == "still here\n"


FORGOTTEN = {
    "no form": (SUMS.replace(', form=r"-?[0-9]+"', ""), r"mine.py:3: the environment sums needs form="),
    "no pattern": (SUMS.replace('r"-?[0-9]+"', '"["'), r"mine.py:3: form='\[' is no regular expression"),
    "one case as text": (SUMS.replace('("small", "large")', '"small"'), "mine.py:3: cases= is a sequence of names"),
    "a truth of another form": (
        SUMS.replace("str(first + second)", "'five'"),
        "the truth 'five' of small does not match",
    ),
    "a number as truth": (
        SUMS.replace("str(first + second)", "first + second"),
        "truth of a question of small is no text",
    ),
    "an empty question": (SUMS.replace('f"{first} + {second} = ?"', '" "'), "text of a question of small is empty"),
    "no question": (SUMS.replace("return ", ""), "mine.py:3: small gave None and no Question"),
    "an unpaid truth": (
        SUMS.replace("form=", "score=lambda question, answer: 0.5, form="),
        "the truth '[0-9]+' of small is paid 0.5 and not 1",
    ),
    "no score": (SUMS.replace("form=", "score=lambda question, answer: None, form="), "mine.py:3: score gave None for"),
    "a canonical form that fails": (
        SUMS.replace("form=", "canonical=lambda answer: int('one'), form="),
        "mine.py:3: ValueError: invalid literal",
    ),
    "an end in a question": (
        SUMS.replace("    return", "    raise SystemExit(3)\n    return"),
        "mine.py:6: SystemExit",
    ),
    "cases that are no text": (SUMS.replace('("small", "large")', "(1, 2)"), "cases= is a sequence of names"),
    "a case twice": (SUMS.replace('"large"', '"small"'), "cases= is a sequence of names"),
    "negative levels": (SUMS.replace("form=", "levels=-1, form="), "levels= is the number of levels, not -1"),
    "a score above 1": (SUMS.replace("form=", "score=lambda question, answer: 2, form="), "score gave 2 for"),
    "one question": (
        SUMS.replace('f"{first} + {second} = ?"', '"1 + 1 = ?"').replace("first + second", "2"),
        "are all the same|had none for",
    ),
    "the global generator": (
        SUMS.replace("@environment", "import random as rng\n@environment").replace("random.randrange", "rng.randrange"),
        "mine.py:6: it uses or changes the global generator of random",
    ),
    "a print": (SUMS.replace("    return", "    print(first)\n    return"), "mine.py:6: it prints '[0-9]+'"),
    "an error": (
        SUMS.replace("    return", "    first / 0\n    return"),
        "mine.py:6: ZeroDivisionError: division by zero",
    ),
    "an error at import": (SUMS + "\nwrong = 1 / 0\n", "mine.py:8: ZeroDivisionError"),
    "an end at import": (SUMS + "\nraise SystemExit(3)\n", "mine.py:8: SystemExit: 3"),
    "no Python": (SUMS + "\ndef :\n", "mine.py:8: SyntaxError"),
    "a seed at import": (SUMS + "\nimport random\nrandom.seed(1)\n", "mine.py:9: .*the global generator of random"),
    "another name": (SUMS.replace("def sums", "def other"), "has no environment 'sums'"),
    "a name with blanks": (SUMS.replace('"sums"', '"my sums"'), "mine.py:3: a name begins with a letter"),
    "no environment": ("sums = 3\n", "is no environment"),
    "no settings": (
        "from veritas_rl.envs.environment import Environment\n\n\nclass sums(Environment):\n    name = 'sums'\n"
        "    catalogue = start = print\n",
        "derive its config_type from Settings",
    ),
}


@pytest.mark.parametrize("what", FORGOTTEN)
def test_what_an_author_forgets_is_named_with_its_line(what: str, tmp_path: Path) -> None:
    text, said = FORGOTTEN[what]
    random.seed(0)
    with pytest.raises(UserError, match=said) as caught:
        opened(tmp_path, text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("where", ["import", "question"])
def test_code_that_hangs_is_ended_with_its_line(where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_code, "SECONDS", 1)
    hangs = "while True:\n        pass\n"
    text = (
        SUMS + f"\nif True:\n    {hangs}" if where == "import" else SUMS.replace("    return", f"    {hangs}    return")
    )
    with pytest.raises(UserError, match=r"mine.py:\d+: it runs longer than 1 s"):
        opened(tmp_path, text)


def test_places_that_do_not_exist_are_named(tmp_path: Path) -> None:
    written(tmp_path, SUMS)
    written(tmp_path, SUMS, "json.py")
    for place, said in (
        ("none.py:sums", "the file none.py of the environment none.py:sums does not exist"),
        ("mine.py", "mine.py names no environment: type mine.py:NAME"),
        ("json.py:sums", "json.py has the name of another module"),
        ("nowhere.at.all:sums", "the environment nowhere.at.all:sums cannot be loaded: ModuleNotFoundError"),
        ("not a place:sums", "is no place: type FILE.py:NAME"),
    ):
        with pytest.raises(UserError, match=said):
            environment_named(place, tmp_path)


def test_a_name_that_is_taken_is_refused(tmp_path: Path) -> None:
    written(tmp_path, SUMS.replace('"sums"', '"trace"'))
    with pytest.raises(UserError, match="two environments are named trace"):
        environment_named("mine.py:sums", tmp_path)


def test_only_a_command_line_names_a_file(tmp_path: Path) -> None:
    file = written(tmp_path, SUMS)
    with pytest.raises(UserError, match="unknown environment"):
        get_environment(f"{file}:sums")


def test_repeated_questions_are_said(tmp_path: Path) -> None:
    environment = opened(tmp_path, SUMS.replace("50 if", "2 if"))
    tasks = environment.catalogue(environment.read_config({"cases": "small", "num_tasks_per_case": 40}), "train")
    (line,) = environment.survey(tasks, lambda *_: None)
    assert line.startswith("sums: of 16 tasks of small, ")
