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
        mfu: The trainer's share of the device's matrix rate in updates.
        infer: The same in passes without gradients. In the steps that verl's documents publish (`one_step_off.md`,
            `fully_async.md`), old log-probabilities take 0.31 to 0.53 of an update of all weights; here 0.4.
        prefill: The share of the matrix rate for prompts in the rollout.
        generate: The share of the matrix rate for replies in the rollout.
        decode: The share of the memory bandwidth in generation.
        overhead: Seconds of each decoding step in addition to reading weights and cache.
        collective: The share of the link's rate that collectives reach.
        transfer: The share of the host link's rate that offloading reaches.
        prompt: Mean tokens of a prompt.
        reply: Mean tokens of a reply.
        longest: Tokens of the longest reply, for which a step waits.
        turns: Replies of a task.
        padding: Computed tokens per real token, if rows are padded.
    """

    mfu: float = 0.35
    infer: float = 0.22
    prefill: float = 0.5
    generate: float = 0.5
    decode: float = 0.6
    overhead: float = 0.004
    collective: float = 0.6
    transfer: float = 0.5
    prompt: int = 522
    reply: int = 512
    longest: int = 0
    turns: int = 1
    padding: float = 2.5


def forward_work(shape: Shape, tokens: float, length: float, *, head: float) -> float:
    """FLOPs of one forward pass: two per parameter and token, and the attention.

    Args:
        shape: The model.
        tokens: The number of tokens.
        length: The mean length of a sequence in tokens.
        head: The share of tokens whose logits are computed.
    """
    body = shape.layers * sum(a * b for a, b in shape.linears.values())
    heads = shape.vocabulary * shape.hidden * head
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
    role: Role,
    passes: float,
    shape: Shape,
    device: Device,
    assumed: Assumptions,
    tokens: float,
    ranks: int,
    *,
    cpu: bool,
    heads: float = 1.0,
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
        cpu: Whether it is a CPU, whose engine pads little.
        heads: The share of tokens whose logits are computed.
    """
    tokens *= 1 if role.packed or cpu else assumed.padding
    limit = role.update_tokens if passes > 1 else role.infer_tokens
    # torch's attention computes the full square of a pack, flash-attn only the causal half of each row.
    seen = 2 * min(limit, tokens) if role.packed and not role.flash else assumed.prompt + assumed.reply
    work = forward_work(shape, tokens, seen, head=0 if role.critic else heads) * passes
    batches = max(1.0, tokens / ranks / limit)
    gathers = batches * passes * shape.parameters(critic=role.critic) * role.compute_bytes
    # Collectives and transfers from the host overlap with the computation, so the longest counts.
    overlapped = [gathers / (device.link * assumed.collective) if role.shards > 1 else 0.0]
    engine, host = Engine(shape, role), device.host_link * assumed.transfer
    if role.streamed:
        overlapped.append(gathers / role.compute_bytes * role.weight_bytes / role.shards / host)
    moved = engine.weights * role.param_offload + engine.optimizer * role.optimizer_offload * (passes > 1)
    offload = 0.0 if role.streamed else 2 * moved / host
    share = assumed.mfu if passes > 1 else assumed.infer
    return max(work / ranks / (device.matrix_rate * share), *overlapped) + offload


def phase_seconds(settings: Settings, shape: Shape, device: Device, assumed: Assumptions) -> dict[str, float]:
    """Seconds of each phase of a step.

    Args:
        settings: The run's settings.
        shape: The model.
        device: One GPU.
        assumed: The assumptions.
    """
    prompt, reply = tokens_of(settings, assumed)
    seconds = {"rollout": rollout_seconds(settings, shape, device, assumed, settings.prompts, settings.samples)}

    def passed(role: Role, passes: float) -> float:
        together = settings.together(role, assumed.prompt, assumed.reply)
        every = reply + prompt / together
        # The CPU's engine, and one that shares prompts, compute the logits of replies alone.
        heads = reply / every if together > 1 or (settings.cpu and not role.packed) else 1.0
        return pass_seconds(role, passes, shape, device, assumed, every, settings.ranks, cpu=settings.cpu, heads=heads)

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


def rollout_seconds(
    settings: Settings, shape: Shape, device: Device, assumed: Assumptions, tasks: int, samples: int
) -> float:
    """Seconds in which the rollout answers tasks.

    Args:
        settings: The run's settings.
        shape: The model.
        device: One GPU.
        assumed: The assumptions.
        tasks: The number of tasks.
        samples: The replies to each task.
    """
    rollout = settings.rollout
    server = Server(shape, rollout, device, settings.actor.lora_rank, settings.cpu)
    replicas = max(1, settings.ranks // rollout.tensor_parallel)
    # The CPU's engine computes equal prompts once.
    prompts = tasks * (1 if settings.cpu else samples) / settings.ranks
    sequences = tasks * samples / replicas
    at_once = min(rollout.sequences, server.cache / (server.token * (assumed.prompt + assumed.reply)))
    return generation_seconds(
        shape, device, assumed, prompts, sequences, at_once, server.weights, server.token, rollout.tensor_parallel
    )


def generation_seconds(
    shape: Shape,
    device: Device,
    assumed: Assumptions,
    prompts: float,
    sequences: float,
    at_once: float,
    weights: int,
    token: int,
    shards: int = 1,
) -> float:
    """Seconds of generation: prompts by the matrix rate, replies by the time to read weights and cache, or to compute,
    in each step. Few replies are longer than the mean, so the steps of the longest only read the weights.

    Args:
        shape: The model.
        device: One GPU.
        assumed: The assumptions.
        prompts: The prompts that are computed, in each turn.
        sequences: The replies, in each turn.
        at_once: The replies that are generated together.
        weights: Bytes of the weights.
        token: Bytes of the cache of one token.
        shards: The GPUs that share the work of a step.
    """
    prefill = forward_work(shape, prompts * assumed.turns * assumed.prompt, assumed.prompt, head=0)
    at_once = max(1.0, min(sequences, at_once))
    length = assumed.prompt + assumed.reply / 2
    read = weights + at_once * length * token
    computed = forward_work(shape, at_once, length, head=1) / shards
    step = max(read / (device.bandwidth * assumed.decode), computed / (device.matrix_rate * assumed.generate))
    steps = assumed.reply * assumed.turns * max(1.0, sequences / at_once)
    alone = weights / (device.bandwidth * assumed.decode) + assumed.overhead
    last = max(0, assumed.longest - assumed.reply) * alone
    return prefill / (device.matrix_rate * assumed.prefill) + steps * (step + assumed.overhead) + last
