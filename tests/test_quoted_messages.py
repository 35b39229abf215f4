"""The messages that docs/troubleshooting.md and docs/scaling.md quote are those of the code."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from veritas_rl.launch.known_faults import faults_in

ROOT = Path(__file__).resolve().parents[1]
OF_LIBRARIES = "Errors of the libraries"
"""The section of docs/troubleshooting.md with messages that `known_faults` recognizes in a log."""

HEADS = ("message", "what you see")
"""The heads of the columns whose code spans are messages. Other cells have messages in double quotes."""

OF_OTHERS = {"running low on memory", "Read-only file system"}
"""Texts of Ray and of the system."""

EXAMPLES = (
    "/data|CPU|actor/pg_loss|advantages|chess|game|gpu-2|hardware=(?:h200x1|rtx24g)|hex|nan|num_tasks_per_case|"
    "openspiel setting|raylet|sdpa|sglang|training/rollout_probs_diff_mean"
)
"""The values in the quoted messages that the code inserts, as a regular expression."""

INSERTED = ("a checkpoint and", "exit code", "has none left", "this GPU", "what else a run writes")
"""The texts in the quoted messages that the code inserts from another place."""

JOINT = r"[()]|[:;?](?= |$)"
"""Where the code joins clauses, which may be in several files."""

PLACEHOLDER = "|".join(
    [
        r"\.\.\.[\w./]*",
        r"(?<!\w)'[^']*'",
        r"(?<![\w.])\d[\d.:]*(?: [GM]iB| s\b|%)?",
        r"\b[NM]\b",
        rf"(?<![\w/])(?:{EXAMPLES}|{'|'.join(INSERTED)})(?!\w)",
    ]
)


def quoted(page: str) -> Iterator[tuple[str, str]]:
    """The section and the text of each message in the tables of a page."""
    section, column = "", None
    for line in (ROOT / "docs" / page).read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")] if line.startswith("| ") else []
        if line.startswith("## "):
            section = line.removeprefix("## ")
        if not cells:
            column = None
        elif column is None:
            column = next((place for place, head in enumerate(cells) if head in HEADS), -1)
        else:
            spans = re.findall(r"`([^`]+)`", cells[column]) if column >= 0 else []
            # One or two words are a command or an option.
            yield from ((section, span) for span in spans if len(span.split()) > 2)
            prose = re.sub(r"`[^`]*`", "", line)
            yield from ((section, words) for words in re.findall(r'"([^"]+)"', prose))


@cache
def texts() -> list[str]:
    """The texts of each file of the code without docstrings. A field of an f-string ends a line."""
    found = [file.read_text(encoding="utf-8") for file in (ROOT / "train/scripts").glob("*.sh")]
    for file in (*(ROOT / "veritas_rl").rglob("*.py"), *(ROOT / "train/tools").glob("*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        docstrings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        constants = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and node not in docstrings]
        found.append("\n".join(constant.value for constant in constants if isinstance(constant.value, str)))
    return found


def unknown_clauses(message: str) -> list[str]:
    """The clauses of a quoted message whose fixed parts are not together in a file of the code."""
    clauses = re.split(JOINT, message.removeprefix("error: "))
    return [clause for clause in clauses if not any(is_in(clause, text) for text in texts())]


def is_in(clause: str, text: str) -> bool:
    parts = [part.strip(" ,") for part in re.split(PLACEHOLDER, clause)]
    return all(part in text for part in parts if part not in OF_OTHERS)


QUOTED = [(page, *found) for page in ("troubleshooting.md", "scaling.md") for found in quoted(page)]


@pytest.mark.parametrize(
    ("page", "message"), [(page, message) for page, section, message in QUOTED if section != OF_LIBRARIES]
)
def test_a_quoted_message_is_in_the_code(page: str, message: str) -> None:
    assert unknown_clauses(message) == [], f"docs/{page} quotes {message!r}"


def test_inserted_texts_are_in_the_code() -> None:
    assert [words for words in INSERTED if not any(words in text for text in texts())] == []


@pytest.mark.parametrize("message", [message for _, section, message in QUOTED if section == OF_LIBRARIES])
def test_a_quoted_message_of_a_library_is_recognized_in_a_log(message: str) -> None:
    # An ellipsis may stand for the end of a line.
    logs = message, message.replace(" ... ", "\n")
    assert any(next(faults_in(log), None) for log in logs) or unknown_clauses(message) == []
