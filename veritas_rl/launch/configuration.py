"""Turn the command line and the environment variables into the configuration that verl receives.

The launcher composes the same configuration as `verl.trainer.main_ppo`, from the same files and overrides. A mistake is
therefore reported in one line, instead of as a traceback from Ray.
"""

import dataclasses
import os
import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from hydra.errors import HydraException, OverrideParseException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from veritas_rl.checkpoints.origin import TASKS
from veritas_rl.composition import CONFIG_DIR, composed, quoted
from veritas_rl.envs.abilities import SetsSmallModelSteps
from veritas_rl.envs.mixture import open_tasks
from veritas_rl.envs.places import is_place
from veritas_rl.envs.registry import cases_by_environment, environment_named, environment_names, get_environment
from veritas_rl.envs.task import MODES, Task
from veritas_rl.errors import UserError, unknown
from veritas_rl.launch import keys, start
from veritas_rl.launch.hardware import Hardware, suited_to
from veritas_rl.launch.recipes import Recipe, recipe_of
from veritas_rl.launch.variables import VARIABLES, overrides_from
from veritas_rl.verl_plugin import algorithms

RL_CONFIG = "rl"
"""The root YAML file for reinforcement learning."""
MODEL = "actor_rollout_ref.model.path"
STEPS = "trainer.total_training_steps"
WORKERS = "actor_rollout_ref.rollout.agent.num_workers"
MINI_BATCHES = ("actor_rollout_ref.actor.ppo_mini_batch_size", "critic.ppo_mini_batch_size")
"""The mini-batch sizes, in prompts."""

GROUPS = ("hardware", "start", "algorithm", "lora", "rollout", "environment", "play")
ENVIRONMENTS = r"data\.custom_cls\.config\.environments"
OLD_REWARD = "custom_reward_function."
"""A node that verl's main_ppo accepts and never reads. Its current place is below `reward`."""

LOADED_BY_PATH = r"(\+*(?:data\.custom_cls|reward\.custom_reward_function)\.path=)(['\"]?)(tools/)"
"""A path in train/tools, relative to train/."""

MIXTURE = "environment=mixture"
"""The choice when the user names several environments."""
OTHER = "environment=other"
"""The choice for an environment without a group of its own."""
ENV = "data.custom_cls.config.env"
"""The key of an environment's name."""
DEMONSTRATED = "veritas_rl.demonstrations.env"
"""The key of the environment that fine-tuning's missing demonstrations come from."""


OTHER_CHOICES: Mapping[str, Mapping[str, str]] = {
    "algorithm": {
        **dict.fromkeys(("reinforce", "leave_one_out"), "algorithm=rloo"),
        **dict.fromkeys(("reinforce++", "rf++"), "algorithm=reinforce_plus_plus"),
        **dict.fromkeys(("drgrpo", "dr.grpo"), "algorithm=dr_grpo"),
        "gae": "algorithm=ppo",
    },
    "environment": {
        **dict.fromkeys(("puzzles", "logic", "lgc", "lgc_v2"), "environment=lgc-v2"),
        **dict.fromkeys(("code", "programs", "python"), "environment=trace"),
        **dict.fromkeys(("games", "game"), "environment=openspiel"),
    },
    "lora": {
        **dict.fromkeys(("true", "yes", "1"), "lora=on"),
        **dict.fromkeys(("false", "no", "0", "none", "null"), "lora=off"),
    },
    "play": {
        **dict.fromkeys(("game", "games", "episodes", "conversation", "multi_turn"), "play=episode"),
        **dict.fromkeys(("moves", "single", "single_turn"), "play=move"),
        **dict.fromkeys(("self", "self_play"), f"play=episode {TASKS}.adapter_config.opponent=self"),
    },
    "rollout": dict.fromkeys(("hf", "huggingface"), "rollout=transformers"),
    "start": dict.fromkeys(("scratch", "random", "new"), "start=made"),
}
"""Other libraries' and people's names of choices, each with what to type."""


