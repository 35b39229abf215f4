"""Writes checkpoints with verl's own checkpoint manager, from models that are sharded by FSDP as in verl.

    python save_checkpoints.py '[{"ranks": 2, "base": ..., "actor": ..., "lora": null, ...}, ...]'

Next to each actor folder, `expected.safetensors` contains the complete model before sharding, with the names of its
state dict. A merge must reproduce it.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from peft import LoraConfig, get_peft_model
from safetensors.torch import save_file
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.multiprocessing.spawn import start_processes
from transformers import AutoModelForCausalLM, AutoTokenizer
from verl.utils.checkpoint.fsdp_checkpoint_manager import FSDPCheckpointManager
from verl.utils.fsdp_utils import apply_fsdp2, get_fsdp_wrap_policy
from verl.workers.engine.fsdp.utils import create_device_mesh, get_sharding_strategy


def save(job: dict[str, Any]) -> None:
    """Write one checkpoint.

    Keys of the job: `ranks`; `base`, a model folder; `actor`, the target folder; `lora`, the arguments of peft's
    LoraConfig or null; `scale`, the size of the change of the trained parameters; `strategy`, fsdp or fsdp2;
    `fsdp_size`, the number of ranks of a shard group, by default all; `dtype`, of the sharded parameters; `checkpoint`,
    verl's settings of the checkpoint.
    """
    torch.manual_seed(0)  # every rank draws the same adapter
    model: Any = AutoModelForCausalLM.from_pretrained(job["base"], dtype=getattr(torch, job["dtype"]))
    if job["lora"] is not None:
        model = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", **job["lora"]))
    noise = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter += job["scale"] * torch.randn(parameter.shape, generator=noise).to(parameter.dtype)
    actor = Path(job["actor"])
    actor.mkdir(parents=True, exist_ok=True)
    if dist.get_rank() == 0:
        save_file(
            {name: tensor.clone().contiguous() for name, tensor in model.state_dict().items()},
            actor.parent / "expected.safetensors",
        )
    mesh = create_device_mesh(job["ranks"], job.get("fsdp_size", job["ranks"]))
    if job["strategy"] == "fsdp":
        model = FullyShardedDataParallel(
            model,
            auto_wrap_policy=get_fsdp_wrap_policy(model, None, is_lora=job["lora"] is not None),
            sharding_strategy=get_sharding_strategy(mesh),
            device_mesh=mesh,
            device_id=torch.device("cpu"),
        )
    else:
        apply_fsdp2(model, {"mesh": mesh}, {})
    FSDPCheckpointManager(
        model,
        processing_class=AutoTokenizer.from_pretrained(job["base"]),
        checkpoint_config=job["checkpoint"],  # type: ignore[arg-type]
    ).save_checkpoint(str(actor))


def rank_main(rank: int, ranks: int, store: str, jobs: list[dict[str, Any]]) -> None:
    """Run one rank of the jobs."""
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks)
    for job in jobs:
        save(job)
    dist.destroy_process_group()


if __name__ == "__main__":
    given: list[dict[str, Any]] = json.loads(sys.argv[1])
    for ranks in sorted({job["ranks"] for job in given}):
        with tempfile.TemporaryDirectory() as folder:
            of_ranks = [job for job in given if job["ranks"] == ranks]
            # Forked processes do not repeat the slow imports.
            start_processes(rank_main, (ranks, f"{folder}/store", of_ranks), nprocs=ranks, start_method="fork")
