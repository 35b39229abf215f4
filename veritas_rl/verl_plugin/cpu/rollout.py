"""The rollout named `transformers`: generation by a plain transformers model in a Ray actor, on a CPU or on CUDA.

verl needs two classes. `TransformersRollout` runs in the trainer's process and sends the weights after each update.
`TransformersReplica` starts the actor `GenerationServer`, which answers `generate`. Many agent loops call the server at
once through `client.BatchingClient`, and the server's engine generates concurrent requests together.

Weights are sent through Ray's object store, bucket by bucket. With LoRA only the adapter is sent. The server adds it to
its own copy of the base: in fp32 merged, which makes generation faster, and in another dtype beside it, as the trainer
computes. (verl's alternative, `model.lora.merge=True`, always rounds the merged weights to bf16.)
"""

import asyncio
import os
import queue
import re
from collections.abc import AsyncGenerator, Generator, Iterable
from typing import Any, ClassVar

import ray
import torch
from omegaconf import DictConfig
from peft import LoraConfig, inject_adapter_in_model
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from torch.distributed.device_mesh import DeviceMesh
from verl.plugin.platform import get_platform
from verl.utils.config import omega_conf_to_dataclass
from verl.utils.torch_dtypes import PrecisionType
from verl.workers.config import HFModelConfig, RolloutConfig
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.replica import RolloutReplica, TokenOutput

from veritas_rl.players.generation import GenerationEngine
from veritas_rl.players.processor import one_thread
from veritas_rl.players.sampling import SamplingParams
from veritas_rl.verl_plugin.adapter_digest import digests_of
from veritas_rl.verl_plugin.adapter_shards import is_adapter
from veritas_rl.verl_plugin.cpu import adapters
from veritas_rl.verl_plugin.cpu.client import server_name

CALLS = 100_000
"""Concurrent calls of a server. A paused server must still accept the call to resume while all others wait."""

STOP_REASONS = {"stop": "completed", "length": "completed", "aborted": "aborted"}


def served_name(name: str) -> str:
    """An adapter weight's name in the served model, from its name in a PEFT file."""
    return re.sub(r"(lora_[AB])\.weight$", r"\1.default.weight", name.removeprefix("base_model.model."))


