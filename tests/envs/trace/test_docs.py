"""The prompts in docs/trace.md are current, and its numbers agree with the output of its commands."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from veritas_rl.envs.registry import get_environment, make_task
from veritas_rl.envs.trace.config import TraceConfig
from veritas_rl.envs.trace.programs import measures
from veritas_rl.envs.trace.text import fenced
from veritas_rl.envs.trace.user_programs import UserPrograms

DOCUMENT = (Path(__file__).parents[3] / "docs/trace.md").read_text(encoding="utf-8")


def test_the_example_is_what_a_model_sees() -> None:
    """If this fails, the generator has changed: copy the two texts into the document."""
    (turn,) = get_environment("trace").start(make_task("trace", "level_3", 4)).turns()
    assert fenced(turn.messages[0]["content"], "text") in DOCUMENT
    assert fenced(turn.solution, "text") in DOCUMENT


def test_every_setting_is_documented_with_its_default() -> None:
    rows = dict(re.findall(r"^\| `(\w+)`[^|]*\| ([^|]+) \|", DOCUMENT, re.MULTILINE))
    for name, field in TraceConfig.model_fields.items():
        assert rows[name].strip("`") == ("all levels" if name == "cases" else format(field.default, ""))


def test_the_example_of_a_file_is_read(tmp_path: Path) -> None:
    (example,) = re.findall(r"^```json\n(.*)\n```", DOCUMENT, re.MULTILINE)
    path = tmp_path / "own.jsonl"
    path.write_text(example)
    (program,) = UserPrograms(path)
    assert program.stdin == json.loads(example)["inputs"]


def test_levels_are_measured(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """With fewer programs than in the document, the columns are the same and the first numbers are similar."""
    monkeypatch.setattr(sys, "argv", ["measures", "--programs", "20"])
    measures.main()
    head, _, *rows = capsys.readouterr().out.splitlines()
    assert head in DOCUMENT
    for row in rows:
        level, lines = row.split("|")[1:3]
        (documented,) = re.findall(rf"^\|{level}\| ([\d.]+) \|", DOCUMENT, re.MULTILINE)
        assert float(lines) == pytest.approx(float(documented), rel=0.2)


def test_the_sandbox_prints_each_layer_and_whether_it_holds() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "veritas_rl.envs.trace.sandbox"], capture_output=True, text=True, check=True
    )
    lines = done.stdout.splitlines()
    assert len(lines) == 9
    assert all(re.match(r"(yes|no ) +\w+ +[A-Z].*\.$", line) for line in lines)
    assert lines[0].startswith("yes  limits")
