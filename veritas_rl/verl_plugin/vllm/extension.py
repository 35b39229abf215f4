"""verl's methods of a vLLM worker, with what they lack. vLLM makes the class of its workers inherit from this one."""

from typing import Any

from verl.workers.rollout.vllm_rollout.bucketed_weight_transfer import BucketedWeightReceiver
from verl.workers.rollout.vllm_rollout.utils import VLLM_LORA_INT_ID, vLLMColocateWorkerExtension

from veritas_rl.verl_plugin.patching import mends


class WorkerExtension(vLLMColocateWorkerExtension):
    """Methods that `collective_rpc` calls by name, in every process of an engine."""

    @mends(vLLMColocateWorkerExtension._update_weights, "lora_int_id=VLLM_LORA_INT_ID")
    def adapter_digests(self, dtype: str) -> dict[str, int]:
        """verl's worker cannot report its adapter: return the adapter's digests.

        Args:
            dtype: The name of the dtype to which values are rounded.
        """
        from veritas_rl.verl_plugin.adapter_delivery import served_by_vllm

        return served_by_vllm(self, VLLM_LORA_INT_ID, dtype)

    @mends(BucketedWeightReceiver._cleanup, "self.shm.close()")
    def update_weights_from_ipc(self, *args: Any, **kwargs: Any) -> None:
        """The clean-up of a receiver that failed raises "cannot close exported pointers exist": raise the first error.

        Raises:
            Exception: Whatever the receiver raised.
        """
        try:
            super().update_weights_from_ipc(*args, **kwargs)
        except BufferError as error:
            raise error.__context__ or error from None
