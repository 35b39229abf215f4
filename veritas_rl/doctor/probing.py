"""Asks a process of its own, because what it tries may crash it."""

import json
import subprocess
import sys
from typing import Any

from veritas_rl.doctor.findings import Finding
from veritas_rl.errors import last_line
from veritas_rl.launch.known_faults import faults_in
from veritas_rl.launch.process import end
from veritas_rl.paths import ROOT

PROBE_SECONDS = 180


class ProbeError(Exception):
    """A library cannot be imported or does not work. The message is its output."""


def probe(*arguments: str) -> dict[str, Any]:
    """Run a probe of `veritas_rl.launch.probe` in a separate process.

    Args:
        arguments: The probe's name and arguments.

    Raises:
        ProbeError: The probe failed, or did not end within `PROBE_SECONDS`.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "veritas_rl.launch.probe", *arguments],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        out, errors = process.communicate(timeout=PROBE_SECONDS)
    except subprocess.TimeoutExpired:
        raise ProbeError(f"the check did not end within {PROBE_SECONDS} s") from None
    finally:
        end(process)
    if process.returncode:
        raise ProbeError(errors.decode(errors="replace") or f"the check ended with exit code {process.returncode}")
    return json.loads(out.decode(errors="replace").splitlines()[-1])


def broken(check: str, error: ProbeError, mend: str) -> Finding:
    """The fault of a failed probe: a known fault, or the last line of its output."""
    known = next(faults_in(str(error)), None)
    if known is not None:
        fault, line = known
        return Finding(check, "fault", f"{line}: {fault.cause}", fault.mend)
    return Finding(check, "fault", last_line(str(error), "the check failed")[:300], mend)
