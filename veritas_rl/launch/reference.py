"""Generate docs/configuration.md and docs/settings/ from the YAML files, the environment variables and the settings.

    python -m veritas_rl.launch.reference            # write the pages
    python -m veritas_rl.launch.reference --check    # exit code 1 and a line for each page that is not current

The templates beside the pages contain their texts. All defaults are read from the configuration. The pages are the same
on every machine.
"""

import dataclasses
import inspect
import json
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from omegaconf import DictConfig, ListConfig, OmegaConf
from safetensors.numpy import save_file

from veritas_rl.checkpoints import adapter
from veritas_rl.curriculum.replay import FailureReplayConfig
from veritas_rl.curriculum.stages import CurriculumConfig
from veritas_rl.envs.registry import ADDRESSED, ENVIRONMENTS, LIBRARIES, get_environment
from veritas_rl.envs.settings import Settings
from veritas_rl.errors import exit_on_user_error
from veritas_rl.generated_page import DOCS, page_command, templates
from veritas_rl.launch import configuration as conf
from veritas_rl.launch import dead_keys, recipes
from veritas_rl.launch.hardware import LONE_GPUS, NODE_SIZES, SEVERAL_GPU_BYTES, Hardware
from veritas_rl.launch.start import MADE, PRETRAINED
from veritas_rl.launch.variables import VARIABLES, Variable

PAGE = DOCS / "configuration.md"
FOLDER = DOCS / "settings"
"""The folder of the long lists: a page for each group, each root file, and a few more."""

LISTS = ("adapter_config", "curriculum", "recipes", "without_effect")
"""The pages of the folder that are neither of a group nor of a file."""

ADAPTER = "data.custom_cls.config.adapter_config"

EXAMPLES = {
    "GAME_TYPES": "hex,go,chess",
    "ALGORITHM": "grpo",
    "ENABLE_LORA": "1",
    "LORA_ADAPTER_PATH": "my-adapter",
    "RESUME_FROM": "my-experiment/global_step_50",
    "LAYERED_SUMMON": "1",
    "FSDP_STRATEGY": "fsdp",
    "ROLLOUT_BACKEND": "sglang",
    "GPU_MEMORY_UTILIZATION": "0.6",
}
"""A value for each variable that becomes a Hydra override."""

EXAMPLE_RANK, EXAMPLE_ALPHA = 16, 32
"""Rank and alpha of the adapter in the examples."""

EXAMPLE_ADDRESS = "http://127.0.0.1:8000"
"""The address of a server in the examples."""

SHOWN_MACHINES = (Hardware(cores=1, gpus=0, gpu_bytes=0), Hardware(cores=1, gpus=1, gpu_bytes=141 << 30))
"""The machines whose defaults the page compares."""


@dataclass(frozen=True)
class Setting:
    """One key that a YAML file sets.

    Attributes:
        key: The dotted key, such as `trainer.save_freq`.
        value: The value as the file writes it.
        reason: The comment above the key, and above each mapping that begins with the key.
    """

    key: str
    value: str
    reason: str


@dataclass(frozen=True)
class Source:
    """A YAML file of the configuration.

    Attributes:
        name: The file's name without its extension.
        meaning: The first paragraph of the comment at the top.
        defaults: The Hydra defaults list.
        settings: The keys that it sets, in the file's order.
    """

    name: str
    meaning: str
    defaults: Sequence[Any]
    settings: tuple[Setting, ...]


@dataclass(frozen=True)
class Group:
    """A group of the configuration.

    Attributes:
        name: The group's name.
        chosen: The default choice before the machine is detected; "" if other groups decide.
        choices: The choices. The settings of each include inherited settings.
        differing: Rows of a key and its value in each choice; None if the choice does not set the key.
        shared: The settings that several choices share, by the list of these choices.
    """

    name: str
    chosen: str
    choices: tuple[Source, ...]
    differing: tuple[tuple[str, tuple[str | None, ...]], ...]
    shared: dict[tuple[str, ...], list[Setting]]