def group_of(override: str) -> str | None:
    """The configuration group that an override chooses, if any."""
    name = override.partition("=")[0].lstrip("+~")
    return name if name in GROUPS else None


def overrides_for(typed: Sequence[str], environment: Mapping[str, str], hardware: Hardware) -> list[str]:
    """All overrides in the order in which they apply: machine, recipe, environment variables, command line.

    Args:
        typed: The overrides on the command line.
        environment: The process environment, `.env` included.
        hardware: The machine.

    Returns:
        Hydra overrides in which each group is chosen once, by the last override that names it.

    Raises:
        UserError: A variable's value is invalid, a group has no such choice, or the recipe does not exist.
    """
    recipe, own = recipe_of(typed, GROUPS)
    check_once(own)
    named = [*map(_as_hydra_means, overrides_from(environment)), *map(_as_hydra_means, own)]
    named = [*_algorithm_of_estimator(named), *named]
    check_choices(named)
    check_adapter_is_trained(named, environment)
    of_recipe = recipe.choices() if recipe else {}
    hardware, kind = hardware_and_start(MODEL, named, recipe, of_recipe, environment, hardware)
    machine = [override for override in hardware.overrides(kind) if group_of(override) not in of_recipe]
    if "environment" not in of_recipe and any(re.match(rf"\+*{ENVIRONMENTS}[.=]", item) for item in own):
        machine.append(MIXTURE)
    machine += default_overrides([*(recipe.written(ENV) if recipe else []), *named], kind)
    return last_choices([*machine, *(recipe.overrides() if recipe else []), *named])


def default_overrides(named: Sequence[str], kind: str) -> list[str]:
    """The defaults of an environment without a group of its own, as the groups of the others set them.

    Args:
        named: The overrides of recipe, environment variables and command line.
        kind: The choice of the group start.
    """
    if OTHER not in named:
        return []
    name = next((item.partition("=")[2].strip("'\"") for item in reversed(named) if _key_of(item) == ENV), "")
    if not name:
        raise UserError(f"{OTHER} names no environment: type environment=FILE.py:NAME, or set {ENV} too")
    node = f"++data.custom_cls.config.defaults.{get_environment(name).name}"
    return [f"{node}.{key}={value}" for key, value in default_values(name, kind).items()]


def default_values(env: str, kind: str) -> dict[str, str]:
    """The values of `default_overrides` for an environment, by setting."""
    environment = get_environment(env)
    values = {"seed": "${veritas_rl.seed}", "num_tasks_per_case": "131072"}
    with suppress(UserError):  # not every environment has this prompt
        environment.read_config({"prompt": "brief"})
        values |= {"prompt": "brief"} if kind == start.MADE else {}
    return {key: value for key, value in values.items() if key in environment.config_type.model_fields}


def _algorithm_of_estimator(named: Sequence[str]) -> list[str]:
    """What `algorithm.adv_estimator`, which users of verl type, stands for: an algorithm, or one that has no file."""
    typed = {_key_of(item): item.partition("=")[2].strip("'\"") for item in named}
    estimator, chosen = typed.get("algorithm.adv_estimator"), algorithms.known().get(typed.get("algorithm", ""))
    if not estimator or (chosen and chosen.estimator == estimator):
        return []
    name = None if chosen else algorithms.name_of(estimator)
    return [f"algorithm={name}" if name else f"veritas_rl.algorithm={estimator}"]


def _key_of(override: str) -> str:
    return override.partition("=")[0].lstrip("+~")


