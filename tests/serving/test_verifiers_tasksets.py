"""A taskset of verifiers 0.4 behind the protocol of affinetes, as an environment of this package."""

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from veritas_rl.envs.base import Reply, Score, Session
from veritas_rl.envs.registry import get_environment, open_catalogue
from veritas_rl.errors import UserError

ROOT = Path(__file__).resolve().parents[2]
PLAIN = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
SERVE = ROOT / "integrations/verifiers_tasksets/serve.py"

SUMS = """
import verifiers.v1 as vf

__all__ = ["SumsTaskset"]


class SumsData(vf.TaskData):
    answer: int


class SumsTask(vf.Task[SumsData]):
    {extra}
    @vf.reward(weight=0.75)
    async def right(self, trace: vf.Trace) -> float:
        if trace.last_reply == "fail":
            raise RuntimeError("planted")
        return float(trace.last_reply == str(self.data.answer))

    @vf.reward(weight=0.25)
    async def short(self, task, trace: vf.Trace) -> float:
        return float(len(trace.last_reply) < 5)


class SumsConfig(vf.TasksetConfig):
    count: int = 5


class SumsTaskset(vf.Taskset[SumsTask, SumsConfig]):
    def load(self):
        for k in range(self.config.count):
            yield SumsTask(SumsData(prompt=f"{{k}} + 1 =", system_prompt="Add.", answer=k + 1), self.config.task)
"""

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def python(client_python: Callable[..., Path]) -> Path:
    return client_python("verifiers")


def command(python: Path, folder: Path, *options: str, extra: str = "") -> dict[str, Any]:
    """The arguments of a process that serves the sums."""
    (folder / "sums.py").write_text(SUMS.format(extra=extra))
    return {"args": [str(python), str(SERVE), "sums", *options], "env": {**PLAIN, "PYTHONPATH": str(folder)}}


@pytest.fixture
def url(python: Path, tmp_path: Path, free_port: int) -> Iterator[str]:
    started = command(python, tmp_path, "--port", str(free_port), "--config", "count=7")
    with subprocess.Popen(**started, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert re.fullmatch(r"6 tasks at http://127\.0\.0\.1:\d+\n", line)
            yield line.split()[-1]
        finally:
            process.kill()


def started(url: str, k: int, split: str = "train") -> Session:
    task = open_catalogue({"env": f"affinetes:{url}"}, split)[k]
    return get_environment(task.env).start(task)


def judged(session: Session, reply: str) -> Score:
    session.step({0: Reply(reply)})
    return session.scores()[0]


def test_tasks_are_asked_and_their_rewards_are_paid(url: str) -> None:
    asked = {split: {started(url, k, split).board(0) for k in range(9)} for split in ("train", "val")}
    assert asked["train"] == {f"Add.\n\n{k} + 1 =" for k in (0, 2, 4)}
    assert asked["val"] == {f"Add.\n\n{k} + 1 =" for k in (1, 3, 5)}
    for reply, value in (("3", 1.0), ("4", 0.25), ("a long reply", 0.0)):
        score = judged(started(url, 1), reply)
        assert (score.value, score.success) == (value, value == 1)
    with pytest.raises(UserError, match=r"HTTP 500.*planted"):
        judged(started(url, 0), "fail")


@pytest.mark.parametrize(
    ("extra", "options", "said"),
    [
        ("NEEDS_CONTAINER = True", (), "its tasks need a container"),
        ("async def setup(self, trace, runtime): ...", (), "its tasks need a container"),
        ("", ("--config", "count=1"), "it has fewer than two tasks"),
        ("", ("--config", "unknown=1"), "the taskset sums cannot be loaded"),
        (
            "@vf.reward\n    async def boxed(self, trace, runtime) -> float: ...",
            (),
            "its reward boxed needs a container",
        ),
    ],
)
def test_what_is_no_single_question_is_refused(
    python: Path, tmp_path: Path, extra: str, options: tuple[str, ...], said: str
) -> None:
    started = command(python, tmp_path, *options, extra=extra)
    done = subprocess.run(**started, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_the_script_needs_a_taskset() -> None:
    script = ["bash", "integrations/verifiers_tasksets/serve.sh"]
    nothing = subprocess.run(script, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (nothing.returncode, nothing.stderr.startswith("error: give the id of a taskset")) == (2, True)
