"""The training of a merged model, as stored in merge.json for its model card. Imports without torch."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from veritas_rl.checkpoints.layout import MERGE_REPORT, RECORD, CheckpointInfo, LoraInfo, step_of
from veritas_rl.configs import split_list

PACKAGES = ("veritas-rl", "verl", "torch", "transformers", "peft", "open_spiel")
"""The packages whose versions are stored."""

SETTINGS = (
    "veritas_rl.algorithm",
    "algorithm.adv_estimator",
    "algorithm.norm_adv_by_std_in_grpo",
    "actor_rollout_ref.actor.policy_loss.loss_mode",
    "actor_rollout_ref.actor.loss_agg_mode",
    "algorithm.gamma",
    "algorithm.lam",
    "data.train_batch_size",
    "data.max_prompt_length",
    "data.max_response_length",
    "data.max_length",
    "actor_rollout_ref.rollout.n",
    "actor_rollout_ref.rollout.temperature",
    "actor_rollout_ref.actor.ppo_mini_batch_size",
    "actor_rollout_ref.actor.ppo_epochs",
    "actor_rollout_ref.actor.clip_ratio",
    "actor_rollout_ref.actor.entropy_coeff",
    "actor_rollout_ref.actor.use_kl_loss",
    "actor_rollout_ref.actor.kl_loss_coef",
    "actor_rollout_ref.actor.optim.lr",
    "critic.optim.lr",
    "optim.lr",
    "trainer.total_epochs",
    "trainer.total_training_steps",
    "trainer.n_gpus_per_node",
    "trainer.nnodes",
    "veritas_rl.demonstrations.env",
    "veritas_rl.demonstrations.cases",
    "veritas_rl.demonstrations.prompt",
    "veritas_rl.quantization",
    "veritas_rl.say_limit",
    "veritas_rl.seed",
)
"""The settings of a run that are stored, as command-line keys."""

TASKS = "data.custom_cls.config"
"""The node of a run's tasks: `environments`, or `env` and `adapter_config`. `defaults` fills missing keys."""


@dataclass(frozen=True)
class Origin:
    """The origin of a model.

    Attributes:
        step: The training step of its checkpoint; None if unknown.
        lora: The merged adapter; None if every parameter was trained.
        on_hub: Whether the base's name is a hub id and not a local folder.
        licence: The fields license, license_name and license_link of the base's card, if present.
        recipe: The settings of its training by name; empty if the run's folder is missing.
        versions: The versions at the merge, by package.
    """

    step: int | None = None
    lora: LoraInfo | None = None
    on_hub: bool = False
    licence: Mapping[str, str] = field(default_factory=dict)
    recipe: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> "Origin":
        """Create the origin from merge.json.

        Raises:
            TypeError: The values have another structure.
        """
        lora = values.get("lora")
        return cls(**{**values, "lora": None if lora is None else LoraInfo(**lora)})


@dataclass(frozen=True)
class Asked:
    """How a model was asked in its training. Fields are None where that is unknown.

    Attributes:
        cases: The cases; empty for all.
        prompt: The form of the prompts.
        max_tokens: The maximum number of tokens of a reply.
        say_limit: Whether the prompts stated this maximum.
    """

    cases: tuple[str, ...] = ()
    prompt: str | None = None
    max_tokens: int | None = None
    say_limit: bool | None = None


def asked_in_training(folder: Path, env: str) -> Asked | None:
    """How a model was asked about an environment in its training; None if there is no record of it.

    Args:
        folder: A merged model, `.../global_step_N`, or an experiment.
        env: The environment.
    """
    try:
        merged = json.loads((folder / MERGE_REPORT).read_text(encoding="utf-8"))
        found = Origin.from_values(merged.get("origin", {})).recipe
    except (OSError, ValueError, TypeError, AttributeError):
        found = recipe_of(folder)
    if found.get("veritas_rl.demonstrations.env") == env:
        cases = split_list(found.get("veritas_rl.demonstrations.cases"))
        return Asked(cases, found.get("veritas_rl.demonstrations.prompt"))
    if env not in found.get("environments", ()):
        return None
    return Asked(
        split_list(found.get(f"{env}.game_types", found.get(f"{env}.cases"))),
        found.get(f"{env}.prompt", "full"),
        found.get("data.max_response_length"),
        found.get("veritas_rl.say_limit"),
    )