def read(path: Path) -> Source:
    """Read a YAML file with its comments."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    head = next((number for number, line in enumerate(lines) if not line.startswith("#")), len(lines))
    comment = [_words(line) for line in lines[:head] if not line.startswith("# @package")]
    paragraph = comment[: comment.index("")] if "" in comment else comment

    def above(number: int) -> str:
        first = number
        while first > head and lines[first - 1].lstrip().startswith("#"):
            first -= 1
        return " ".join(map(_words, lines[first:number]))

    def walk(mapping: yaml.MappingNode, prefix: str, reason: str) -> Iterator[Setting]:
        for key, value in mapping.value:
            name = f"{prefix}{key.value}"
            reason = " ".join(filter(None, (reason, above(key.start_mark.line))))
            if isinstance(value, yaml.MappingNode) and not value.flow_style:
                yield from walk(value, f"{name}.", reason)
            elif name != "defaults":
                yield Setting(name, _written(value, text), reason)
            reason = ""

    root = yaml.compose(text)
    assert isinstance(root, yaml.MappingNode)
    defaults = yaml.safe_load(text).get("defaults", [])
    return Source(path.stem, " ".join(paragraph), defaults, tuple(walk(root, "", "")))


def _words(comment: str) -> str:
    return comment.strip().lstrip("#").strip()


def _written(node: yaml.Node, text: str) -> str:
    if isinstance(node, yaml.SequenceNode) and not node.flow_style:
        return f"[{', '.join(_written(item, text) for item in node.value)}]"
    return " ".join(text[node.start_mark.index : node.end_mark.index].split())


def read_group(name: str, chosen: str) -> Group:
    """Read a group with all its choices.

    Args:
        name: The group's folder.
        chosen: Its choice in the defaults list; "" if other groups decide.
    """
    files = {path.stem: read(path) for path in sorted((conf.CONFIG_DIR / name).glob("*.yaml"))}
    choices = tuple(dataclasses.replace(file, settings=_with_inherited(file, files)) for file in files.values())
    of_key: dict[str, dict[str, Setting]] = {}
    for choice in choices:
        for setting in choice.settings:
            of_key.setdefault(setting.key, {})[choice.name] = setting
    differing: list[tuple[str, tuple[str | None, ...]]] = []
    shared: dict[tuple[str, ...], list[Setting]] = {}
    for key, settings in of_key.items():
        if len({setting.value for setting in settings.values()}) > 1:
            row = (settings.get(choice.name) for choice in choices)
            differing.append((key, tuple(setting and setting.value for setting in row)))
        else:
            best = max(settings.values(), key=lambda setting: bool(setting.reason))
            shared.setdefault(tuple(settings), []).append(best)
    return Group(name, chosen, choices, tuple(differing), shared)


def _groups_of(config: Source) -> list[Group]:
    items = (item for listed in config.defaults if isinstance(listed, dict) for item in listed.items())
    listed = {name.removeprefix("optional "): "" if "${" in choice else choice for name, choice in items}
    return [read_group(name, choice) for name, choice in listed.items() if (conf.CONFIG_DIR / name).is_dir()]


def _with_inherited(file: Source, files: dict[str, Source]) -> tuple[Setting, ...]:
    """The settings of a choice, including those inherited through its defaults list. Own settings take precedence."""
    settings: dict[str, Setting] = {}
    for parent in (files[name] for name in file.defaults if name != "_self_"):
        settings |= {setting.key: setting for setting in _with_inherited(parent, files)}
    return tuple({**settings, **{setting.key: setting for setting in file.settings}}.values())


@contextmanager
def _unset_variables() -> Iterator[None]:
    """Unset this project's variables, so that the page does not depend on the shell."""
    kept = dict(os.environ)
    for variable in VARIABLES:
        os.environ.pop(variable.name, None)
    try:
        yield
    finally:
        os.environ.update(kept)


def defaults_of(machine: Hardware, *typed: str) -> DictConfig:
    """The configuration of a run on a machine with only the overrides `typed`."""
    with _unset_variables():
        wanted = conf.overrides_for(typed, {}, machine)
        return conf.compose_configuration(
            [*wanted, *conf.mini_batch_overrides(conf.compose_configuration(wanted), wanted)]
        )


