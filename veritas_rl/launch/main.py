"""Start a training run: what `bash train/scripts/openspiel-ppo-trainer.sh` calls.

    python -m veritas_rl.launch.main [Hydra overrides]

It reads the environment variables, composes the configuration, checks what can be checked, and then runs the real
`python -m verl.trainer.main_ppo` with a live progress bar; verl's own output goes to a log file. Where the
configuration asks for it (hardware=cpu does), it makes the model, warms it up, and judges it before and after.
"""

import ctypes
import dataclasses
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import psutil
from dotenv import load_dotenv
from omegaconf import DictConfig
from rich.console import Console

from veritas_rl.checkpoints.layout import EXPERIMENTS, STOP, step_of
from veritas_rl.errors import UserError, exit_on_user_error
from veritas_rl.launch import configuration as conf
from veritas_rl.launch import preflight, resume
from veritas_rl.launch.hardware import Hardware, this_machine
from veritas_rl.launch.progress import watch
from veritas_rl.launch.variables import VARIABLES, quoted
from veritas_rl.paths import experiment_name
from veritas_rl.verl_plugin.cpu.forkserver import WORKER_PYTHON
from veritas_rl.viewing.games_page import GAMES_FOLDER

LOG_TAIL_LINES = 30

DIE_WITH_PARENT = 1
"""PR_SET_PDEATHSIG of prctl(2)."""

STOPPED = 128 + signal.SIGTERM
"""The exit code of a run that was asked to save and end."""