def origin_of(checkpoint: Path, info: CheckpointInfo | None, lora: LoraInfo | None, base: Path | None) -> Origin:
    """The origin of a model that is merged from a checkpoint.

    Args:
        checkpoint: `.../global_step_N`.
        info: The checkpoint's record.
        lora: The checkpoint's adapter.
        base: The base's folder.
    """
    return Origin(
        step=info.global_step if info is not None else step_of(checkpoint),
        lora=lora,
        licence=licence_of(base) if base is not None else {},
        recipe=recipe_of(checkpoint),
        versions=versions(),
    )


def versions() -> dict[str, str]:
    """The versions of the installed packages that train and merge."""
    found: dict[str, str] = {}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def licence_of(model: Path) -> dict[str, str]:
    """The licence fields of a model's card, or else of its config.json; empty if both lack them."""
    names = ("license", "license_name", "license_link")
    for read in (_card_of, _configuration_of):
        try:
            said = read(model)
            found = {name: str(said[name]) for name in names if said.get(name)}
        except (OSError, ValueError, AttributeError, YAMLError):  # the file is missing or damaged
            continue
        if found:
            return found
    return {}


def recipe_of(trained: Path) -> dict[str, Any]:
    """The settings of a run, without paths.

    Args:
        trained: The run's experiment, whose `run.json` names the folder of the Hydra configuration, or a checkpoint in
            it.
    """
    experiment = trained.parent if trained.name.startswith("global_step_") else trained
    try:
        folder = Path(json.loads((experiment / RECORD).read_text(encoding="utf-8"))["folder"])
        configuration = OmegaConf.load(folder / ".hydra/config.yaml")
        found = {name: OmegaConf.select(configuration, name) for name in SETTINGS}
        if found["algorithm.adv_estimator"] not in (None, "gae"):
            found["critic.optim.lr"] = None  # there was no critic
        tasks: Any = OmegaConf.select(configuration, TASKS)
        found |= _tasks_of(OmegaConf.to_container(tasks, resolve=True)) if tasks is not None else {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OmegaConfBaseException, YAMLError):
        return {}
    return {name: plain for name, value in found.items() if (plain := _plain(value)) is not None}


def _tasks_of(settings: Any) -> dict[str, Any]:
    nodes = settings.get("environments") or {settings["env"]: {"config": settings.get("adapter_config")}}
    found: dict[str, Any] = {"environments": list(nodes)}
    for env, node in nodes.items():
        layers = ((settings.get("defaults") or {}).get(env), (node or {}).get("config"))
        found |= {
            f"{env}.{name}": value for layer in layers for name, value in (layer or {}).items() if value is not None
        }
        if len(nodes) > 1:
            found[f"{env}.weight"] = (node or {}).get("weight", 1)
    return found


def _card_of(model: Path) -> dict[str, Any]:
    # The import takes a quarter of a second, and a run reads a card only at its end.
    from huggingface_hub import ModelCard

    return ModelCard((model / "README.md").read_text(encoding="utf-8")).data.to_dict()


def _configuration_of(model: Path) -> dict[str, Any]:
    return json.loads((model / "config.json").read_text(encoding="utf-8"))


def _plain(value: Any) -> Any:
    """A number, a string that is not a path, or a list of them; None for any other value."""
    if isinstance(value, (list, tuple)) or OmegaConf.is_list(value):
        parts = [_plain(part) for part in value]
        return parts if parts and None not in parts else None
    if isinstance(value, str):
        return None if value.startswith(("/", "~")) or not value else value
    return value if isinstance(value, (bool, int, float)) else None
