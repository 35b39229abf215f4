"""The devices that a run may be planned for.

Memory is the total that CUDA reports, which is less than the nominal size. Rates are the manufacturers' figures for
dense bf16 matrix products and for memory bandwidth.
"""

import re
from dataclasses import dataclass

from veritas_rl.errors import UserError, unknown

GIB = 1 << 30


@dataclass(frozen=True)
class Device:
    """One GPU, or an entire machine without a GPU.

    Attributes:
        name: The device's name for `--gpu`.
        memory: Usable memory in bytes.
        matrix_rate: Dense rate in FLOP/s: of bf16 products on a GPU, of the run's number format on a CPU.
        bandwidth: Memory bandwidth in bytes/s.
        link: One-way bandwidth between the GPUs of a node in bytes/s; PCIe without NVLink.
        host_link: Bandwidth between GPU and host in bytes/s.
    """

    name: str
    memory: int
    matrix_rate: float
    bandwidth: float
    link: float
    host_link: float


def _device(name: str, gib: float, tera: float, gigabytes: float, link: float, host: float) -> Device:
    return Device(name, int(gib * GIB), tera * 1e12, gigabytes * 1e9, link * 1e9, host * 1e9)


DEVICES = {
    device.name: device
    for device in (
        _device("h200", 139.8, 989, 4800, 450, 50),
        _device("h100", 79.1, 989, 3350, 450, 50),
        _device("b200", 178.4, 2250, 8000, 900, 50),
        _device("a100", 79.2, 312, 2039, 300, 25),
        _device("a100-40g", 39.4, 312, 1555, 300, 25),
        _device("l40s", 44.4, 362, 864, 25, 25),
        _device("rtx5090", 31.4, 209, 1792, 50, 50),
        _device("rtx4090", 23.5, 165, 1008, 25, 25),
        _device("rtx3090", 23.6, 71, 936, 25, 25),
        _device("rtx4080", 15.6, 97, 717, 25, 25),
    )
}

GROUPS = {"h200": "h200", "h100": "h100", "multinode": "h200", "rtx24g": "rtx4090", "rtx16g": "rtx4080"}
"""The device of each hardware group, by the prefix of the group's name."""


def device_for(hardware: str, name: str | None = None) -> Device:
    """The device of a plan.

    Args:
        hardware: The hardware group, such as "h200x2".
        name: The requested device; None for the group's device.

    Raises:
        UserError: The device is unknown, or the group has no device.
    """
    if name is not None:
        if name not in DEVICES:
            raise unknown("GPU", name, DEVICES)
        return DEVICES[name]
    found = re.match("|".join(GROUPS), hardware)
    if found is None:
        raise UserError(f"hardware={hardware} has no GPU: choose one with --gpu, of {', '.join(DEVICES)}")
    return DEVICES[GROUPS[found[0]]]
