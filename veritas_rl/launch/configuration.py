"""From what a person typed to the configuration that verl will see, before anything is started.

The launcher composes the very configuration that `verl.trainer.main_ppo` composes afterwards, from the same files and
the same overrides, so that a mistake is one line here instead of a traceback out of Ray.
"""

import dataclasses
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from veritas_rl.envs.mixture import open_tasks
from veritas_rl.envs.task import MODES, Task
from veritas_rl.errors import UserError
from veritas_rl.launch.hardware import Hardware
from veritas_rl.launch.recipes import recipe_of
from veritas_rl.launch.variables import VARIABLES, overrides_from
from veritas_rl.paths import ROOT

CONFIG_DIR = ROOT / "train/verl/config"
RL_CONFIG = "rl"
"""The file on which the overrides of reinforcement learning work."""
MINI_BATCHES = ("actor_rollout_ref.actor.ppo_mini_batch_size", "critic.ppo_mini_batch_size")
"""The keys of the size of a mini-batch, in prompts."""

GROUPS = ("hardware", "algorithm", "lora", "rollout", "environment", "play")
ENVIRONMENTS = r"data\.custom_cls\.config\.environments"
OLD_REWARD = "custom_reward_function."
"""What verl's main_ppo takes without a word and never reads: the node has moved below `reward`."""

LOADED_BY_PATH = r"(\+*(?:data\.custom_cls|reward\.custom_reward_function)\.path=)(['\"]?)(tools/)"
"""A file of train/tools, named as from train/."""

MIXTURE = "environment=mixture"
"""What is chosen where a person names several environments."""


def group_of(override: str) -> str | None:
    """Which of our groups an override chooses, if any."""
    name = override.partition("=")[0].lstrip("+~")
    return name if name in GROUPS else None


def overrides_for(typed: Sequence[str], environment: Mapping[str, str], hardware: Hardware) -> list[str]:
    """All overrides in the order in which they apply: the machine's, the recipe's, the environment's, the person's.

    Args:
        typed: What stands at the end of the command line.
        environment: The process environment, `.env` included.
        hardware: What the machine has.

    Returns:
        Hydra overrides in which each group is chosen once, by the last who named it.

    Raises:
        UserError: A variable's value is not understood, or there is no such recipe.
    """
    recipe, own = recipe_of(typed, GROUPS)
    check_once(own)
    named = [*map(_as_hydra_means, overrides_from(environment)), *map(_as_hydra_means, own)]
    if chosen := [override for override in named if group_of(override) == "hardware"]:
        # What suits a machine without a GPU does not suit the one that was named, and the other way round.
        hardware = dataclasses.replace(hardware, gpus=0 if chosen[-1] == "hardware=cpu" else max(hardware.gpus, 1))
    of_recipe = recipe.groups() if recipe else frozenset[str]()
    machine = [override for override in hardware.overrides() if group_of(override) not in of_recipe]
    if "environment" not in of_recipe and any(re.match(rf"\+*{ENVIRONMENTS}[.=]", item) for item in own):
        machine.append(MIXTURE)
    return last_choices([*machine, *(recipe.overrides() if recipe else []), *named])


def check_once(typed: Sequence[str]) -> None:
    """No group is chosen twice on one command line.

    Raises:
        UserError: One is, with two values.
    """
    first: dict[str, str] = {}
    for override in typed:
        if (group := group_of(override)) and first.setdefault(group, override) != override:
            raise UserError(f"{first[group]} and {override} are both given: type one of them")


def last_choices(overrides: Sequence[str]) -> list[str]:
    """Overrides in which each group is chosen once, by the last that named it, before all that is no group."""
    chosen = {group: override for override in overrides if (group := group_of(override))}
    return [*chosen.values(), *(override for override in overrides if group_of(override) is None)]


def _as_hydra_means(override: str) -> str:
    """`episode` as `play=episode`, keys and paths of older recipes as those of today, and plus signs as they are meant.

    See `with_or_without_plus`.
    """
    if override in MODES:
        return f"play={override}"
    if override.lstrip("+").startswith(OLD_REWARD):
        override = f"reward.{override.lstrip('+')}"
    return with_or_without_plus(re.sub(f"^{LOADED_BY_PATH}", r"\1\2train/\3", override))


def with_or_without_plus(override: str) -> str:
    """`+key.of=value` as Hydra's `++key.of=value`, which sets a key whether it is there or not.

    So are the settings of environments without a plus: each environment knows its own, and refuses others by name.
    """
    if re.match(r"data\.custom_cls\.config\.[^=]*\.[^=]*=", override):
        return f"++{override}"
    return f"+{override}" if re.match(r"\+[^+=]*\.[^=]*=", override) else override


