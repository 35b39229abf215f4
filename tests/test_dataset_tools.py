"""The command lines that write data sets and score answers, as users type them."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
GENERATE, EVALUATE = "train/tools/generate_dataset.py", "train/tools/evaluate_dataset.py"


def tool(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **variables}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_a_killed_run_goes_on_and_ends_with_the_same_bytes(tmp_path: Path) -> None:
    given = [GENERATE, "--env", "lgc-v2", "--num-samples", "600", "--out-dir"]
    whole = tool(*given, str(tmp_path / "whole"), PYTHONHASHSEED="1")
    assert whole.returncode == 0, whole.stderr
    assert "600 rows were drawn;" in whole.stdout
    partial = tmp_path / "killed/partial.jsonl"
    process = subprocess.Popen([sys.executable, *given, str(tmp_path / "killed")], cwd=ROOT, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not partial.exists() or partial.stat().st_size < 20_000:
        assert process.poll() is None, "it ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert [path.name for path in (tmp_path / "killed").iterdir()] == ["partial.jsonl"]
    there = len(partial.read_bytes().splitlines()) - 2  # without the settings and a row that may be cut
    done = tool(*given, str(tmp_path / "killed"), PYTHONHASHSEED="2")
    assert done.returncode == 0, done.stderr
    assert there > 2
    assert int(done.stdout.split(" were there already")[0].split()[-1]) in (there, there + 1)
    assert bytes_of(tmp_path / "killed") == bytes_of(tmp_path / "whole")


def test_a_data_set_is_made_and_answers_to_it_are_scored(tmp_path: Path) -> None:
    out = tmp_path / "data"
    made = tool(GENERATE, "--env", "lgc-v2", "--num-samples", "40", "--val-ratio", "0.5", "--out-dir", str(out))
    assert made.returncode == 0, made.stderr
    assert f"20 rows  {out / 'val.parquet'}" in made.stdout
    rows = [json.loads(line) for line in (out / "val.jsonl").read_text().splitlines()]
    lines = [json.dumps({"task_id": row["task_id"], "answer": "I do not know."}) for row in rows[:5]]
    answers = tmp_path / "answers.jsonl"
    answers.write_text("\n".join([*lines, '{"task_id": 1, "ans']))
    scored = tool(EVALUATE, "--data", str(out / "val.parquet"), "--answers", str(answers))
    assert scored.returncode == 0, scored.stderr
    assert scored.stderr.startswith("line 6: not JSON")
    assert "5 of 20" in scored.stdout
    assert "15 of 20 tasks have no answer" in scored.stdout
    found = tool(EVALUATE, "--data", str(out / "val.jsonl"), "--answers", str(answers), "--json")
    assert json.loads(found.stdout)["all"]["success"]["mean"] == 0.0
    assert [bad["line"] for bad in json.loads(found.stdout)["bad_lines"]] == [6]
    answers.write_text("{}\n")
    senseless = tool(EVALUATE, "--data", str(out / "val.jsonl"), "--answers", str(answers))
    assert senseless.returncode == 2
    assert senseless.stderr.splitlines() == [
        "line 1: no task_id",
        "error: no answer can be scored: the file has 1 bad lines, and no answer to any of 20 tasks",
    ]


@pytest.mark.parametrize("path", [GENERATE, EVALUATE])
def test_help_explains_with_a_command(path: str) -> None:
    done = tool(path, "--help")
    assert done.returncode == 0
    assert f"python {path}" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--env", "lgcv2"], "unknown environment 'lgcv2': did you mean lgc-v2"),
        (["--env", "lgc-v2", "--num-samples", "0"], "--num-samples must be at least 1, not 0"),
        (["--env", "lgc-v2", "--workers", "0"], "--workers must be auto or a number of at least 1, not '0'"),
        (["--env", "lgc-v2", "--start-task-id", "123456789012"], "task id 123456789012 is of type 1234"),
        (["--env", "trace", "--config", "reward"], "--config takes KEY=VALUE, not 'reward'"),
        (["--env", "lgc-v2", "--out-dir", "/dev/null/x"], "/dev/null/x is not writable"),
    ],
)
def test_a_mistake_ends_with_one_line(tmp_path: Path, arguments: list[str], message: str) -> None:
    done = tool(GENERATE, "--num-samples", "5", "--out-dir", str(tmp_path / "out"), *arguments)
    assert done.returncode == 2
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith("error: ")
    assert message in line
    assert not (tmp_path / "out").exists()


def test_an_answer_file_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    out = tmp_path / "data"
    assert tool(GENERATE, "--env", "lgc-v2", "--num-samples", "5", "--out-dir", str(out)).returncode == 0
    done = tool(EVALUATE, "--data", str(out / "train.jsonl"), "--answers", str(tmp_path / "none"))
    assert done.returncode == 2
    assert done.stderr.startswith(
        f"error: {tmp_path / 'none'} cannot be read (No such file or directory): set --answers"
    )
