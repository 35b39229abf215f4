"""The command lines and tables of docs/from-verl.md are those of verl and of this package."""

import re
import shlex
from datetime import datetime
from pathlib import Path

import verl
from omegaconf import OmegaConf

from veritas_rl.composition import composed
from veritas_rl.launch import rl
from veritas_rl.launch.hardware import Hardware

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs/from-verl.md").read_text(encoding="utf-8")
VERL = Path(verl.__path__[0])
IN_VERL, HERE = (shlex.split(block.replace("\\\n", " ")) for block in re.findall(r"```bash\n(.*?)```", PAGE, re.S))


def settings(words: list[str]) -> dict[str, str]:
    """The Hydra keys of a command with their values."""
    return dict(word.split("=", 1) for word in words if "." in word.partition("=")[0] and "=" in word)


def cells(section: str) -> list[list[str]]:
    """The cells of the rows of a section's table."""
    text = PAGE.split(f"## {section}")[1].split("\n## ")[0]
    rows = [line.strip("|").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return [row for row in rows if row[0].strip() not in ("in verl", "---")]


def test_the_command_of_verl_is_one_that_verl_takes() -> None:
    typed = settings(IN_VERL)
    assert len(typed) > 30
    made = composed(VERL / "trainer/config", "ppo_trainer", IN_VERL[IN_VERL.index("verl.trainer.main_ppo") + 1 :])
    assert made.trainer.experiment_name == "qwen3_8b_function_rm"


def test_the_command_here_is_planned_with_these_values() -> None:
    overrides = HERE[HERE.index("train/scripts/openspiel-ppo-trainer.sh") + 1 :]
    run = rl.plan(overrides, {}, Hardware(64, 8, 141 << 30), datetime.now(), dry=True)
    for key, value in settings(HERE).items():
        assert OmegaConf.select(run.configuration, key) == OmegaConf.create(f"value: {value}").value, key
    assert run.configuration.trainer.n_gpus_per_node == 8
    assert run.configuration.algorithm.adv_estimator == "grpo"


def test_every_key_of_verl_is_here_or_in_the_table() -> None:
    table = " ".join(row[0] for row in cells("A command line of verl"))
    for key in settings(IN_VERL).keys() - settings(HERE).keys():
        assert key in table, key


def test_what_is_replaced_and_what_replaces_it_exists() -> None:
    rows = cells("What replaces what")
    ours = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "veritas_rl/verl_plugin").rglob("*.py"))
    theirs = "".join(file.read_text(encoding="utf-8") for file in VERL.rglob("*.py"))
    for in_verl, here, where in rows:
        assert (ROOT / where.strip(" `")).is_file(), where
        for name in re.findall(r"`([A-Z]\w+)`", in_verl):
            assert f"class {name}" in theirs, name
        for name in re.findall(r"`([A-Z]\w+)`", here):
            assert f"class {name}" in ours, name
