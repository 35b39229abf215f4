"""The keys of a configuration: which of verl's have an effect here, and which key works instead of one that has none.

A key without an effect (`dead_keys.py`), or one that nothing reads, as a plus in an override adds it, would silently do
nothing.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from typing import Any

from omegaconf import DictConfig, OmegaConf

from veritas_rl.checkpoints.origin import TASKS
from veritas_rl.envs.registry import environment_names, get_environment
from veritas_rl.errors import UserError, unknown
from veritas_rl.launch.dead_keys import (
    ACTOR,
    ADAPTER,
    CRITIC,
    DATASET,
    DEFAULTS,
    OWN_DATASET,
    REWARD,
    ROLLOUT,
    WITHOUT_EFFECT,
)
from veritas_rl.launch.recipes import Recipe
from veritas_rl.records.description import NODE, VALUES

OPEN = (
    # What checks these names itself, or hands them on.
    *(TASKS, "data.apply_chat_template_kwargs", f"{REWARD}.reward_kwargs", NODE),
    *("ray_kwargs", "transfer_queue", "hydra", "global_profiler"),
)
"""The nodes to which any key may be added, besides those that are empty or not set."""

OPEN_PARTS = frozenset({"override_config", "override_optimizer_config", "engine_kwargs", "wrap_policy"})
"""Nodes of these names hand any key on."""

PLACES = (
    ("actor_rollout_ref.actor.optim", "critic.optim"),
    ("actor_rollout_ref.model", "critic.model"),
    (ACTOR, CRITIC),
    (ROLLOUT,),
    (ADAPTER,),
    *((node,) for node in ("data", "algorithm", "trainer", "veritas_rl", "optim", "model", "engine", REWARD)),
)
"""Where a short name is looked for, in this order. Actor and critic have the same settings."""

UNLIKELY = (*(f"{ROLLOUT}.{name}" for name in ("val_kwargs", "qat", "mtp")), f"{ACTOR}.qat", DEFAULTS)
"""Nodes whose keys are not suggested, because another key of the same name is meant."""

NAMES_ELSEWHERE = {
    "learning_rate": "lr",
    "epochs": "total_epochs",
    "num_train_epochs": "total_epochs",
    **dict.fromkeys(("steps", "max_steps", "total_steps"), "trainer.total_training_steps"),
    "batch_size": "train_batch_size",
    **dict.fromkeys(("max_new_tokens", "max_tokens", "max_length", "max_completion_length"), "max_response_length"),
    "kl_coef": "kl_loss_coef",
    "rank": "lora_rank",
    **dict.fromkeys(("model", "model_path", "model_name"), "actor_rollout_ref.model.path"),
    **dict.fromkeys(("group_size", "num_generations"), "rollout.n"),
    **dict.fromkeys(("game", "games", "env_id"), "adapter_config.game_types"),
    "levels": "adapter_config.levels",
    "seed": "veritas_rl.seed",
    **dict.fromkeys(("gpus", "num_gpus"), "trainer.n_gpus_per_node"),
}
"""Other trainers' names of settings, each with the last parts of the key here."""

WORDS_ELSEWHERE = {
    **dict.fromkeys(
        ("wandb", "use_wandb", "report_to"), ("trainer.logger=[console,file,wandb]", "trainer.logger=[console,file]")
    ),
    **dict.fromkeys(
        ("kl", "beta"),
        (f"{ACTOR}.use_kl_loss=true {ACTOR}.kl_loss_coef=VALUE", f"{ACTOR}.use_kl_loss=false"),
    ),
    "opponent": (f"play=episode {ADAPTER}.opponent=VALUE", "play=move"),
    "resume": ("trainer.resume_mode=auto", "trainer.resume_mode=disable"),
    "mode": ("play=VALUE", "play=move"),
    "curriculum": (f"{TASKS}.curriculum={{}}", f"{TASKS}.curriculum=null"),
}
"""Names that stand for other settings of RL here, each with what to type, also for a value of `OFF`."""
OFF = frozenset({"0", "false", "no", "none", "null", "off"})

NEAR, MOST = 0.75, 3
"""How similar a suggested key must be, from 0 to 1, and how many are suggested."""


