"""Composes the configuration of a run as Hydra does, and says which of its settings count for a result."""

import os
import pickle
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import yaml
from hydra import compose, initialize_config_dir
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.core_plugins.file_config_source import FileConfigSource
from hydra._internal.sources_registry import SourcesRegistry
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.plugins import Plugins
from hydra.errors import HydraException
from hydra.plugins.config_source import ConfigResult
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, open_dict

from veritas_rl import shared_prompts
from veritas_rl.basis import digest_of
from veritas_rl.errors import UserError
from veritas_rl.paths import ROOT

CONFIG_DIR = ROOT / "train/verl/config"

UNCOUNTED = (
    # Names, folders and files of the code.
    *("trainer.project_name", "trainer.experiment_name", "trainer.default_local_dir", "trainer.logger"),
    *("actor_rollout_ref.rollout.trace.project_name", "actor_rollout_ref.rollout.trace.experiment_name"),
    "data.custom_cls.path",
    # The machine: its threads and cores, its Ray, its disk and memory.
    *("veritas_rl.small_model.threads", "ray_kwargs", "transfer_queue"),
    *("veritas_rl.spare_disk_gib", "veritas_rl.check_memory", "veritas_rl.stall"),
    # What is watched, shown, or sent from process to process. It changes no reply and no update.
    *("trainer.resume_mode", "trainer.resume_from_path", "veritas_rl.games_to_show", "global_profiler"),
    "actor_rollout_ref.rollout.prometheus",
    *("actor_rollout_ref.actor.profiler", "actor_rollout_ref.ref.profiler", "actor_rollout_ref.rollout.profiler"),
    *("critic.profiler", "profiler"),
    # The names of groups, whose settings count.
    *("veritas_rl.start", "veritas_rl.algorithm"),
    # What a recipe expects and shows, and its short form.
    *("veritas_rl.recipe.expected", "veritas_rl.recipe.curve", "veritas_rl.recipe.short"),
    # From which other settings take their values, and those count.
    "veritas_rl.recipe.values",
    # A table by environment, from which other settings take their values.
    "veritas_rl.demonstrations.easy",
    # In the list of a recipe's overrides, one that sets the default.
    "veritas_rl.demonstrations.config=null",
)
"""The settings that no figure depends on."""

OF_ENVIRONMENTS = ("reward.custom_reward_function.path", "train/tools/reward-manager.py")
"""The file that stands for the rewards of environments themselves. It does not count, and a user's own file does."""

CHOICES = frozenset({"move", "episode", "ppo", "grpo", "rae"})
"""The keys of tables in `veritas_rl`, such as `learning_rate`. Other settings take their values from these tables, and
are counted themselves."""

SEARCHED, VERL = "hydra.searchpath=", "pkg://verl.trainer.config"
"""The override of the folders in which Hydra looks for YAML files, and verl's folder in it."""

BASE = re.compile(r"/([\w/-]+)@_global_")
"""A key of a defaults list that names a base: the folder of its file."""

VALUE = re.compile(r"[+~]*(?!hydra\.searchpath=)[\w-]+\.[^=@:/]*(?:=|$)")
"""An override that sets a value below a node, and chooses no file."""

PATH = re.compile(r"(?:file://|~|/).*?([^/]*)/*")


def composed(folder: Path, name: str, overrides: Sequence[str]) -> DictConfig:
    """The configuration that Hydra composes, resolved.

    Args:
        folder: The folder of the configuration.
        name: The root YAML file, without its extension.
        overrides: Hydra overrides.

    Raises:
        HydraException: Hydra refuses an override.
        OmegaConfBaseException: An interpolation cannot be resolved.
    """
    Plugins.instance()  # which registers Hydra's own sources
    SourcesRegistry.instance().types[FileConfigSource.scheme()] = _ReadOnce
    GlobalHydra.instance().clear()
    overrides = _without_import(folder / f"{name}.yaml", overrides)
    choices = [item for item in overrides if not VALUE.match(item)]
    values = [item for item in overrides if VALUE.match(item)]
    with initialize_config_dir(config_dir=str(folder), version_base=None):
        configuration = _chosen(folder, name, choices)
        if configuration is None:
            configuration, values = compose(config_name=name, overrides=overrides, return_hydra_config=True), []
    parsed = OverridesParser.create().parse_overrides(values)
    ConfigLoaderImpl.validate_sweep_overrides_legal(parsed, RunMode.RUN, from_shell=False)
    ConfigLoaderImpl._apply_overrides_to_config(parsed, configuration)
    with open_dict(configuration):
        del configuration["hydra"]
    OmegaConf.resolve(configuration)
    return configuration


