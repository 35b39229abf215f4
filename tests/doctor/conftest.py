"""Fixtures that simulate GPUs and installed packages."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Puts a fake nvidia-smi on the path that lists GPUs, their driver, and their memory in MiB."""

    def make(*free: int, driver: str = "580.65.06", total: int = 143_771) -> None:
        tools = tmp_path / "bin"
        tools.mkdir(exist_ok=True)
        rows = "".join(f"NVIDIA H200, {driver}, {total}, {one}\n" for one in free)
        (tmp_path / "rows").write_text(rows)
        (tools / "nvidia-smi").write_text(f"#!/bin/sh\ncat {tmp_path}/rows\n")
        (tools / "nvidia-smi").chmod(0o755)
        monkeypatch.setenv("PATH", str(tools), prepend=":")

    return make


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Makes a package appear installed with a given version in this process and its children."""

    def make(name: str, version: str) -> None:
        folder = tmp_path / "site" / f"{name}-{version}.dist-info"
        folder.mkdir(parents=True)
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        monkeypatch.syspath_prepend(str(tmp_path / "site"))
        monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"), prepend=os.pathsep)

    return make
