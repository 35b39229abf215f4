"""What the linter says: a row for each case and check, with the findings that stand behind it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum

from veritas_rl.envs.audit import NotApplicable

MOST_QUOTED = 80


class Verdict(StrEnum):
    """How a check ended."""

    OK = "ok"
    FINDING = "finding"
    NOT_APPLICABLE = "not applicable"


@dataclass(frozen=True)
class Finding:
    """Something wrong.

    Attributes:
        task: The task's id; "" where no single task shows it.
        text: What is wrong, with a short quotation.
    """

    task: str
    text: str


@dataclass(frozen=True)
class Row:
    """The result of one check of one case.

    Attributes:
        case: The case, or "all" for what concerns the environment as a whole.
        check: The check's name.
        verdict: How it ended.
        remark: What was looked at, or why the check does not apply.
        findings: Every finding, in the order of the tasks.
    """

    case: str
    check: str
    verdict: Verdict
    remark: str
    findings: tuple[Finding, ...] = ()


@dataclass
class Log:
    """Where a check notes what it finds."""

    findings: list[Finding] = field(default_factory=list)

    def found(self, task: str, text: str) -> None:
        """Note a finding."""
        self.findings.append(Finding(task, text))

    @contextmanager
    def guard(self, task: str) -> Iterator[None]:
        """Note what an environment raises: whatever a model says, no exception may come out of a session."""
        try:
            yield
        except NotApplicable:
            raise
        except Exception as error:
            self.found(task, f"raised {named(error)}")


def named(error: Exception) -> str:
    """An exception as one short line."""
    return quote(f"{type(error).__name__}: {error}", 160).strip("'\"")


def quote(text: str, most: int = MOST_QUOTED) -> str:
    """The beginning of a text as one line that any terminal can show."""
    short = ascii(text[: most + 1])
    return ascii(text) if len(text) <= most else f"{short[:-1]}...{short[0]}"
