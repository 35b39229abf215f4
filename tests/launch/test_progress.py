"""The progress that a user sees during a run."""

import io
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from veritas_rl.curriculum.stages import Curriculum, Stage
from veritas_rl.launch import progress
from veritas_rl.launch.process import last_step
from veritas_rl.launch.progress import render_rewards, watch
from veritas_rl.metrics_file import MetricsFile, Tail
from veritas_rl.progress import ROLLOUT


def test_a_tail_gives_each_whole_line_once(tmp_path: Path) -> None:
    path = tmp_path / "file"
    tail = Tail(path)
    assert list(tail.new()) == []
    path.write_bytes(b"one\ntwo\nthr")
    assert list(tail.new()) == [b"one\n", b"two\n"]
    with path.open("ab") as file:
        file.write(b"ee\n")
    assert list(tail.new()) == [b"three\n"]
    assert list(tail.new()) == []


def test_a_metric_that_is_no_number_is_shown_as_such(tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    file.write_text('{"step": 2, "data": {"critic/score/mean": null, "task/legal": 0.5}}\n')
    ((step, data),) = MetricsFile(file).new()
    assert (step, render_rewards(data)) == (2, "reward nan  legal 0.500")


def test_a_stage_that_is_passed_is_printed_once(tmp_path: Path) -> None:
    curriculum = Curriculum([Stage("easy", {}, 0.5), Stage("hard", {}, 0.5)], window=3)
    (said,) = filter(None, [curriculum.record_fresh("easy", 1) for _ in range(3)])
    log, metrics, printed = tmp_path / "verl.log", tmp_path / "metrics.jsonl", io.StringIO()
    # This line is from the part of the run before an interruption.
    log.write_text("curriculum: stage zero passed with 99% of the last 9 games; now easy (2 of 3)\n")
    step = json.dumps({"step": 1, "data": {"critic/score/mean": 0.25, "task/legal": 0.5}})
    program = (
        "import time\ntime.sleep(0.3)\n"
        f"print('\\x1b[36m(TaskRunner pid=7)\\x1b[0m ' + {said!r}, file=open({str(log)!r}, 'a'))\n"
        f"print({step!r}, file=open({str(metrics)!r}, 'a'))\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program])
    assert watch(process, log, metrics, 1, Console(file=printed, width=200)) == 0
    lines = printed.getvalue().splitlines()
    assert lines[0] == said
    assert lines[1].startswith("step 1/1  reward 0.250  legal 0.500")
    assert len(lines) == 2


def test_the_last_step_is_read_from_the_metrics(tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    assert last_step(file) is None
    file.touch()
    assert last_step(file) == 0
    file.write_text("".join(json.dumps({"step": step, "data": {}}) + "\n" for step in (1, 2, 3, 3)))
    assert last_step(file) == 3


def test_a_log_of_a_long_step_says_how_far_its_tasks_are_played(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.2)
    metrics, printed = tmp_path / "metrics.jsonl", io.StringIO()
    step = json.dumps({"step": 1, "data": {"critic/score/mean": 0.25, "task/legal": 0.5}})
    rollout = {"done": 30, "of": 120, "replies": 41, "seconds": 10.0}
    program = (
        "import time\ntime.sleep(1.5)\n"
        f"print({step!r}, file=open({str(metrics)!r}, 'a'))\n"
        f"print({json.dumps(rollout)!r}, file=open({str(tmp_path / ROLLOUT)!r}, 'w'), flush=True)\n"
        "time.sleep(1.5)\n"
        f"print({json.dumps(rollout | {'done': 120})!r}, file=open({str(tmp_path / ROLLOUT)!r}, 'w'), flush=True)\n"
        "time.sleep(1.5)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program])
    assert watch(process, tmp_path / "verl.log", metrics, 9, Console(file=printed, width=200)) == 0
    lines = [re.sub(r", \d+ s$", "", line) for line in dict.fromkeys(printed.getvalue().splitlines())]
    start, first, playing, updating = dict.fromkeys(lines)
    assert start == "step 0/9 is done; starting verl"
    assert first.startswith("step 1/9  reward 0.250  legal 0.500")
    assert playing == ("step 1/9 is done; 30/120 tasks played, 41 replies, 3 a second, about 30 s left")
    assert updating == "step 1/9 is done; updating the model"
