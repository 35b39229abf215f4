"""A plan for people and for programs: tables on the terminal, or one JSON object."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from veritas_rl.planning.devices import GIB
from veritas_rl.planning.plan import ERROR, Plan


def as_dict(plan: Plan) -> dict[str, Any]:
    """The whole plan in plain values: bytes, seconds, tokens."""
    prompt, reply = plan.tokens()
    seconds = plan.seconds()
    return {
        "model": dataclasses.asdict(plan.shape) | {"parameters": plan.shape.parameters()},
        "hardware": plan.hardware,
        "device": dataclasses.asdict(plan.device),
        "settings": dataclasses.asdict(plan.settings),
        "phases": [
            {"name": phase.name, "bytes": phase.total, "parts": dict(phase.parts), "setting": phase.setting}
            for phase in plan.phases()
        ],
        "peak": {"name": plan.peak.name, "bytes": plan.peak.total},
        "cache": {
            "bytes": plan.server.cache,
            "bytes_of_a_token": plan.server.token,
            "sequences_of_the_longest_length": plan.server.at_once,
        },
        "host": plan.host(),
        "checkpoint": {**plan.checkpoint(), "kept": plan.settings.kept},
        "fits": plan.fits,
        "cannot_fit": plan.refusal(),
        "error": ERROR,
        "changes": plan.changes(),
        "largest": {"tokens": plan.largest_tokens(), "gpu_memory_utilization": plan.largest_share()},
        "tokens": {"prompt": prompt, "reply": reply},
        "seconds": {**seconds, "step": sum(seconds.values())},
        "assumed": dataclasses.asdict(plan.assumed),
    }


def print_plan(plan: Plan, console: Console) -> None:
    """Print the plan.

    Args:
        plan: The plan.
        console: Where to.
    """
    settings, shape, server = plan.settings, plan.shape, plan.server
    console.print(f"{shape.name}: {shape.parameters():,} parameters, from {shape.source}", highlight=False)
    where = "CPU" if settings.cpu else f"{settings.nodes} x {settings.gpus} {plan.device.name}"
    trained = f"LoRA of rank {settings.actor.lora_rank}" if settings.actor.lora_rank else "every parameter"
    critic = "a critic" if settings.critic else "no critic"
    console.print(
        f"hardware={plan.hardware}: {where}, {plan.device.memory / GIB:.1f} GiB each; {trained}, {critic}",
        highlight=False,
    )
    table = Table("phase", "GiB", "parts, GiB", title="Memory of one device", title_justify="left")
    for phase in plan.phases():
        large = {name: size for name, size in phase.parts.items() if size >= GIB // 20}
        table.add_row(phase.name, f"{phase.total / GIB:.1f}", _parts(large))
    console.print(table, highlight=False)
    if (reason := plan.refusal()) is not None:
        verdict = f"does not fit: {reason}"
    elif not plan.fits:
        verdict = f"tight: the forecast is above the memory, by less than its error of {ERROR:.0%}"
    elif plan.peak.total * (1 + ERROR) > plan.device.memory:
        verdict = f"fits, with less to spare than the forecast's error of {ERROR:.0%}"
    else:
        verdict = "fits"
    rows: list[tuple[str, str]] = [("verdict", verdict)]
    rows += [("fits with", change) for change in plan.changes()]
    tokens, share = plan.largest_tokens(), plan.largest_share()
    rows.append(("largest micro-batch", f"{tokens:,} tokens" if tokens else "none: not even one sequence fits"))
    if share is not None:
        rows.append(("largest gpu_memory_utilization", f"{share}"))
    rows.append(
        (
            "KV cache",
            f"{server.cache / GIB:.1f} GiB, {server.token:,} bytes a token: {server.at_once:,} sequences of "
            f"{server.longest:,} tokens",
        )
    )
    host, files = plan.host(), plan.checkpoint()
    rows.append(("host memory of a node", f"{sum(host.values()) / GIB:.1f} GiB: {_parts(host)}"))
    rows.append(
        (
            "a checkpoint",
            f"{sum(files.values()) / GIB:.2f} GiB, {settings.kept + 1} at most: {_parts(files, 2)}",
        )
    )
    prompt, reply = plan.tokens()
    seconds = plan.seconds()
    rows.append(("tokens of a step", f"{prompt:,.0f} of prompts, {reply:,.0f} of replies"))
    rows.append(("a step", f"{sum(seconds.values()):.0f} s: " + ", ".join(f"{k} {v:.0f}" for k, v in seconds.items())))
    rows.append(("assumed", ", ".join(f"{name} {value}" for name, value in _assumed(plan).items())))
    for name, value in rows:
        console.print(f"{name:>30}  {value}", highlight=False, soft_wrap=True)


def _parts(parts: Mapping[str, int], digits: int = 1) -> str:
    return ", ".join(f"{name} {size / GIB:.{digits}f}" for name, size in parts.items())


def _assumed(plan: Plan) -> dict[str, Any]:
    rate = f"{plan.device.matrix_rate / 1e12:.0f} TFLOP/s"
    return {"matrix rate": rate, "bandwidth": f"{plan.device.bandwidth / 1e9:.0f} GB/s"} | dataclasses.asdict(
        plan.assumed
    )
