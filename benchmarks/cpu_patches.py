"""The gain of each CPU speed patch, of the fork server and of the separate critic.

Runs with all of them alternate with runs without one:

    python benchmarks/cpu_patches.py                          # all of them, about 25 minutes on 2 idle cores
    python benchmarks/cpu_patches.py --only small_cells --steps 3 --rounds 1

VERITAS_RL_CPU_PATCHES=-NAME switches off one patch. Each run without a patch is compared with the runs just before and
just after it, so that a slow change of the machine's load cancels out. The time of a step is the median over a run's
steps after the third. The time of a start is the time from launching verl to the end of its first step. A ratio above 1
is a gain, unless it is within the spread printed below the table.

The table is also written to `--output` as Markdown after every run, so that an interrupted measurement is not lost.
"""

import argparse
import sys
import tempfile
import time
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median

from rich.console import Console
from step import trained

from veritas_rl.errors import unknown
from veritas_rl.verl_plugin.cpu.switch import NAMES, VARIABLE

EVERYTHING = "everything"
SKIPPED_STEPS = 3
"""The number of first steps that warm caches and are not counted."""


@dataclass(frozen=True)
class Run:
    """The times of one run.

    Attributes:
        off: The patch that was off; "" for none.
        step: The median seconds of a step.
        start: Seconds from launching verl to the end of its first step.
    """

    off: str
    step: float
    start: float


@dataclass
class Measurement:
    """Runs in order; every second run has all patches on."""

    runs: list[Run] = field(default_factory=list)

    def ratios(self, off: str, what: str) -> list[float]:
        """The ratio of the time without a patch to the time with it, for each run without it."""
        return [
            getattr(run, what) / fmean(getattr(self.runs[near], what) for near in (place - 1, place + 1))
            for place, run in enumerate(self.runs[:-1])
            if run.off == off and not self.runs[place + 1].off
        ]

    def spread(self, what: str) -> float:
        """The mean relative difference of two successive runs with all patches on, which is pure noise."""
        plain = [getattr(run, what) for run in self.runs if not run.off]
        return fmean(abs(b - a) / a for a, b in pairwise(plain)) if len(plain) > 1 else 0.0

    def table(self) -> str:
        """The results as Markdown."""
        lines = ["| left off | a step without | with | ratio | a start without | with | ratio |"]
        lines += ["| --- | --- | --- | --- | --- | --- | --- |"]
        for off in dict.fromkeys(run.off for run in self.runs if run.off):
            cells = [off if off == EVERYTHING else f"`{off}`"]
            for what in ("step", "start"):
                ratios = self.ratios(off, what)
                if not ratios:
                    break
                without = fmean(getattr(run, what) for run in self.runs if run.off == off)
                ratio = fmean(ratios)
                cells += [f"{without:.2f} s", f"{without / ratio:.2f} s", f"{ratio:.2f}"]
            else:
                lines.append(f"| {' | '.join(cells)} |")
        step, start = self.spread("step"), self.spread("start")
        noise = f"Two successive runs with everything on differ by {step:.1%} in a step and {start:.1%} in a start."
        return "\n".join([*lines, "", noise]) + "\n"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="measured patches, separated by commas; default: each, and everything together")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--output", type=Path, default=Path("train/outputs/cpu_patches.md"))
    given = parser.parse_args()
    names = given.only.split(",") if given.only else [*NAMES, EVERYTHING]
    for name in names:
        if name not in (*NAMES, EVERYTHING):
            sys.exit(f"error: {unknown('patch', name, (*NAMES, EVERYTHING))}")
    order = ["", *(off for _ in range(given.rounds) for name in names for off in (name, ""))]
    console, measured = Console(highlight=False), Measurement()
    given.output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        console.print("making the model; a first run warms the disk cache")
        _, model, _ = trained(folder / "warm-up", 1)
        began = time.monotonic()
        for place, off in enumerate(order):
            setting = "0" if off == EVERYTHING else f"-{off}" if off else "1"
            records, _, start = trained(
                folder / f"run{place}",
                given.steps,
                "veritas_rl.warm_up=null",
                f"actor_rollout_ref.model.path={model}",
                **{VARIABLE: setting},
            )
            steps = [record["timing_s/step"] for record in records]
            measured.runs.append(Run(off, median(steps[SKIPPED_STEPS:] or steps[-1:]), start))
            given.output.write_text(measured.table())
            left = (time.monotonic() - began) / (place + 1) * (len(order) - place - 1)
            what, step = f"without {off}" if off else "with all", measured.runs[-1].step
            console.print(
                f"{place + 1} of {len(order)}: {what}: {step:.2f} s a step, {start:.1f} s to start; "
                f"about {left / 60:.0f} min left"
            )
    console.print(f"\n{measured.table()}")
    console.print(f"written to {given.output}")


if __name__ == "__main__":
    main()
