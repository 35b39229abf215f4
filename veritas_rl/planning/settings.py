"""Extract the settings that determine memory and time from a resolved configuration."""

import math
from dataclasses import dataclass
from typing import Any

from omegaconf import DictConfig, OmegaConf

from veritas_rl.errors import UserError
from veritas_rl.shared_prompts import replies_together

BYTES = {"fp32": 4, "float32": 4, "float": 4, "bf16": 2, "bfloat16": 2, "fp16": 2, "float16": 2, "half": 2}


@dataclass(frozen=True)
class Role:
    """One trained model: the actor or the critic.

    Attributes:
        critic: Whether it is the critic.
        lora_rank: The rank of its adapters; 0 if every parameter is trained.
        lora_targets: The adapted modules; None for all linear modules.
        lora_only: Whether a checkpoint contains only the adapters.
        four_bit: Whether the linear layers of its frozen base are quantized to 4 bits.
        weight_bytes: Bytes of a stored parameter, its gradient and each of Adam's moments.
        compute_bytes: Bytes of a gathered parameter and of an activation.
        reduce_bytes: Bytes of a gradient while it is reduced over the ranks.
        param_offload: Whether parameters are on the host between phases.
        optimizer_offload: Whether Adam's moments are on the host between phases.
        streamed: Whether weights, gradients and moments are on the host during the computation too (`offload_policy`).
        fsdp2: Whether FSDP2 instead of FSDP1 shards the model.
        reshard: Whether gathered parameters are freed after each layer.
        shards: The number of ranks among which the model is sharded.
        deferred: Whether gradients are summed over micro-batches before they are reduced, and so not sharded.
        packed: Whether rows are joined without padding.
        flash: Whether flash-attn computes attention and log-probabilities.
        checkpointing: Whether a layer's activations are recomputed for the backward pass.
        update_tokens: Tokens of a micro-batch in an update.
        infer_tokens: Tokens of a micro-batch without gradients.
        entropy: Whether the loss has an entropy term.
        compiled: Whether entropy is compiled, so that its intermediates are never stored.
        entropy_chunk: Rows of logits per entropy computation; None for all.
        fused_kernels: Whether log-probabilities come from a kernel that stores no logits.
        fused_optimizer: Whether Adam's step is one kernel without intermediates.
        mini_batches: Updates per step.
        epochs: How often each sample is used.
    """

    critic: bool
    lora_rank: int
    lora_targets: tuple[str, ...] | None
    lora_only: bool
    four_bit: bool
    weight_bytes: int
    compute_bytes: int
    reduce_bytes: int
    param_offload: bool
    optimizer_offload: bool
    streamed: bool
    fsdp2: bool
    reshard: bool
    shards: int
    deferred: bool
    packed: bool
    flash: bool
    checkpointing: bool
    update_tokens: int
    infer_tokens: int
    entropy: bool
    compiled: bool
    entropy_chunk: int | None
    fused_kernels: bool
    fused_optimizer: bool
    mini_batches: int
    epochs: int


@dataclass(frozen=True)
class Rollout:
    """The settings of the rollout.

    Attributes:
        name: "vllm", "sglang" or "transformers".
        share: The server's share of a GPU's memory.
        tensor_parallel: The number of GPUs that share a copy of the model.
        weight_bytes: Bytes of a parameter.
        sequences: The maximum number of sequences at once.
        batched_tokens: The maximum number of tokens in a forward pass.
        eager: Whether CUDA graphs are off.
        sleeps: Whether the server's memory is freed while the trainer works.
        prompt: The longest prompt in tokens.
        reply: The longest reply in tokens.
        bucket: The size of a bucket of weights in bytes.
    """

    name: str
    share: float
    tensor_parallel: int
    weight_bytes: int
    sequences: int
    batched_tokens: int
    eager: bool
    sleeps: bool
    prompt: int
    reply: int
    bucket: int

    @property
    def context(self) -> int:
        """The longest prompt and reply together."""
        return self.prompt + self.reply


