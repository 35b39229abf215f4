"""The tasks of an OpenSpiel configuration, created on access."""

import dataclasses

from veritas_rl.envs.lazy import LazyTasks
from veritas_rl.envs.openspiel import ids
from veritas_rl.envs.openspiel.cases import load
from veritas_rl.envs.openspiel.config import OpenSpielConfig
from veritas_rl.envs.openspiel.task import OpenSpielManner, OpenSpielParameters, OpenSpielPay, OpenSpielTask
from veritas_rl.envs.opponents import opponent_of
from veritas_rl.envs.task import Task


class Catalogue(LazyTasks):
    """The tasks of a configuration, case by case, created on access."""

    def __init__(self, config: OpenSpielConfig, split: str) -> None:
        self.config = config
        self.split = split
        self.parameters = config.part(OpenSpielParameters)
        self._manner, self._pay = config.part(OpenSpielManner), config.part(OpenSpielPay)

    def __len__(self) -> int:
        config = self.config
        groups = len(config.allowed_game_indices or config.cases)
        return len(config.task_ids) or groups * config.num_tasks_per_case

    def task(self, index: int) -> Task:
        config = self.config
        case, k = self._numbered(index)
        return OpenSpielTask(
            env="openspiel",
            case=case,
            k=k,
            mode=config.mode,
            seed=config.seed,
            # A task id means the same task in training and validation; `allowed_game_indices` gives these tasks in
            # training.
            split="train" if config.task_ids else self.split,
            parameters=self.parameters,
            manner=dataclasses.replace(
                self._manner,
                opponent=opponent_of(config.opponent, config.past_opponent_share, self.split, config.seed, case, k),
                seat=k % load(case).players if config.mode == "episode" else -1,
            ),
            pay=self._pay,
        )

    def _numbered(self, index: int) -> tuple[str, int]:
        config = self.config
        if config.task_ids:
            return ids.decode(config.task_ids[index])
        which, k = divmod(index, config.num_tasks_per_case)
        if config.allowed_game_indices:
            return ids.case_of(config.allowed_game_indices[which], k), k
        return config.cases[which], k