def value_at(configuration: DictConfig, key: str) -> str:
    """The value at a dotted key, as text.

    Raises:
        omegaconf.errors.OmegaConfBaseException: The key does not exist.
    """
    value: Any = configuration
    for part in key.split("."):
        value = value[part]
    return shown(value)


def shown(value: Any) -> str:
    """A value in Hydra's syntax."""
    if isinstance(value, DictConfig | ListConfig):
        value = OmegaConf.to_container(value)
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case float():
            return f"{value:g}"
        case list() | tuple():
            return f"[{', '.join(map(shown, value))}]"
        case dict():
            return f"{{{', '.join(f'{key}: {shown(item)}' for key, item in value.items())}}}"
        case _:
            return str(value)


def becomes(variable: Variable, sources: Sequence[Source]) -> tuple[str, list[str]]:
    """How Hydra sees a variable.

    Args:
        variable: The variable.
        sources: The files that may read it through `oc.env`.

    Returns:
        The example `NAME=value` and its overrides; or "" and the keys that read the variable.
    """
    if variable.overrides is None:
        pattern = re.compile(rf"\$\{{oc\.env:{variable.name}\b")
        found = [setting.key for source in sources for setting in source.settings if pattern.search(setting.value)]
        return "", list(dict.fromkeys(found))
    if variable.name not in EXAMPLES:
        return "", []
    example = EXAMPLES[variable.name]
    if variable.name != "LORA_ADAPTER_PATH":
        return f"{variable.name}={example}", variable.overrides(example)
    with tempfile.TemporaryDirectory() as folder:  # the overrides depend on the adapter
        _write_adapter(Path(folder))
        made = [override.replace(folder, example) for override in variable.overrides(folder)]
    return f"{variable.name}={example}", made


def _write_adapter(folder: Path) -> None:
    settings = {"r": EXAMPLE_RANK, "lora_alpha": EXAMPLE_ALPHA}
    (folder / adapter.SETTINGS).write_text(json.dumps(settings), encoding="utf-8")
    factors = {"A": np.zeros((EXAMPLE_RANK, 1), np.float32), "B": np.zeros((1, EXAMPLE_RANK), np.float32)}
    save_file(
        {f"base_model.model.layer.lora_{name}.weight": value for name, value in factors.items()},
        folder / adapter.WEIGHTS,
    )


def meanings_of(config_type: type) -> dict[str, str]:
    """The description of each attribute in a class' docstring."""
    section = (inspect.getdoc(config_type) or "").partition("Attributes:\n")[2].partition("\n\n")[0]
    found = re.findall(r"^ {4}(\w+): (.+(?:\n {5,}.+)*)", section, re.MULTILINE)
    return {name: " ".join(words.split()) for name, words in found}


def option_rows(config_type: type) -> list[tuple[str, str, str]]:
    """The fields of a configuration dataclass: name, meaning, and default unless the meaning states it."""
    meanings = meanings_of(config_type)
    return [
        (field.name, meanings[field.name], "" if "Default:" in meanings[field.name] else shown(field.default))
        for field in dataclasses.fields(config_type)
    ]


def setting_rows(env: str, defaults: Sequence[Mapping[str, Any]]) -> list[tuple[list[str], str, list[str]]]:
    """The settings of an environment: names, meaning, and the default on each machine.

    Args:
        env: The environment's name.
        defaults: What replaces the environment's own defaults on each machine.
    """
    settings = get_environment(env).config_type
    meanings, rows = {**meanings_of(Settings), **meanings_of(settings)}, []
    typed = {field: key for key, field in settings.user_keys.items()}
    for name, field in settings.model_fields.items():
        own = (replaced.get(name, field.default) for replaced in defaults)
        names = [typed[name], name] if name in typed else [name]
        rows.append((names, meanings.get(name, ""), [shown(value) for value in own]))
    return rows


