"""What verl's actor or critic takes of a machine's memory, by part, measured in a process of its own.

Its argument is a JSON object: `role` ("actor" or "critic"), `overrides`, `rows` (how many sequences), `prompt` and
`reply` (tokens of each). It prints one JSON object: the bytes of each part. Resident memory is read from the kernel,
its peak is reset before each phase.
"""

import gc
import json
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

# An arena keeps what it was given back, so large tensors are mapped each on its own. Read before any other import.
os.environ.update(MALLOC_MMAP_THRESHOLD_="65536", MALLOC_TRIM_THRESHOLD_="65536", MALLOC_ARENA_MAX="1")
if os.environ.get("VERITAS_RL_MEASURING") != "1":
    os.execvpe(sys.executable, [sys.executable, *sys.argv], {**os.environ, "VERITAS_RL_MEASURING": "1"})

import torch
from tensordict import TensorDict
from verl.utils import tensordict_utils as tu
from verl.utils.config import omega_conf_to_dataclass
from verl.workers.config import TrainingWorkerConfig
from verl.workers.engine_workers import TrainingWorker
from verl.workers.utils.losses import ppo_loss, value_loss

from veritas_rl.launch.configuration import compose_configuration


def memory(field: str) -> int:
    """Bytes of this process: "VmRSS" now, or "VmHWM" at its peak since the last reset."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(field))


def resident() -> int:
    """Bytes that are in use now."""
    gc.collect()
    return memory("VmRSS")


def reset_peak() -> None:
    """The peak is the present from here on."""
    Path("/proc/self/clear_refs").write_text("5")


def actor(settings: Any) -> tuple[TrainingWorker, Any]:
    """verl's worker for the actor, as our configuration makes it, and its loss."""
    node = settings.actor_rollout_ref
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
    return TrainingWorker(made), partial(ppo_loss, config=config)


def critic(settings: Any) -> tuple[TrainingWorker, Any]:
    """verl's worker for the critic, and its loss."""
    config = omega_conf_to_dataclass(settings.critic)
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
    return TrainingWorker(made), partial(value_loss, config=config)


def batch(rows: int, prompt: int, reply: int) -> TensorDict:
    """Random sequences of one length."""
    draw = torch.Generator().manual_seed(0)
    ids = torch.randint(4, 250, (rows, prompt + reply), generator=draw)
    columns = {
        "prompts": ids[:, :prompt],
        "responses": ids[:, prompt:],
        "input_ids": ids,
        "position_ids": torch.arange(prompt + reply).expand(rows, -1),
        "response_mask": torch.ones(rows, reply, dtype=torch.int64),
        "loss_mask": torch.ones(rows, reply, dtype=torch.int64),
        "old_log_probs": torch.full((rows, reply), -5.5),
        "advantages": torch.randn(rows, 1, generator=draw).expand(-1, reply).contiguous(),
        "values": torch.zeros(rows, reply),
        "returns": torch.ones(rows, reply),
    }
    nested = {
        name: torch.nested.as_nested_tensor([row.contiguous() for row in column], layout=torch.jagged)
        for name, column in columns.items()
    }
    return TensorDict(nested, batch_size=[rows])


def with_settings(made: TensorDict, **more: Any) -> TensorDict:
    """The batch with what the trainer says beside it."""
    known = {"temperature": 1.0, "distillation_use_topk": False, "distillation_only": False}
    tu.assign_non_tensor(made, **known, **more)
    return made


def main() -> None:
    asked = json.loads(sys.argv[1])
    torch.set_num_threads(int(asked.get("threads", 1)))
    settings = compose_configuration(asked["overrides"])
    shape = asked["rows"], asked["prompt"], asked["reply"]
    start = resident()
    worker, loss = {"actor": actor, "critic": critic}[asked["role"]](settings)
    worker.reset()
    worker.set_loss_fn(loss)
    made = resident()
    measured: dict[str, int] = {"imports": start, "weights": made - start}
    reset_peak()
    entropy = asked["role"] == "actor"
    worker.infer_batch(with_settings(batch(*shape), calculate_entropy=entropy, compute_loss=False))
    measured["inference"] = memory("VmHWM") - made

    update = {
        "calculate_entropy": entropy and settings.actor_rollout_ref.actor.entropy_coeff != 0,
        "global_batch_size": shape[0],
        "mini_batch_size": shape[0],
        "epochs": 1,
        "dataloader_kwargs": {"shuffle": False},
    }
    worker.train_mini_batch(with_settings(batch(*shape), **update))
    # Adam makes its moments in the first step.
    measured["optimizer"] = resident() - made
    before = resident()
    reset_peak()
    worker.train_mini_batch(with_settings(batch(*shape), **update))
    measured["update"] = memory("VmHWM") - before
    print(json.dumps(measured))


if __name__ == "__main__":
    main()
