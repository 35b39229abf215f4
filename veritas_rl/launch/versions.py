"""What is installed on a node, and where two nodes differ.

A run on several nodes exchanges pickled objects and tensors between them. Where the nodes have other versions of a
package or of this code, it fails late and says something else.
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
"""Packages that a run exchanges objects of, and that setup.sh chooses by the machine."""

CODE = "veritas_rl (code)"
"""The name of this checkout among the versions; its version is a digest of the code."""


@cache
def installed() -> dict[str, str]:
    """The versions on this node, by name; "none" for a package that is not installed."""
    names = sorted({*NOT_PINNED_HERE, *_pinned()}, key=str.lower)
    return {"Python": platform.python_version(), **{name: _version(name) for name in names}, CODE: _code_digest()}


def encoded() -> bytes:
    """`installed()` as it is kept in the cluster."""
    return json.dumps(installed()).encode()


def differences(here: Mapping[str, str], there: Mapping[str, str]) -> list[str]:
    """What differs, as in "torch 2.10.0 instead of 2.11.0"; empty if nothing does."""
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
