"""Checks after each weight sync that the rollout holds the adapter that the trainer trains.

Where it does not, replies are those of another model, rewards look plausible, and nothing is learned from them: verl
and vLLM say nothing. vLLM ignores weights whose module it does not know, and answers with the base where no adapter is
loaded.
"""

import math
from typing import Any

from verl.utils.torch_dtypes import PrecisionType

from veritas_rl.errors import UserError
from veritas_rl.verl_plugin.adapter_digest import Comparison, digests_of, digests_of_module

SHOWN = 4
"""How many of the first syncs are written to the log: one before step 1, as step 0, and those after steps 1 to 3."""


def scaling_of(config: Any) -> float:
    """What PEFT multiplies an adapter's product by.

    Args:
        config: The adapter's PEFT configuration.
    """
    return config.lora_alpha / (math.sqrt(config.r) if config.use_rslora else config.r)


def served_by_vllm(worker: Any, adapter_id: int, dtype: str) -> dict[str, int]:
    """The digests of the adapter that a worker of vLLM generates with; none if it generates with the base alone.

    It reads the copy from which vLLM fills the slots of its layers, as far as there are layers for it.

    Args:
        worker: vLLM's worker.
        adapter_id: The number that verl gives the adapter.
        dtype: What the numbers are rounded to, by its name.
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
        parts = zip(manager.packed_modules[module], weights.lora_a, weights.lora_b, strict=True)
        for name, a, b in parts if weights.is_packed else [(module, weights.lora_a, weights.lora_b)]:
            tensors += [
                (f"{name}.lora_{which}", tensor) for which, tensor in (("A", a), ("B", b)) if tensor is not None
            ]
    return digests_of(tensors, PrecisionType.to_dtype(dtype))


class AdapterWatch:
    """Compares after each sync, on one rank of the trainer.

    Args:
        rollout: verl's rollout of this rank, which sends the weights.
    """

    def __init__(self, rollout: Any) -> None:
        self._rollout = rollout
        self._dtype = PrecisionType.to_dtype(rollout.config.dtype)
        self._shown = 0
        self._unread = False

    async def held(self) -> list[dict[str, int]]:
        """What each process of this rank's rollout holds; empty on a rank that has none to ask."""
        if self._rollout.config.name != "vllm":
            return [await self._rollout.adapter_digests(self._dtype)]
        try:
            return await self._rollout._execute_method("adapter_digests", args=(self._rollout.config.dtype,)) or []
        except Exception as error:  # these are names inside vLLM, and a run is worth more than this check
            if not self._unread:
                print(f"the adapter that vLLM holds cannot be read, so it is not compared: {error!r:.300}", flush=True)
            self._unread = True
            return []

    async def check(self, engine: Any, global_steps: int | None, rank: int) -> None:
        """Compare; all ranks call it at once.

        Args:
            engine: verl's engine of the actor.
            global_steps: The step that was trained last.
            rank: This rank: the first one writes the log.

        Raises:
            UserError: The rollout holds something else.
        """
        config = getattr(engine.module, "_fsdp_wrapped_module", engine.module).peft_config["default"]
        # vLLM keeps the second matrix multiplied by the scaling.
        scale = scaling_of(config) if self._rollout.config.name == "vllm" else 1.0
        trained = digests_of_module(engine.module, engine.device_mesh, self._dtype, scale)
        for held in await self.held():
            found = Comparison(trained, held)
            if not found.is_same:
                raise UserError(
                    f"step {global_steps}: {found.line()}; its replies are another model's, so the run ends: see "
                    "docs/troubleshooting.md"
                )
            if rank == 0 and self._shown < SHOWN:
                self._shown += 1
                print(f"step {global_steps}: {found.line()}", flush=True)
