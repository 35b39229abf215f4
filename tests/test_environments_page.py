"""docs/environments.md shows the current prompts, and its example is the one that test_any_environment.py trains."""

import re
from pathlib import Path

from veritas_rl.envs.lgc_v2.kinds import KINDS
from veritas_rl.envs.registry import ENVIRONMENTS, LIBRARIES, get_environment, task_from_id
from veritas_rl.envs.trace.text import fenced

ROOT = Path(__file__).resolve().parents[1]
QUIZ = ROOT / "tests/quiz/quiz.py"
PAGE = (ROOT / "docs/environments.md").read_text(encoding="utf-8")
FORMS = {"box": "a box", "block": "a code block", "inline": "backticks", "statement": "a statement"}


def test_the_prompts_are_what_a_model_sees() -> None:
    """If this fails, a prompt has changed: copy the new text into the page."""
    shown = re.findall(r"Task\s`(\S+/(?:move|episode)#\d+)`", PAGE)
    assert [task_from_id(name).env for name in shown] == [*ENVIRONMENTS, *LIBRARIES]
    for task in map(task_from_id, shown):
        (turn,) = get_environment(task.env).start(task).turns()
        assert fenced(turn.messages[-1]["content"], "text") in PAGE
        if task.env == "lgc-v2":
            assert fenced(turn.solution, "text") in PAGE


def test_the_types_of_puzzles_are_those_that_exist() -> None:
    rows = re.findall(r"^\| (\d) \| `(\w+)` \| [^|]+ \| ([\w ]+) \|", PAGE, re.MULTILINE)
    assert len(rows) == 9
    for kind in KINDS.values():
        assert (str(kind.type_id), kind.name, FORMS[kind.asked_in]) in rows


def test_the_page_opens_with_the_environment_that_is_tested() -> None:
    first = re.search(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert first
    assert first[1] == QUIZ.read_text(encoding="utf-8")
    assert len(first[1].splitlines()) <= 15
