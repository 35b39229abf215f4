"""An agent loop whose rollout is a function."""

from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

from omegaconf import DictConfig
from verl.experimental.agent_loop.agent_loop import DictConfigWrap
from verl.workers.rollout.replica import TokenOutput

from veritas_rl.verl_plugin.agent_loop import TaskAgentLoop
from veritas_rl.verl_plugin.dataset import DynamicEnvDataset


def loop_with(
    generate: Callable[..., Awaitable[TokenOutput]], tokenizer: Any, config: DictConfig, generation_config: Any = None
) -> TaskAgentLoop:
    """The loop of this configuration, to be made and used in one event loop.

    Args:
        generate: Answers each request; it gets the arguments of a rollout's `generate`.
        tokenizer: The model's tokenizer.
        config: The parts of verl's configuration that the loop reads.
        generation_config: The model's generation config.
    """
    return TaskAgentLoop(
        trainer_config=DictConfigWrap(config),
        server_manager=SimpleNamespace(generate=generate),
        tokenizer=tokenizer,
        processor=None,
        dataset_cls=DynamicEnvDataset,
        data_config=DictConfigWrap(config.data),
        generation_config=generation_config,
    )