def machines() -> list[tuple[str, str]]:
    """Kinds of machines, and the groups that the launcher chooses on each."""
    rows = [
        ("no GPU", SHOWN_MACHINES[0]),
        *(
            (f"a GPU of less than {most >> 30} GiB", Hardware(cores=1, gpus=1, gpu_bytes=most - 1))
            for most, _ in LONE_GPUS
        ),
        ("a larger GPU", SHOWN_MACHINES[1]),
        *(
            (
                f"{size} or more of at least {SEVERAL_GPU_BYTES >> 30} GiB",
                Hardware(cores=1, gpus=size, gpu_bytes=SEVERAL_GPU_BYTES),
            )
            for size in sorted(NODE_SIZES)
            if size > 1
        ),
    ]
    return [(what, " ".join(machine.overrides())) for what, machine in rows]


def code(text: str) -> str:
    """Text as code in a table cell; "" for empty text."""
    return "`" + text.replace("|", "\\|") + "`" if text else ""


def cell(text: str) -> str:
    """Text in a table cell, with < escaped."""
    return text.replace("|", "\\|").replace("<", "&lt;")


def render() -> dict[Path, str]:
    """The pages by their files."""
    configs = [read(path) for path in sorted(conf.CONFIG_DIR.glob("*.yaml"))]
    config = next(source for source in configs if source.name == conf.RL_CONFIG)
    groups_of = {source.name: _groups_of(source) for source in configs}
    groups = groups_of[config.name]
    all_groups = list({group.name: group for groups in groups_of.values() for group in groups}.values())
    sources = [*configs, *(choice for group in all_groups for choice in group.choices)]
    configurations = [defaults_of(machine) for machine in SHOWN_MACHINES]

    def row(name: str, key: str, note: str = "") -> str:
        values = (code(value_at(configuration, key)) for configuration in configurations)
        return f"| {' | '.join((name, code(key), *values, cell(note)))} |"

    seed = {"seed": configurations[0].veritas_rl.seed}

    def defaults_in(env: str) -> list[Mapping[str, Any]]:
        made = (defaults_of(machine, f"environment={env}") for machine in SHOWN_MACHINES)
        return [configuration.data.custom_cls.config.defaults.get(env, {}) for configuration in made]

    environment = templates()
    environment.filters |= {"code": code, "cell": cell}
    environment.globals |= dict(
        adapter=ADAPTER,
        example_alpha=EXAMPLE_ALPHA,
        example_rank=EXAMPLE_RANK,
        environments={
            **{env: setting_rows(env, defaults_in(env)) for env in ENVIRONMENTS},
            **{
                env: setting_rows(env, [{**conf.default_values(env, kind), **seed} for kind in (MADE, PRETRAINED)])
                for env in (*LIBRARIES, *(f"{protocol}:{EXAMPLE_ADDRESS}" for protocol in ADDRESSED))
            },
        },
        curriculum_rows=option_rows(CurriculumConfig),
        failure_rows=option_rows(FailureReplayConfig),
        groups=groups,
        groups_of=groups_of,
        all_groups=all_groups,
        without_effect=dead_keys.table(),
        machines=machines(),
        config=config,
        configs=configs,
        bases={path.stem: read(path).meaning for path in sorted((conf.CONFIG_DIR / "base").glob("*.yaml"))},
        recipes={path.parent.name: read(path).meaning for path in sorted(recipes.FOLDER.glob(f"*/{recipes.CONFIG}"))},
        row=row,
        shown_machines=[machine.overrides() for machine in SHOWN_MACHINES],
        variables=[(variable, *becomes(variable, sources)) for variable in VARIABLES],
    )

    def page(template: str, **words: Any) -> str:
        return environment.get_template(f"{template}.md.jinja").render(**words)

    return {
        PAGE: page("configuration"),
        **{FOLDER / f"{name}.md": page(f"settings/{name}") for name in LISTS},
        **{FOLDER / f"{group.name}.md": page("settings/group", group=group) for group in all_groups},
        **{FOLDER / f"{file.name}.md": page("settings/file", file=file) for file in configs},
    }


if __name__ == "__main__":
    exit_on_user_error(lambda: page_command("veritas_rl.launch.reference", render, FOLDER))
