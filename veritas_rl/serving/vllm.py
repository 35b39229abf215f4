"""The command with which vLLM serves a model and its adapters on GPUs."""

from collections.abc import Mapping
from pathlib import Path

from veritas_rl.checkpoints.adapter import rank_and_alpha

RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
"""The maximum adapter ranks that vLLM accepts."""


def command(
    folder: Path, name: str, adapters: Mapping[str, Path], host: str, port: int, arguments: tuple[str, ...] = ()
) -> list[str]:
    """The command line of `vllm serve`.

    Args:
        folder: The folder of the model.
        name: The model's name for clients.
        adapters: The folders of adapters for the model, by their names for clients.
        host: The address to listen on.
        port: The port to listen on.
        arguments: Further arguments of vLLM.

    Raises:
        UserError: The configuration of an adapter has no rank.
    """
    made = ["vllm", "serve", str(folder), "--served-model-name", name, "--host", host, "--port", str(port)]
    if adapters:
        greatest = max(rank_and_alpha(adapter)[0] for adapter in adapters.values())
        rank = next((known for known in RANKS if known >= greatest), greatest)
        made += ["--enable-lora", "--max-loras", str(len(adapters)), "--max-lora-rank", str(rank), "--lora-modules"]
        made += [f"{adapter}={path}" for adapter, path in adapters.items()]
    return [*made, *arguments]
