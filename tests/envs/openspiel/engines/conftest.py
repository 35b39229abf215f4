"""Fixtures for the tests of engines."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from veritas_rl.envs.openspiel import engines
from veritas_rl.envs.openspiel.engines.process import EnginePool


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[EnginePool]:
    """A pool of engines for only this test."""
    own = EnginePool(lambda spec: engines._ENGINES[spec.kind.name][0](spec))
    monkeypatch.setattr(engines, "_pool", own)
    monkeypatch.setattr(engines, "_given_up", set())
    yield own
    own.close()


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pool: EnginePool) -> Callable[[str, str], None]:
    """Installs a shell script as the program of an engine, first on the path."""

    def install(name: str, script: str) -> None:
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=":")

    return install