def check(
    configuration: DictConfig,
    overrides: Sequence[str],
    compose: Callable[[Sequence[str]], DictConfig],
    recipe: Recipe | None = None,
) -> None:
    """Check that each setting of recipe, environment variables and command line is read.

    A value that is the default passes.

    Args:
        configuration: The configuration that `overrides` give.
        overrides: The overrides.
        compose: Composes other overrides.
        recipe: The recipe that `overrides` load.

    Raises:
        UserError: A key has no effect, or nothing reads it.
    """
    written: list[str] = []
    if recipe is not None:
        # Its settings are checked as if they were typed, but only its choices are composed.
        settings = {name: value for name, value in recipe.settings().items() if name != "defaults"}
        written = sorted(f"++{key}={value}" for key, value in _leaves(settings, ""))
        loading = recipe.overrides()
        # A changed value of the recipe's own is one that Hydra has found.
        others = [one for one in overrides if one not in loading and not one.startswith(f"{VALUES}.")]
        chosen = {override.partition("=")[0] for override in others}
        choices = [f"{group}={choice}" for group, choice in recipe.choices().items() if group not in chosen]
        overrides = [*choices, *written, *others]

    def without(left_out: Collection[str]) -> DictConfig:
        return compose([one for one in overrides if one not in left_out and one not in written])

    typed = [_parsed(override) for override in overrides if "=" in override]
    for _, name, _ in typed:
        if name.endswith("optim.grad_clip"):
            raise UserError(f"{name} is an old name: set {name.removesuffix('grad_clip')}clip_grad")
    _check_dead(configuration, overrides, written, without)
    added = [override for override in overrides if _adds(override)]
    if not added:
        return
    before = without(added)
    for _, name, value in map(_parsed, added):
        if OmegaConf.select(before, name, default=_MISSING, throw_on_missing=False) is _MISSING:
            _check_added(before, name, value)


_MISSING = object()


def _parsed(override: str) -> tuple[str, str, str]:
    """The plus signs, the key and the value of an override."""
    key, _, value = override.partition("=")
    name = key.lstrip("+~")
    return key[: len(key) - len(name)], name, value


def _within(key: str, node: str) -> bool:
    return key == node or key.startswith(f"{node}.")


def _adds(override: str) -> bool:
    """Whether an override may add a key outside of the nodes that are open."""
    plus, name, _ = _parsed(override)
    # A group with a package (recipe@_global_) is no key.
    if not plus.startswith("+") or set("@/") & set(name):
        return False
    return OPEN_PARTS.isdisjoint(name.split(".")) and not any(_within(name, node) for node in OPEN)


def _check_dead(
    configuration: DictConfig,
    overrides: Sequence[str],
    written: Collection[str],
    without: Callable[[Collection[str]], DictConfig],
) -> None:
    """Raise `UserError` if an override sets a key without effect.

    Args:
        configuration: The configuration.
        overrides: The overrides.
        written: Those of a recipe. A command line may turn off what they need, as `algorithm=grpo` does the critic.
        without: The configuration without some overrides.
    """
    sft = "actor_rollout_ref" not in configuration
    own = sft or OmegaConf.select(configuration, DATASET) not in (None, OWN_DATASET)
    found = [
        (override, name, key, dead)
        for override in overrides
        for plus, name, value in [_parsed(override)]
        if plus != "~"
        for key, dead in WITHOUT_EFFECT.items()
        if dead.applies(configuration) and not (dead.needs and override in written)
        # A dataset of the user's own may read verl's keys of datasets, and that of fine-tuning reads data.truncation.
        if not (own and key.startswith("data."))
        # A choice of the group algorithm is no value of the node algorithm.
        if _within(name, key) or (_within(key, name) and value.startswith("{"))
    ]
    if not found:
        return
    before = without({override for override, *_ in found})
    for override, name, key, dead in found:
        deeper = name if _within(name, key) else key
        now, default = (OmegaConf.select(one, deeper, throw_on_missing=False) for one in (configuration, before))
        if now in (default, *dead.allowed):
            continue
        typed = override.lstrip("+") if deeper == name else deeper
        raise UserError(dead.message(typed, configuration))


