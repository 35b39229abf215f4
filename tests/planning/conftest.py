"""Plans of composed settings."""

from collections.abc import Callable

import pytest

from veritas_rl.launch.configuration import compose_configuration, overrides_for
from veritas_rl.launch.hardware import Hardware
from veritas_rl.planning.compose import cpu, plan_of
from veritas_rl.planning.devices import GIB
from veritas_rl.planning.plan import Plan


@pytest.fixture(scope="session")
def planned() -> Callable[..., Plan]:
    """Makes the plan of a hardware group with overrides."""

    def make(hardware: str, *overrides: str) -> Plan:
        machine = Hardware(cores=2, gpus=int(hardware != "cpu"), gpu_bytes=0)
        made = compose_configuration(overrides_for([f"hardware={hardware}", *overrides], {}, machine))
        if hardware != "cpu":
            return plan_of(made, hardware)
        # Two cores with products of bf16 and 23.5 GiB, whatever this machine has.
        width = 2 if "bf" in made.actor_rollout_ref.actor.fsdp_config.mixed_precision.param_dtype else 4
        return plan_of(made, hardware, cpu(int(23.5 * GIB), 2, width))

    return make
