"""What the trainings of docs/learning.json stand on: the settings of the default command on a CPU, and a case's tasks.

The settings are composed here without the launcher, which environments do not import.
"""

from functools import cache
from typing import Any

from omegaconf import DictConfig, OmegaConf

from veritas_rl.basis import Basis, digest_of
from veritas_rl.composition import composed, counted, without_model
from veritas_rl.envs.openspiel.config import OpenSpielConfig
from veritas_rl.envs.openspiel.env import OpenSpielEnvironment
from veritas_rl.envs.tasks_digest import catalogues_of, tasks_digest
from veritas_rl.paths import ROOT

CPU = ("hardware=cpu", "start=made", "lora=off", "rollout=transformers")
"""The groups that the launcher chooses on a machine without a GPU."""


@cache
def basis_of(games: str) -> Basis:
    """The present basis of the default command.

    Args:
        games: The value of GAME_TYPES.

    Raises:
        UserError: A case does not exist.
    """
    configuration = default_settings()
    settings: Any = OmegaConf.to_container(configuration.data.custom_cls.config)
    named = {**settings, "adapter_config": {"game_types": games}}
    # The launcher asks the environment for the steps of a generated model.
    steps = OpenSpielEnvironment().small_model_steps(OpenSpielConfig(game_types=games).cases)
    return Basis(digest_of([counted(configuration), steps]), tasks_digest(catalogues_of(named)))


@cache
def default_settings() -> DictConfig:
    """The configuration of the default command on a CPU, without a case."""
    with without_model():
        return composed(ROOT / "train/verl/config", "rl", CPU)
