"""What differs between the settings of a recipe and those of a run of it."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from omegaconf import DictConfig, OmegaConf

from veritas_rl.composition import without_model
from veritas_rl.launch import configuration as conf
from veritas_rl.launch.hardware import Hardware
from veritas_rl.launch.recipes import WORD, Recipe
from veritas_rl.launch.trainer import Trainer
from veritas_rl.records.description import Description, Form

NEUTRAL = re.compile(
    r"\+*(veritas_rl\.(seed|games_to_show)|trainer\.(experiment_name|project_name|default_local_dir|logger|resume_mode|"
    r"resume_from_path))="
)
"""Overrides that do not count as departures from the recipe."""

_UNSET = object()


def departures(
    trainer: Trainer,
    recipe: Recipe,
    description: Description,
    form: Form,
    own: Sequence[str],
    hardware: Hardware,
    made: DictConfig,
) -> Iterator[str]:
    """The settings in which a run of a recipe differs from the recipe, a line each.

    Args:
        trainer: The kind of run.
        recipe: The recipe.
        description: Its description.
        form: Its form, "whole" or "short".
        own: The overrides of the run.
        hardware: The machine.
        made: The configuration of the run.
    """
    neutral = [item for item in own if NEUTRAL.match(item)]
    alone = [f"{WORD}{recipe.folder}", f"hardware={description.hardware}", *description.overrides_of(form), *neutral]
    with without_model():
        meant = conf.compose_configuration(trainer.overrides(alone, {}, hardware), trainer.config)
    yield from _differences(_tree(meant), _tree(made), "")


def _tree(configuration: DictConfig) -> Any:
    """The settings of a training. Those of the other stages follow them and the recipe's `values`."""
    tree: Any = OmegaConf.to_container(configuration, resolve=True)
    recipe = tree["veritas_rl"].pop("recipe", None) or {}
    tree["veritas_rl"]["recipe"] = {"values": recipe.get("values")}
    return tree


def _differences(meant: Any, made: Any, key: str) -> Iterator[str]:
    """The settings in which two trees of settings differ, by the smallest part that differs; a line each."""
    if _filled(meant) and made is _UNSET:
        made = {}
    elif _filled(made) and meant is _UNSET:
        meant = {}
    if isinstance(meant, dict) and isinstance(made, dict):
        names = sorted(meant.keys() | made.keys(), key=str)
        pairs = [(str(name), meant.get(name, _UNSET), made.get(name, _UNSET)) for name in names]
    elif isinstance(meant, list) and isinstance(made, list) and len(meant) == len(made):
        pairs = [(str(place), meant[place], made[place]) for place in range(len(made))]
    else:
        absent = (None, _UNSET)  # null means the same as not set
        if meant != made and not (meant in absent and made in absent):
            yield f"{key} is {_in_words(meant)} in the recipe and {_in_words(made)} here"
        return
    for name, before, after in pairs:
        yield from _differences(before, after, f"{key}.{name}" if key else name)


def _filled(value: Any) -> bool:
    return isinstance(value, dict) and bool(value)


def _in_words(value: Any) -> str:
    if value is _UNSET or value is None:
        return "not set" if value is _UNSET else "null"
    return "set" if _filled(value) else str(value)
