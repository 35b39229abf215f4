"""Converts JSONL of other tools to the parquet of `dataset`, and reports what is wrong in each line.

Nothing is lost in silence: a line that cannot be used is named with its number and why, and fields that have no column
of their own are kept in `extra_info` as JSON.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from veritas_rl.datasets.jsonl import Bad, BadLine, lines_of, record_of, text_of
from veritas_rl.datasets.rows import rl_row, sft_row

RESPONSES = ("response", "answer", "completion", "output", "assistant")
FORMATS = ("sft", "rl")
PROMPTS = ("prompt", "question", "instruction", "input", "messages")
ROLES = ("system", "user", "assistant", "tool")

DATA_SOURCE = "jsonl"
"""Of a line that names none."""


def read(path: Path, kind: str, seed: int) -> tuple[list[dict[str, Any]], list[Bad]]:
    """The rows of a JSONL file, and its bad lines. Empty lines are neither.

    Args:
        path: One JSON object a line, in UTF-8.
        kind: "sft" or "rl".
        seed: The `seed` of RL rows that name none.

    Raises:
        UserError: The file cannot be read.
    """
    rows: list[dict[str, Any]] = []
    bad: list[Bad] = []
    for number, line in lines_of(path, "--input"):
        try:
            record = record_of(line)
            rows.append(_sft(record, number) if kind == "sft" else _rl(record, number, seed))
        except BadLine as error:
            bad.append(Bad(number, str(error)))
    return rows, bad


def _sft(record: Mapping[str, Any], number: int) -> dict[str, Any]:
    messages, response, used = _conversation(record)
    if response is None:
        raise BadLine(f"no answer: one of {', '.join(RESPONSES)}, or messages that end with the assistant's")
    return sft_row(messages, response, *_about(record, number, used))


def _rl(record: Mapping[str, Any], number: int, seed: int) -> dict[str, Any]:
    messages, response, used = _conversation(record)
    truth = record.get("ground_truth", response)
    if truth is None:
        raise BadLine(f"no ground truth: ground_truth, or one of {', '.join(RESPONSES)}")
    given = record.get("seed", seed)
    if isinstance(given, bool) or not isinstance(given, int) or abs(given) >= 2**63:
        raise BadLine(f"seed is no whole number of 64 bits: {str(given)[:40]!r}")
    text = truth if isinstance(truth, str) else json.dumps(truth, ensure_ascii=False)
    source, extra = _about(record, number, used | {"ground_truth", "seed", "task_id", "task_type"})
    task_id, task_type = str(record.get("task_id", number)), str(record.get("task_type", source))
    return rl_row(messages, text, source, extra, task_id, task_type, given)


def _about(record: Mapping[str, Any], number: int, used: set[str]) -> tuple[str, dict[str, Any]]:
    """The data source, and `extra_info`: the line, and all that has no column."""
    rest = {key: value for key, value in record.items() if key not in used | {"data_source"}}
    source = str(record.get("data_source", DATA_SOURCE))
    return source, {"line": number, "other": json.dumps(rest, ensure_ascii=False, sort_keys=True)}


def _conversation(record: Mapping[str, Any]) -> tuple[list[dict[str, str]], str | None, set[str]]:
    """The messages before the answer, the answer if there is one, and the fields that they were found in."""
    named = [name for name in PROMPTS if record.get(name) not in (None, "", [])]
    if not named:
        raise BadLine(f"no prompt: one of {', '.join(PROMPTS)}")
    used = {named[0]}
    value = record[named[0]]
    if isinstance(value, str):
        # An instruction and what it is about are one question.
        about = record.get("input") if named[0] == "instruction" else None
        if isinstance(about, str) and about:
            value, used = f"{value}\n\n{about}", used | {"input"}
        messages = [{"role": "user", "content": value}]
    else:
        messages = _messages(value, named[0])
    answers = [name for name in RESPONSES if name not in used and record.get(name) not in (None, "")]
    response: str | None = None
    if answers:
        used.add(answers[0])
        response = text_of(record[answers[0]], answers[0])
    if messages[-1]["role"] == "assistant":
        last = messages.pop()["content"]
        if response not in (None, last):
            raise BadLine(f"{named[0]} ends with an answer, and {answers[0]} is another")
        response = last
    if not messages:
        raise BadLine(f"{named[0]} holds no question")
    return messages, response, used


def _messages(value: Any, name: str) -> list[dict[str, str]]:
    if not isinstance(value, list):
        raise BadLine(f"{name} is neither text nor a list of messages, but {type(value).__name__}")
    messages = []
    for message in value:
        if not isinstance(message, dict) or message.get("role") not in ROLES:
            raise BadLine(f"{name} holds what is no message with a role of {', '.join(ROLES)}")
        if not isinstance(message.get("content"), str) or set(message) - {"role", "content"}:
            raise BadLine(f"{name} holds a message that is more, or less, than a role and a text")
        messages.append({"role": message["role"], "content": message["content"]})
    return messages