def with_environment(typed: Sequence[str], caller: Path) -> list[str]:
    """The overrides, with an environment that no group names, such as a file, by its name.

    Args:
        typed: Hydra overrides.
        caller: The folder to which a file is relative.

    Raises:
        UserError: The environment cannot be loaded.
    """
    made: list[str] = []
    for override in typed:
        key, choice = _key_of(override), override.partition("=")[2].strip("'\"")
        if key in (ENV, DEMONSTRATED) and is_place(choice):
            override = f"{override.partition('=')[0]}={quoted(environment_named(choice, caller))}"
        elif key == "environment" and not (CONFIG_DIR / f"environment/{choice}.yaml").is_file():
            name = environment_named(choice, caller)
            if ":" in name or name in environment_names():
                made += [OTHER, f"{ENV}={quoted(name)}"]
                continue
        made.append(override)
    return made


def hardware_and_start(
    key: str,
    named: Sequence[str],
    recipe: Recipe | None,
    of_recipe: Mapping[str, str],
    environment: Mapping[str, str],
    hardware: Hardware,
) -> tuple[Hardware, str]:
    """The machine that a run is for, and its choice of the group start.

    Args:
        key: The Hydra key of the model.
        named: The overrides of environment variables and command line.
        recipe: The recipe.
        of_recipe: The recipe's choices, by the names under which users choose groups.
        environment: The process environment.
        hardware: This machine.
    """
    chosen = {**of_recipe, **{group: item.partition("=")[2] for item in named if (group := group_of(item))}}
    if "hardware" in chosen:
        # Defaults for a machine without a GPU do not suit a GPU group, and vice versa.
        hardware = dataclasses.replace(hardware, gpus=0 if chosen["hardware"] == "cpu" else max(hardware.gpus, 1))
    model = start.named_model(key, named, recipe.settings() if recipe else {}, environment)
    return hardware, chosen.get("start") or start.choice_for(model, hardware.gpus)


def check_once(typed: Sequence[str]) -> None:
    """Refuse a command line that chooses a group twice.

    Raises:
        UserError: A group has two values.
    """
    first: dict[str, str] = {}
    for override in typed:
        if (group := group_of(override)) and first.setdefault(group, override) != override:
            raise UserError(f"{first[group]} and {override} exclude each other: type one of them")


def check_choices(overrides: Sequence[str]) -> None:
    """Refuse a choice that a group does not have. verl's own choices of a group of the same name do not count.

    Raises:
        UserError: A group has no such choice.
    """
    for override in overrides:
        if (group := group_of(override)) is None:
            continue
        choice, known = (
            override.partition("=")[2].strip("'\""),
            {path.stem for path in (CONFIG_DIR / group).glob("*.yaml")},
        )
        if choice not in known:
            if meant := _meant(group, choice, known):
                raise UserError(f"{override} does not exist: type {meant}")
            if group == "hardware" and (suited := suited_to(choice)):
                raise UserError(f"{override} has no settings of its own: type {suited}")
            raise unknown(group, choice, {*known, *environment_names()} if group == "environment" else known)


def _meant(group: str, choice: str, known: Collection[str]) -> str | None:
    """What to type for another library's or a person's name of a choice; None if none is known."""
    small = choice.lower()
    if small in known:
        return f"{group}={small}"
    if group == "lora" and small.isdecimal() and int(small) > 1:
        return f"lora=on actor_rollout_ref.model.lora_rank={small}"
    return OTHER_CHOICES.get(group, {}).get(small)


def check_adapter_is_trained(named: Sequence[str], environment: Mapping[str, str]) -> None:
    """Refuse an adapter from which training continues if every parameter is trained.

    Args:
        named: The overrides of environment variables and command line.
        environment: The process environment.

    Raises:
        UserError: Both are chosen.
    """
    adapter = environment.get("LORA_ADAPTER_PATH", "").strip()
    if adapter and "lora=off" in named:
        raise UserError(
            f"LORA_ADAPTER_PATH={adapter} trains an adapter, and lora=off (ENABLE_LORA=0) every parameter: leave one "
            "of them out"
        )


def last_choices(overrides: Sequence[str]) -> list[str]:
    """Overrides with each group chosen once, by the last override that names it. Groups come before other overrides."""
    chosen = {group: override for override in overrides if (group := group_of(override))}
    return [*chosen.values(), *(override for override in overrides if group_of(override) is None)]


