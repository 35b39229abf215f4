"""Writes checkpoints with verl's own checkpoint manager, out of models that FSDP has sharded as verl does.

    python save_checkpoints.py '[{"ranks": 2, "base": ..., "actor": ..., "lora": null, ...}, ...]'

Beside each actor folder, `expected.safetensors` holds the whole model before it was sharded, under the names of its
state dict: what a merge must find again.
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
    """One checkpoint.

    Keys of the job: `ranks`; `base`, a model folder; `actor`, where to; `lora`, the arguments of peft's LoraConfig or
    null; `scale`, how far the trained parameters are moved; `strategy`, fsdp or fsdp2; `fsdp_size`, over how many
    ranks, if not all; `dtype`, of the sharded parameters; `checkpoint`, verl's settings of the checkpoint.
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
    """One rank of the jobs."""
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks)
    for job in jobs:
        save(job)
    dist.destroy_process_group()


if __name__ == "__main__":
    given: list[dict[str, Any]] = json.loads(sys.argv[1])
    for ranks in sorted({job["ranks"] for job in given}):
        with tempfile.TemporaryDirectory() as folder:
            of_ranks = [job for job in given if job["ranks"] == ranks]
            # Forked, so that the imports above are paid for once.
            start_processes(rank_main, (ranks, f"{folder}/store", of_ranks), nprocs=ranks, start_method="fork")