@dataclass(frozen=True)
class Settings:
    """The settings of a run that determine memory and time.

    Attributes:
        model: The model's folder or hub id.
        nodes: The number of machines.
        gpus: GPUs per machine; ranks on a CPU.
        cpu: Whether the run trains on a CPU.
        prompts: Tasks per step.
        samples: Replies or games per task.
        shared: Whether the actor computes the prompt of a group once.
        episodes: Whether a task is a whole game of many replies.
        actor: The actor.
        critic: The critic; None for an algorithm without a critic.
        reference: Whether log-probabilities of a reference model are computed.
        averaged: Whether this reference is the average of the actor's weights.
        old_log_prob: Whether log-probabilities are recomputed after the rollout.
        rollout: The rollout's settings.
        kept: The number of checkpoints that are kept.
        workers: Processes of a machine that play the tasks.
        steps: The steps of the run.
        judged: Tasks and answers to each, or games and 1, of a judgement before and after training.
        validated: Tasks of a validation, and the number of validations.
    """

    model: str
    nodes: int
    gpus: int
    cpu: bool
    prompts: int
    samples: int
    shared: bool
    episodes: bool
    actor: Role
    critic: Role | None
    reference: bool
    averaged: bool
    old_log_prob: bool
    rollout: Rollout
    kept: int
    workers: int
    steps: int
    judged: tuple[int, int]
    validated: tuple[int, int]

    @property
    def ranks(self) -> int:
        """GPUs of all nodes."""
        return self.nodes * self.gpus

    def together(self, role: Role, prompt: int, reply: int) -> int:
        """The replies of a sequence of a trained model, with prompts and replies of such lengths in tokens."""
        return 1 if role.critic or not self.shared else replies_together(self.samples, prompt, reply)

    @property
    def roles(self) -> tuple[Role, ...]:
        """The actor, and the critic if there is one."""
        return (self.actor,) if self.critic is None else (self.actor, self.critic)


def bytes_of(dtype: Any) -> int:
    """The size of a number format in bytes.

    Raises:
        UserError: The format is unknown.
    """
    if str(dtype) not in BYTES:
        raise UserError(f"the number format {dtype} is not supported: use one of {', '.join(BYTES)}")
    return BYTES[str(dtype)]