def _as_hydra_means(override: str) -> str:
    """Translate `episode` to `play=episode`, keys and paths of older recipes to the current names, and plus signs.

    See `with_or_without_plus`.
    """
    if override in MODES:
        return f"play={override}"
    if override.lstrip("+").startswith(OLD_REWARD):
        override = f"reward.{override.lstrip('+')}"
    return with_or_without_plus(re.sub(f"^{LOADED_BY_PATH}", r"\1\2train/\3", override))


def with_or_without_plus(override: str) -> str:
    """`+key.of=value` as Hydra's `++key.of=value`, which sets a key whether or not it exists.

    An environment's settings and the arguments of a custom reward function get the two plus signs too. Both refuse
    unknown names.
    """
    if re.match(r"(data\.custom_cls\.config\.[^=]*|reward\.custom_reward_function\.reward_kwargs)\.[^=]*=", override):
        return f"++{override}"
    return f"+{override}" if re.match(r"\+[^+=]*\.[^=]*=", override) else override


def compose_configuration(overrides: Sequence[str], name: str = RL_CONFIG) -> DictConfig:
    """Compose and resolve the configuration.

    Args:
        overrides: Hydra overrides.
        name: The root YAML file, without its extension.

    Raises:
        UserError: Hydra refuses an override, or an interpolation cannot be resolved.
    """
    try:
        return composed(CONFIG_DIR, name, overrides)
    except (HydraException, OmegaConfBaseException) as error:
        raise _plain(error, overrides, name) from error


def context_tokens(configuration: DictConfig) -> int:
    """The longest context in tokens: a prompt, a reply, and under SGLang one token that verl keeps free."""
    rollout = configuration.actor_rollout_ref.rollout
    return rollout.prompt_length + rollout.response_length + (rollout.name == "sglang")


def context_overrides(configuration: DictConfig) -> list[str]:
    """The override that bounds the rollout's context, unless the user has set it.

    verl's default is the model's own context, which may be 262,144 tokens. vLLM does not start without memory for one
    request of that length.
    """
    if configuration.actor_rollout_ref.rollout.max_model_len is not None:
        return []
    return [f"actor_rollout_ref.rollout.max_model_len={context_tokens(configuration)}"]


def mini_batch_overrides(configuration: DictConfig, wanted: Sequence[str]) -> list[str]:
    """The overrides that split a step into `veritas_rl.mini_batches`, or into fewer if the batch is not divisible.

    Args:
        configuration: The resolved configuration.
        wanted: The overrides of that configuration. A mini-batch size among them is kept.
    """
    prompts, settings = configuration.data.train_batch_size, configuration.veritas_rl
    parts = next(parts for parts in range(settings.mini_batches[settings.play], 0, -1) if prompts % parts == 0)
    given = {override.lstrip("+").partition("=")[0] for override in wanted}
    return [f"{key}={prompts // parts}" for key in MINI_BATCHES if parts > 1 and key not in given]


def worker_overrides(configuration: DictConfig, wanted: Sequence[str]) -> list[str]:
    """The override that gives each of several nodes as many processes that play as one has, unless the user has set it.

    Args:
        configuration: The resolved configuration.
        wanted: The overrides of that configuration. A number of processes among them is kept.
    """
    nodes, workers = configuration.trainer.nnodes, configuration.actor_rollout_ref.rollout.agent.num_workers
    given = any(override.lstrip("+").startswith(f"{WORKERS}=") for override in wanted)
    if not isinstance(nodes, int) or not isinstance(workers, int) or nodes < 2 or given:
        return []  # `limits.check_rl` reports an error
    return [f"{WORKERS}={workers * nodes}"]


