"""The pages of settings agree with the YAML files and the variables; docs/from-other-recipes.md names what exists."""

import re
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from omegaconf import OmegaConf

from veritas_rl.envs.registry import ENVIRONMENTS, get_environment
from veritas_rl.launch import configuration as conf
from veritas_rl.launch import recipes, reference, sft
from veritas_rl.launch.hardware import Hardware
from veritas_rl.launch.variables import VARIABLES, overrides_from
from veritas_rl.paths import ROOT
from veritas_rl.pins import required_version

PAGE = reference.PAGE.read_text(encoding="utf-8")
LISTS = {path.stem: path.read_text(encoding="utf-8") for path in reference.FOLDER.glob("*.md")}
BASES = conf.CONFIG_DIR / "base"
YAML_FILES = sorted(path for path in conf.CONFIG_DIR.rglob("*.yaml") if path.parent != BASES)
CHOICES = [path for path in YAML_FILES if path.parent != conf.CONFIG_DIR]
ONE_GPU = Hardware(cores=16, gpus=1, gpu_bytes=141 << 30)

RECIPES_PAGE = ROOT / "docs/from-other-recipes.md"
SFT = "SFT from parquet"
GROUPS = "|".join(conf.GROUPS)
OVERRIDE = re.compile(rf"\+{{0,2}}([a-z_0-9]+(\.[a-z_0-9]+)+|{GROUPS})=\S+", re.IGNORECASE)
ASSIGNMENT = re.compile(r"([A-Z][A-Z_]+)=(\S+)")
KEY = re.compile(r"[a-z_]+(\.[a-z_0-9]+)+")
REPOSITORY_PATH = re.compile(r"(?:train|veritas_rl|docs|tests)/[\w./-]+")


def section(page: str, heading: str) -> str:
    """The text under a heading, up to the next heading of the same or a higher level."""
    level = len(heading.partition(" ")[0])
    return re.split(rf"\n#{{2,{level}}} ", page.partition(f"\n{heading}\n")[2])[0]


def table_rows(text: str) -> list[list[str]]:
    """The cells of every table row, without header rows and their separators."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    rules = {number for number, row in enumerate(rows) if set("".join(row)) <= {"-", " "} and row[0]}
    return [row for number, row in enumerate(rows) if number not in rules and number + 1 not in rules]


def spans(text: str) -> list[str]:
    return [found.replace("\\|", "|") for found in re.findall(r"`([^`]+)`", text)]


def leaves(tree: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every dotted key that a YAML file sets, with its value."""
    for name, value in tree.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def set_by(path: Path) -> dict[str, Any]:
    """The values that a YAML file sets, read without the generator."""
    tree = OmegaConf.to_container(OmegaConf.load(path))
    assert isinstance(tree, dict)
    tree.pop("defaults", None)
    return dict(leaves(tree))


def value_of(rows: list[list[str]], key: str, column: int) -> Any:
    """The value of a key in a table, in which a mapping may be a single row."""
    parent, _, last = key.rpartition(".")
    for row in rows:
        if row[0] == f"`{key}`" and row[column]:
            return yaml.safe_load(row[column].strip("`"))
        if row[0] == f"`{parent}`" and row[column].startswith("`{"):
            return yaml.safe_load(row[column].strip("`"))[last]
    raise AssertionError(f"{key} is missing")


# docs/configuration.md and docs/settings/


