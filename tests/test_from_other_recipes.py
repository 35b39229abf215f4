"""Every command, setting and file that docs/from-other-recipes.md names exists, and each row can be typed."""

import re
import shlex
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest
import verl

from veritas_rl.launch import rl, sft
from veritas_rl.launch.configuration import CONFIG_DIR, GROUPS, compose_configuration, group_of, with_or_without_plus
from veritas_rl.launch.hardware import Hardware
from veritas_rl.launch.variables import VARIABLES

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/from-other-recipes.md"
SAME = "The same"

OF_OTHERS = {"WANDB_DIR", "WANDB_EXP", "CUDA_VISIBLE_DEVICES"}
"""Variables that other programs read."""

MADE_BY_A_RUN = ("train/artifacts", "train/outputs", "train/models", "train/parquet", "train/datasets")


def rows() -> Iterator[tuple[str, str, str]]:
    """The section, the left cell and the right cell of each row."""
    section = ""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            section = line.removeprefix("## ")
        elif line.startswith("| ") and not line.startswith(("| there |", "| --- |")):
            there, here = line.strip("|").split(" | ")
            yield section, there, here


def typed(there: str, here: str) -> list[str]:
    """The words in the code spans of a row's right cell, and of its left cell if the right cell begins with `SAME`."""
    text = f"{there} {here}" if here.strip().startswith(SAME) else here
    words = []
    for span in re.findall(r"`([^`]+)`", text):
        try:
            words += shlex.split(span)
        except ValueError:  # an unpaired apostrophe
            words += span.split()
    return words


def overrides_of(words: list[str]) -> list[str]:
    """The Hydra overrides among the words, without placeholders."""
    found = [word for word in words if re.fullmatch(r"\+{0,2}[a-z_]+(\.\w+)*=[^.].*", word) and "..." not in word]
    return [word for word in found if "." in word.partition("=")[0] or group_of(word)]


PAIRS = list(rows())


def keys_of(sft_alone: bool) -> list[str]:
    of_sft = [pair for pair in PAIRS if pair[0].startswith("SFT") == sft_alone]
    return [word for _, there, here in of_sft for word in overrides_of(typed(there, here)) if group_of(word) is None]


def test_every_key_of_rl_is_one_that_hydra_takes() -> None:
    keys = [word for word in keys_of(False) if not word.startswith("custom_reward_function.")]
    assert len(keys) > 40
    made = compose_configuration(["hardware=h200x1", "lora=on", *map(with_or_without_plus, keys)])
    # If several rows set a key, the last row wins.
    assert made.algorithm.gamma == 0.99


def test_every_key_of_fine_tuning_is_one_that_hydra_takes() -> None:
    keys = keys_of(True)
    assert len(keys) > 10
    made = compose_configuration([f"{sft.GROUPS['hardware']}=h200x2", *keys], sft.SFT_CONFIG)
    assert made.engine.model_dtype == "bf16"


NAMED_FOLDERS = ("RESUME_FROM", "LORA_ADAPTER_PATH")
"""Variables whose folders the page invents."""


def trained() -> Iterator[tuple[str, dict[str, str], list[str]]]:
    """The section, the variables and the overrides of each row that has some."""
    for section, there, here in PAIRS:
        words = typed(there, here)
        named = [re.fullmatch(r"([A-Z][A-Z_]+)=(.+)", word) for word in words if "..." not in word]
        variables = {match[1]: match[2] for match in named if match and match[1] not in NAMED_FOLDERS}
        if (overrides := overrides_of(words)) or variables:
            yield section, variables, overrides


TRAINED = list(trained())


