"""Passes and updates of one learner through the worker, started by `test_first_update.py`.

The arguments are a folder of checkpoints and, for each measurement, a JSON list of overrides. Rank 0 prints a JSON line
for each.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDict
from torch.distributed.fsdp import _init_utils
from verl.utils import tensordict_utils as tu
from verl.workers.engine.fsdp import transformer_impl

from veritas_rl.launch.configuration import compose_configuration
from veritas_rl.verl_plugin.adapter_digest import digests_of_module, together
from veritas_rl.verl_plugin.alone import infer, random_rows, update, worker_of

LENGTHS = [(12, 6), (30, 8), (5, 3), (17, 8)]


def log_probs(worker: Any, rows: TensorDict, *, reference: bool = False) -> list[torch.Tensor]:
    """The log-probabilities of each reply's tokens, of the actor or of the reference."""
    asked = rows.copy()
    if reference:
        tu.assign_non_tensor(asked, no_lora_adapter=True)
    found = infer("actor", worker, asked)["log_probs"].unbind()
    return [each[prompt - 1 : -1] for each, (prompt, _) in zip(found, LENGTHS, strict=True)]


def difference(one: list[torch.Tensor], other: list[torch.Tensor]) -> float:
    return max(float((a - b).abs().max()) for a, b in zip(one, other, strict=True))


def nested(rows: list[torch.Tensor]) -> torch.Tensor:
    return torch.nested.as_nested_tensor(rows, layout=torch.jagged)


def first_update(overrides: list[str]) -> dict[str, Any]:
    """The metrics of an update whose old log-probabilities are those of a pass without gradients."""
    configuration = compose_configuration(overrides)
    worker = worker_of("actor", configuration)
    rows = random_rows(LENGTHS)
    rows["old_log_probs"] = nested(log_probs(worker, rows))
    measured = update("actor", worker, rows, configuration)
    critic: Any = worker_of("critic", configuration)
    before = infer("critic", critic, rows)["values"].unbind()
    critic.engine.module.train()
    return {
        "ppo_kl": measured["actor/ppo_kl"],
        "clipped": measured["actor/pg_clipfrac"],
        "grad_norm": measured["grad_norm"],
        "random": sum(random_parts(part) for part in critic.engine.module.modules()),
        "values": len(before),
    }


def random_parts(part: Any) -> bool:
    """Whether a module drops something in training."""
    share = getattr(part, "p", 0) if isinstance(part, torch.nn.Dropout) else getattr(part, "attention_dropout", 0)
    return bool(share)


def reference(overrides: list[str], checkpoints: Path) -> dict[str, Any]:
    """The reference before and after an update, and after another worker has resumed from it."""
    configuration = compose_configuration(overrides)
    worker: Any = worker_of("actor", configuration)
    rows = random_rows(LENGTHS)
    first = log_probs(worker, rows, reference=True)
    start = log_probs(worker, rows)
    rows["old_log_probs"] = nested(start)
    update("actor", worker, rows, configuration)
    trained = log_probs(worker, rows)
    found = {
        "start": [row.tolist() for row in start],
        "first": difference(first, start),
        "moved": difference(trained, start),
        "after": difference(log_probs(worker, rows, reference=True), start),
        # The reference pass leaves no trace in what is trained, saved and sent.
        "again": difference(log_probs(worker, rows), trained),
    }
    digest = together(digests_of_module(worker.engine.module, worker.engine.device_mesh, torch.float32))
    names = sorted(name for name, _ in worker.engine.module.named_parameters() if "lora_" in name)
    worker.save_checkpoint(str(checkpoints), global_step=1)
    resumed: Any = worker_of("actor", compose_configuration(overrides))
    resumed.load_checkpoint(str(checkpoints))
    engine = resumed.engine
    return found | {
        "adapters": sorted({name.rpartition("lora_")[2].split(".")[1] for name in names if "lora_" in name}),
        "resumed": difference(log_probs(resumed, rows), trained),
        "resumed_reference": difference(log_probs(resumed, rows, reference=True), start),
        "digest": digest == together(digests_of_module(engine.module, engine.device_mesh, torch.float32)),
    }


def main() -> None:
    torch.set_num_threads(1)
    # As in `sync_adapter.py`: FSDP 1 and verl would move weights to a GPU.
    _init_utils._check_module_states_for_sync_module_states = lambda module_states: None
    engines: Any = transformer_impl
    engines.load_fsdp_model_to_gpu = lambda model: None
    for number, given in enumerate(sys.argv[2:]):
        wanted = json.loads(given)
        measure = wanted.pop("measure")
        found = (
            first_update(wanted["overrides"])
            if measure == "update"
            else reference(wanted["overrides"], Path(sys.argv[1]) / str(number))
        )
        if os.environ["RANK"] == "0":
            print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