def test_the_pages_are_current_and_depend_on_nothing_but_the_repository(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for variable in VARIABLES:
        monkeypatch.setenv(variable.name, "something-else")
    monkeypatch.chdir(tmp_path)
    files = (reference.PAGE, *reference.FOLDER.glob("*.md"))
    pages = reference.render()
    assert pages == {path: path.read_text("utf-8") for path in files}, "run: python -m veritas_rl.launch.reference"
    assert not [path for path, text in pages.items() if str(ROOT) in text or str(Path.home()) in text]


def test_every_variable_stands_in_the_page_with_what_it_becomes() -> None:
    rows = {row[0]: row for row in table_rows(section(PAGE, "## Environment variables"))}
    assert list(rows) == [f"`{variable.name}`" for variable in VARIABLES]
    composed: list[str] = []
    for variable in VARIABLES:
        made = rows[f"`{variable.name}`"][2]
        if variable.overrides is not None:
            assert made, f"EXAMPLES in veritas_rl/launch/reference.py lacks {variable.name}"
            example, *overrides = spans(made)
            name, _, value = example.partition("=")
            assert name == variable.name
            composed += overrides
            if name != "LORA_ADAPTER_PATH":  # it needs an adapter
                assert overrides == overrides_from({name: value})
    conf.compose_configuration(conf.overrides_for(composed, {}, ONE_GPU))


def test_a_variable_that_the_yaml_reads_names_its_key() -> None:
    rows = {row[0]: row for row in table_rows(section(PAGE, "## Environment variables"))}
    assert rows["`AGENT_MODEL_REPO_ID`"][2] == "`actor_rollout_ref.model.path` `model.path`"


@pytest.mark.parametrize("path", CHOICES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_every_choice_of_a_group_stands_in_the_page_with_all_that_it_sets(path: Path) -> None:
    text = LISTS[path.parent.name]
    first, *tables = re.split(r"\n(?=What )", text)
    assert f"`{path.stem}`" in {row[0] for row in table_rows(first)}
    for key, value in set_by(path).items():
        assert value_in_group(tables, path.stem, key) == value


def value_in_group(tables: list[str], choice: str, key: str) -> Any:
    """The value that a choice sets, according to the tables of its group."""
    for table in tables:
        head = table.partition("|")[0]
        rows = table_rows(table)
        if head.startswith("What they set differently"):
            names = spans(next(line for line in table.splitlines() if line.startswith("| key |")))
            columns = {name: number for number, name in enumerate(names, start=1)}
            if any(row[0] == f"`{key}`" for row in rows):
                return value_of(rows, key, columns[choice])
        elif f"`{choice}`" in head or "every choice" in head:
            try:
                return value_of(rows, key, 1)
            except AssertionError:
                continue
    raise AssertionError(f"{key} of {choice} is missing")


@pytest.mark.parametrize("choice", sorted(path.stem for path in (conf.CONFIG_DIR / "hardware").glob("*.yaml")))
def test_settings_shown_of_a_hardware_choice_are_those_of_hydra(choice: str) -> None:
    group = reference.read_group("hardware", "h200x1")
    (settings,) = (source.settings for source in group.choices if source.name == choice)
    made = conf.compose_configuration([f"hardware={choice}"])
    assert len(settings) > 10
    for setting in settings:
        if "${" not in setting.value:
            assert OmegaConf.select(made, setting.key) == yaml.safe_load(setting.value), setting.key


@pytest.mark.parametrize("path", [path for path in YAML_FILES if path not in CHOICES], ids=lambda path: path.stem)
def test_every_key_of_a_root_file_stands_in_the_page(path: Path) -> None:
    rows = table_rows(LISTS[path.stem])
    for key, value in set_by(path).items():
        assert value_of(rows, key, 1) == value


@pytest.mark.parametrize("env", ENVIRONMENTS)
def test_every_setting_of_an_environment_has_a_meaning_and_defaults(env: str) -> None:
    rows = {spans(row[0])[-1]: row for row in table_rows(section(LISTS["adapter_config"], f"## Environment `{env}`"))}
    environment = get_environment(env)
    assert list(rows) == [*environment.config_type.model_fields]
    for name, (_, meaning, *_) in rows.items():
        assert meaning, f"the docstring of the configuration of {env} says nothing about {name}"
    for typed, field in environment.config_type.user_keys.items():
        assert spans(rows[field][0]) == [typed, field]
    choices = [f"environment={env}", "lora=off", "rollout=transformers"]
    for column, machine in ((2, ("cpu", "made")), (3, ("h200x1", "pretrained"))):
        made = conf.compose_configuration([f"hardware={machine[0]}", f"start={machine[1]}", *choices])
        count = spans(rows["num_tasks_per_case"][column])
        task = conf.tasks_of(made, "train")[0]
        assert len(conf.tasks_of(made, "train")) % int(count[0]) == 0
        assert spans(rows["prompt"][column]) == [task.manner.prompt]
        if "reward" in rows:
            assert spans(rows["reward"][column]) == [task.pay.reward]


def test_every_recipe_stands_in_the_page_and_says_what_to_type() -> None:
    first, _, second = LISTS["recipes"].partition("## Bases")
    assert {row[0] for row in table_rows(second)} == {f"`{path.stem}`" for path in BASES.glob("*.yaml")}
    rows = table_rows(first)
    tracked = subprocess.run(["git", "ls-files", recipes.FOLDER], cwd=ROOT, capture_output=True, text=True, check=True)
    # Users' own recipes may be in the folder too.
    files = [path for path in recipes.FOLDER.glob("*/config.yaml") if str(path.relative_to(ROOT)) in tracked.stdout]
    folders = {path.parent for path in files}
    assert {re.findall(r"`([\w-]+)`", row[0])[0] for row in rows} == {folder.name for folder in folders}
    for folder in folders:
        assert f"recipe={folder.name}" in (folder / "README.md").read_text(encoding="utf-8")


def test_the_table_of_hyperparameters_shows_the_defaults() -> None:
    rows = {row[1].strip("`"): row for row in table_rows(section(PAGE, "## Hyperparameters"))}
    cpu = conf.compose_configuration(["hardware=cpu", "start=made", "lora=off", "rollout=transformers"])
    gpu = conf.compose_configuration(["hardware=h200x1"])
    asked_for = {
        "actor_rollout_ref.actor.optim.lr",
        "actor_rollout_ref.actor.optim.clip_grad",
        "actor_rollout_ref.actor.kl_loss_coef",
        "algorithm.kl_ctrl.kl_coef",
        "actor_rollout_ref.actor.entropy_coeff",
        "actor_rollout_ref.actor.clip_ratio_high",
        "actor_rollout_ref.actor.ppo_epochs",
        "data.train_batch_size",
        "actor_rollout_ref.model.lora_rank",
        "data.max_response_length",
        "actor_rollout_ref.rollout.temperature",
        "trainer.save_freq",
        "trainer.test_freq",
    }
    for key in asked_for:
        for column, made in ((2, cpu), (3, gpu)):
            assert float(rows[key][column].strip("`")) == OmegaConf.select(made, key), key


def test_comments_belong_to_what_stands_below_them(tmp_path: Path) -> None:
    file = tmp_path / "some.yaml"
    file.write_text(
        "# @package _global_\n# What it is,\n# in two lines.\n#\n# More.\n"
        "defaults: [other]\n# Of the whole.\na:\n  # Of b,\n  # again.\n  b: 1.0e-3\n\n  c: [x,\n      y]\n"
        "d:\n  - pkg://e\n  - '|'\nf: {g: 1}\n"
    )
    source = reference.read(file)
    assert (source.name, source.meaning, source.defaults) == ("some", "What it is, in two lines.", ["other"])
    assert [(setting.key, setting.value, setting.reason) for setting in source.settings] == [
        ("a.b", "1.0e-3", "Of the whole. Of b, again."),
        ("a.c", "[x, y]", ""),
        ("d", "[pkg://e, '|']", ""),
        ("f", "{g: 1}", ""),
    ]


# docs/from-other-recipes.md


@dataclass(frozen=True)
class Advice:
    """A row: the usage in other recipes, and the usage in this package."""

    section: str
    there: str
    here: str

    def words(self) -> list[str]:
        """Each word of the new commands, split as in a shell."""
        return [word for span in spans(self.here) for word in shlex.split(span.replace("\\", "\\\\"))]

    def overrides(self) -> list[str]:
        return [word for word in self.words() if OVERRIDE.fullmatch(word)]

    def variables(self) -> dict[str, str]:
        found = (ASSIGNMENT.fullmatch(word) for word in self.words())
        return {match[1]: match[2] for match in found if match}


def all_advice() -> list[Advice]:
    parts = re.split(r"\n## ", RECIPES_PAGE.read_text(encoding="utf-8"))[1:]
    return [Advice(part.partition("\n")[0], *row) for part in parts for row in table_rows(part)]


ADVICE = all_advice()


def test_the_page_of_other_recipes_is_read_as_it_is_meant() -> None:
    assert len(ADVICE) > 60
    (epochs,) = (advice for advice in ADVICE if "`ppo_epochs = 4`" in advice.there)
    assert epochs.overrides() == ["actor_rollout_ref.actor.ppo_epochs=4"]
    (base,) = (advice for advice in ADVICE if "An adapter" in advice.there)
    assert base.variables() == {"LORA_ADAPTER_PATH": "my-adapter", "AGENT_MODEL_REPO_ID": "my-base"}
    assert sum(len(advice.overrides()) for advice in ADVICE) > 40


def test_every_override_that_it_names_composes() -> None:
    rows = [advice for advice in ADVICE if advice.section != SFT]
    typed = [override for advice in rows for override in advice.overrides()]
    for hardware in ("hardware=cpu", "hardware=h200x1"):
        conf.compose_configuration(conf.overrides_for(conf.last_choices([*typed, hardware]), {}, ONE_GPU))
    for override in filter(conf.group_of, typed):
        group, _, choice = override.partition("=")
        assert (conf.CONFIG_DIR / group / f"{choice}.yaml").is_file(), override


def test_every_key_that_it_names_is_there() -> None:
    made = conf.compose_configuration(["hardware=h200x1"])
    named = [
        word
        for advice in ADVICE
        for word in (advice.words() if advice.section != SFT else [])
        if KEY.fullmatch(word) and word.partition(".")[0] in made
    ]
    assert "reward.custom_reward_function.path" in named
    for key in named:
        assert key.rpartition(".")[2] in OmegaConf.select(made, key.rpartition(".")[0]), key


def test_keys_of_sft_in_the_page_of_other_recipes_compose() -> None:
    rows = [advice for advice in ADVICE if advice.section == SFT]
    # "The same." in the right cell means that the left cell is valid.
    same = [Advice(SFT, "", advice.there) for advice in rows if advice.here == "The same."]
    typed = [override for advice in [*rows, *same] for override in advice.overrides()]
    assert len(typed) > 8
    conf.compose_configuration(sft.overrides_for(typed, {}, ONE_GPU), sft.SFT_CONFIG)


def test_every_variable_that_it_names_is_known() -> None:
    known = {variable.name for variable in VARIABLES}
    for advice in ADVICE:
        assert advice.variables().keys() <= known, advice.there
        overrides_from({name: value for name, value in advice.variables().items() if name != "LORA_ADAPTER_PATH"})


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "advice",
    [advice for advice in ADVICE if "GAME_TYPES" in advice.here or reference.ADAPTER in advice.here],
    ids=lambda advice: advice.there,
)
def test_the_games_that_it_names_can_be_played(advice: Advice) -> None:
    typed = conf.overrides_for(advice.overrides(), advice.variables(), ONE_GPU)
    assert len(conf.tasks_of(conf.compose_configuration(typed), "train"))


def test_every_file_that_it_names_is_there() -> None:
    named = {path for advice in ADVICE for span in spans(advice.here) for path in REPOSITORY_PATH.findall(span)}
    made_by_runs = ("train/artifacts/", "train/outputs", "train/parquet/")
    checked = [path for path in named if not path.startswith(made_by_runs)]
    assert len(checked) > 5
    for path in checked:
        assert (ROOT / path).exists(), path


def test_files_called_missing_are_missing() -> None:
    for advice in ADVICE:
        if advice.here.startswith("Not there yet"):
            for path in REPOSITORY_PATH.findall(advice.there):
                if not path.startswith("train/parquet/"):
                    assert not (ROOT / path).exists(), f"{path} is there now: say how to use it"


def test_pages_name_only_the_pinned_version_of_verl() -> None:
    for page in (PAGE, RECIPES_PAGE.read_text(encoding="utf-8")):
        named = set(re.findall(r"verl (\d+\.\d+\.\d+)", page))
        assert named == {required_version("verl")}, "look at the new verl's source, whether it still is so"
