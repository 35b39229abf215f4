"""Check this machine before a run: one row for each requirement of a run, with a fix if the requirement is not met.

    python train/tools/doctor.py
    python train/tools/doctor.py --hardware h200x2 --model Qwen/Qwen3-4B-Instruct-2507 lora=off
    python train/tools/doctor.py --sft --hardware h200x2
    python train/tools/doctor.py --log train/outputs/DATE/TIME/verl.log     # what ended a run

The last arguments are the Hydra overrides of `openspiel-ppo-trainer.sh`, or with --sft of `openspiel-SFT-trainer.sh`.
The exit code is 0 without a fault, else 1. Trainer scripts begin with `--fast`, which takes less than 2 s, prints only
faults and warnings, and exits with 2 if there is a fault. DOCTOR=0 skips this check.
"""

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

if __name__ == "__main__":
    sys.path.pop(0)  # modules of this folder must not hide packages

try:
    from dotenv import load_dotenv

    from veritas_rl.doctor import fast
    from veritas_rl.doctor.asked import PATIENT, Asked
    from veritas_rl.doctor.findings import Finding, as_json, collect, print_table
    from veritas_rl.errors import UserError, exit_on_user_error
    from veritas_rl.launch.known_faults import faults_in
    from veritas_rl.paths import ROOT
except ImportError as error:
    print(
        f"error: {sys.executable} lacks a package ({error}): run bash train/scripts/setup.sh, which prints a suitable "
        "Python",
        file=sys.stderr,
    )
    sys.exit(2)


FAST_WORDS = {"fault": "error", "warning": "warning"}
"""The first word of a line of `--fast`, by the state of the finding."""


def parse(typed: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hardware", help="the hardware group, such as h200x2; default: the group for this machine")
    parser.add_argument(
        "--model", help="the model: a folder or a hub id; default: AGENT_MODEL_REPO_ID, or the model of the settings"
    )
    parser.add_argument(
        "--sft", action="store_true", help="check for supervised fine-tuning instead of reinforcement learning"
    )
    parser.add_argument(
        "--fast",
        action="store_true",
        help="run only the fast checks, and print only faults and warnings, one line each",
    )
    parser.add_argument(
        "--log", type=Path, help="only search this log of verl for known errors, and check nothing else"
    )
    parser.add_argument("--json", action="store_true", help="print the results as one JSON object")
    parser.add_argument("overrides", nargs="*", help="Hydra overrides, such as lora=off")
    given = list(sys.argv[1:] if typed is None else typed)
    # All arguments after -- are Hydra overrides.
    place = given.index("--") if "--" in given else len(given)
    read = parser.parse_intermixed_args(given[:place])
    read.overrides += given[place + 1 :]
    return read


def _examine(typed: argparse.Namespace, asked: Asked) -> Iterator[Finding]:
    if typed.log:
        yield from _read(typed.log)
        return
    yield from collect(fast.checks(asked))
    if typed.fast:
        return
    # Late, because the import fails if a library is missing. The fast checks report missing libraries.
    from veritas_rl.doctor.thorough import Examination

    yield from collect(Examination(asked, typed.model).checks())


def _read(log: Path) -> Iterator[Finding]:
    """The known errors in a log."""
    if not log.is_file():
        raise UserError(f"{log} does not exist: set --log to the verl.log of a run")
    found = list(faults_in(log.read_text(errors="replace")))
    yield from (Finding(fault.name, "fault", f"{line}: {fault.cause}", fault.mend) for fault, line in found)
    if not found:
        yield Finding("log", "ok", f"no known error in the last lines of {log}")


def main() -> int:
    """Run the checks, and print the table."""
    typed = parse()
    load_dotenv(ROOT / ".env")
    switched_off = os.environ.get("DOCTOR") == "0" or os.environ.get("DRY_RUN", "") not in ("", "0")
    if typed.fast and switched_off:
        return 0
    overrides = [*([f"hardware={typed.hardware}"] if typed.hardware else []), *typed.overrides]
    asked = Asked(overrides, os.environ, typed.sft, fast.LIMITS if typed.fast else PATIENT)
    _ = asked.recipe  # a recipe that does not exist ends the command, instead of failing each check
    findings = list(_examine(typed, asked))
    faults = [one for one in findings if one.state == "fault"]
    if typed.json:
        print(as_json(findings))
    elif typed.fast:
        for one in findings:
            if (word := FAST_WORDS.get(one.state)) is not None:
                print(": ".join(filter(None, (word, one.check, one.found, one.mend))), file=sys.stderr)
        return 2 if faults else 0
    else:
        print_table(findings)
    return 1 if faults else 0


if __name__ == "__main__":
    exit_on_user_error(main)