def _check_added(before: DictConfig, key: str, value: str) -> None:
    """Raise `UserError` if nothing reads an added key: if its place is neither empty nor a class with such a field."""
    node: Any = before
    parts = key.split(".")
    for depth, part in enumerate(parts):
        if not isinstance(node, DictConfig) or not node:
            return
        made = _class_of(node)
        if made is not None and part not in (known := {field.name for field in fields(made)}):
            if nearest(key, before):
                raise unknown_key(key, value, before)
            place = ".".join(parts[:depth])
            works = {name for name in known | set(node) if not name.startswith("_")}
            dead = _dead_nodes(before)
            raise unknown(f"setting of {place}", part, {name for name in works if f"{place}.{name}" not in dead})
        if part not in node:
            if made is None:
                raise unknown_key(key, value, before)
            return
        node = node[part]


def _class_of(node: DictConfig) -> type | None:
    """The dataclass that verl makes of a node. The import of verl takes seconds."""
    if not (target := str(node.get("_target_", ""))).startswith("verl."):
        return None
    from hydra.utils import get_class

    made = get_class(target)
    return made if is_dataclass(made) else None


def unknown_key(key: str, value: str, configuration: DictConfig | None) -> UserError:
    """The error for a key that nothing reads, with the nearest keys that work.

    Args:
        key: The key.
        value: The value that was given.
        configuration: A configuration with the existing keys; None if it is not known.
    """
    if configuration is not None and (place := _null_above(key, configuration)):
        return UserError(f"{place} is null here, so there is no {key}: leave it out, or set {place} as a whole")
    near = [f"{name}={value}" for name in nearest(key, configuration)] if configuration is not None else []
    if key in WORDS_ELSEWHERE and (configuration is None or "actor_rollout_ref" in configuration):
        near = [WORDS_ELSEWHERE[key][value.lower() in OFF].replace("VALUE", value)]
    hint = f"type {' or '.join(near)}; " if near else ""
    return UserError(f"unknown configuration key {key}: {hint}docs/configuration.md lists the keys")


def _null_above(key: str, configuration: DictConfig) -> str | None:
    """The node above a key that is null; None without one."""
    node, parts = configuration, key.split(".")[:-1]
    for depth, part in enumerate(parts, 1):
        if not isinstance(node, DictConfig) or part not in node:
            return None
        node = node[part]
        if node is None:
            return ".".join(parts[:depth])
    return None


def nearest(key: str, configuration: DictConfig) -> list[str]:
    """The existing keys that a user may have meant, the likeliest first."""
    *before, last = key.split(".")
    known = [name for name in dict.fromkeys(_keys(configuration)) if _place(name) < len(PLACES)]
    *nodes, end = NAMES_ELSEWHERE.get(last, last).split(".")
    if any(name.split(".")[-1] == end for name in known):  # fine-tuning has other keys than RL
        before, last = [*before, *nodes], end
    same = [name for name in known if name.split(".")[-1] == last]
    if not same:
        near = get_close_matches(last, {name.split(".")[-1] for name in known}, n=MOST, cutoff=NEAR)
        same = [name for end in near for name in known if name.split(".")[-1] == end]
    # Of the keys with this last part, those that share the most of the parts before it.
    shared = {name: len({*before} & {*name.split(".")[:-1]}) for name in same}
    best = [name for name in same if shared[name] == max(shared.values())]
    first = min(map(_place, best), default=0)
    return [name for name in best if _place(name) == first][:MOST]


def _place(key: str) -> int:
    return next((place for place, nodes in enumerate(PLACES) if any(_within(key, node) for node in nodes)), len(PLACES))


def _dead_nodes(configuration: DictConfig) -> list[str]:
    return [node for node, dead in WITHOUT_EFFECT.items() if dead.applies(configuration)]


def _keys(configuration: DictConfig) -> Iterator[str]:
    """Every key with an effect, those of the environment included."""
    plain: Any = OmegaConf.to_container(configuration, throw_on_missing=False)
    left_out = (*_dead_nodes(configuration), *UNLIKELY)
    for key, _ in _leaves(plain, ""):
        if not any(_within(key, node) for node in left_out):
            yield key
    env = OmegaConf.select(configuration, f"{TASKS}.env")
    if env in environment_names():
        settings = get_environment(env).config_type
        names = (*settings.model_fields, *settings.user_keys)
        yield from (f"{ADAPTER}.{name}" for name in names)


def _leaves(node: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in node.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
