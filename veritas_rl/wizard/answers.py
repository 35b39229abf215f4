"""What a person wants to train, and the recipe and the variables that say so."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from veritas_rl.checkpoints.folder import write_whole
from veritas_rl.launch.recipes import FILE, FOLDER

OPENSPIEL, MIXTURE = "openspiel", "mixture"
NONE, DEFAULT = "none", "default"
MODEL = "AGENT_MODEL_REPO_ID"
WINNERS = ("GAME_TYPES", "ALGORITHM", "ENABLE_LORA", "ROLLOUT_BACKEND")
"""Variables that win over a recipe: a recipe that is written here says the same things."""


@dataclass(frozen=True)
class Answers:
    """What a person wants to train. Everything is text, as it is typed.

    Attributes:
        name: Of the recipe.
        hardware: The hardware group.
        model: A folder or a hub id; "none" for the hardware's own, on a CPU a small one that is made.
        environments: Names with commas.
        games: Of OpenSpiel, by short name or case, with commas; "all".
        play: "move" or "episode".
        opponent: Of whole games.
        curriculum: "default" for the environment's own stages, "none" for none.
        algorithm: "ppo", "grpo" or "rae".
        logging: What is logged to beside console and file, with commas: "wandb", "tensorboard"; "none".
        wandb_mode: "online", "offline" or "disabled".
        wandb_project: The project there.
    """

    name: str = ""
    hardware: str = ""
    model: str = NONE
    environments: str = OPENSPIEL
    games: str = "all"
    play: str = "move"
    opponent: str = "random"
    curriculum: str = NONE
    algorithm: str = "ppo"
    logging: str = NONE
    wandb_mode: str = "offline"
    wandb_project: str = "veritas-rl"

    @property
    def folder(self) -> Path:
        """Where the recipe is written."""
        return FOLDER / self.name

    @property
    def envs(self) -> list[str]:
        """The environments."""
        return [name.strip() for name in self.environments.split(",") if name.strip()]

    @property
    def loggers(self) -> list[str]:
        """What verl logs to; the launcher reads the file."""
        more = [name.strip() for name in self.logging.split(",") if name.strip() not in ("", NONE)]
        return ["console", "file", *more]

    def recipe(self) -> dict[str, Any]:
        """What the recipe's YAML holds."""
        cpu = self.hardware == "cpu"
        chosen = {
            "environment": self.envs[0] if len(self.envs) == 1 else MIXTURE,
            "hardware": self.hardware,
            "algorithm": self.algorithm,
            "lora": "off" if cpu else "on",
            "rollout": "transformers" if cpu else "vllm",
            "play": self.play if OPENSPIEL in self.envs else "move",
        }
        stages = {} if self.curriculum == DEFAULT else None
        if len(self.envs) == 1:
            tasks: dict[str, Any] = {"adapter_config": self._settings(self.envs[0]), "curriculum": stages}
        else:
            # Stages are those of each environment; beside the environments there are none.
            parts = {name: {"weight": 1, "config": self._settings(name), "curriculum": stages} for name in self.envs}
            tasks = {"environments": parts, "curriculum": None}
        return {
            "defaults": [{f"override /{group}": value} for group, value in chosen.items()],
            "data": {"custom_cls": {"config": tasks}},
            "trainer": {"logger": self.loggers},
        }

    def _settings(self, env: str) -> dict[str, Any]:
        if env != OPENSPIEL:
            return {}
        games = {} if self.games == "all" else {"game_types": self.games}
        return {**games, **({"opponent": self.opponent} if self.play == "episode" else {})}

    def write_recipe(self, folder: Path) -> Path:
        """Write `config.yaml` into a folder that is made, and give its path."""
        folder.mkdir(parents=True, exist_ok=True)
        head = f"# Written by train/tools/configure.py. Start it with:\n#\n#   {self.command}\n"
        body = yaml.safe_dump(self.recipe(), sort_keys=False, default_flow_style=None, width=120)
        write_whole(folder / FILE, head + body)
        return folder / FILE

    def variables(self) -> dict[str, str | None]:
        """What `.env` holds, by name; None for what is taken out of it."""
        wandb = "wandb" in self.loggers
        return {
            **dict.fromkeys(WINNERS),
            MODEL: None if self.model == NONE else self.model,
            **({"WANDB_MODE": self.wandb_mode, "WANDB_PROJECT": self.wandb_project} if wandb else {}),
        }

    @property
    def command(self) -> str:
        """What a person types to start the run."""
        return f"bash train/scripts/openspiel-ppo-trainer.sh recipe={self.name}"