_merged: dict[tuple[Path, str, tuple[str, ...]], tuple[frozenset[tuple[str, str, int, int]], bytes]] = {}
"""By folder, name and choices: the files that Hydra read, and what it merged of them."""


def _chosen(folder: Path, name: str, choices: Sequence[str]) -> DictConfig | None:
    """The configuration of the files that overrides choose, not resolved, with Hydra's own node.

    None if they cannot be composed alone, or if one of them is a value whose key has no dot, such as `data={seed: 1}`:
    Hydra applies all values in their order. A command composes several times, mostly of the same files, and setting
    values takes a tenth of the time of merging.
    """
    files, merged = _merged.get((folder, name, tuple(choices)), ((), b""))
    if merged and all(_ReadOnce.state(*state[:2]) == state for state in files):
        return pickle.loads(merged)
    _ReadOnce.used.clear()
    try:
        configuration = compose(config_name=name, overrides=[*choices], return_hydra_config=True)
    except HydraException:
        return None
    groups = {*configuration.hydra.runtime.choices}
    for item in choices:
        key, _, value = item.lstrip("+").partition("=")
        if not item.startswith(SEARCHED) and (key not in groups or value.startswith("{")):
            return None
    _merged[folder, name, tuple(choices)] = frozenset(_ReadOnce.used), pickle.dumps(configuration)
    return configuration


class _ReadOnce(FileConfigSource):
    """Hydra's source of YAML files, which parses a file again only when it has changed."""

    used: ClassVar[set[tuple[str, str, int, int]]] = set()
    """The states of the files that were looked for since it was last cleared."""
    _read: ClassVar[dict[tuple[str, str, int, int], ConfigResult]] = {}

    @staticmethod
    def state(provider: str, file: str) -> tuple[str, str, int, int]:
        """A source's name, a file, when it was changed last, and its size; zeros if there is no such file."""
        try:
            found = Path(file).stat()
        except OSError:
            return provider, file, 0, 0
        return provider, file, found.st_mtime_ns, found.st_size

    def _file(self, config_path: str) -> str:
        return f"{self.path}/{self._normalize_file_name(config_path)}"

    def is_config(self, config_path: str) -> bool:
        """As Hydra's method."""
        self.used.add(self.state(self.provider, self._file(config_path)))
        return super().is_config(config_path)

    def load_config(self, config_path: str) -> ConfigResult:
        """As Hydra's method."""
        if not self.is_config(config_path):
            return super().load_config(config_path)  # which raises Hydra's error
        state = self.state(self.provider, self._file(config_path))
        if state not in self._read:
            self._read[state] = super().load_config(config_path)
        return deepcopy(self._read[state])


def with_bases(file: Path) -> DictConfig:
    """The contents of a recipe's file and its bases, as Hydra merges them.

    The file takes precedence over its bases, and a later base over an earlier one. The node `defaults` has the other
    items of their defaults lists, those of the bases first.

    Raises:
        UserError: A file cannot be read, or is not YAML with a mapping.
    """
    try:
        read = yaml.safe_load(file.read_text(encoding="utf-8")) or {}
    except (OSError, yaml.YAMLError) as error:
        raise UserError(f"{file} cannot be read: {' '.join(str(error).split())}") from error
    if not isinstance(read, dict):
        raise UserError(f"{file} must be a mapping of keys to values, such as train/recipes/trace/config.yaml")
    merged, others = OmegaConf.create(), list[Any]()
    for item in read.pop("defaults", None) or ():
        ((key, names),) = item.items() if isinstance(item, dict) and len(item) == 1 else ((str(item), None),)
        if not (named := BASE.fullmatch(key)):
            others.append(item)
            continue
        if names is None:
            raise UserError(f"{file}: write the base {key} as /base@_global_: NAME")
        for name in names if isinstance(names, list) else [names]:
            # Hydra looks there in this order.
            places = [folder / named[1] / f"{name}.yaml" for folder in (CONFIG_DIR, file.parents[1])]
            base = with_bases(next((place for place in places if place.is_file()), places[0]))
            others += base.pop("defaults")
            merged = OmegaConf.merge(merged, base)
    return OmegaConf.merge(merged, read, {"defaults": others})  # pyright: ignore[reportReturnType]


