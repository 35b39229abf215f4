"""What happens if a process of a run is killed: whether the run ends, how soon, and with which message.

    python benchmarks/killed_processes.py [--kinds raylet,gcs_server] [--moments 5] [--output killed.jsonl]

The script trains the small model of a CPU run, and kills one process with SIGKILL at a random moment. The run must end
within 60 seconds with exit code 2, name the killed process, and leave no process behind. If the launcher is killed, its
processes must end within 60 seconds, except two agents of Ray, which compute nothing and end within about a minute. The
same command then resumes the run, and the next process is killed. After the last death the run must finish with all its
steps.

Each death adds a line to `--output`. If the script is interrupted, type the same command again: it skips the deaths of
the file. The exit code is 1 if anything fails.
"""

import argparse
import json
import random
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table

from veritas_rl.errors import exit_on_user_error
from veritas_rl.kept import KeptLines
from veritas_rl.launch.resume import Record
from veritas_rl.metrics_file import MetricsFile
from veritas_rl.paths import ROOT

LAUNCHER = "launcher"
OPPONENT = "OpponentServer"
DAEMONS = ("raylet", "gcs_server")
ACTORS = (
    "SimpleStorageUnit",
    "TransferQueueController",
    "TaskLoopWorker",
    "GenerationServer",
    "WorkerDict",
    "TaskRunnerV1",
)
"""The names of the actors' classes. Each title of an actor's process begins with `ray::` and this name."""
AGENTS = ("DashboardAgent", "RuntimeEnvAgent")
"""Processes of Ray that look for their parent once a minute, and end without it."""
KINDS = (LAUNCHER, *DAEMONS, *ACTORS, OPPONENT)
STEPS_PER_DEATH = 6
LATEST = 3.0
"""The latest moment of a death, in seconds after the first step of a resumed run: two or three steps."""
WITHIN = 60.0
"""The maximum number of seconds from the death of a process to the end of the run."""
FINISH_SECONDS = 1800
"""The maximum number of seconds of the rest of a run after the last death."""
OUTPUT = ROOT / "train/outputs/killed.jsonl"


@dataclass(frozen=True)
class Death:
    """One killed process.

    Attributes:
        kind: The kind of the process.
        number: The number of this death among those of its kind, from 0.
        after: Seconds from the first step of the run to the death.
        seconds: Seconds from the death to the end of the run, or of its last process if the launcher died.
        message: The error that the run printed last; its last lines if it printed none.
        faults: What went wrong; empty if the run ended as it must.
    """

    kind: str
    number: int
    after: float
    seconds: float
    message: str
    faults: tuple[str, ...]


@dataclass(frozen=True)
class Victim:
    """A run whose processes are killed one after another.

    Attributes:
        folder: The folder of its checkpoints and of its output.
        kinds: The kinds of processes.
        moments: The number of deaths of each kind.
    """

    folder: Path
    kinds: Sequence[str]
    moments: int

    @property
    def steps(self) -> int:
        """The number of steps of the whole run."""
        return STEPS_PER_DEATH * (len(self.kinds) * self.moments + 1)

    @property
    def command(self) -> list[str]:
        """The command that starts and resumes the run."""
        command = [
            *("bash", "train/scripts/openspiel-ppo-trainer.sh", f"trainer.default_local_dir={self.folder / 'run'}"),
            *(f"trainer.total_training_steps={self.steps}", "trainer.save_freq=1", "veritas_rl.warm_up.steps=60"),
            *("veritas_rl.evaluation=null", "data.train_batch_size=16", "veritas_rl.critic_warmup=0"),
        ]
        if OPPONENT in self.kinds:
            # Single moves have no opponent, and neither has the first stage of the curriculum a process for it.
            command += ["play=episode", "data.custom_cls.config.adapter_config.opponent=mcts:20"]
            command += ["data.custom_cls.config.curriculum=null"]
        return command

    def done(self) -> list[int]:
        """The steps with written metrics."""
        record = Record.read(self.folder / "run")
        return [step for step, _ in MetricsFile(Path(record.folder) / "metrics.jsonl").new()] if record else []

    def kill(self, kind: str, number: int) -> Death:
        """Start or resume the run, and kill a process of this kind after its next step."""
        dice = random.Random(f"{kind} {number}")
        after, before = dice.uniform(0, LATEST), max(self.done(), default=0)
        log = self.folder / "printed.txt"
        with log.open("w") as printed:
            run = subprocess.Popen(self.command, cwd=ROOT, stdout=printed, stderr=printed)
        faults = list[str]()
        try:
            while max(self.done(), default=0) <= before:
                if run.poll() is not None:
                    raise RuntimeError(f"the run ended before its next step:\n{log.read_text()}")
                time.sleep(0.1)
            time.sleep(after)
            family = psutil.Process(run.pid).children(recursive=True)
            victim = run if kind == LAUNCHER else dice.choice(_of_kind(family, kind))
            agents = [process for agent in AGENTS for process in _of_kind(family, agent)]
            victim.kill()
            killed = time.monotonic()
            try:
                code = run.wait(WITHIN)
                if kind != LAUNCHER and code != 2:
                    faults.append(f"the exit code is {code}")
            except subprocess.TimeoutExpired:
                faults.append(f"the run did not end within {WITHIN:.0f} s")
            ended = time.monotonic()
        finally:
            if run.poll() is None:
                run.kill()
        if kind == LAUNCHER:
            family = [process for process in family if process not in agents]
        if psutil.wait_procs(family, max(0.0, killed + WITHIN - time.monotonic()))[1]:
            faults.append("the run left processes")
        if kind == LAUNCHER:
            ended = time.monotonic()
        message = " ".join(log.read_text().splitlines()[-2:]).rpartition("error: ")[2]
        if kind != LAUNCHER and kind not in message:
            faults.append("the message does not name the process")
        return Death(kind, number, round(after, 1), round(ended - killed, 1), message, tuple(faults))

    def finish(self) -> list[str]:
        """Resume the run until its end; return what is wrong."""
        command = [*("timeout", str(FINISH_SECONDS)), *self.command]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            return [f"the run did not finish:\n{done.stdout}{done.stderr}"]
        steps = self.done()
        if steps != sorted(set(steps)) or steps[-1] != self.steps:
            return [f"the steps of {self.folder} are not in order or not complete: {steps}"]
        # A step has no metrics if the process died after the checkpoint was saved and before they were written.
        missing = self.steps - len(steps)
        return [f"{missing} steps have no metrics"] if missing > len(self.kinds) * self.moments else []


