"""JSONL in many formats: the data found in a line, and the errors for unusable lines."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from veritas_rl.datasets.jsonl import Bad
from veritas_rl.demonstrations.convert import PROMPTS, RESPONSES, rows_of
from veritas_rl.errors import UserError

ROOT = Path(__file__).resolve().parents[2]


def read(path: Path, kind: str, seed: int) -> tuple[list[dict[str, Any]], list[Bad]]:
    bad: list[Bad] = []
    return list(rows_of(path, kind, seed, bad.append)), bad


def lines(tmp_path: Path, *records: Any) -> Path:
    path = tmp_path / "data.jsonl"
    path.write_text("".join(f"{record if isinstance(record, str) else json.dumps(record)}\n" for record in records))
    return path


@pytest.mark.parametrize("prompt", PROMPTS)
@pytest.mark.parametrize("response", RESPONSES)
def test_every_name_of_a_question_and_an_answer_is_found(tmp_path: Path, prompt: str, response: str) -> None:
    rows, bad = read(lines(tmp_path, {prompt: "what?", response: "that"}), "sft", 0)
    assert not bad
    assert (rows[0]["prompt"], rows[0]["response"]) == ("what?", "that")
    assert rows[0]["messages"] == [{"role": "user", "content": "what?"}, {"role": "assistant", "content": "that"}]


def test_messages_may_hold_the_answer_and_an_instruction_has_its_input(tmp_path: Path) -> None:
    talk = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}, {"role": "assistant", "content": "a"}]
    rows, bad = read(lines(tmp_path, {"messages": talk}, {"instruction": "Add", "input": "1 2", "output": 3}), "sft", 0)
    assert not bad
    assert rows[0]["messages"] == talk
    assert (rows[1]["prompt"], rows[1]["response"]) == ("Add\n\n1 2", "3")


def test_sharegpts_conversations_are_messages(tmp_path: Path) -> None:
    turns = (("system", "s"), ("human", "u"), ("gpt", "a"), ("human", "v"), ("gpt", "b"))
    shared = [{"from": speaker, "value": text, "weight": None} for speaker, text in turns]
    rows, bad = read(lines(tmp_path, {"conversations": shared}), "sft", 0)
    assert not bad
    roles = ("system", "user", "assistant", "user", "assistant")
    texts = [{"role": role, "content": text} for role, (_, text) in zip(roles, turns, strict=True)]
    assert rows[0]["messages"] == texts
    (row,), _ = read(lines(tmp_path, {"conversations": shared}), "rl", 0)
    assert (row["prompt"], row["reward_model"]["ground_truth"]) == (texts[:-1], "b")
    beside = {"conversations": shared[1:], "system": "s"}
    (row,), bad = read(lines(tmp_path, beside, beside | {"conversations": shared}), "sft", 0)
    assert (row["messages"], json.loads(row["extra_info"]["other"])) == (texts, {})
    assert "line 2: conversations begins with a system message, and system is another" in str(bad[0])
    wrong = [{"from": "narrator", "value": "u"}, shared[2]], [{"from": "human"}, shared[2]]
    _, bad = read(lines(tmp_path, *({"conversations": each} for each in wrong)), "sft", 0)
    assert "line 1: conversations has the role 'narrator', which is none of human, gpt" in str(bad[0])
    assert "line 2: conversations has an item that is no message" in str(bad[1])


def test_a_field_without_a_column_is_kept(tmp_path: Path) -> None:
    (row,), _ = read(
        lines(tmp_path, {"prompt": "q", "answer": "a", "input": "more", "tags": ["x", {"é": None}]}), "sft", 0
    )
    assert json.loads(row["extra_info"]["other"]) == {"input": "more", "tags": ["x", {"é": None}]}
    assert row["extra_info"]["line"] == 1


def test_rl_rows_take_what_a_line_names(tmp_path: Path) -> None:
    named = {"prompt": "q", "ground_truth": {"x": 1}, "task_id": 7, "task_type": "sum", "seed": 3, "data_source": "d"}
    (first, second), bad = read(lines(tmp_path, named, {"question": "q", "answer": "a"}), "rl", 42)
    assert not bad
    assert first["prompt"] == [{"role": "user", "content": "q"}]
    assert first["reward_model"] == {"style": "rule", "ground_truth": '{"x": 1}'}
    assert [first[key] for key in ("task_id", "task_type", "seed", "data_source")] == ["7", "sum", 3, "d"]
    assert second["reward_model"]["ground_truth"] == "a"
    assert [second[key] for key in ("task_id", "task_type", "seed", "data_source")] == ["2", "jsonl", 42, "jsonl"]


def test_each_bad_line_is_named_with_its_number_and_the_others_are_read(tmp_path: Path) -> None:
    talk = [{"role": "user", "content": "u"}, {"role": "assistant", "content": "a"}]
    path = lines(
        tmp_path,
        {"prompt": "q", "answer": "a"},
        "",
        "{broken",
        [1, 2],
        {"answer": "a"},
        {"prompt": "q"},
        {"prompt": 5, "answer": "a"},
        {"messages": [{"role": "narrator", "content": "u"}], "answer": "a"},
        {"messages": [{"role": "user", "content": None}], "answer": "a"},
        {"messages": talk, "answer": "b"},
        {"messages": talk[1:]},
        {"prompt": "q", "answer": ["a"]},
        "\udcff".encode("utf-8", "surrogateescape").decode("latin-1"),
    )
    rows, bad = read(path, "sft", 0)
    assert len(rows) == 1
    assert [line.number for line in bad] == [3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]
    messages = [str(line) for line in bad]
    for part, line in zip(
        (
            "not JSON",
            "list",
            "the prompt is missing",
            "the answer is missing",
            "int",
            "role",
            "text",
            "a second answer",
            "no question before",
            "not text",
        ),
        messages,
        strict=False,
    ):
        assert part in line


@pytest.mark.parametrize("kind", ["sft", "rl"])
@pytest.mark.parametrize(
    ("line", "why"),
    [
        (r'{"prompt": "q", "answer": "\ud83d"}', r"it has \ud83d, half of a surrogate pair"),
        (r'{"prompt": "\uDE00q", "answer": "a"}', r"it has \ude00, half of a surrogate pair"),
        (r'{"prompt": "q", "answer": "a", "tags": {"\ud800": 1}}', r"it has \ud800, half of a surrogate pair"),
        ('{"prompt": "q", "answer": NaN}', "it has NaN, which is no number"),
        ('{"prompt": "q", "answer": -Infinity}', "it has -Infinity, which is no number"),
        ('{"prompt": "q", "answer": "a", "weight": NaN}', "it has NaN, which is no number"),
        ('{"prompt": "q", "answer": 1e999}', "the number 1e999 is too large"),
        ('{"prompt": "q", "answer": "  "}', "is missing; it needs"),
        ('{"prompt": "q", "answer": "\\u00a0\\n"}', "is missing; it needs"),
        ('{"prompt": " ", "answer": "a"}', "the prompt is missing"),
        ('{"messages": [{"role": "user", "content": " "}], "answer": "a"}', "has a message without text"),
        ('{"prompt": "q", "answer": true}', "answer is not text but bool"),
    ],
)
def test_what_no_file_can_hold_is_named_by_its_line(tmp_path: Path, line: str, why: str, kind: str) -> None:
    good = r'{"prompt": "\ud83d\ude00", "answer": 1.5}'
    rows, bad = read(lines(tmp_path, good, line), kind, 0)
    assert len(rows) == 1
    assert rows[0]["prompt"] in ("\U0001f600", [{"role": "user", "content": "\U0001f600"}])
    assert [each.number for each in bad] == [2]
    assert why in str(bad[0])


def test_bad_lines_end_the_tool_before_it_writes_and_are_left_out_on_request(tmp_path: Path) -> None:
    path = lines(tmp_path, {"prompt": "q", "answer": "a"}, r'{"prompt": "q", "answer": "\ud83d"}')
    words = [sys.executable, "train/tools/convert_to_parquet.py", "--input", str(path), "--format", "sft"]
    words += ["--val-ratio", "0", "--output", str(tmp_path / "out")]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.splitlines()[0].startswith(r"line 2: it has \ud83d")
    assert not (tmp_path / "out").exists()
    subprocess.run([*words, "--skip-bad"], cwd=ROOT, capture_output=True, check=True)
    assert len(pd.read_parquet(tmp_path / "out/train.parquet")) == 1


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read"):
        read(tmp_path / "none.jsonl", "sft", 0)