def _without_import(root: Path, overrides: Sequence[str]) -> list[str]:
    """The overrides with verl's folder. To find it by its package, Hydra would import verl, which takes seconds."""
    if not (place := _verl_folder()):
        return list(overrides)
    if any(item.startswith(SEARCHED) for item in overrides):
        return [item.replace(quoted(VERL), place) if item.startswith(SEARCHED) else item for item in overrides]
    return [f"{SEARCHED}[{','.join(_searched(root))}]".replace(quoted(VERL), place), *overrides]


@cache
def _searched(root: Path) -> list[str]:
    """The folders in which a root YAML file lets Hydra look, as Hydra reads them."""
    read = yaml.safe_load(root.read_text(encoding="utf-8"))
    return [quoted(place) for place in (read.get("hydra") or {}).get("searchpath") or ()]


@cache
def _verl_folder() -> str:
    """The folder of verl's configuration as Hydra reads it; "" if verl is not installed."""
    found = find_spec("verl")
    places = (found.submodule_search_locations if found is not None else None) or ()
    return next((quoted(f"file://{place}/trainer/config") for place in places), "")


def quoted(text: str) -> str:
    """`text` as a Hydra string, with all special characters escaped."""
    # Hydra reads a backslash as an escape only before a quote. `${` would start an interpolation.
    escaped = re.sub(r"(\\*)('|$)", lambda found: found[1] * 2 + ("\\'" if found[2] else ""), text)
    return "'" + escaped.replace("${", "\\${") + "'"


@contextmanager
def without_model() -> Iterator[None]:
    """Hide the variable of a model, which would replace the model of a configuration."""
    model = os.environ.pop("AGENT_MODEL_REPO_ID", None)
    try:
        yield
    finally:
        if model is not None:
            os.environ["AGENT_MODEL_REPO_ID"] = model


def settings_digest(*configurations: DictConfig | None) -> str:
    """A digest of what resolved configurations say about the stages of a run; None for a stage that does not exist.

    A comment, an order of keys, and the file of a key do not matter. null counts as not set, as in a new setting that
    is off. `UNCOUNTED` is left out. Of a path only the last name counts.
    """
    return digest_of([None if one is None else counted(one) for one in configurations])


def counted(configuration: DictConfig) -> dict[str, Any]:
    """The settings of a resolved configuration that count, as plain values."""
    tree = _plain(OmegaConf.to_container(configuration, resolve=True), "")
    return tree if isinstance(tree, dict) else {}


def _plain(value: Any, key: str) -> Any:
    if key == shared_prompts.KEY:
        # It changes figures by rounding, and on several ranks the rows of a mini-batch. So it counts as before.
        return False
    if isinstance(value, Mapping):
        places = {str(name): (f"{key}.{name}" if key else str(name), item) for name, item in value.items()}
        return {
            name: _plain(item, place)
            for name, (place, item) in places.items()
            if item is not None
            and place not in UNCOUNTED
            and (place, item) != OF_ENVIRONMENTS
            and not _is_table(item, place)
        }
    if isinstance(value, list):
        kept = [item for item in value if item not in UNCOUNTED]
        return [_plain(item, f"{key}.{place}") for place, item in enumerate(kept)]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and (path := PATH.fullmatch(value)):
        return path[1]
    return value


def _is_table(value: Any, place: str) -> bool:
    inside = place.startswith("veritas_rl.") and place.count(".") == 1
    return inside and isinstance(value, Mapping) and bool(value) and CHOICES.issuperset(map(str, value))