@dataclass(frozen=True)
class Run:
    """A run that is ready to start.

    Attributes:
        folder: Where its logs, metrics and reports are written.
        overrides: The Hydra overrides of verl's command.
        configuration: What they make, resolved.
        hardware: The machine.
        start: The checkpoint from which it goes on; None for a run from the beginning.
        record: What is kept of it beside its checkpoints.
    """

    folder: Path
    overrides: tuple[str, ...]
    configuration: DictConfig
    hardware: Hardware
    start: Path | None
    record: resume.Record

    @property
    def checkpoints(self) -> Path:
        """Where its checkpoints are written."""
        return conf.ROOT / self.configuration.trainer.default_local_dir

    @property
    def first_step(self) -> int:
        """How many steps were trained before."""
        return step_of(self.start) if self.start is not None else 0

    @property
    def log(self) -> Path:
        """All that verl, Ray and their workers print."""
        return self.folder / "verl.log"

    @property
    def metrics(self) -> Path:
        """One JSON object a step."""
        return self.folder / "metrics.jsonl"

    @property
    def games(self) -> Path:
        """The games of each validation, to be looked at."""
        return self.folder / "games"

    def command(self) -> list[str]:
        """The command that trains."""
        variables = ",".join(f"{name}:{quoted(value)}" for name, value in self._of_workers())
        return [
            sys.executable,
            "-m",
            "verl.trainer.main_ppo",
            f"--config-path={conf.CONFIG_DIR}",
            f"--config-name={conf.RL_CONFIG}",
            *self.overrides,
            # Daemons of Ray that were started before, on several nodes, have another environment.
            f"++ray_kwargs.ray_init.runtime_env.env_vars={{{variables}}}",
        ]

    def _of_workers(self) -> Iterator[tuple[str, str]]:
        yield from self.environment().items()
        for variable in VARIABLES:
            if variable.workers and (value := os.environ.get(variable.name)):
                yield variable.name, value

    def environment(self) -> dict[str, str]:
        """The variables that verl's processes need beside those that are set already."""
        ranks = self.configuration.trainer.n_gpus_per_node
        cpu = self.configuration.trainer.device == "cpu"
        return {
            "VERL_FILE_LOGGER_PATH": str(self.metrics),
            GAMES_FOLDER: str(self.games),
            "TENSORBOARD_DIR": str(self.folder / "tensorboard"),
            "WANDB_DIR": os.environ.get("WANDB_DIR", str(conf.ROOT / "train/artifacts")),
            # Weights & Biases goes on with the run that has this id, or begins it.
            "WANDB_RUN_ID": os.environ.get("WANDB_RUN_ID", self.record.wandb_run_id),
            "WANDB_RESUME": "allow",
            "HYDRA_FULL_ERROR": "1",
            "RAY_USAGE_STATS_ENABLED": "0",
            # Ray would give each of its workers one thread.
            **({"VERL_PLATFORM": "cpu", "OMP_NUM_THREADS": str(max(1, self.hardware.cores // ranks))} if cpu else {}),
        }


def plan(typed: Sequence[str], environment: Mapping[str, str], hardware: Hardware, now: datetime) -> Run:
    """From what was typed to a run, checked as far as it can be without starting anything.

    Args:
        typed: Hydra overrides.
        environment: The process environment.
        hardware: The machine.
        now: Names the run.

    Raises:
        UserError: Something cannot work.
    """
    wanted = conf.overrides_for(typed, environment, hardware)
    command = (*wanted, f"AGENT_MODEL_REPO_ID={environment.get('AGENT_MODEL_REPO_ID', '')}")
    new = experiment_name("openspiel", now)
    experiment = resume.interrupted(EXPERIMENTS, command) if resume.may_go_on(wanted) else None
    overrides = [f"trainer.experiment_name={experiment.name if experiment else new}", *wanted]
    configuration = conf.compose_configuration(overrides)
    checkpoints = conf.ROOT / configuration.trainer.default_local_dir
    record = resume.Record.read(checkpoints)
    start = resume.checkpoint_to_go_on_from(
        configuration, checkpoints, again=bool(record and record.command == command)
    )
    record = resume.record_of(record, start, checkpoints, command, new, now)
    overrides += [
        f"hydra.run.dir={quoted(record.folder)}",
        *resume.overrides(configuration, start, Path(record.folder)),
        *conf.context_overrides(configuration),
    ]
    configuration = conf.compose_configuration(overrides)
    preflight.check(configuration, wanted)
    return Run(Path(record.folder), tuple(overrides), configuration, hardware, start, record)


def train(run: Run, console: Console) -> bool:
    """Run verl to its end, with a live bar. SIGTERM asks it to save and end; a second one ends it at once.

    Returns:
        Whether the run came to its end; False if it was asked to stop.

    Raises:
        UserError: verl ended with an error, and the message says where its log is; or Ray has too little for it.
    """
    # Ray's modules come with verl, which is known to be there only now.
    from veritas_rl.launch.resource_watchdog import Shortage

    stop = run.checkpoints / STOP
    stop.unlink(missing_ok=True)
    asked = False

    def ask(number: int, frame: object) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True
        stop.touch()
        console.print("asked to stop: a checkpoint is saved after this step; ask again to end at once")

    signal.signal(signal.SIGTERM, ask)
    command = run.command()
    if (
        run.configuration.trainer.device == "cpu"
        and not run.configuration.ray_kwargs.ray_init.runtime_env.py_executable
    ):
        command[1:1] = ["-m", "veritas_rl.verl_plugin.cpu.forkserver"]
        command.append(f"ray_kwargs.ray_init.runtime_env.py_executable={quoted(WORKER_PYTHON)}")
    with run.log.open("ab") as log:
        process = subprocess.Popen(
            command,
            cwd=conf.ROOT,
            env={**os.environ, **run.environment()},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=die_with_parent,
        )
        try:
            shortage = Shortage(process.pid, run.configuration.ray_kwargs.ray_init)
            steps = run.configuration.trainer.total_training_steps
            code = watch(process, run.log, run.metrics, steps, console, run.first_step, shortage)
        finally:
            end(process)
            signal.signal(signal.SIGTERM, signal.default_int_handler)
    if code:
        raise UserError(_why(run.log, code, console))
    return not asked


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent dies, however it dies; Ray's daemons die with theirs."""
    ctypes.CDLL(None).prctl(DIE_WITH_PARENT, signal.SIGKILL)


def _why(log: Path, code: int, console: Console) -> str:
    """What ended verl: what a worker said plainly, or else the end of the log, which is printed."""
    lines = log.read_text(errors="replace").splitlines()
    said = [found.group(1) for line in lines if (found := re.search(r"\bUserError: (.+)", line))]
    if said:
        return f"{said[-1]} (the log is {log})"
    console.print("\n".join(lines[-LOG_TAIL_LINES:]), markup=False, highlight=False)
    return f"verl ended with exit code {code}: its log is {log}"


def end(process: subprocess.Popen[bytes]) -> None:
    """End verl and all that it started, Ray's daemons above all, which outlive a killed parent."""
    try:
        family = psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        family = []
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
    for child in family:
        if child.is_running():
            child.terminate()
    for child in psutil.wait_procs(family, timeout=5)[1]:
        child.kill()


def main() -> None:
    """The command line."""
    load_dotenv(conf.ROOT / ".env")
    preflight.check_verl()
    named = conf.clean_environment(os.environ, Path.cwd())
    for variable in VARIABLES:
        # An empty variable is an unset one, for us and for the libraries that read it.
        os.environ.pop(variable.name, None)
    os.environ.update(named)
    os.chdir(conf.ROOT)
    run = plan(sys.argv[1:], os.environ, this_machine(), datetime.now())
    console = Console()
    dry = os.environ.get("DRY_RUN", "") not in ("", "0")
    try:
        preflight.check_devices(run.configuration, run.hardware)
    except UserError as error:
        if not dry:
            raise
        # What another machine will do can be looked at on this one.
        print(f"note: here it would not run: {error}", file=sys.stderr)
    if dry:
        variables = [f"{name}={value}" for name, value in run.environment().items()]
        print(shlex.join([*variables, *run.command()]))
        print(conf.dump(run.configuration))
        return
    # Judging and warming up import torch: only a run that starts pays for it.
    from veritas_rl.launch.journey import travel

    path = run.configuration.actor_rollout_ref.model.path
    if path is not None:
        preflight.check_model(path, run.configuration.actor_rollout_ref.rollout.max_model_len)
    preflight.check_disk(run.configuration, Path(path) if path and Path(path).is_dir() else None)
    # Whoever ends the launcher ends the run: without this, verl and Ray would go on alone. A background job of a script
    # starts with SIGINT ignored.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    run.folder.mkdir(parents=True, exist_ok=True)
    with resume.held(run.checkpoints, run.start):
        run.record.write(run.checkpoints)
        if not travel(run, console, train):
            sys.exit(STOPPED)
        dataclasses.replace(run.record, finished=True).write(run.checkpoints)


if __name__ == "__main__":
    exit_on_user_error(main)