class GenerationServer:
    """A Ray actor that owns one model and its generation engine. verl calls its methods by name.

    The actor can be created before the model is known, because the imports take seconds.
    """

    def begin(self, config: RolloutConfig, model_config: Any, device: str, rank: int = 0) -> None:
        """Load the model. `rank` is the replica's."""
        from transformers import AutoModelForCausalLM

        # The dataclass adds local_path, which the plain config lacks.
        model_config = omega_conf_to_dataclass(model_config, dataclass_type=HFModelConfig)
        with one_thread():
            model: Any = AutoModelForCausalLM.from_pretrained(
                model_config.local_path,
                dtype=PrecisionType.to_dtype(config.dtype),
                trust_remote_code=model_config.trust_remote_code,
                attn_implementation=model_config.override_config.get("attn_implementation", "sdpa"),
            )
            model.to(device)
        self.response_length = config.response_length
        self.engine = GenerationEngine.of(
            model,
            model_config.tokenizer,
            max_batch_size=config.max_num_seqs,
            max_model_len=config.max_model_len or config.prompt_length + config.response_length,
            # For requests without a seed. Servers with the same seed would give copies of a prompt the same reply.
            seed=config.seed + rank,
        )
        self.global_steps: int | None = None
        self._adapted = False
        self._incoming: queue.SimpleQueue[list[tuple[str, torch.Tensor]] | None] | None = None
        self._loading: asyncio.Future[int] | None = None

    async def generate(
        self, request_id: str, *, prompt_ids: list[int], sampling_params: dict[str, Any], **_: Any
    ) -> TokenOutput:
        """Generate one reply.

        Args:
            request_id: Not used. verl passes it for sticky sessions.
            prompt_ids: The prompt's token ids.
            sampling_params: temperature, top_p, top_k, max_tokens and seed. Missing parameters have the rollout's
                defaults. Without a seed the reply depends on the requests before it.

        Returns:
            The reply's token ids, the end token included, and their log-probabilities at this temperature.
        """
        completion = await asyncio.wrap_future(
            self.engine.submit(
                list(prompt_ids),
                SamplingParams(
                    max_new_tokens=sampling_params.get("max_tokens")
                    or sampling_params.get("max_new_tokens")
                    or self.response_length,
                    temperature=sampling_params.get("temperature", 1.0),
                    top_p=sampling_params.get("top_p", 1.0),
                    top_k=sampling_params.get("top_k", -1),
                    seed=sampling_params.get("seed"),
                ),
            )
        )
        return TokenOutput(
            token_ids=completion.token_ids,
            log_probs=completion.logprobs,
            stop_reason=STOP_REASONS[completion.stop_reason],
            num_preempted=0,
            # The weights of one step generate all tokens of a call.
            extra_fields=dict.fromkeys(("global_steps", "min_global_steps", "max_global_steps"), self.global_steps),
        )

    async def generate_batch(
        self, requests: list[tuple[list[int], dict[str, Any]]]
    ) -> AsyncGenerator[list[tuple[int, TokenOutput]], None]:
        """Generate a reply to each prompt, as `generate` does.

        Args:
            requests: The prompt's token ids and the sampling parameters of each.

        Yields:
            The newly finished replies, each with its index in `requests`.
        """
        waiting = {
            asyncio.ensure_future(self.generate("", prompt_ids=prompt, sampling_params=params)): index
            for index, (prompt, params) in enumerate(requests)
        }
        while waiting:
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            yield [(waiting.pop(task), task.result()) for task in done]

    async def add_adapter(self, peft_config: dict[str, Any]) -> None:
        """Add a LoRA adapter to the base, once. `load_weights` then loads weights of the adapter."""
        if self._adapted:
            return
        model: Any = self.engine.model
        with self.engine.exclusive(), one_thread():
            inject_adapter_in_model(LoraConfig(**peft_config), model)
            for name, parameter in model.named_parameters():
                if is_adapter(name):
                    parameter.data = parameter.data.to(model.device, model.dtype)
            adapters.install(model)
            model.eval()
        self._adapted = True

    async def load_weights(self, bucket: list[tuple[str, torch.Tensor]], last: bool) -> None:
        """Copy a bucket of named tensors into the model. Generation pauses from the first bucket until the last.

        Raises:
            ValueError: After the last bucket, if the tensors do not match the model.
        """
        if self._incoming is None or self._loading is None:
            self._incoming = queue.SimpleQueue()
            buckets = iter(self._incoming.get, None)
            load = self._load_adapter if self._adapted else self.engine.load_weights
            self._loading = asyncio.ensure_future(
                asyncio.to_thread(load, (pair for bucket in buckets for pair in bucket))
            )
        self._incoming.put(bucket)
        if last:
            self._incoming.put(None)
            loading, self._incoming, self._loading = self._loading, None, None
            await loading

    def _load_adapter(self, weights: Iterable[tuple[str, torch.Tensor]]) -> int:
        # Merged or beside its base, the adapter computes the same, so the engine may run between these steps.
        with self.engine.exclusive(), one_thread():
            adapters.unmerge(self.engine.model)
        count = self.engine.load_weights(weights, is_adapter)
        with self.engine.exclusive(), one_thread():
            adapters.merge(self.engine.model)
        return count

    async def adapter_digests(self, dtype: torch.dtype) -> dict[str, int]:
        """The digests of the current adapter, see `adapter_digest.digests_of`."""
        model: Any = self.engine.model
        weights = ((name, parameter) for name, parameter in model.named_parameters() if is_adapter(name))
        with one_thread():
            return digests_of(weights, dtype)

    async def set_global_steps(self, global_steps: int | None) -> None:
        self.global_steps = global_steps

    async def abort_all_requests(self, reject_request: bool = False) -> None:
        """Abort every running request, which returns its tokens so far. New requests wait for `resume_generation`."""
        self.engine.pause()
        self.engine.abort_all()

    async def resume_generation(self) -> None:
        self.engine.resume()

    async def sleep(self) -> None:
        """Nothing to free: the KV cache lives only as long as its requests."""

    async def wake_up(self, tags: list[str] | None = None) -> None:
        """Nothing to restore: see `sleep`."""

    async def clear_kv_cache(self) -> None:
        """Nothing to clear: see `sleep`."""

    async def release_kv_cache(self) -> None:
        """Nothing to free: see `sleep`."""

    async def resume_kv_cache(self) -> None:
        """Nothing to restore: see `sleep`."""

    async def start_profile(self, **_: Any) -> None:
        """The actor has no profiler of its own."""

    async def stop_profile(self) -> None:
        """The actor has no profiler of its own."""


