"""The command lines that write parquet, and every command of docs/dataset_generation.md, as users type them."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs/dataset_generation.md").read_text(encoding="utf-8")
COMMANDS = [
    line for block in re.findall(r"```bash\n(.+?)```", PAGE, re.DOTALL) for line in block.splitlines() if line.strip()
]
GENERATE, CONVERT = "train/tools/generate_demonstrations.py", "train/tools/convert_to_parquet.py"
TASKS, SCORE = "train/tools/generate_dataset.py", "train/tools/evaluate_dataset.py"


def tool(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_same_seed_gives_the_same_bytes_in_any_process(tmp_path: Path) -> None:
    digests = []
    for name, hash_seed in (("a", "1"), ("b", "2")):
        few = ["--num_demonstrations", "150", "--games", "tic_tac_toe", "--output", str(tmp_path / name)]
        done = tool(GENERATE, *few, PYTHONHASHSEED=hash_seed)
        assert done.returncode == 0, done.stderr
        digests.append(json.loads((tmp_path / name / "demonstrations.json").read_text())["files"])
    assert digests[0] == digests[1]
    assert "150 of 150 questions drawn were kept" in done.stdout
    assert "checked: 0 of 150 rows are in the evaluation set" in done.stdout


@pytest.mark.parametrize("path", [GENERATE, CONVERT])
def test_help_explains_with_a_command(path: str) -> None:
    done = tool(path, "--help")
    assert done.returncode == 0
    assert f"python {path}" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--games", "tictactoe"], "unknown game 'tictactoe': did you mean tic_tac_toe or"),
        (["--expert", "alphazero"], "no player 'alphazero'"),
        (["--val_ratio", "1.5"], "val_ratio must be in [0, 1), not 1.5"),
        (["--games", "backgammon"], "backgammon cannot be solved by minimax"),
        (["--output", "/dev/null/x", "--num_demonstrations", "5"], "/dev/null/x cannot be written"),
    ],
)
def test_a_mistake_ends_with_one_line(tmp_path: Path, arguments: list[str], message: str) -> None:
    done = tool(GENERATE, "--output", str(tmp_path / "out"), *arguments)
    assert done.returncode == 2
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith("error: ")
    assert message in line
    assert not (tmp_path / "out").exists()


def test_bad_lines_stop_a_conversion_or_are_left_out_by_name(tmp_path: Path) -> None:
    source = tmp_path / "data.jsonl"
    source.write_text("".join(json.dumps({"prompt": f"q{n}", "answer": f"a{n}"}) + "\n" for n in range(20)) + "{bad\n")
    given = [CONVERT, "--input", str(source), "--output", str(tmp_path / "out"), "--format", "sft", "--shuffle"]
    done = tool(*given)
    assert done.returncode == 2
    assert done.stderr.startswith("line 21: not JSON")
    assert "1 bad lines" in done.stderr.splitlines()[-1]
    assert not (tmp_path / "out").exists()

    done = tool(*given, "--skip-bad")
    assert done.returncode == 0, done.stderr
    assert "line 21: not JSON" in done.stderr
    (left_out,) = json.loads((tmp_path / "out/demonstrations.json").read_text())["left_out"]
    assert left_out.startswith("line 21")
    files = [pd.read_parquet(tmp_path / "out" / name) for name in ("train.parquet", "val.parquet")]
    assert [len(file) for file in files] == [18, 2]
    prompts = [prompt for file in files for prompt in file["prompt"]]
    assert sorted(prompts) == sorted(f"q{n}" for n in range(20))
    assert list(files[0]["prompt"]) != sorted(files[0]["prompt"], key=lambda prompt: int(prompt[1:]))


def test_a_mistake_in_a_conversion_ends_with_one_line(tmp_path: Path) -> None:
    done = tool(CONVERT, "--input", str(tmp_path / "none"), "--output", str(tmp_path), "--format", "rl")
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {tmp_path / 'none'} cannot be read")
    done = tool(CONVERT, "--input", "x", "--output", "out/train.parquet", "--format", "rl")
    assert done.returncode == 2
    assert done.stderr.startswith("error: --output must be a folder")


@pytest.mark.parametrize("command", [command for command in COMMANDS if "train/tools/" in command])
def test_every_tool_command_of_the_page_works(command: str, tmp_path: Path) -> None:
    # The evaluation set, with which the rows are compared, takes half a minute to make in the page's larger games.
    larger = "hex(board_size=5),connect_four"
    assert larger in PAGE
    _, *words = shlex.split(command.replace(larger, "hex(board_size=3),tic_tac_toe"))
    number, output = "--num_demonstrations", "--output"
    if TASKS in words:
        number, output = "--num-samples", "--out-dir"
    if SCORE in words:
        made = tool(TASKS, "--env", "lgc-v2", "--num-samples", "60", "--out-dir", str(tmp_path))
        assert made.returncode == 0, made.stderr
        name = json.loads((tmp_path / "val.jsonl").read_text().splitlines()[0])["task_id"]
        (tmp_path / "answers.jsonl").write_text(json.dumps({"task_id": name, "answer": "?"}))
        words[words.index("--data") + 1] = str(tmp_path / Path(words[words.index("--data") + 1]).name)
        words[words.index("--answers") + 1] = str(tmp_path / "answers.jsonl")
    elif CONVERT in words:
        (tmp_path / "data.jsonl").write_text("".join(f'{{"prompt": "{n}", "answer": "{n}"}}\n' for n in range(20)))
        words[words.index("--input") + 1] = str(tmp_path / "data.jsonl")
    else:
        words[words.index(number) + 1] = "8"
    if SCORE not in words:
        words[words.index(output) + 1] = str(tmp_path)
    done = tool(*words)
    assert done.returncode == 0, done.stderr
    expected = 20 if CONVERT in words else 60 if SCORE in words else 8
    assert len(pd.read_parquet(tmp_path / "train.parquet")) + len(pd.read_parquet(tmp_path / "val.parquet")) == expected


@pytest.fixture(scope="module")
def demonstrations(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of demonstrations."""
    folder = tmp_path_factory.mktemp("demonstrations") / "my-folder"
    made = tool(GENERATE, "--num_demonstrations", "700", "--prompt", "brief", "--output", str(folder))
    assert made.returncode == 0, made.stderr
    return folder


@pytest.mark.parametrize("command", [command for command in COMMANDS if "train/scripts/" in command])
def test_every_training_command_of_the_page_is_planned(
    command: str, demonstrations: Path, tiny_model: Path, tmp_path: Path
) -> None:
    # tests/test_sft_training.py runs the commands. This test only plans them, with existing files.
    command = command.replace("my-folder", str(demonstrations)).replace("my-model", str(tiny_model))
    adapter = tmp_path / "adapter"
    if adapted := "LORA_ADAPTER_PATH" in command:
        model: Any = AutoModelForCausalLM.from_pretrained(tiny_model)
        get_peft_model(model, LoraConfig(r=2, target_modules=["q_proj"])).save_pretrained(str(adapter))
        command = re.sub(r"LORA_ADAPTER_PATH=\S+", f"LORA_ADAPTER_PATH={adapter}", command)
    environment = {**os.environ, "DRY_RUN": "1"}
    done = subprocess.run(
        ["bash", "-c", command], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert f"-m verl.trainer.{'main_ppo' if adapted else 'sft_trainer'}" in done.stdout
    if str(demonstrations) in command:
        assert f"trainer.total_training_steps={630 // 64 * 3}" in done.stdout