def _role(configuration: DictConfig, *, critic: bool) -> Role:
    rl = configuration.actor_rollout_ref
    node, model = (configuration.critic, configuration.critic.model) if critic else (rl.actor, rl.model)
    engine = node.fsdp if critic else node.fsdp_config
    ranks = configuration.trainer.nnodes * configuration.trainer.n_gpus_per_node
    longest = rl.rollout.prompt_length + rl.rollout.response_length
    if node.use_dynamic_bsz:
        # The critic's updates use its limit for inference too, see rl.yaml.
        update = node.ppo_infer_max_token_len_per_gpu if critic else node.ppo_max_token_len_per_gpu
        infer = node.ppo_infer_max_token_len_per_gpu if critic else rl.rollout.log_prob_max_token_len_per_gpu
    else:
        update = longest * (node.ppo_micro_batch_size_per_gpu or 1)
        rows = node.forward_micro_batch_size_per_gpu if critic else rl.rollout.log_prob_micro_batch_size_per_gpu
        infer = longest * (rows or 1)
    precision = engine.get("mixed_precision") or {}
    rank = model.get("lora_rank", 0)
    targets = model.get("target_modules")
    optimizer = node.optim.get("override_optimizer_config") or {}
    chunk = engine.get("entropy_from_logits_chunk_size")
    return Role(
        critic=critic,
        lora_rank=rank,
        lora_targets=None
        if targets in (None, "all-linear")
        else tuple([targets] if isinstance(targets, str) else targets),
        lora_only=rank > 0 and bool(node.checkpoint.get("save_lora_only")),
        four_bit=rank > 0 and model.lora.get("quantization") is not None,
        weight_bytes=bytes_of(engine.get("model_dtype") or "fp32"),
        compute_bytes=bytes_of(precision.get("param_dtype", "bf16")),
        reduce_bytes=bytes_of(precision.get("reduce_dtype", "fp32")),
        param_offload=bool(engine.param_offload or engine.offload_policy),
        optimizer_offload=bool(engine.optimizer_offload or engine.offload_policy),
        streamed=bool(engine.offload_policy) and node.strategy == "fsdp2",
        fsdp2=node.strategy == "fsdp2",
        reshard=bool(engine.reshard_after_forward),
        shards=ranks if engine.fsdp_size < 1 else min(ranks, engine.fsdp_size),
        deferred=bool(engine.use_no_sync_for_gradient_accumulation),
        packed=bool(model.use_remove_padding),
        # A plan does not know the machine, so `auto` counts as torch's own attention, which needs more memory.
        flash=str(model.override_config.get("attn_implementation")).startswith("flash"),
        checkpointing=bool(model.enable_gradient_checkpointing),
        update_tokens=int(update),
        infer_tokens=int(infer),
        entropy=not critic and bool(node.entropy_coeff or node.get("calculate_entropy")),
        compiled=bool(engine.use_torch_compile) and bool(model.use_remove_padding),
        entropy_chunk=chunk if engine.get("entropy_from_logits_with_chunking") else None,
        fused_kernels=bool(model.get("use_fused_kernels")),
        fused_optimizer=bool(optimizer.get("fused")),
        mini_batches=max(1, configuration.data.train_batch_size // node.ppo_mini_batch_size),
        epochs=node.ppo_epochs,
    )


def settings_of(configuration: DictConfig) -> Settings:
    """The settings of a resolved RL configuration.

    Raises:
        UserError: No model is named, or a number format is unknown.
    """
    rl, trainer, algorithm = configuration.actor_rollout_ref, configuration.trainer, configuration.algorithm
    if rl.model.path is None:
        raise UserError("no model is named: set --model to a folder or a hub id")
    rollout = rl.rollout
    critic = configuration.critic.enable
    if critic is None:
        critic = algorithm.adv_estimator == "gae"
    return Settings(
        model=rl.model.path,
        nodes=trainer.nnodes,
        gpus=trainer.n_gpus_per_node,
        cpu=trainer.device == "cpu",
        prompts=configuration.data.train_batch_size,
        samples=rollout.n,
        # A plan that composes only part of a run has not resolved `auto`. In a game only the first prompts are equal.
        shared=rl.actor.get("use_prefix_grouper") in (True, "auto") and configuration.veritas_rl.play != "episode",
        episodes=configuration.veritas_rl.play == "episode",
        actor=_role(configuration, critic=False),
        critic=_role(configuration, critic=True) if critic else None,
        reference=bool(rl.actor.use_kl_loss or algorithm.use_kl_in_reward),
        averaged=configuration.veritas_rl.reference == "average",
        old_log_prob=not OmegaConf.select(configuration, "algorithm.rollout_correction.bypass_mode"),
        rollout=Rollout(
            name=rollout.name,
            share=rollout.gpu_memory_utilization,
            tensor_parallel=rollout.tensor_model_parallel_size,
            weight_bytes=bytes_of(rollout.dtype),
            sequences=rollout.max_num_seqs,
            batched_tokens=rollout.max_num_batched_tokens,
            eager=bool(rollout.enforce_eager),
            sleeps=bool(rollout.free_cache_engine) and rollout.name != "transformers",
            prompt=rollout.prompt_length,
            reply=rollout.response_length,
            bucket=rollout.checkpoint_engine.update_weights_bucket_megabytes << 20,
        ),
        kept=trainer.max_actor_ckpt_to_keep or 1,
        workers=math.ceil(rollout.agent.num_workers / trainer.nnodes),
        steps=trainer.total_training_steps,
        judged=_judged(configuration),
        validated=_validated(configuration),
    )


def _judged(configuration: DictConfig) -> tuple[int, int]:
    asked = configuration.veritas_rl.evaluation
    if asked is None:
        return 0, 1
    if configuration.veritas_rl.play == "episode":
        return asked.games * len(asked.opponents), 1
    return asked.positions, asked.draws


def _validated(configuration: DictConfig) -> tuple[int, int]:
    trainer, rows = configuration.trainer, configuration.data.val_max_samples
    often = trainer.total_training_steps // trainer.test_freq if trainer.test_freq > 0 else 0
    return max(0, rows) * configuration.actor_rollout_ref.rollout.val_kwargs.n, often + bool(trainer.val_before_train)
