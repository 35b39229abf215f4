"""Converts JSONL of other tools to the parquet of `dataset`, and reports the errors of each line.

Nothing is dropped silently: a line that cannot be used is reported with its number and the reason, and fields without a
column are kept in `extra_info` as JSON.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from veritas_rl.datasets.chats import CONVERSATIONS, MESSAGES, SYSTEM, layout_of, unknown_role
from veritas_rl.datasets.jsonl import Bad, BadLine, lines_of, record_of, text_of
from veritas_rl.datasets.rows import rl_row, sft_row

RESPONSES = ("response", "answer", "completion", "output", "assistant")
FORMATS = ("sft", "rl")
PROMPTS = ("prompt", "question", "instruction", "input", MESSAGES, CONVERSATIONS)

DATA_SOURCE = "jsonl"
"""The default data source of a line."""


def rows_of(path: Path, kind: str, seed: int, on_bad: Callable[[Bad], None]) -> Iterator[dict[str, Any]]:
    """The rows of a JSONL file. Empty lines are skipped.

    Args:
        path: One JSON object per line, in UTF-8.
        kind: "sft" or "rl".
        seed: The default `seed` of RL rows.
        on_bad: Receives each line that cannot be used.

    Raises:
        UserError: The file cannot be read.
    """
    for number, line in lines_of(path, "--input"):
        try:
            record = record_of(line)
            row = _sft(record, number) if kind == "sft" else _rl(record, number, seed)
        except BadLine as error:
            on_bad(Bad(number, str(error)))
        else:
            yield row


def _sft(record: Mapping[str, Any], number: int) -> dict[str, Any]:
    messages, response, used = _conversation(record)
    if response is None:
        raise BadLine(
            f"the answer is missing; it needs one of {', '.join(RESPONSES)}, or messages that end with the assistant"
        )
    return sft_row(messages, response, *_about(record, number, used))


def _rl(record: Mapping[str, Any], number: int, seed: int) -> dict[str, Any]:
    messages, response, used = _conversation(record)
    written = record.get("reward_model")
    truth = record.get("ground_truth", written.get("ground_truth") if isinstance(written, dict) else None)
    truth = response if _blank(truth) else truth
    if truth is None:
        raise BadLine(f"the ground truth is missing; it needs ground_truth, or one of {', '.join(RESPONSES)}")
    given = record.get("seed", seed)
    if isinstance(given, bool) or not isinstance(given, int) or abs(given) >= 2**63:
        raise BadLine(f"seed must be a 64-bit integer, got {str(given)[:40]!r}")
    text = truth if isinstance(truth, str) else json.dumps(truth, ensure_ascii=False)
    own = {"ground_truth", "reward_model", "seed", "task_id", "task_type"}
    source, extra = _about(record, number, used | own)
    task_id, task_type = str(record.get("task_id", number)), str(record.get("task_type", source))
    return rl_row(messages, text, source, extra, task_id, task_type, given)


def _about(record: Mapping[str, Any], number: int, used: set[str]) -> tuple[str, dict[str, Any]]:
    """The data source, and `extra_info` with the line number and all fields without a column.

    Texts and numbers of the record's own `extra_info` stay, such as the task in files of this package.
    """
    rest = {key: value for key, value in record.items() if key not in used | {"data_source"}}
    given = rest.get("extra_info")
    plain: dict[str, Any] = {}
    if isinstance(given, dict):
        plain = {key: value for key, value in given.items() if isinstance(value, str | int | float)}
        if plain.keys() == given.keys():
            del rest["extra_info"]
    source = str(record.get("data_source", DATA_SOURCE))
    return source, {**plain, "line": number, "other": json.dumps(rest, ensure_ascii=False, sort_keys=True)}


def _conversation(record: Mapping[str, Any]) -> tuple[list[dict[str, str]], str | None, set[str]]:
    """The messages before the answer, the answer if there is one, and the names of their fields."""
    named = [name for name in PROMPTS if not _blank(record.get(name))]
    if not named:
        raise BadLine(f"the prompt is missing; it needs one of {', '.join(PROMPTS)}")
    used = {named[0]}
    value = record[named[0]]
    if isinstance(value, str):
        # An instruction and its input form one question.
        about = record.get("input") if named[0] == "instruction" else None
        if isinstance(about, str) and about:
            value, used = f"{value}\n\n{about}", used | {"input"}
        messages = [{"role": "user", "content": value}]
    else:
        messages = _messages(value, named[0])
    if not _blank(record.get(SYSTEM)):
        used.add(SYSTEM)
        if messages[0]["role"] == SYSTEM:
            raise BadLine(f"{named[0]} begins with a system message, and {SYSTEM} is another; leave one out")
        messages.insert(0, {"role": "system", "content": text_of(record[SYSTEM], SYSTEM)})
    answers = [name for name in RESPONSES if name not in used and not _blank(record.get(name))]
    response: str | None = None
    if answers:
        used.add(answers[0])
        response = text_of(record[answers[0]], answers[0])
    if messages[-1]["role"] == "assistant":
        last = messages.pop()["content"]
        if response not in (None, last):
            raise BadLine(f"{named[0]} ends with an answer, and {answers[0]} is a second answer; leave one out")
        response = last
    if not messages:
        raise BadLine(f"{named[0]} has no question before the answer")
    return messages, response, used


def _blank(value: Any) -> bool:
    return value in (None, []) or (isinstance(value, str) and not value.strip())


def _messages(value: Any, name: str) -> list[dict[str, str]]:
    if not isinstance(value, list):
        raise BadLine(f"{name} must be text or a list of messages, got {type(value).__name__}")
    messages = []
    for message in value:
        layout = layout_of(message) if isinstance(message, dict) else None
        if layout is None:
            raise BadLine(f"{name} has an item that is no message with role and content, or with from and value")
        fields, known = layout
        role, text = (message[field] for field in fields)
        if not isinstance(role, str) or role not in known:
            raise BadLine(f"{name} has {unknown_role(role, known)}")
        others = {key for key, item in message.items() if item is not None} - {*fields}
        if not isinstance(text, str) or others:
            raise BadLine(f"{name} has a message with other fields than a role and a text")
        if _blank(text):
            raise BadLine(f"{name} has a message without text")
        messages.append({"role": known[role], "content": text})
    return messages
