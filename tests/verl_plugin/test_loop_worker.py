"""The data that a worker writes to TransferQueue in addition to the tokens."""

import pytest
from verl.experimental.agent_loop.agent_loop import AgentLoopMetrics, AgentLoopOutput

from veritas_rl.verl_plugin.loop_worker import tag


@pytest.mark.parametrize(("said", "first"), [({"min_global_steps": 0}, 0), ({"min_global_steps": None}, 4), ({}, 4)])
def test_weights_of_step_0_are_known_as_such(said: dict[str, int | None], first: int) -> None:
    output = AgentLoopOutput(
        prompt_ids=[1], response_ids=[2], response_mask=[1], metrics=AgentLoopMetrics(), extra_fields=said
    )
    assert tag(output, step=5)["min_global_steps"] == first
