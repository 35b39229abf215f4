"""The results of the linter: a row for each check of each case, with its findings."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum

from veritas_rl.envs.audit import NotApplicable

MOST_QUOTED = 80


class Verdict(StrEnum):
    """The result of a check."""

    OK = "ok"
    FINDING = "finding"
    NOT_APPLICABLE = "not applicable"


@dataclass(frozen=True)
class Finding:
    """A finding of a check.

    Attributes:
        task: The task's id; "" if the finding does not concern a single task.
        text: The problem, with a short quotation.
    """

    task: str
    text: str


@dataclass(frozen=True)
class Row:
    """The result of one check of one case.

    Attributes:
        case: The case, or "all" for a check of the complete environment.
        check: The check's name.
        verdict: The result of the check.
        remark: The amount of checked data, or the reason why the check does not apply.
        findings: All findings, in the order of the tasks.
    """

    case: str
    check: str
    verdict: Verdict
    remark: str
    findings: tuple[Finding, ...] = ()


@dataclass
class Log:
    """Records the findings of a check."""

    findings: list[Finding] = field(default_factory=list)

    def found(self, task: str, text: str) -> None:
        """Record a finding."""
        self.findings.append(Finding(task, text))

    @contextmanager
    def guard(self, task: str) -> Iterator[None]:
        """Record an exception of the environment as a finding. No reply may raise an exception in a session."""
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
    """The beginning of a text as one printable line."""
    short = ascii(text[: most + 1])
    return ascii(text) if len(text) <= most else f"{short[:-1]}...{short[0]}"
