"""The user's answers, and the recipe and variables made from them."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from veritas_rl.checkpoints.folder import write_whole
from veritas_rl.checkpoints.origin import TASKS
from veritas_rl.launch.recipes import CONFIG, FOLDER
from veritas_rl.launch.start import VARIABLE

OPENSPIEL, MIXTURE = "openspiel", "mixture"
NONE, DEFAULT = "none", "default"
WINNERS = ("GAME_TYPES", "ALGORITHM", "ENABLE_LORA")
"""Variables that override a recipe. They are removed, because their values are those of the answers."""

NUMBERS = {
    "learning_rate": "actor_rollout_ref.actor.optim.lr",
    "prompts": "data.train_batch_size",
    "steps": "trainer.total_training_steps",
}
"""The keys of the numbers, by field."""


@dataclass(frozen=True)
class Answers:
    """The user's answers, as text.

    Attributes:
        name: The recipe's name.
        hardware: The hardware group.
        model: A folder or a hub id; "none" for the hardware's default, on a CPU a generated small model.
        environments: Names, separated by commas.
        games: OpenSpiel games by short name or case, separated by commas; or "all".
        play: "move" or "episode".
        opponent: The opponent in whole games.
        curriculum: "default" for the environment's stages, or "none".
        algorithm: "ppo", "grpo" or "rae"; "" for the default.
        lora: "on" or "off"; "" for the default.
        learning_rate: The rate of the policy; "" for the default.
        prompts: Tasks of a step; "" for the default.
        steps: Training steps; "" for the default.
        logging: Loggers in addition to console and file, separated by commas: "wandb", "tensorboard"; or "none".
        wandb_mode: "online", "offline" or "disabled".
        wandb_project: The Weights & Biases project.
    """

    name: str = ""
    hardware: str = ""
    model: str = NONE
    environments: str = OPENSPIEL
    games: str = "all"
    play: str = "move"
    opponent: str = "random"
    curriculum: str = NONE
    algorithm: str = ""
    lora: str = ""
    learning_rate: str = ""
    prompts: str = ""
    steps: str = ""
    logging: str = NONE
    wandb_mode: str = "offline"
    wandb_project: str = "veritas-rl"

    @property
    def folder(self) -> Path:
        return FOLDER / self.name

    @property
    def envs(self) -> list[str]:
        return [name.strip() for name in self.environments.split(",") if name.strip()]

    @property
    def loggers(self) -> list[str]:
        """verl's loggers. The launcher reads the file."""
        more = [name.strip() for name in self.logging.split(",") if name.strip() not in ("", NONE)]
        return ["console", "file", *more]

    def recipe(self) -> dict[str, Any]:
        """The contents of the recipe's YAML: what was answered, without the defaults."""
        chosen = {
            "environment": self.envs[0] if len(self.envs) == 1 else MIXTURE,
            "hardware": self.hardware,
            "algorithm": self.algorithm,
            "lora": self.lora,
            "play": self.play if OPENSPIEL in self.envs else "move",
        }
        stages = {} if self.curriculum == DEFAULT else None
        if len(self.envs) == 1:
            tasks: dict[str, Any] = {"adapter_config": self._settings(self.envs[0]), "curriculum": stages}
        else:
            # Each environment has its own stages, and the mixture has none.
            parts = {name: {"weight": 1, "config": self._settings(name), "curriculum": stages} for name in self.envs}
            tasks = {"environments": parts, "curriculum": None}
        settings = {TASKS: tasks, "trainer.logger": self.loggers} | {
            key: float(answer) if field == "learning_rate" else int(answer)
            for field, key in NUMBERS.items()
            if (answer := getattr(self, field))
        }
        return {
            "defaults": [{f"override /{group}": value} for group, value in chosen.items() if value],
            **nested(settings),
        }

    def _settings(self, env: str) -> dict[str, Any]:
        if env != OPENSPIEL:
            return {}
        games = {} if self.games == "all" else {"game_types": self.games}
        return {**games, **({"opponent": self.opponent} if self.play == "episode" else {})}

    def write_recipe(self, folder: Path) -> Path:
        """Create the folder, write `config.yaml` into it, and return the file's path."""
        folder.mkdir(parents=True, exist_ok=True)
        head = f"# Written by train/tools/configure.py. Start it with:\n#\n#   {self.command}\n"
        body = yaml.safe_dump(self.recipe(), sort_keys=False, default_flow_style=None, width=120)
        write_whole(folder / CONFIG, head + body)
        return folder / CONFIG

    def variables(self) -> dict[str, str | None]:
        """The variables for `.env`, by name; None for variables to remove."""
        wandb = "wandb" in self.loggers
        return {
            **dict.fromkeys(WINNERS),
            VARIABLE: None if self.model == NONE else self.model,
            **({"WANDB_MODE": self.wandb_mode, "WANDB_PROJECT": self.wandb_project} if wandb else {}),
        }

    @property
    def command(self) -> str:
        """The command that starts the run."""
        return f"bash train/scripts/openspiel-ppo-trainer.sh recipe={self.name}"


def nested(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by key as the tree that a YAML file has."""
    tree: dict[str, Any] = {}
    for key, value in settings.items():
        *nodes, last = key.split(".")
        node = tree
        for name in nodes:
            node = node.setdefault(name, {})
        node[last] = value
    return tree
