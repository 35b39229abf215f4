"""The tasks of an OpenSpiel configuration, created on access."""

from veritas_rl.envs.lazy import LazyTasks
from veritas_rl.envs.openspiel import ids
from veritas_rl.envs.openspiel.cases import load
from veritas_rl.envs.openspiel.config import OpenSpielConfig
from veritas_rl.envs.openspiel.positions import VALIDATION_SHARE
from veritas_rl.envs.openspiel.task import OpenSpielManner, OpenSpielParameters, OpenSpielPay, OpenSpielTask
from veritas_rl.envs.task import Task
from veritas_rl.seeding import digest

ROUND = round(1 / VALIDATION_SHARE)
"""If no positions are held out, one of this many tasks of training is a task of validation, as of all positions."""


class Catalogue(LazyTasks):
    """The tasks of a configuration, case by case, created on access."""

    def __init__(self, config: OpenSpielConfig, split: str) -> None:
        self.config = config
        self.split = split

    def __len__(self) -> int:
        config = self.config
        groups = len(config.allowed_game_indices or config.cases)
        return len(config.task_ids) or groups * config.num_tasks_per_case

    def task(self, index: int) -> Task:
        config = self.config
        case, k = self._numbered(index)
        split, number = self._placed(k)
        return OpenSpielTask(
            env="openspiel",
            case=case,
            k=number,
            mode=config.mode,
            seed=config.seed,
            split=split,
            parameters=OpenSpielParameters(config.depth),
            manner=OpenSpielManner(
                opponent=self._opponent(case, k),
                seat=k % load(case).players if config.mode == "episode" else -1,
                prompt=config.prompt,
                context=config.context,
                retries=config.retries,
                max_moves=config.max_moves,
            ),
            pay=OpenSpielPay(
                reward=config.reward,
                gamma=float(config.gamma),
                legal_share=float(config.legal_share),
                scale=config.scale,
                playouts=config.playouts,
                engine=config.engine,
            ),
        )

    def _placed(self, k: int) -> tuple[str, int]:
        """The split of a case's task k, and the task's number in this split."""
        config = self.config
        if config.task_ids:
            # A task id means the same task in training and validation; `allowed_game_indices` gives these tasks in
            # training.
            return "train", k
        if self.split == "val" or config.hold_out or config.mode != "move":
            return self.split, k
        rounds, place = divmod(k, ROUND)
        return ("val", rounds) if place == 0 else ("train", k - rounds - 1)

    def _opponent(self, case: str, k: int) -> str:
        config = self.config
        if config.opponent != "self":
            return config.opponent
        if self.split != "train":
            return "random"
        chance = digest("past opponent", config.seed, case, k) / 2**64
        return "past" if chance < config.past_opponent_share else "self"

    def _numbered(self, index: int) -> tuple[str, int]:
        config = self.config
        if config.task_ids:
            return ids.decode(config.task_ids[index])
        which, k = divmod(index, config.num_tasks_per_case)
        if config.allowed_game_indices:
            return ids.case_of(config.allowed_game_indices[which], k), k
        return config.cases[which], k