def compose_configuration(overrides: Sequence[str], name: str = RL_CONFIG) -> DictConfig:
    """The resolved configuration.

    Args:
        overrides: Hydra overrides.
        name: The YAML file on which they work, without its ending.

    Raises:
        UserError: Hydra refuses an override, or an interpolation cannot be resolved; one line of why.
    """
    GlobalHydra.instance().clear()
    try:
        with initialize_config_dir(config_dir=str(CONFIG_DIR), version_base=None):
            configuration = compose(config_name=name, overrides=list(overrides))
        OmegaConf.resolve(configuration)
    except (HydraException, OmegaConfBaseException) as error:
        raise UserError(_plain(error)) from error
    return configuration


def context_tokens(configuration: DictConfig) -> int:
    """How many tokens a model reads at most: a prompt, a reply, and under SGLang the one that verl keeps free."""
    rollout = configuration.actor_rollout_ref.rollout
    return rollout.prompt_length + rollout.response_length + (rollout.name == "sglang")


def context_overrides(configuration: DictConfig) -> list[str]:
    """The override that bounds the rollout's context, where nobody has said it.

    verl takes the model's own context, which may be 262,144 tokens, and vLLM refuses to start without memory for one
    request of that length.
    """
    if configuration.actor_rollout_ref.rollout.max_model_len is not None:
        return []
    return [f"actor_rollout_ref.rollout.max_model_len={context_tokens(configuration)}"]


def mini_batch_overrides(configuration: DictConfig, wanted: Sequence[str]) -> list[str]:
    """The overrides that split a step into `veritas_rl.mini_batches`, or into fewer where its batch does not divide so.

    Args:
        configuration: The resolved configuration.
        wanted: The overrides that it was composed of. A size of mini-batches among them is left alone.
    """
    prompts, settings = configuration.data.train_batch_size, configuration.veritas_rl
    if not isinstance(prompts, int) or prompts < 1:
        return []  # `preflight.check_batch` says what is wrong
    parts = next(parts for parts in range(settings.mini_batches[settings.play], 0, -1) if prompts % parts == 0)
    given = {override.lstrip("+").partition("=")[0] for override in wanted}
    return [f"{key}={prompts // parts}" for key in MINI_BATCHES if parts > 1 and key not in given]


def tasks_of(configuration: DictConfig, split: str, *, single: bool = False) -> Sequence[Task]:
    """The tasks that the run's dataset has, of all environments, in a seeded order.

    Args:
        configuration: The resolved configuration.
        split: "train" or "val".
        single: Whether every task is to have one answer, whatever the run trains on.

    Raises:
        UserError: An environment, a key or a value is wrong.
    """
    seed = configuration.veritas_rl.seed
    return open_tasks(dataset_settings(configuration), split, seed, "launch", single=single)


def dataset_settings(configuration: DictConfig) -> dict[str, Any]:
    """What the run's dataset is made from, as plain values."""
    settings = OmegaConf.to_container(configuration.data.custom_cls.config)
    assert isinstance(settings, dict)
    return {str(key): value for key, value in settings.items()}


def dump(configuration: DictConfig) -> str:
    """The resolved configuration as YAML. It holds no secret: tokens stay in the environment."""
    return OmegaConf.to_yaml(configuration, resolve=True)


def clean_environment(environment: Mapping[str, str], caller: Path) -> dict[str, str]:
    """Our variables without the empty ones, and with folders named from where the person stands made absolute."""
    named = {variable.name: environment.get(variable.name, "").strip() for variable in VARIABLES}
    for name in ("AGENT_MODEL_REPO_ID", "LORA_ADAPTER_PATH", "RESUME_FROM"):
        folder = (caller / Path(named[name]).expanduser()).resolve()
        if named[name] and folder.is_dir():
            named[name] = os.fspath(folder)
    return {name: value for name, value in named.items() if value}


def _plain(error: Exception) -> str:
    """Hydra's message as one line that says what to type."""
    text = " ".join(str(error).split())
    call = re.search(r"while evaluating '(\w+\(.*?\))' ?: Unknown function", text)
    if call is not None:
        return f"{call[1]} in an override needs quotes of its own, such as \"...=['{call[1]}']\"; GAME_TYPES needs none"
    unknown_key = re.match(r"Could not override '([^']+)'", text)
    if unknown_key is None:
        return text
    given = unknown_key.group(1)
    return f"unknown configuration key {given}: ours stand in train/verl/config, a plus before it adds another"
