"""The workers of actor and critic in one process, without Ray, for measurements and tests.

The process needs torch's variables of a process group: RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from omegaconf import DictConfig
from tensordict import TensorDict
from verl.utils import tensordict_utils as tu
from verl.utils.config import omega_conf_to_dataclass
from verl.workers.config import TrainingWorkerConfig
from verl.workers.utils.losses import ppo_loss, value_loss

from veritas_rl.verl_plugin import dropout
from veritas_rl.verl_plugin.workers import LearnerWorker

ROLES = ("actor", "critic")


def worker_of(role: str, configuration: DictConfig) -> LearnerWorker:
    """The configured worker of a role, with its model loaded and its loss set.

    Args:
        role: "actor" or "critic".
        configuration: The resolved RL configuration. Its dropout is turned off.
    """
    dropout.turn_off(configuration)
    worker, loss = {"actor": _actor, "critic": _critic}[role](configuration)
    worker.reset()
    worker.set_loss_fn(loss)
    return worker


def _actor(configuration: DictConfig) -> tuple[LearnerWorker, Any]:
    node = configuration.actor_rollout_ref
    model, config = omega_conf_to_dataclass(node.model), omega_conf_to_dataclass(node.actor)
    config.model_config = model
    made = TrainingWorkerConfig(
        model_type="language_model",
        model_config=model,
        engine_config=config.engine,
        optimizer_config=config.optim,
        checkpoint_config=config.checkpoint,
    )
    made.engine_config.use_dynamic_bsz = True
    made.engine_config.max_token_len_per_gpu = node.actor.ppo_max_token_len_per_gpu
    made.engine_config.infer_max_token_len_per_gpu = node.rollout.log_prob_max_token_len_per_gpu
    return LearnerWorker(made), partial(ppo_loss, config=config)


def _critic(configuration: DictConfig) -> tuple[LearnerWorker, Any]:
    config = omega_conf_to_dataclass(configuration.critic)
    config.engine.infer_max_token_len_per_gpu = config.ppo_infer_max_token_len_per_gpu
    config.engine.max_token_len_per_gpu = config.ppo_infer_max_token_len_per_gpu
    config.engine.use_dynamic_bsz = True
    made = TrainingWorkerConfig(
        model_type="value_model",
        model_config=config.model,
        engine_config=config.engine,
        optimizer_config=config.optim,
        checkpoint_config=config.checkpoint,
    )
    return LearnerWorker(made), partial(value_loss, config=config)


def infer(role: str, worker: LearnerWorker, rows: TensorDict) -> Any:
    """A pass without gradients: log-probabilities with entropy, or values."""
    return worker.infer_batch(_with_settings(rows, calculate_entropy=role == "actor", compute_loss=False))


def update(role: str, worker: LearnerWorker, rows: TensorDict, configuration: DictConfig) -> dict[str, Any]:
    """One optimizer step over all rows.

    Returns:
        verl's metrics of the step.
    """
    entropy = role == "actor" and configuration.actor_rollout_ref.actor.entropy_coeff != 0
    settings = {
        "calculate_entropy": entropy,
        "global_batch_size": rows.batch_size[0],
        "mini_batch_size": rows.batch_size[0],
        "epochs": 1,
        "dataloader_kwargs": {"shuffle": False},
    }
    return tu.get(worker.train_mini_batch(_with_settings(rows, **settings)), "metrics")


def random_rows(lengths: Sequence[tuple[int, int]], seed: int = 0, *, group: int = 1) -> TensorDict:
    """Random sequences with all columns of a training step.

    Args:
        lengths: The numbers of prompt and reply tokens of each sequence.
        seed: The seed of the tokens.
        group: The number of following sequences, of equal prompt lengths, that have the same prompt.
    """
    draw = torch.Generator().manual_seed(seed)
    rows: dict[str, list[torch.Tensor]] = {}
    asked = torch.empty(0)
    for row, (prompt, reply) in enumerate(lengths):
        ids = torch.randint(4, 250, (prompt + reply,), generator=draw)
        asked = ids[:prompt] if row % group == 0 else asked
        ids[:prompt] = asked
        columns = {
            "prompts": ids[:prompt].clone(),
            "responses": ids[prompt:].clone(),
            "input_ids": ids,
            "position_ids": torch.arange(prompt + reply),
            "response_mask": torch.ones(reply, dtype=torch.int64),
            "loss_mask": torch.ones(reply, dtype=torch.int64),
            "old_log_probs": torch.full((reply,), -5.5),
            "advantages": torch.randn(1, generator=draw).expand(reply).contiguous(),
            "values": torch.zeros(reply),
            "returns": torch.ones(reply),
        }
        for name, column in columns.items():
            rows.setdefault(name, []).append(column)
    nested = {name: torch.nested.as_nested_tensor(column, layout=torch.jagged) for name, column in rows.items()}
    return TensorDict(nested, batch_size=[len(lengths)])


def _with_settings(rows: TensorDict, **more: Any) -> TensorDict:
    copied = rows.copy()
    known = {"temperature": 1.0, "distillation_use_topk": False, "distillation_only": False}
    tu.assign_non_tensor(copied, **known, **more)
    return copied