def _of_kind(family: Sequence[psutil.Process], kind: str) -> list[psutil.Process]:
    """The processes of a kind, by their name or title."""
    found = []
    for process in family:
        try:
            words = [process.name(), *process.cmdline()[:1]]
        except psutil.NoSuchProcess:
            continue
        if any(word.split("/")[-1].removeprefix("ray::").startswith(kind) for word in words):
            found.append(process)
    return found


def _table(deaths: Sequence[Death]) -> Table:
    table = Table("process", "deaths", "seconds to the end", "message of the last one")
    for kind in dict.fromkeys(death.kind for death in deaths):
        seen = [death for death in deaths if death.kind == kind]
        seconds = [death.seconds for death in seen]
        message = "" if kind == LAUNCHER else seen[-1].message
        table.add_row(kind, str(len(seen)), f"{min(seconds)} to {max(seconds)}", message)
    return table


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", default=",".join(KINDS), help=f"separated by commas; default: {','.join(KINDS)}")
    parser.add_argument("--moments", type=int, default=5, help="the number of deaths of each kind")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    given = parser.parse_args()
    kinds = given.kinds.split(",")
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        parser.error(f"unknown kinds {', '.join(unknown)}: there are {', '.join(KINDS)}")
    kept = KeptLines(given.output)
    deaths = [Death(**{**found, "faults": tuple(found["faults"])}) for found in map(json.loads, kept.lines)]
    console, faults = Console(width=200), list[str]()
    for name, part in (
        ("moves", [kind for kind in kinds if kind != OPPONENT]),
        ("games", [kind for kind in kinds if kind == OPPONENT]),
    ):
        if not part:
            continue
        run = Victim(given.output.absolute().with_name(f"{given.output.name}-{name}"), part, given.moments)
        run.folder.mkdir(parents=True, exist_ok=True)
        known = {(death.kind, death.number) for death in deaths}
        missing = [(kind, number) for number in range(given.moments) for kind in part if (kind, number) not in known]
        finished = run.folder / "finished"
        if finished.exists() and not missing:
            continue
        finished.unlink(missing_ok=True)
        for kind, number in missing:
            deaths.append(run.kill(kind, number))
            kept.add(json.dumps(asdict(deaths[-1])))
            console.print(f"{kind} {number + 1}: {deaths[-1].seconds} s", *deaths[-1].faults, soft_wrap=True)
        if found := run.finish():
            faults += found
        else:
            shutil.rmtree(run.folder / "run")
            finished.touch()
    console.print(_table(deaths))
    faults += [f"{death.kind} {death.number + 1}: {fault}" for death in deaths for fault in death.faults]
    console.print("\n".join(faults) or "every run ended in time, named the process, and resumed", soft_wrap=True)
    return 1 if faults else 0


if __name__ == "__main__":
    exit_on_user_error(main)
