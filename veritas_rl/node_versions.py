"""The installed versions of a node, and the differences between two nodes.

Runs and tools on several nodes exchange pickled objects and tensors. If two nodes have different versions of a package
or of this code, they fail late, with an unrelated error.
"""

import hashlib
import importlib.metadata
import json
import platform
from collections.abc import Iterator, Mapping
from functools import cache

from packaging.requirements import Requirement

from veritas_rl.errors import UserError
from veritas_rl.paths import ROOT

START_SECONDS = 60.0
"""The most seconds until a node has started a process that reports its versions."""

NOT_PINNED_HERE = ("torch", "transformers", "vllm", "sglang", "numpy")
"""Packages whose objects nodes exchange, and whose versions setup.sh chooses for the machine."""

CODE = "veritas_rl (code)"
"""The key of this checkout among the versions. Its version is a digest of the code."""


@cache
def installed() -> dict[str, str]:
    """The versions on this node, by name; "none" for a package that is not installed."""
    names = sorted({*NOT_PINNED_HERE, *_pinned()}, key=str.lower)
    return {"Python": platform.python_version(), **{name: _version(name) for name in names}, CODE: _code_digest()}


def encoded() -> bytes:
    """`installed()` as JSON, as the cluster stores it."""
    return json.dumps(installed()).encode()


def differences(here: Mapping[str, str], there: Mapping[str, str]) -> list[str]:
    """The differences, such as "torch 2.10.0 instead of 2.11.0"."""
    names = dict.fromkeys([*there, *here])
    pairs = ((name, here.get(name, "none"), there.get(name, "none")) for name in names)
    return [f"{name} {mine} instead of {other}" for name, mine, other in pairs if mine != other]


def check_nodes() -> None:
    """Check that each node of the Ray cluster that this process has joined has the versions of this machine.

    Raises:
        UserError: A node has other versions, lacks this code, or does not answer.
    """
    import ray
    from ray.exceptions import GetTimeoutError, NodeDiedError, RayError, TaskUnschedulableError
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    alive = [node for node in ray.nodes() if node["Alive"]]
    ask = ray.remote(num_cpus=0, max_retries=0)(_there)
    answers = [
        ask.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)).remote()
        for node in alive
    ]
    ray.wait(answers, num_returns=len(answers), timeout=START_SECONDS)
    for node, answer in zip(alive, answers, strict=True):
        address = node["NodeManagerAddress"]
        try:
            there = ray.get(answer, timeout=0)
        except GetTimeoutError:
            raise UserError(
                f"node {address} did not start a process within {START_SECONDS:.0f} s: see "
                "/tmp/ray/session_latest/logs there"
            ) from None
        except (NodeDiedError, TaskUnschedulableError):
            raise UserError(f"node {address} left the Ray cluster: type the same command again") from None
        except RayError as error:
            reason = (str(error).strip().splitlines() or [type(error).__name__])[-1].strip()
            raise UserError(
                f"node {address} cannot run this code ({reason}): use the same checkout under the same path, and run "
                "bash train/scripts/setup.sh"
            ) from None
        if different := differences(there, installed()):
            raise UserError(
                f"node {address} differs from this node ({', '.join(different)}): use the same checkout, and run bash "
                "train/scripts/setup.sh"
            )


def _there() -> dict[str, str]:
    """The versions of a node; runs in a process that its Ray has started."""
    return installed()


def _pinned() -> Iterator[str]:
    asked = map(Requirement, importlib.metadata.requires("veritas-rl") or [])
    return (one.name for one in asked if one.marker is None and str(one.specifier).startswith("=="))


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "none"


def _code_digest() -> str:
    digest = hashlib.sha256()
    for top in ("veritas_rl", "train/tools"):
        for file in sorted((ROOT / top).rglob("*.py")):
            digest.update(f"{file.relative_to(ROOT)}\0".encode() + file.read_bytes())
    return digest.hexdigest()[:12]
