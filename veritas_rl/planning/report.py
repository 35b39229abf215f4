"""Print a plan as tables, or return it as one JSON object."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from veritas_rl.planning.devices import GIB
from veritas_rl.planning.forecast import ERROR
from veritas_rl.planning.plan import Plan
from veritas_rl.planning.sft import SftPlan


def as_dict(plan: Plan | SftPlan) -> dict[str, Any]:
    """The plan as plain values, in bytes, seconds and tokens."""
    prompt, reply = plan.tokens()
    seconds = plan.seconds()
    made: dict[str, Any] = {
        "model": dataclasses.asdict(plan.shape) | {"parameters": plan.shape.parameters()},
        "hardware": plan.hardware,
        "device": dataclasses.asdict(plan.device),
        "settings": dataclasses.asdict(plan.settings),
        "phases": [
            {"name": phase.name, "bytes": phase.total, "parts": dict(phase.parts), "setting": phase.setting}
            for phase in plan.phases()
        ],
        "peak": {"name": plan.peak.name, "bytes": plan.peak.total},
        "host": plan.host(),
        "checkpoint": {**plan.checkpoint(), "kept": plan.kept},
        "fits": plan.fits,
        "cannot_fit": plan.refusal(),
        "error": ERROR,
        "changes": plan.changes(),
        "largest": {"tokens": plan.largest_tokens()},
        "tokens": {"prompt": prompt, "reply": reply},
        "seconds": {**seconds, "step": sum(seconds.values())},
        "run_seconds": plan.run_seconds(),
        "assumed": dataclasses.asdict(plan.assumed),
    }
    if isinstance(plan, Plan):
        made["cache"] = {
            "bytes": plan.server.cache,
            "bytes_of_a_token": plan.server.token,
            "sequences_of_the_longest_length": plan.server.at_once,
        }
        made["largest"]["gpu_memory_utilization"] = plan.largest_share()
    return made


def print_plan(plan: Plan | SftPlan, console: Console) -> None:
    """Print the plan.

    Args:
        plan: The plan.
        console: Where to print.
    """
    settings, shape = plan.settings, plan.shape
    console.print(f"{shape.name}: {shape.parameters():,} parameters, from {shape.source}", highlight=False)
    where = "CPU" if settings.cpu else f"{settings.nodes} x {settings.gpus} {plan.device.name}"
    console.print(
        f"hardware={plan.hardware}: {where}, {plan.device.memory / GIB:.1f} GiB each; {_trained(plan)}",
        highlight=False,
    )
    table = Table("phase", "GiB", "parts, GiB", title="Memory of one device", title_justify="left")
    for phase in plan.phases():
        large = {name: size for name, size in phase.parts.items() if size >= GIB // 20}
        table.add_row(phase.name, f"{phase.total / GIB:.1f}", _parts(large))
    console.print(table, highlight=False)
    for name, value in _rows(plan):
        console.print(f"{name:>30}  {value}", highlight=False, soft_wrap=True)


def _trained(plan: Plan | SftPlan) -> str:
    role = plan.settings.actor if isinstance(plan, Plan) else plan.settings.role
    trained = f"LoRA of rank {role.lora_rank}" if role.lora_rank else "every parameter"
    if not isinstance(plan, Plan):
        return trained
    return f"{trained}, {'a critic' if plan.settings.critic else 'no critic'}"


def _rows(plan: Plan | SftPlan) -> Iterator[tuple[str, str]]:
    if (reason := plan.refusal()) is not None:
        verdict = f"does not fit: {reason}"
    elif not plan.fits:
        verdict = f"tight: the forecast exceeds the memory by less than its error of {ERROR:.0%}"
    elif plan.peak.total * (1 + ERROR) > plan.device.memory:
        verdict = f"fits, but with less spare memory than the forecast's error of {ERROR:.0%}"
    else:
        verdict = "fits"
    yield "verdict", verdict
    yield from (("fits with", change) for change in plan.changes())
    tokens = plan.largest_tokens()
    yield "largest micro-batch", f"{tokens:,} tokens" if tokens else "none: one sequence does not fit"
    if isinstance(plan, Plan):
        if (share := plan.largest_share()) is not None:
            yield "largest gpu_memory_utilization", f"{share}"
        cache = plan.server
        yield (
            "KV cache",
            f"{cache.cache / GIB:.1f} GiB, {cache.token:,} bytes a token: {cache.at_once:,} sequences of "
            f"{cache.longest:,} tokens",
        )
    host, files = plan.host(), plan.checkpoint()
    if not plan.settings.cpu:
        yield "host memory of a node", f"{sum(host.values()) / GIB:.1f} GiB: {_parts(host)}"
    kept = plan.kept + 1
    yield "a checkpoint", f"{sum(files.values()) / GIB:.2f} GiB, {kept} at most: {_parts(files, 2)}"
    prompt, reply = plan.tokens()
    seconds = plan.seconds()
    yield "tokens of a step", f"{prompt:,.0f} of prompts, {reply:,.0f} of replies"
    yield "a step", f"{sum(seconds.values()):.0f} s: " + ", ".join(f"{k} {v:.0f}" for k, v in seconds.items())
    if whole := plan.run_seconds():
        parts = ", ".join(f"{name} {spoken(seconds)}" for name, seconds in whole.items())
        yield "the run, forecast", f"{spoken(sum(whole.values()))}: {parts}"
    else:
        yield "the run, forecast", "unknown, because the number of rows is: set trainer.total_training_steps"
    yield "assumed", ", ".join(f"{name} {value}" for name, value in _assumed(plan).items())


def spoken(seconds: float) -> str:
    """A duration in the largest unit of which it has at least two."""
    for unit, size in (("days", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"


def _parts(parts: Mapping[str, int], digits: int = 1) -> str:
    return ", ".join(f"{name} {size / GIB:.{digits}f}" for name, size in parts.items())


def _assumed(plan: Plan | SftPlan) -> dict[str, Any]:
    rate = f"{plan.device.matrix_rate / 1e12:.3g} TFLOP/s"
    return {"matrix rate": rate, "bandwidth": f"{plan.device.bandwidth / 1e9:.0f} GB/s"} | dataclasses.asdict(
        plan.assumed
    )