def step_overrides(configuration: DictConfig, wanted: Sequence[str]) -> list[str]:
    """The override with the steps of a generated model on single moves if its cases have a number of their own.

    Args:
        configuration: The resolved configuration.
        wanted: The overrides of that configuration. A number of steps among them is kept.
    """
    settings, usual = configuration.veritas_rl, configuration.veritas_rl.steps.move
    if configuration.actor_rollout_ref.model.path is not None or settings.play != "move":
        return []
    if configuration.trainer.total_training_steps != usual or any(STEPS in override for override in wanted):
        return []
    cases = cases_by_environment(tasks_of(configuration, "train"))
    named = ((get_environment(env), among) for env, among in cases.items())
    enough = [(isinstance(env, SetsSmallModelSteps) and env.small_model_steps(among)) or usual for env, among in named]
    return [f"{STEPS}={max(enough)}"] if enough and max(enough) != usual else []


def tasks_of(configuration: DictConfig, split: str, *, single: bool = False) -> Sequence[Task]:
    """The tasks of the run's dataset, of all environments, in a seeded order.

    Args:
        configuration: The resolved configuration.
        split: "train" or "val".
        single: Whether to return tasks with one answer even if the run trains on whole games.

    Raises:
        UserError: An environment, a key or a value is wrong.
    """
    seed = configuration.veritas_rl.seed
    return open_tasks(dataset_settings(configuration), split, seed, "launch", single=single)


def dataset_settings(configuration: DictConfig) -> dict[str, Any]:
    """The settings of the run's dataset, as plain values."""
    settings = OmegaConf.to_container(configuration.data.custom_cls.config)
    assert isinstance(settings, dict)
    return {str(key): value for key, value in settings.items()}


def dump(configuration: DictConfig) -> str:
    """The resolved configuration as YAML. It contains no secret: access tokens stay in the environment."""
    return OmegaConf.to_yaml(configuration, resolve=True)


def clean_environment(environment: Mapping[str, str], caller: Path) -> dict[str, str]:
    """This project's variables that are not empty. Folders relative to `caller` become absolute."""
    named = {variable.name: environment.get(variable.name, "").strip() for variable in VARIABLES}
    for name in ("AGENT_MODEL_REPO_ID", "LORA_ADAPTER_PATH", "RESUME_FROM"):
        folder = (caller / Path(named[name]).expanduser()).resolve()
        if named[name] and folder.is_dir():
            named[name] = os.fspath(folder)
    return {name: value for name, value in named.items() if value}


def _plain(error: Exception, overrides: Sequence[str], name: str) -> UserError:
    """The user's error behind an error of Hydra."""
    text = " ".join(str(error).split())
    call = re.search(r"while evaluating '(\w+\(.*?\))' ?: Unknown function", text)
    if call is not None:
        return UserError(
            f"{call[1]} in an override needs its own quotes, such as \"...=['{call[1]}']\"; GAME_TYPES needs none"
        )
    if isinstance(error, OverrideParseException):
        key, assigned, value = error.override.partition("=")
        if not assigned:
            return UserError(f"{key} is no setting: type key=value, such as {STEPS}=100")
        typed = f"{key}={quoted(value)}"
        in_shell = shlex.quote(typed) if set(typed) & set('$`"\\!') else f'"{typed}"'
        return UserError(f"the value of {error.override} needs quotes: type {in_shell}")
    if several := re.match(r"Ambiguous value for argument '([^']+)'", text):
        key, _, value = several[1].partition("=")
        return UserError(f"{several[1]} has several values: type '{key}=[{value}]' for a list")
    unknown_key = re.match(r"Could not override '([^']+)'", text)
    if unknown_key is None:
        return UserError(text)
    key = unknown_key[1]
    value = next((item.partition("=")[2] for item in overrides if item.startswith(f"{key}=")), "...")
    try:
        known = composed(
            CONFIG_DIR, name, [item for item in overrides if (CONFIG_DIR / item.partition("=")[0]).is_dir()]
        )
    except (HydraException, OmegaConfBaseException):
        known = None
    return keys.unknown_key(key, value, known)
