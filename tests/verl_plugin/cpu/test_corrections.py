"""Without a GPU, processes of Ray and of torchrun communicate over gloo."""

import pytest
import torch
from verl.utils import distributed


def test_torchruns_processes_on_a_cpu_meet_over_gloo(monkeypatch: pytest.MonkeyPatch, free_port: int) -> None:
    place = {"LOCAL_RANK": 0, "RANK": 0, "WORLD_SIZE": 1, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port}
    for name, value in place.items():
        monkeypatch.setenv(name, str(value))
    try:
        assert distributed.initialize_global_process_group() == (0, 0, 1)
        assert torch.distributed.get_backend() == "gloo"
    finally:
        distributed.destroy_global_process_group()


def test_rays_processes_meet_over_gloo(monkeypatch: pytest.MonkeyPatch, free_port: int) -> None:
    place = {"RANK": 0, "WORLD_SIZE": 1, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port}
    for name, value in place.items():
        monkeypatch.setenv(name, str(value))
    try:
        distributed.initialize_global_process_group_ray()
        assert torch.distributed.get_backend() == "gloo"
    finally:
        distributed.destroy_global_process_group()
