"""Forecast a run of supervised fine-tuning: an update, the held-out loss, a checkpoint."""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

from omegaconf import DictConfig

from veritas_rl.errors import UserError
from veritas_rl.planning.duration import generation_seconds, pass_seconds, update_passes
from veritas_rl.planning.forecast import CPU_PROCESS, JUDGING, Forecast, Phase, phase_of, process_bytes, with_fragments
from veritas_rl.planning.settings import Role, bytes_of
from veritas_rl.planning.storage import TRAINER, checkpoint_parts, offloaded_parts
from veritas_rl.planning.training import Engine

JUDGED_AT_ONCE = 512
"""Answers that are generated together in a judgement."""

LOADER = 1 << 29
"""Resident memory of a process that reads rows. Assumed."""


@dataclass(frozen=True)
class SftSettings:
    """The settings of supervised fine-tuning that determine memory and time.

    Attributes:
        model: The model's folder or hub id.
        gpus: GPUs of the machine; ranks on a CPU.
        cpu: Whether the run trains on a CPU.
        rows: Conversations per step.
        length: The maximum length of a conversation in tokens.
        at_once: Rows per micro-batch; 0 if micro-batches are limited by tokens.
        role: The trained model.
        kept: The number of checkpoints that are kept.
        loaders: Processes per rank that read rows.
        steps: The steps of the run; None if they depend on the number of rows.
        judged: Positions, and answers to each, of a judgement before and after training.
    """

    model: str
    gpus: int
    cpu: bool
    rows: int
    length: int
    at_once: int
    role: Role
    kept: int
    loaders: int
    steps: int | None
    judged: tuple[int, int]

    @property
    def nodes(self) -> int:
        """One machine."""
        return 1


def sft_settings_of(configuration: DictConfig) -> SftSettings:
    """The settings of a resolved configuration of supervised fine-tuning.

    Raises:
        UserError: No model is named, or a number format is unknown.
    """
    model, engine, data, trainer = (configuration[name] for name in ("model", "engine", "data", "trainer"))
    if model.path is None:
        raise UserError("no model is named: set --model to a folder or a hub id")
    precision, judged = engine.get("mixed_precision") or {}, configuration.veritas_rl.evaluation
    at_once = 0 if data.use_dynamic_bsz else int(data.micro_batch_size_per_gpu)
    tokens = int(data.max_token_len_per_gpu) if data.use_dynamic_bsz else at_once * data.max_length
    rank, targets = model.get("lora_rank") or 0, model.get("target_modules")
    role = Role(
        critic=False,
        lora_rank=rank,
        lora_targets=None
        if targets in (None, "all-linear")
        else tuple([targets] if isinstance(targets, str) else targets),
        lora_only=rank > 0 and bool(configuration.checkpoint.get("save_lora_only")),
        four_bit=False,
        weight_bytes=bytes_of(engine.get("model_dtype") or "fp32"),
        compute_bytes=bytes_of(precision.get("param_dtype", "bf16")),
        reduce_bytes=bytes_of(precision.get("reduce_dtype", "fp32")),
        param_offload=bool(engine.param_offload or engine.offload_policy),
        optimizer_offload=bool(engine.optimizer_offload or engine.offload_policy),
        streamed=bool(engine.offload_policy) and engine.strategy == "fsdp2",
        fsdp2=engine.strategy == "fsdp2",
        reshard=bool(engine.reshard_after_forward),
        shards=trainer.n_gpus_per_node,
        deferred=bool(engine.use_no_sync_for_gradient_accumulation),
        packed=bool(model.use_remove_padding),
        flash=str(model.override_config.get("attn_implementation")).startswith("flash"),
        checkpointing=bool(model.enable_gradient_checkpointing),
        update_tokens=tokens,
        infer_tokens=tokens,
        entropy=False,
        compiled=bool(engine.use_torch_compile) and bool(model.use_remove_padding),
        entropy_chunk=None,
        fused_kernels=bool(model.get("use_fused_kernels")),
        fused_optimizer=bool((configuration.optim.get("override_optimizer_config") or {}).get("fused")),
        mini_batches=1,
        epochs=1,
    )
    return SftSettings(
        model=model.path,
        gpus=trainer.n_gpus_per_node,
        cpu=trainer.device == "cpu",
        rows=data.train_batch_size,
        length=data.max_length,
        at_once=at_once,
        role=role,
        kept=trainer.max_ckpt_to_keep or 1,
        loaders=data.num_workers,
        steps=trainer.total_training_steps,
        judged=(judged.positions, judged.draws) if judged else (0, 1),
    )


