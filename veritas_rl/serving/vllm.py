"""The command by which vLLM serves a model and its adapters: what a machine with GPUs serves with."""

from collections.abc import Mapping
from pathlib import Path

from veritas_rl.checkpoints.adapter import rank_and_alpha

RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
"""What vLLM takes as the largest rank of an adapter."""


def command(
    folder: Path, name: str, adapters: Mapping[str, Path], host: str, port: int, arguments: tuple[str, ...] = ()
) -> list[str]:
    """The command line of `vllm serve`.

    Args:
        folder: The model.
        name: By which clients name it.
        adapters: Adapters on it, by the names by which clients choose them.
        host: Where it listens.
        port: On which port.
        arguments: Further arguments.

    Raises:
        UserError: An adapter names no rank.
    """
    made = ["vllm", "serve", str(folder), "--served-model-name", name, "--host", host, "--port", str(port)]
    if adapters:
        greatest = max(rank_and_alpha(adapter)[0] for adapter in adapters.values())
        rank = next((known for known in RANKS if known >= greatest), greatest)
        made += ["--enable-lora", "--max-loras", str(len(adapters)), "--max-lora-rank", str(rank), "--lora-modules"]
        made += [f"{adapter}={path}" for adapter, path in adapters.items()]
    return [*made, *arguments]
