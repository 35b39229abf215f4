"""Forecast the time of a step from counted work and assumed rates. Every assumption is an attribute, and is printed."""

from dataclasses import dataclass

from veritas_rl.planning.devices import Device
from veritas_rl.planning.models import Shape
from veritas_rl.planning.serving import Server
from veritas_rl.planning.settings import Role, Settings
from veritas_rl.planning.storage import AVERAGE_BYTES
from veritas_rl.planning.training import Engine


@dataclass(frozen=True)
class Assumptions:
    """Assumptions that settings do not determine.

    Attributes:
        mfu: The trainer's share of the device's matrix rate.
        prefill: The share of the matrix rate for prompts in the rollout.
        decode: The share of the memory bandwidth in generation.
        overhead: Seconds of each decoding step in addition to reading weights and cache.
        collective: The share of the link's rate that collectives reach.
        transfer: The share of the host link's rate that offloading reaches.
        prompt: Mean tokens of a prompt.
        reply: Mean tokens of a reply.
        turns: Replies of a task.
        padding: Computed tokens per real token, if rows are padded.
    """

    mfu: float = 0.35
    prefill: float = 0.5
    decode: float = 0.6
    overhead: float = 0.004
    collective: float = 0.6
    transfer: float = 0.5
    prompt: int = 522
    reply: int = 512
    turns: int = 1
    padding: float = 2.5


def forward_work(shape: Shape, tokens: float, length: float, *, head: bool) -> float:
    """FLOPs of one forward pass: two per parameter and token, and the attention.

    Args:
        shape: The model.
        tokens: The number of tokens.
        length: The mean length of a sequence in tokens.
        head: Whether logits of the vocabulary are computed.
    """
    body = shape.layers * sum(a * b for a, b in shape.linears.values())
    heads = shape.vocabulary * shape.hidden if head else 0
    # Scores and weighted values of the causal half.
    attention = 2 * length * shape.queries * shape.layers
    return tokens * (2 * (body + heads) + attention)


def tokens_of(settings: Settings, assumed: Assumptions) -> tuple[float, float]:
    """Mean prompt and reply tokens of one step."""
    replies = settings.prompts * settings.samples * assumed.turns
    return replies * assumed.prompt, replies * assumed.reply


def update_passes(role: Role) -> int:
    """Passes of an update in units of a forward pass: forward, backward for inputs, backward for weights if all weights
    are trained, and a second forward pass with activation checkpointing."""
    return 2 + (not role.lora_rank) + role.checkpointing


def pass_seconds(
    role: Role, passes: float, shape: Shape, device: Device, assumed: Assumptions, tokens: float, ranks: int
) -> float:
    """Seconds of passes over all tokens of a step.

    Args:
        role: The trained model.
        passes: The work in units of a forward pass; more than 1 for an update.
        shape: The model.
        device: One GPU.
        assumed: The assumptions.
        tokens: Real tokens of all ranks.
        ranks: The number of GPUs that share the tokens.
    """
    tokens *= 1 if role.packed else assumed.padding
    limit = role.update_tokens if passes > 1 else role.infer_tokens
    # torch's attention computes the full square of a pack, flash-attn only the causal half of each row.
    seen = 2 * min(limit, tokens) if role.packed and not role.flash else assumed.prompt + assumed.reply
    work = forward_work(shape, tokens, seen, head=not role.critic) * passes
    batches = max(1.0, tokens / ranks / limit)
    gathers = batches * passes * shape.parameters(critic=role.critic) * role.compute_bytes
    # Collectives and transfers from the host overlap with the computation, so the longest counts.
    overlapped = [gathers / (device.link * assumed.collective) if role.shards > 1 else 0.0]
    engine, host = Engine(shape, role), device.host_link * assumed.transfer
    if role.streamed:
        overlapped.append(gathers / role.compute_bytes * role.weight_bytes / role.shards / host)
    moved = engine.weights * role.param_offload + engine.optimizer * role.optimizer_offload * (passes > 1)
    offload = 0.0 if role.streamed else 2 * moved / host
    return max(work / ranks / (device.matrix_rate * assumed.mfu), *overlapped) + offload


def phase_seconds(settings: Settings, shape: Shape, device: Device, assumed: Assumptions) -> dict[str, float]:
    """Seconds of each phase of a step.

    Args:
        settings: The run's settings.
        shape: The model.
        device: One GPU.
        assumed: The assumptions.
    """
    prompt, reply = tokens_of(settings, assumed)
    seconds = {"rollout": _rollout(settings, shape, device, assumed)}

    def passed(role: Role, passes: float) -> float:
        return pass_seconds(role, passes, shape, device, assumed, prompt + reply, settings.ranks)

    def updated(role: Role) -> float:
        return role.epochs * passed(role, update_passes(role))

    if settings.old_log_prob:
        seconds["old log-probabilities"] = passed(settings.actor, 1)
    if settings.reference:
        seconds["reference"] = passed(settings.actor, 1)
    if settings.averaged:
        # Each rank copies its weights to the average on the host, and the average to the reference.
        copied = 2 * shape.parameters() * AVERAGE_BYTES / settings.actor.shards
        seconds["reference"] += copied / (device.host_link * assumed.transfer)
    if settings.critic is not None:
        seconds["values"] = passed(settings.critic, 1)
        seconds["critic's update"] = updated(settings.critic)
    seconds["actor's update"] = updated(settings.actor)
    sent = Server(shape, settings.rollout, device, settings.actor.lora_rank, settings.cpu)
    backup = sent.backup / (device.host_link * assumed.transfer)
    weights = sent.adapter or sent.weights
    seconds["weights to the rollout"] = 1 + backup + 2 * weights / (device.host_link * assumed.transfer)
    return seconds


def _rollout(settings: Settings, shape: Shape, device: Device, assumed: Assumptions) -> float:
    """Seconds of a rollout: prompts by the matrix rate, replies by the time to read weights and cache in each step."""
    rollout = settings.rollout
    server = Server(shape, rollout, device, settings.actor.lora_rank, settings.cpu)
    replicas = max(1, settings.ranks // rollout.tensor_parallel)
    prompt, _ = tokens_of(settings, assumed)
    prefill = forward_work(shape, prompt / settings.ranks, assumed.prompt, head=False) / (
        device.matrix_rate * assumed.prefill
    )
    length = assumed.prompt + assumed.reply / 2
    sequences = settings.prompts * settings.samples / replicas
    at_once = max(
        1.0, min(sequences, rollout.sequences, server.cache / (server.token * (assumed.prompt + assumed.reply)))
    )
    read = server.weights + at_once * length * server.token
    computed = forward_work(shape, at_once, length, head=True) / rollout.tensor_parallel
    step = max(read / (device.bandwidth * assumed.decode), computed / (device.matrix_rate * assumed.prefill))
    steps = assumed.reply * assumed.turns * max(1.0, sequences / at_once)
    return prefill + steps * (step + assumed.overhead)
