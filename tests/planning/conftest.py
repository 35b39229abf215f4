"""Plans of composed settings."""

from collections.abc import Callable

import pytest

from veritas_rl.launch.configuration import compose_configuration, overrides_for
from veritas_rl.launch.hardware import Hardware
from veritas_rl.planning.compose import plan_of
from veritas_rl.planning.plan import Plan


@pytest.fixture(scope="session")
def planned() -> Callable[..., Plan]:
    """Makes the plan of a hardware group with overrides."""

    def make(hardware: str, *overrides: str) -> Plan:
        machine = Hardware(cores=2, gpus=int(hardware != "cpu"), gpu_bytes=0)
        typed = overrides_for([f"hardware={hardware}", *overrides], {}, machine)
        return plan_of(compose_configuration(typed), hardware)

    return make
