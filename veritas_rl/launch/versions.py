"""The installed versions of a node, and the differences between two nodes.

A run on several nodes exchanges pickled objects and tensors. If two nodes have different versions of a package or of
this code, the run fails late, with an unrelated error.
"""

import hashlib
import importlib.metadata
import json
import platform
from collections.abc import Iterator, Mapping
from functools import cache

from packaging.requirements import Requirement

from veritas_rl.paths import ROOT

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
