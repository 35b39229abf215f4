"""Updates of actor and critic through verl's own workers, packed and padded, started by `test_packing.py`.

The argument is a model's folder. For each mini-batch the script prints one line: the differences between the losses and
gradients of the packed and the padded update, and the number of computed tokens per real token.
"""

import json
import sys
from functools import partial
from typing import Any

import torch
from omegaconf import DictConfig
from tensordict import TensorDict
from verl.utils import tensordict_utils as tu
from verl.utils.config import omega_conf_to_dataclass
from verl.workers.config import TrainingWorkerConfig
from verl.workers.utils.losses import ppo_loss, value_loss

from veritas_rl.launch.configuration import compose_configuration
from veritas_rl.verl_plugin.workers import LearnerWorker

MINI_BATCHES, SAMPLES = 10, 6
LONGEST_PROMPT, LONGEST_REPLY = 96, 64


def configuration(model: str, *, packed: bool) -> DictConfig:
    """The CPU settings, which compute in fp32 without autocast. Gradients are not clipped, so that they are comparable.

    The limit of tokens splits a mini-batch into several micro-batches.
    """
    most = str(2 * (LONGEST_PROMPT + LONGEST_REPLY))
    return compose_configuration(
        [
            *(
                "hardware=cpu",
                "start=made",
                "rollout=transformers",
                "lora=off",
                f"actor_rollout_ref.model.path={model}",
            ),
            f"actor_rollout_ref.model.use_remove_padding={packed}",
            f"critic.model.use_remove_padding={packed}",
            *(f"{learner}.ppo_max_token_len_per_gpu={most}" for learner in ("actor_rollout_ref.actor", "critic")),
            *(f"{learner}.optim.clip_grad=inf" for learner in ("actor_rollout_ref.actor", "critic")),
            *(f"{learner}.optim.lr=1e-5" for learner in ("actor_rollout_ref.actor", "critic")),
        ]
    )


def worker(kind: str, config: Any, model: Any, loss: Any) -> LearnerWorker:
    """The worker of one learner, ready to train."""
    config.engine.use_dynamic_bsz = True
    config.engine.max_token_len_per_gpu = config.ppo_max_token_len_per_gpu
    made = TrainingWorkerConfig(
        model_type=kind,
        model_config=model,
        engine_config=config.engine,
        optimizer_config=config.optim,
        checkpoint_config=config.checkpoint,
    )
    built = LearnerWorker(made)
    built.reset()
    built.set_loss_fn(loss)
    return built


def learners(model: str, *, packed: bool) -> dict[str, LearnerWorker]:
    """Actor and critic, made as verl's trainer makes them."""
    node = configuration(model, packed=packed)
    actor, critic = omega_conf_to_dataclass(node.actor_rollout_ref.actor), omega_conf_to_dataclass(node.critic)
    actor.model_config = omega_conf_to_dataclass(node.actor_rollout_ref.model)
    return {
        "actor": worker("language_model", actor, actor.model_config, partial(ppo_loss, config=actor)),
        "critic": worker("value_model", critic, critic.model, partial(value_loss, config=critic)),
    }


def batch(number: int) -> TensorDict:
    """A mini-batch of prompts and replies with random lengths, including the shortest and the longest."""
    draw = torch.Generator().manual_seed(number)
    sizes = [
        [int(torch.randint(1, most + 1, (), generator=draw)) for most in (LONGEST_PROMPT, LONGEST_REPLY)]
        for _ in range(SAMPLES - 2)
    ]
    rows: dict[str, list[torch.Tensor]] = {}
    for prompts, replies in ((1, 1), *sizes, (LONGEST_PROMPT, LONGEST_REPLY)):
        prompt, response = (torch.randint(4, 250, (length,), generator=draw) for length in (prompts, replies))
        noise = partial(torch.randn, len(response), generator=draw)
        for name, row in {
            "prompts": prompt,
            "responses": response,
            "input_ids": torch.cat([prompt, response]),
            "position_ids": torch.arange(len(prompt) + len(response)),
            "response_mask": torch.ones_like(response),
            "loss_mask": torch.ones_like(response),
            "old_log_probs": -5.5 + 0.1 * noise(),
            "advantages": noise(),
            "values": noise(),
            "returns": noise(),
        }.items():
            rows.setdefault(name, []).append(row)
    nested = {name: torch.nested.as_nested_tensor(each, layout=torch.jagged) for name, each in rows.items()}
    made = TensorDict(nested, batch_size=[SAMPLES])
    settings: dict[str, Any] = {
        "global_batch_size": SAMPLES,
        "mini_batch_size": SAMPLES,
        "dataloader_kwargs": {"shuffle": False},
        "temperature": 1.0,
        "calculate_entropy": True,
        "distillation_use_topk": False,
        "distillation_only": False,
    }
    tu.assign_non_tensor(made, **settings)
    return made


class Gradients:
    """Keeps the gradient of all weights at each update of a worker; verl clears it after the optimizer step."""

    def __init__(self, learner: LearnerWorker) -> None:
        self.last = torch.empty(0)
        self._engine: Any = learner.engine
        self._step = self._engine.optimizer_step
        self._engine.optimizer_step = self

    def __call__(self) -> Any:
        weights = [weight for weight in self._engine.module.parameters() if weight.grad is not None]
        self.last = torch.cat([weight.grad.full_tensor().flatten() for weight in weights])
        return self._step()


def main() -> None:
    torch.set_num_threads(1)
    packed, padded = (learners(sys.argv[1], packed=way) for way in (True, False))
    kept = {
        (name, way): Gradients(learner)
        for way, made in (("packed", packed), ("padded", padded))
        for name, learner in made.items()
    }
    for number in range(MINI_BATCHES):
        for name in packed:
            measured: list[Any] = [
                tu.get(way[name].train_mini_batch(batch(number)), "metrics") for way in (packed, padded)
            ]
            one, other = kept[name, "packed"].last, kept[name, "padded"].last
            print(
                json.dumps(
                    {
                        "learner": name,
                        "loss": [metrics["loss"][0] for metrics in measured],
                        "norm": float(other.norm()),
                        "off": float((one - other).abs().max()),
                        "waste": [max(metrics["waste"]) for metrics in measured],
                    }
                )
            )


if __name__ == "__main__":
    main()