@dataclass(frozen=True)
class SftPlan(Forecast):
    """The forecast of supervised fine-tuning, with micro-batches of the longest rows.

    Attributes:
        settings: The run's settings.
    """

    settings: SftSettings

    @property
    def engine(self) -> Engine:
        """The trained model on one device. Its micro-batches include padding."""
        return Engine(self.shape, self.settings.role, cpu=self.settings.cpu)

    def phases(self) -> list[Phase]:
        settings, engine = self.settings, self.engine
        ranks = settings.gpus
        process = {"processes": CPU_PROCESS * (1 + ranks) if settings.cpu else process_bytes(ranks)}
        setting = "data.micro_batch_size_per_gpu" if settings.at_once else "data.max_token_len_per_gpu"
        kept = {} if settings.role.streamed else {"weights": engine.weights, "optimizer": engine.optimizer}
        return [
            phase_of("update", {**process, **with_fragments(engine.update_parts())}, setting),
            phase_of("held-out loss", {**process, **with_fragments(engine.inference_parts(entropy=False))}, setting),
            phase_of("checkpoint", {**process, **kept}, "trainer.save_freq"),
        ]

    @property
    def kept(self) -> int:
        return self.settings.kept

    @property
    def longest(self) -> int:
        return self.settings.length

    def with_role(self, at_once: int = -1, **changes: object) -> "SftPlan":
        """The same run with changes of the trained model and of the rows per micro-batch."""
        settings = self.settings
        role = dataclasses.replace(settings.role, **changes)
        at_once = settings.at_once if at_once < 0 else at_once
        return dataclasses.replace(self, settings=dataclasses.replace(settings, role=role, at_once=at_once))

    def with_tokens(self, tokens: int) -> "SftPlan":
        """The same run with micro-batches of `tokens` tokens."""
        return self.with_role(update_tokens=tokens, infer_tokens=tokens)

    def trains(self, tokens: int) -> bool:
        return all(phase.total <= self.device.memory for phase in self.with_tokens(tokens).phases())

    def changes(self) -> list[str]:
        if self.fits:
            return []
        streamed = self.with_role(streamed=True, param_offload=True, optimizer_offload=True)
        offload = "engine.offload_policy=true"
        found = [
            *self._smaller(""),
            *([(offload, streamed)] if self.settings.role.fsdp2 and not self.settings.cpu else []),
            *(streamed._smaller(f"{offload} ") if self.settings.role.fsdp2 and not self.settings.cpu else ()),
        ]
        return [typed for typed, plan in found if plan.fits][:3]

    def _smaller(self, typed: str) -> Iterator[tuple[str, "SftPlan"]]:
        """The largest micro-batch that fits, appended to the overrides `typed`."""
        tokens = self.largest_tokens()
        if tokens is None:
            return
        if rows := self.settings.at_once and tokens // self.settings.length:
            yield f"{typed}data.micro_batch_size_per_gpu={rows}", self.with_tokens(rows * self.settings.length)
        elif not self.settings.at_once:
            yield f"{typed}data.max_token_len_per_gpu={tokens}", self.with_tokens(tokens)

    def host(self) -> dict[str, int]:
        """Memory of the host, by part. With tied embeddings each rank reads the whole model."""
        settings = self.settings
        readers = settings.gpus if self.shape.tied else 1
        parts = {
            "processes": settings.gpus * (TRAINER + settings.loaders * LOADER),
            **offloaded_parts([settings.role], self.shape, settings.gpus),
            "loading, at the start": readers * self.shape.parameters() * settings.role.weight_bytes,
        }
        return {name: size for name, size in parts.items() if size}

    def checkpoint(self) -> dict[str, int]:
        named = checkpoint_parts([self.settings.role], self.shape)
        return {name.replace("actor's", "model's"): size for name, size in named.items()}

    def tokens(self) -> tuple[float, float]:
        """Question and answer tokens of a step."""
        return self.settings.rows * self.assumed.prompt, self.settings.rows * self.assumed.reply

    def seconds(self) -> dict[str, float]:
        role, total = self.settings.role, sum(self.tokens())
        passes = update_passes(role)
        settings = self.settings
        every = pass_seconds(
            role, passes, self.shape, self.device, self.assumed, total, settings.gpus, cpu=settings.cpu
        )
        return {"update": every}

    def run_seconds(self) -> dict[str, float]:
        settings, shape = self.settings, self.shape
        if settings.steps is None:
            return {}
        parts = {f"{settings.steps:,} steps": settings.steps * sum(self.seconds().values())}
        positions, draws = settings.judged
        if positions:
            width = settings.role.weight_bytes
            weights, token = shape.parameters() * width, 2 * shape.layers * shape.keys * width
            sequences = positions * draws
            judged = generation_seconds(
                shape, self.device, self.assumed, positions, sequences, JUDGED_AT_ONCE, weights, token
            )
            parts[JUDGING] = 2 * judged
        return parts
