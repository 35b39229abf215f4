"""Rewards for verl, routed by environment name.

`compute_score` is verl's reward function for single replies; the agent loop `game_agent` scores through the same
session and the same `shape`, so training rewards and evaluation scores agree. The agent loop calls a custom reward
function after that; verl's own reward loop would call it instead of `compute_score`.
"""

from collections.abc import Mapping
from typing import Any

from veritas_rl.announcements import REWARDS_OUTSIDE
from veritas_rl.envs.base import Reason, Reply, Score, shape
from veritas_rl.envs.custom_reward import CustomReward
from veritas_rl.envs.registry import get_environment, task_of
from veritas_rl.envs.task import Task
from veritas_rl.errors import UserError

PENALTY = "length_penalty"
"""The name of what `veritas_rl.length_penalty` takes from a reward, in the metrics."""


def reward_info(task: Task, score: Score) -> dict[str, Any]:
    """Values that are logged beside the reward. Numbers are averaged by group, text goes to the dump of generations."""
    counts = {name: float(score.details[name]) for name in ("moves", "mistakes") if name in score.details}
    return {
        **counts,
        **score.measures,
        "value": score.value,
        "success": float(score.success),
        "legal": float(score.legal),
        "illegal": float(not score.legal and not score.reason.is_cut),
        "truncated": float(score.reason is Reason.TRUNCATED),
        "overlong": float(score.reason is Reason.OVERLONG),
        "reason": str(score.reason),
        "task_id": task.id,
        "group": f"{task.env}/{get_environment(task.env).group(task)}",
    }


def compute_score(
    data_source: str, solution_str: str, ground_truth: str, extra_info: Mapping[str, Any], **_: Any
) -> dict[str, Any]:
    """Score one reply to a single-move task.

    Args:
        data_source: The environment.
        solution_str: The reply.
        ground_truth: The task's id. Not used, because the task is in `extra_info`.
        extra_info: The task's values. `env` names the environment.

    Returns:
        "score", the training reward in [0, 1], and what `reward_info` logs.

    Raises:
        UserError: The environment does not exist, or the task needs more than one reply.
    """
    task = task_of(extra_info)
    session = get_environment(task.env).start(task)
    turns = session.turns()
    session.step({turn.seat: Reply(solution_str) for turn in turns})
    if session.turns():
        raise UserError(f"{task.id} needs more than one reply: use the agent loop game_agent")
    score = next(iter(session.scores().values()))
    return {"score": shape(score, task), **reward_info(task, score)}


compute_lgc_v2_score = compute_score


class RangeWatch:
    """Notices rewards of a custom reward function outside of [0, 1].

    Args:
        reward: The function; None for the reward of the environments.
    """

    def __init__(self, reward: CustomReward | None) -> None:
        self._reward = reward
        self._noticed = reward is None

    def message(self, least: float, most: float, step: int) -> str | None:
        """A line for the console when rewards are outside of [0, 1] for the first time, else None.

        Args:
            least: The smallest reward of a step.
            most: The largest.
            step: The step.
        """
        if self._noticed or (least >= 0 and most <= 1):
            return None
        self._noticed = True
        return (
            f"{REWARDS_OUTSIDE}{self._reward} has returned {least:g} to {most:g} in step {step}, and what it returns "
            "is used as it is"
        )
