"""Check after each weight sync that the rollout has the trainer's adapter.

With another adapter, another model writes the replies, rewards look plausible, and nothing is learned. verl and vLLM do
not report this. vLLM ignores weights of unknown modules, and uses the base model if no adapter is loaded.
"""

import math
from typing import Any

from verl.utils.torch_dtypes import PrecisionType

from veritas_rl.announcements import UNREAD_ADAPTER
from veritas_rl.errors import UserError
from veritas_rl.verl_plugin.adapter_digest import Comparison, digests_of, digests_of_module
from veritas_rl.verl_plugin.adapter_shards import peft_model

SHOWN = 4
"""How many of the first syncs are logged: step 0 (before step 1), and steps 1 to 3."""


def scaling_of(config: Any) -> float:
    """PEFT's scaling factor of an adapter.

    Args:
        config: The adapter's PEFT configuration.
    """
    return config.lora_alpha / (math.sqrt(config.r) if config.use_rslora else config.r)


def served_by_vllm(worker: Any, adapter_id: int, dtype: str) -> dict[str, int]:
    """The digests of a vLLM worker's adapter; empty if it generates with the base only.

    The values are read from the copy from which vLLM fills the LoRA slots of its layers, for all layers that exist.

    Args:
        worker: vLLM's worker.
        adapter_id: verl's number of the adapter.
        dtype: The name of the dtype to which values are rounded.
    """
    manager = worker.model_runner.lora_manager._adapter_manager
    adapter = manager.get_adapter(adapter_id)
    if adapter is None or adapter_id not in manager.lora_index_to_id:
        return {}
    tensors = []
    for module in manager.modules:
        weights = adapter.get_lora(module)
        if weights is None:
            continue
        parts: Any = [(module, weights.lora_a, weights.lora_b)]
        if weights.is_packed:
            parts = zip(manager.packed_modules[module], weights.lora_a, weights.lora_b, strict=True)
        for name, a, b in parts:
            tensors += [
                (f"{name}.lora_{which}", tensor) for which, tensor in (("A", a), ("B", b)) if tensor is not None
            ]
    return digests_of(tensors, PrecisionType.to_dtype(dtype))


class AdapterWatch:
    """Compares the adapters of trainer and rollout after each sync, on one rank of the trainer.

    Args:
        rollout: verl's rollout of this rank, which sends the weights.
    """

    def __init__(self, rollout: Any) -> None:
        self._rollout = rollout
        self._dtype = PrecisionType.to_dtype(rollout.config.dtype)
        self._shown = 0
        self._unread = False

    async def held(self, rank: int) -> list[dict[str, int]]:
        """The digests of each process of this rank's rollout; empty on a rank without a rollout process, or if they
        cannot be read, which rank 0 announces once."""
        if self._rollout.config.name != "vllm":
            return [await self._rollout.adapter_digests(self._dtype)]
        try:
            return await self._rollout._execute_method("adapter_digests", args=(self._rollout.config.dtype,)) or []
        except Exception as error:  # a change of vLLM's internals must not end a run
            if rank == 0 and not self._unread:
                print(f"{UNREAD_ADAPTER}{' '.join(repr(error).split()):.300}", flush=True)
            self._unread = True
            return []

    async def check(self, engine: Any, global_steps: int | None, rank: int) -> None:
        """Compare the adapters. All ranks must call it together.

        Args:
            engine: verl's engine of the actor.
            global_steps: The last trained step.
            rank: This rank. Rank 0 writes the log.

        Raises:
            UserError: The rollout's adapter differs.
        """
        config = peft_model(engine.module).peft_config["default"]
        # vLLM stores the B matrix multiplied by the scaling.
        scale = scaling_of(config) if self._rollout.config.name == "vllm" else 1.0
        trained = digests_of_module(engine.module, engine.device_mesh, self._dtype, scale)
        for held in await self.held(rank):
            found = Comparison(trained, held)
            if not found.is_same:
                raise UserError(
                    f"step {global_steps}: {found.line()}; the run ends because another model writes the replies: see "
                    "docs/troubleshooting.md"
                )
            if rank == 0 and self._shown < SHOWN:
                self._shown += 1
                print(f"step {global_steps}: {found.line()}", flush=True)