@pytest.mark.long
@pytest.mark.parametrize(("section", "variables", "overrides"), TRAINED, ids=range(len(TRAINED)))
def test_a_row_can_be_typed(
    section: str, variables: dict[str, str], overrides: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(TRAINED) > 60
    (tmp_path / "my_reward.py").write_text(
        "def compute_score(data_source, solution_str, ground_truth, **_):\n    return 1\n"
    )
    overrides = [word.replace("=my_reward.py", f"={tmp_path / 'my_reward.py'}") for word in overrides]
    trainer = sft if section.startswith("SFT") else rl
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    trainer.plan(overrides, variables, Hardware(16, 2, 141 << 30), datetime.now(), dry=True)


def test_every_choice_of_a_group_is_there() -> None:
    words = {word for _, there, here in PAIRS for word in overrides_of(typed(there, here)) if group_of(word)}
    assert {word.partition("=")[0] for word in words} <= set(GROUPS)
    for word in sorted(words):
        group, _, choice = word.partition("=")
        assert (CONFIG_DIR / group / f"{choice}.yaml").is_file(), word


def test_every_variable_is_read() -> None:
    known = {variable.name for variable in VARIABLES} | OF_OTHERS
    for _, there, here in PAIRS:
        for word in typed(there, here):
            if named := re.match(r"([A-Z][A-Z_]+)=", word):
                assert named[1] in known, (word, here)


@pytest.mark.parametrize(("section", "there", "here"), PAIRS, ids=[there[:40] for _, there, _ in PAIRS])
def test_every_file_and_flag_is_there(section: str, there: str, here: str) -> None:
    words = typed(there, here)
    for index, word in enumerate(words):
        if not re.fullmatch(r"\./\w+\.sh|(train|veritas_rl|docs)/[\w./-]+", word) or word.startswith(MADE_BY_A_RUN):
            continue
        assert (ROOT / word).exists(), word
        if word.startswith("train/tools/"):
            source = (ROOT / word).read_text(encoding="utf-8")
            flags = []
            for following in words[index + 1 :]:
                if following.startswith("train/tools/"):
                    break
                flags += [following] if following.startswith("--") else []
            for flag in flags:
                assert f'"{flag}"' in source, (word, flag)
    for page in re.findall(r"\]\(([\w.-]+\.md)", here):
        assert (ROOT / "docs" / page).is_file(), page


def test_metrics_of_verl_are_metrics_of_verl() -> None:
    sources = [*Path(verl.__path__[0], "trainer").rglob("*.py"), *Path(verl.__path__[0], "workers").rglob("*.py")]
    text = "\n".join(source.read_text(encoding="utf-8") for source in sources)
    metrics = {word for section, _, here in PAIRS if section == "Watch" for word in typed("", here)}
    named = {metric for metric in metrics if re.fullmatch(r"(actor|critic|training|perf)/[\w/]+", metric)}
    assert len(named) >= 8
    for metric in sorted(named):
        # verl adds the role before some names, and "/mean" after them.
        name = metric.removesuffix("/mean").partition("/")[2]
        assert name in text, metric


@pytest.mark.parametrize("name", ["training.md", "scaling.md", "troubleshooting.md"])
def test_settings_and_files_in_the_pages_on_training_exist(name: str) -> None:
    text = (ROOT / "docs" / name).read_text(encoding="utf-8")
    spans = re.sub(
        r"```.*?```", lambda block: "".join(f"`{line}`" for line in block[0].splitlines()[1:-1]), text, flags=re.S
    )
    # The kernel's settings look like those of Hydra.
    words = [word for word in typed("", spans) if "," not in word and not word.startswith("kernel.")]
    keys = [word for word in overrides_of(words) if group_of(word) is None]
    assert len(keys) > 2
    compose_configuration(["hardware=h200x1", "lora=on", *map(with_or_without_plus, keys)])
    for word in overrides_of(words):
        if group := group_of(word):
            assert (CONFIG_DIR / group / f"{word.partition('=')[2]}.yaml").is_file(), word
    for word in words:
        if re.fullmatch(r"(train|tests|docs)/[\w./-]+\.(sh|py|md)", word):
            assert (ROOT / word).is_file(), word