class TransformersReplica(RolloutReplica):
    """Starts one `GenerationServer` for a trainer rank, on the same node and the same device."""

    started: ClassVar[dict[int, Any]] = {}
    """Servers by rank that are created but not yet initialized."""

    @classmethod
    def start_servers(cls, config: DictConfig) -> None:
        """Create the servers early, unless they need their trainer's device."""
        trainer = config.trainer
        if trainer.device == "cpu" and trainer.nnodes == 1:
            for rank in range(trainer.n_gpus_per_node):
                cls.started[rank] = cls._made(rank)

    @staticmethod
    def _made(rank: int, **options: Any) -> Any:
        remote: Any = ray.remote(GenerationServer)
        return remote.options(name=server_name(rank), max_concurrency=CALLS, num_cpus=0, **options).remote()

    async def launch_servers(self) -> None:
        if self.world_size != 1:
            raise ValueError(
                "the transformers rollout supports only one device per replica: set "
                "actor_rollout_ref.rollout.tensor_model_parallel_size=1"
            )
        platform = get_platform()
        server = self.started.pop(self.replica_rank, None) or await self._beside_the_trainer(platform)
        await server.begin.remote(self.config, self.model_config, platform.device_name, self.replica_rank)
        self._server_handle = server
        self.servers = [server]
        # verl routes by handle, so the address only has to be unique.
        self._server_address = server_name(self.replica_rank)

    async def _beside_the_trainer(self, platform: Any) -> Any:
        worker: Any = self.workers[0]
        node_id, devices = await worker.__ray_call__.remote(
            lambda _: (
                ray.get_runtime_context().get_node_id(),
                ray.get_runtime_context().get_accelerator_ids().get("GPU", []),
            )
        )
        runtime_env: dict[str, Any] = {}
        if platform.device_name != "cpu":
            env_vars = dict.fromkeys(platform.ray_noset_envvars(), "1")
            runtime_env["env_vars"] = {**env_vars, platform.visible_devices_envvar(): ",".join(devices)}
        return self._made(
            self.replica_rank,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node_id=node_id, soft=False),
            runtime_env=runtime_env,
        )


class TransformersRollout(BaseRollout):
    """The trainer's side of the rollout: sends each update's weights to the replica of its rank."""

    def __init__(
        self, config: RolloutConfig | DictConfig, model_config: HFModelConfig, device_mesh: DeviceMesh, **_: Any
    ) -> None:
        super().__init__(config, model_config, device_mesh)  # pyright: ignore[reportArgumentType]
        self.replica_rank = int(os.environ["RANK"])
        self.bucket_bytes = self.config.checkpoint_engine.update_weights_bucket_megabytes << 20

    async def update_weights(
        self,
        weights: Generator[tuple[str, torch.Tensor], None, None],
        wire_format: str = "named_tensors",
        *,
        global_steps: int | None = None,
        peft_config: Any = None,
        base_sync_done: bool = True,
        **_: Any,
    ) -> None:
        """Send the tensors of the model, or of the adapter that `peft_config` describes, in buckets.

        Raises:
            ValueError: verl would send deltas, or the base under LoRA, which this rollout does not support.
        """
        if wire_format != "named_tensors":
            raise ValueError(
                "the transformers rollout needs whole tensors: set "
                "actor_rollout_ref.rollout.checkpoint_engine.backend=naive"
            )
        if not base_sync_done:
            raise ValueError(
                "the transformers rollout loads the base itself: set actor_rollout_ref.rollout.load_format=auto"
            )
        server: Any = ray.get_actor(server_name(self.replica_rank))
        if peft_config is not None:
            await server.add_adapter.remote(dict(peft_config))
            weights = ((served_name(name), tensor) for name, tensor in weights)
        bucket: list[tuple[str, torch.Tensor]] = []
        size = 0
        for name, tensor in weights:
            bucket.append((name, tensor.detach().to("cpu", copy=True)))
            size += tensor.nbytes
            if size >= self.bucket_bytes:
                await server.load_weights.remote(bucket, last=False)
                bucket, size = [], 0
        await server.load_weights.remote(bucket, last=True)
        await server.set_global_steps.remote(global_steps)

    async def adapter_digests(self, dtype: torch.dtype) -> dict[str, int]:
        server: Any = ray.get_actor(server_name(self.replica_rank))
        return await server.adapter_digests.remote(dtype)

    async def resume(self, tags: list[str]) -> None:
        """The server keeps its weights: there is nothing to restore."""

    async def release(self) -> None:
        """The server keeps its weights: there is nothing to free."""
