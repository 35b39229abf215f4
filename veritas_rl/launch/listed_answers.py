"""Checks of a run that trains on all legal answers instead of samples, see `verl_plugin.algorithms.all_actions`."""

from collections.abc import Iterable, Sequence

from omegaconf import DictConfig

from veritas_rl.envs.abilities import listed
from veritas_rl.envs.custom_reward import CustomReward
from veritas_rl.envs.registry import get_environment, spread
from veritas_rl.envs.task import Task
from veritas_rl.errors import UserError
from veritas_rl.verl_plugin import algorithms


def check(configuration: DictConfig, catalogues: Iterable[Sequence[Task]]) -> None:
    """Check that the answers can be listed, and that no setting asks for sampled ones. Other runs pass.

    Args:
        configuration: The resolved configuration.
        catalogues: The tasks of each stage. One task of each case is checked.

    Raises:
        UserError: A setting or an environment does not suit.
    """
    if not algorithms.lists_answers(configuration):
        return
    settings, whole = configuration.veritas_rl, configuration.veritas_rl.play == "episode"
    said = f"algorithm.adv_estimator={configuration.algorithm.adv_estimator}"
    if configuration.actor_rollout_ref.rollout.n != 1:
        raise UserError(f"{said} samples no replies: set actor_rollout_ref.rollout.n=1")
    if settings.length_penalty:
        raise UserError(f"{said} trains on answers of given lengths: leave veritas_rl.length_penalty out")
    if whole and CustomReward.read(configuration) is not None:
        raise UserError(f"{said} values the answers of whole games itself: leave the custom reward function out")
    for node in ("curriculum", "failure_replay"):
        if configuration.data.custom_cls.config[node] is not None:
            raise UserError(
                f"{said} trains on all answers, which do not show what the model can do, so {node} has nothing to go "
                f"by: set data.custom_cls.config.{node}=null"
            )
    cases = {(task.env, task.case): task for catalogue in catalogues for task in spread(catalogue)}
    for task in cases.values():
        listed(get_environment(task.env), task)
    if whole and configuration.data.train_batch_size > len(cases):
        raise UserError(
            f"a task of {said} has all decisions of its game, so data.train_batch_size="
            f"{configuration.data.train_batch_size} would repeat them: set it to {len(cases)}"
        )
