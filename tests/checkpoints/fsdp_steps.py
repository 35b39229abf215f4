"""A rank of FSDP2 with Adam that trains two steps and saves, or loads and resumes. test_reshard.py starts it.

    torchrun --nproc-per-node=2 fsdp_steps.py save FOLDER
    torchrun --nproc-per-node=3 fsdp_steps.py load FOLDER

Rank 0 prints the loss of each step as JSON. The files are those of verl's FSDPCheckpointManager: both call the same
functions.
"""

import json
import sys
from pathlib import Path

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


def main(what: str, folder: Path) -> None:
    distributed.init_process_group("gloo")
    rank, ranks = distributed.get_rank(), distributed.get_world_size()
    mesh = init_device_mesh("cpu", (ranks,), mesh_dim_names=("fsdp",))
    torch.manual_seed(0)
    # The sizes are not divisible by any of the numbers of ranks.
    model = torch.nn.Sequential(torch.nn.Linear(7, 5), torch.nn.Tanh(), torch.nn.Linear(5, 1, bias=False))
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    inputs = torch.linspace(-1, 1, 28).reshape(4, 7)

    def step() -> float:
        loss = model(inputs).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    def file(kind: str) -> Path:
        return folder / f"{kind}_world_size_{ranks}_rank_{rank}.pt"

    if what == "load":
        model.load_state_dict(torch.load(file("model"), weights_only=False))
        optimizer.load_state_dict(torch.load(file("optim"), weights_only=False))
    losses = [step(), step()]
    if what == "save":
        torch.save(model.state_dict(), file("model"))
        torch.save(optimizer.state_dict(), file("optim"))
        torch.save({"rng": rank}, file("extra_state"))
        losses += [step(), step()]
    if rank == 0:
        print(json.dumps(losses))
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
